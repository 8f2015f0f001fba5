"""The queue of a real Slurm: who needs little starts first, in act; in shadow nothing changes."""

import json
import subprocess
import time
from pathlib import Path

import pytest

from slurm_ext.cli import main
from slurm_ext.core.actions import Action, parse_action
from slurm_ext.sandbox import Sandbox
from tests.as_unit import dlqueue_as_unit
from tests.conftest import MakeSandbox
from tests.whole import until

pytestmark = pytest.mark.slurm
QUEUE = ("control", "--queue")
WEIGHED = "PriorityType=priority/multifactor\nPriorityWeightPartition=1000"


@pytest.fixture(scope="module")
def slurm(make_module_sandbox: MakeSandbox) -> Sandbox:
    """One node with room for one job, whose priorities a nice can lower."""
    return make_module_sandbox(nodes=1, cpus=1, slurm_conf=WEIGHED)


def config(slurm: Sandbox, folder: Path, mode: str) -> Path:
    """Settings of a loop that looks often."""
    path = folder / "dlqueue.toml"
    path.write_text(
        f'[paths]\nstate_dir = "{folder}"\nslurm_conf = "{slurm.layout.slurm_conf}"\n'
        f'kill_file = "{folder}/off"\n[queue]\nmode = "{mode}"\ninterval_s = 0.2\n'
    )
    return path


def cleared(slurm: Sandbox, gate: Path, first: int, *others: int) -> None:
    """Nobody waits or runs any more."""
    slurm.run(["scancel", *map(str, others)])
    gate.touch()
    slurm.wait(first)


def called(capsys: pytest.CaptureFixture[str], config_file: Path, *words: str) -> str:
    """What `dlqueue WORDS` prints, in this process; it has to succeed."""
    capsys.readouterr()
    assert main([*words, "--config", str(config_file)]) == 0
    return capsys.readouterr().out


def moves(folder: Path) -> list[Action]:
    """All that was written."""
    files = sorted((folder / "moves").glob("queue-*.jsonl"))
    return [parse_action(line) for file in files for line in file.read_bytes().splitlines()]


def waiting(slurm: Sandbox, gate: Path) -> list[int]:
    """A job that has the node until its gate is there; behind it a long, a middle, a short one.

    Each writes its id beside the gate when it starts.
    """
    script = f"#!/bin/sh\nwhile [ ! -e {gate} ]; do sleep 0.05; done\n"
    first, _ = slurm.sbatch("--time=5", script=script)
    until(lambda: slurm.job(first).get("JobState") == "RUNNING", "the first job does not run")
    tells = f"echo $SLURM_JOB_ID >> {gate.parent}/started"
    return [first, *(slurm.sbatch(f"--time={t}", "--wrap", tells)[0] for t in (600, 60, 5))]


def nices(slurm: Sandbox, jobs: list[int]) -> list[int]:
    """As Slurm has them; a job that has gone has 0."""
    return [int(slurm.job(job).get("Nice", "0")) for job in jobs]


def test_who_needs_little_starts_first(slurm: Sandbox, tmp_path: Path) -> None:
    """The loop as its unit starts it; what it set is gone with it, the order was its own."""
    gate = tmp_path / "gate"
    first, *jobs = waiting(slurm, gate)
    long, middle, short = jobs
    settings = config(slurm, tmp_path, "act")
    folders = [tmp_path, slurm.layout.root]
    argv = dlqueue_as_unit("dlqueue-queue", folders, *QUEUE, "--config", str(settings))
    loop = subprocess.Popen(argv, env=slurm.env, stderr=subprocess.PIPE, text=True)
    try:
        until(lambda: nices(slurm, [long, middle]) > [0, 0], "nobody gives way")
        until(lambda: len(moves(tmp_path)) >= 2, "the moves are not written")
        gate.touch()
        assert {slurm.wait(job) for job in (first, *jobs)} == {"COMPLETED"}
    finally:
        loop.terminate()
        _, said = loop.communicate()
    started = [int(line) for line in (tmp_path / "started").read_text().split()]
    assert started == [short, middle, long], said
    assert {move.subject for move in moves(tmp_path)} >= {str(long), str(middle)}
    assert {(move.mode, move.outcome) for move in moves(tmp_path)} == {("act", "done")}


