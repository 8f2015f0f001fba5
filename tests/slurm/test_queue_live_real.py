"""The queue of a real Slurm: who needs little starts first, in act; in shadow nothing changes."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slurm_ext.facts.moves import Move, move_of
from slurm_ext.sandbox import Sandbox
from tests.conftest import MakeSandbox
from tests.whole import until

pytestmark = pytest.mark.slurm
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


def command(slurm: Sandbox, config_file: Path, *more: str) -> list[str]:
    """`dlqueue control --queue`."""
    words = ["control", "--queue", "--config", str(config_file), *more]
    return [sys.executable, "-m", "slurm_ext.cli", *words]


def moves(folder: Path) -> list[Move]:
    """All that was written."""
    files = sorted((folder / "moves").glob("queue-*.jsonl"))
    return [move_of(line) for file in files for line in file.read_bytes().splitlines()]


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
    """The loop itself, as people start it; what it set is gone with it, the order was its own."""
    gate = tmp_path / "gate"
    first, *jobs = waiting(slurm, gate)
    long, middle, short = jobs
    argv = command(slurm, config(slurm, tmp_path, "act"))
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


def test_shadow_tells_and_changes_nothing(slurm: Sandbox, tmp_path: Path) -> None:
    """The moves are written; a dry run shows the same and writes nothing."""
    gate = tmp_path / "gate"
    first, *jobs = waiting(slurm, gate)
    settings = config(slurm, tmp_path, "shadow")
    shown = slurm.run(command(slurm, settings, "--dry-run")).stdout
    assert f"job {jobs[2]}" in shown
    assert moves(tmp_path) == []
    slurm.run(command(slurm, settings, "--once"))
    assert {move.subject for move in moves(tmp_path)} == {str(job) for job in jobs[:2]}
    assert {(move.mode, move.outcome) for move in moves(tmp_path)} == {("shadow", None)}
    assert nices(slurm, jobs) == [0, 0, 0]
    gate.touch()
    for job in (first, *jobs):
        slurm.wait(job)


def test_what_a_killed_one_set_is_put_back(slurm: Sandbox, tmp_path: Path) -> None:
    """A round, then `--restore`, as its service does at the end: as if nothing had been."""
    gate = tmp_path / "gate"
    first, *jobs = waiting(slurm, gate)
    settings = config(slurm, tmp_path, "act")
    slurm.run(command(slurm, settings, "--once"))
    assert nices(slurm, jobs)[0] > nices(slurm, jobs)[1] > 0
    slurm.run(["scontrol", "update", f"JobId={jobs[1]}", "Nice=500"])  # its user, meanwhile
    assert "put back: 1" in slurm.run(command(slurm, settings, "--restore")).stdout
    assert nices(slurm, jobs) == [0, 500, 0]
    gate.touch()
    for job in (first, *jobs):
        slurm.wait(job)


def test_explain_tells_why_a_job_waits_and_until_when(slurm: Sandbox, tmp_path: Path) -> None:
    """Without any history: its place, who is before it, what moved it, and both estimates."""
    gate = tmp_path / "gate"
    first, *jobs = waiting(slurm, gate)
    settings = config(slurm, tmp_path, "act")
    slurm.run(command(slurm, settings, "--once"))
    words = ["explain", str(jobs[0]), "--config", str(settings)]
    explain = [sys.executable, "-m", "slurm_ext.cli", *words]
    wanted = (
        "others go before it (Priority)",
        "place:    3 of 3 that wait for their turn in main: priority",
        f"before:   job {jobs[1]} (",
        f"order:    3 of 3 by need, after job {jobs[1]}",
        "nice=",
        "by dlqueue, if nobody passes: by time limits",
    )
    # Slurm says None of a job until it has looked at it anew.
    until(lambda: all(one in slurm.run(explain).stdout for one in wanted), "it does not tell all")
    document = json.loads(slurm.run([*explain, "--json"]).stdout)
    assert document["queue"]["place"] == 3
    assert document["queue"]["expected"]["start_s"] > time.time() + 3600
    assert [move["kind"] for move in document["moves"]] == ["queue"]
    slurm.run(["scontrol", "hold", str(jobs[2])])
    held = slurm.run([*explain[:-3], str(jobs[2]), *explain[-2:]]).stdout
    assert "holds it" in held
    slurm.run(["scontrol", "release", str(jobs[2])])
    gate.touch()
    for job in (first, *jobs):
        slurm.wait(job)
