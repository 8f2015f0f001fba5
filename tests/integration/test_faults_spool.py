"""Whatever lies in a spool, however full its disk: jobs run, each with exactly one record."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_ext.sandbox import Sandbox
from tests.conftest import MakeSandbox
from tests.whole import (
    ACTING,
    WHOLE,
    answers,
    asked,
    completed,
    put,
    recorded,
    teach,
    until,
    waiting_run,
)

pytestmark = pytest.mark.slurm

BAD = sorted((Path(__file__).parents[1] / "bad_input" / "spool").iterdir())


@pytest.fixture(scope="module")
def slurm(make_module_sandbox: MakeSandbox) -> Sandbox:
    """All of dlqueue, acting; jobs called `known` are known."""
    sandbox = make_module_sandbox(**WHOLE, settings=ACTING)
    teach(sandbox, "known")
    return sandbox


def test_bad_records_among_good_ones(slurm: Sandbox) -> None:
    """Each is set aside with its reason; the good ones come in, the history writer lives on."""
    job_ids = [slurm.sbatch("-Jknown", "--wrap", "true")[0] for _ in range(2)]
    for bad in BAD:
        put(slurm, bad.name, bad.read_bytes())
    completed(slurm, *job_ids)
    until(lambda: not spooled(slurm), "bad records hold the spool up")
    aside = {path.read_bytes() for path in slurm.path("dlqueue/aside").iterdir()}
    assert aside == {bad.read_bytes() for bad in BAD}
    sql = "SELECT count(*) FROM set_aside WHERE reason > ''"
    answers(slurm, [(len(BAD),)], sql)
    advice_goes_on(slurm)


def test_links_pipes_folders_and_giants(slurm: Sandbox) -> None:
    """None is followed, waited for or read to its end; what a link points at stays as it is."""
    spool, target = slurm.path("dlqueue/spool"), slurm.path("precious.json")
    target.write_text(json.dumps(waiting_run("linked", 555_001)))
    (spool / "link.json").symlink_to(target)
    (spool / "loop.json").symlink_to("loop.json")
    (spool / "device.json").symlink_to("/dev/zero")
    os.mkfifo(spool / "pipe.json")
    (spool / "folder.json").mkdir()
    with (spool / "giant.json").open("wb") as giant:
        giant.truncate(1 << 32)
    job_id, _ = slurm.sbatch("-Jknown", "--wrap", "true")
    completed(slurm, job_id)
    until(lambda: not spooled(slurm), "they hold the spool up")
    assert target.exists()
    assert asked(slurm, "SELECT 1 FROM runs WHERE job_id = 555001") == []
    advice_goes_on(slurm)


def test_a_record_that_comes_again_and_again(slurm: Sandbox) -> None:
    """Under any name, before and after it was taken in, by the node or by somebody who forges."""
    job_id, _ = slurm.sbatch("--wrap", "exit 3")
    record = waiting_run("forged", job_id)
    record["outcome"]["source"] = "reconcile"
    record["record_id"] = f"{slurm.settings['site.cluster']}-{job_id}-0-{slurm.nodes[0]}"
    for number in range(3):
        put(slurm, f"early-{number}.json", json.dumps(record).encode())
    assert slurm.wait(job_id) == "FAILED"
    recorded(slurm, {job_id: ["FAILED"]})
    for number in range(3):
        put(slurm, f"late-{number}.json", json.dumps(record).encode())
    until(lambda: not spooled(slurm), "not taken in")
    recorded(slurm, {job_id: ["FAILED"]})


def advice_goes_on(slurm: Sandbox) -> None:
    """The advisor answers, and neither it nor its history writer had to be started again."""
    assert "x faster" in slurm.sbatch("-H", "-Jknown", "--wrap", "true")[1]
    assert "Traceback" not in slurm.log("advisor")
    assert "is started again" not in slurm.log("advisor")


def spooled(slurm: Sandbox) -> list[Path]:
    """What lies in the advisor's spool."""
    return list(slurm.path("dlqueue/spool").glob("*.json"))


@pytest.fixture
def small_disk(slurm: Sandbox) -> Iterator[Path]:
    """The node's spool on a disk of a mebibyte of its own."""
    folder = slurm.path(f"nodes/{slurm.nodes[0]}/dlqueue")
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "small", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path) -> Path:
    """Use the last byte of the disk."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as stream:
        try:
            while stream.write(b"x" * 4096):
                pass
        except OSError:
            return filler
    return filler


@pytest.mark.root
def test_a_node_whose_disk_is_full_before_its_jobs(slurm: Sandbox, small_disk: Path) -> None:
    """Nothing can be measured: the controller's own word becomes the record."""
    filler = fill(small_disk)
    job_ids = [slurm.sbatch("-Jknown", "--wrap", "echo ran")[0] for _ in range(2)]
    completed(slurm, *job_ids)
    assert {slurm.output(job_id) for job_id in job_ids} == {"ran\n"}
    filler.unlink()
    after, _ = slurm.sbatch("--wrap", "true")
    completed(slurm, after, *job_ids)
    answers(slurm, [("epilog",)], "SELECT source FROM runs WHERE job_id = ?", after)


@pytest.mark.root
def test_a_disk_that_fills_up_while_jobs_run(slurm: Sandbox, small_disk: Path) -> None:
    """The room for each record was kept from the start."""
    job_ids = [slurm.sbatch("--wrap", "sleep 2; echo ran")[0] for _ in range(2)]
    until(lambda: all(slurm.path(f"out/{i}.txt").exists() for i in job_ids), "not begun")
    fill(small_disk)
    completed(slurm, *job_ids)
    assert {slurm.output(job_id) for job_id in job_ids} == {"ran\n"}


@pytest.mark.root
def test_the_advisors_disk_is_full(make_sandbox: MakeSandbox) -> None:
    """No decision can be kept, so none is made; jobs run as written, records wait on the node."""
    slurm = make_sandbox(**WHOLE, settings=ACTING)
    teach(slurm, "known")
    state = slurm.path("dlqueue")
    slurm.stop("advisor")
    kept = slurm.path("kept")
    shutil.copytree(state, kept)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "state", str(state)], check=True)
    try:
        shutil.copytree(kept, state, dirs_exist_ok=True)
        slurm.start("advisor")
        teach(slurm, "also-known")
        filler = fill(state)
        job_ids = [slurm.sbatch("-Jknown", "--wrap", "echo ran")[0] for _ in range(4)]
        for job_id in job_ids:
            assert slurm.wait(job_id) == "COMPLETED"
            assert slurm.output(job_id) == "ran\n"
        filler.unlink()
        last, _ = slurm.sbatch("-Jknown", "--wrap", "true")
        completed(slurm, last, *job_ids)
    finally:
        slurm.down()
        subprocess.run(["umount", "-l", str(state)], check=True)