def test_shadow_tells_and_changes_nothing(
    slurm: Sandbox, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The moves are written; a dry run shows the same and writes nothing."""
    gate = tmp_path / "gate"
    first, *jobs = waiting(slurm, gate)
    settings = config(slurm, tmp_path, "shadow")
    shown = called(capsys, settings, *QUEUE, "--dry-run")
    assert f"job {jobs[2]}" in shown
    assert moves(tmp_path) == []
    called(capsys, settings, *QUEUE, "--once")
    assert {move.subject for move in moves(tmp_path)} == {str(job) for job in jobs[:2]}
    assert {(move.mode, move.outcome) for move in moves(tmp_path)} == {("shadow", None)}
    assert nices(slurm, jobs) == [0, 0, 0]
    cleared(slurm, gate, first, *jobs)


def test_what_a_killed_one_set_is_put_back(
    slurm: Sandbox, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A round, then `--restore`, as its service does at the end: as if nothing had been."""
    gate = tmp_path / "gate"
    first, *jobs = waiting(slurm, gate)
    settings = config(slurm, tmp_path, "act")
    called(capsys, settings, *QUEUE, "--once")
    assert nices(slurm, jobs)[0] > nices(slurm, jobs)[1] > 0
    slurm.run(["scontrol", "update", f"JobId={jobs[1]}", "Nice=500"])  # its user, meanwhile
    assert "put back: 1" in called(capsys, settings, *QUEUE, "--restore")
    assert nices(slurm, jobs) == [0, 500, 0]
    cleared(slurm, gate, first, *jobs)


def test_explain_tells_why_a_job_waits_and_until_when(
    slurm: Sandbox, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without any history: its place, who is before it, what moved it, and both estimates."""
    gate = tmp_path / "gate"
    first, *jobs = waiting(slurm, gate)
    settings = config(slurm, tmp_path, "act")
    called(capsys, settings, *QUEUE, "--once")
    wanted = (
        "waits:    ",
        "place:    3 of 3 that wait for their turn in main: priority",
        f"before:   job {jobs[1]} (",
        f"order:    3 of 3 by need, after job {jobs[1]}",
        "nice=",
        "by dlqueue, if nobody passes: by time limits",
    )
    said = called(capsys, settings, "explain", str(jobs[0]))
    assert [one for one in wanted if one not in said] == [], said
    document = json.loads(called(capsys, settings, "explain", str(jobs[0]), "--json"))
    assert document["queue"]["place"] == 3
    assert document["queue"]["expected"]["start_s"] > time.time() + 3600
    assert [move["kind"] for move in document["moves"]] == ["queue"]
    slurm.run(["scontrol", "hold", str(jobs[2])])
    assert "holds it" in called(capsys, settings, "explain", str(jobs[2]))
    slurm.run(["scontrol", "release", str(jobs[2])])
    cleared(slurm, gate, first, *jobs)


def test_what_users_decided_is_kept(
    slurm: Sandbox, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Held, delayed, dependent and niced jobs keep what they have; an array gives way as one."""
    gate = tmp_path / "gate"
    first, *jobs = waiting(slurm, gate)
    kinds = (
        ["--hold"],
        ["--begin=now+3600"],
        [f"--dependency=afterok:{first}"],
        ["--nice=20"],
        ["--comment=dlqueue=off"],
    )
    left = [slurm.sbatch("--time=700", *kind, "--wrap", "true")[0] for kind in kinds]
    array, _ = slurm.sbatch("--time=800", "--array=0-3%1", "--wrap", "true")
    slurm.run(["scontrol", "update", f"JobId={array}_2", "TimeLimit=801"])  # it stands alone now
    seen = ("squeue", "-h", "-j", ",".join(map(str, left)), "-o", "%i %y %Q %E")
    before = slurm.run(list(seen)).stdout
    said = called(capsys, config(slurm, tmp_path, "act"), *QUEUE, "--once", "--json")
    assert set(json.loads(said)["details"]["left_alone"]) >= {str(job) for job in left}
    assert {move.subject for move in moves(tmp_path)} == {str(j) for j in (*jobs[:2], array)}
    assert slurm.run(list(seen)).stdout == before
    tasks = slurm.run(["squeue", "-h", "-r", "-j", str(array), "-o", "%y"]).stdout.split()
    assert len(tasks) == 4
    assert len({*tasks, "0"}) == 2  # one nice, and it is not 0
    cleared(slurm, gate, first, *jobs, *left, array)
