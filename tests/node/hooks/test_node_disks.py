"""Disks of a node that are full or read-only cost measurements, and nothing else."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.by_hand import BURN, TOKEN, Node, cpu_s, wait_for


@pytest.fixture
def small_disk(node: Node) -> Iterator[Path]:
    """A tmpfs of 1 MiB under the node's spool."""
    spool = node.root / "spool"
    spool.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(spool)], check=True)
    yield spool
    node.close()
    subprocess.run(["umount", "-l", str(spool)], check=True)


def _fill(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            pass


@pytest.mark.root
def test_a_disk_that_fills_up_during_the_job_keeps_room_for_its_record(
    node: Node, small_disk: Path
) -> None:
    """The prolog's reserve is enough for the record, the token and the counters in it."""
    node.prolog(70)
    (small_disk / "run/70.0/decision").write_text(TOKEN)
    node.job(70, BURN.format(0.5)).wait()
    wait_for(lambda: node.state("70.0").get("meter", {}).get("totals", {}).get("cpu_user"))
    _fill(small_disk)
    node.epilog(70, 256)
    (record,) = node.delivered()
    assert (record["outcome"]["exit_code"], record["decision"]) == (1, TOKEN)
    assert cpu_s(record) > 0


@pytest.mark.root
def test_a_full_disk_costs_the_measurement_and_nothing_else(node: Node, small_disk: Path) -> None:
    """Prolog and epilog on a disk without a single free block: exit 0, silent; later jobs work."""
    _fill(small_disk)
    node.prolog(71)
    node.epilog(71)
    (small_disk / "filler").unlink()
    node.prolog(72)
    node.epilog(72)
    records = node.delivered()
    assert 72 in [record["identity"]["job_id"] for record in records]


@pytest.mark.root
def test_a_read_only_spool_is_harmless(node: Node, small_disk: Path) -> None:
    """Exit 0 and silent from every hook."""
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for hook in ("prolog", "task_prolog", "epilog", "ship"):
        done = node.hook(hook, node.env(73))
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.fixture
def squashed(tmp_path: Path) -> str:
    """A Python that runs as root without power over users' files, as over NFS with root_squash."""
    powers = "-chown,-dac_override,-dac_read_search,-fowner,-fsetid"
    python = tmp_path / "squashed"
    python.write_text(
        f'#!/bin/sh\nexec /usr/bin/setpriv --bounding-set {powers} {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    return str(python)


@pytest.mark.root
def test_a_run_folder_that_root_cannot_give_away_costs_the_probe(node: Node, squashed: str) -> None:
    """Over NFS with root_squash: hooks are silent, the log says why, and the job has its record."""
    user = {"SLURM_JOB_UID": "65534"}
    for hook, env in (
        ("prolog", node.env(75, **user)),
        ("epilog", node.env(75, "epilog_slurmd", SLURM_JOB_EXIT_CODE="256", **user)),
    ):
        done = node.hook(hook, env, python=squashed)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert "prolog: PermissionError" in Path(node.spool.root, "hooks.log").read_text()
    (record,) = node.delivered()
    assert record["outcome"]["exit_code"] == 1


@pytest.mark.root
def test_a_spool_in_which_root_is_nobody_is_harmless(node: Node, squashed: str) -> None:
    """Exit 0 and silent from every hook; once the folder is root's again, jobs are measured."""
    node.spool.prepare()
    spool = Path(node.spool.root)
    os.chown(spool, 65534, -1)
    spool.chmod(0o700)
    for hook in ("prolog", "task_prolog", "epilog", "ship"):
        done = node.hook(hook, node.env(76), python=squashed)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    os.chown(spool, 0, -1)
    node.prolog(77)
    node.epilog(77)
    assert [record["identity"]["job_id"] for record in node.delivered()] == [77]
