"""One job's own summary against everybody's: the history, the advisor's memory, training."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from contrib.bench.borders.attack import ATTACKER, VICTIM, Attack, Happened, as_user
from slurm_ext.core.successes import REFRESH, last_success_s
from slurm_ext.history.store.store import open_history
from slurm_ext.sandbox import Sandbox, SandboxSpec

WAIT_S = 30.0
MOST_BYTES = 128 << 10  # of the history, for one job's summaries
_PHASE = {
    **dict.fromkeys(("epochs", "samples", "batches", "fetch_samples"), 64),
    **dict.fromkeys(("wall_s", "wait_s", "step_s", "fetch_wall_s", "fetch_cpu_s"), 8.0),
    "phase": "later",
    "workers": 1.0,
    "bytes_read": 1000,
}
_JOB = """#!/usr/bin/python3
import json, os
for number, body in enumerate({bodies}):
    if body.pop("junk", False):
        body["x"] = [os.urandom(1000).hex() for _ in range(100)]
        body["loaders"][0]["left_alone"] = os.urandom(2000).hex()
    path = os.path.join(os.environ["DLQUEUE_RUN_DIR"], f"summary-{{number + 1}}.json")
    with open(path, "w") as file:
        json.dump(body, file)
"""


def summary(**loader: Any) -> dict[str, Any]:
    """A probe's summary with these values in its loader."""
    honest = {"dataset": "D", "style": "map", "batch_size": 8, "phases": [_PHASE]}
    return {"v": 1, "rank": 0, "world_size": 1, "cores": 1, "loaders": [{**honest, **loader}]}


def job_script(*bodies: dict[str, Any]) -> str:
    """A job that leaves these summaries."""
    return _JOB.format(bodies=repr(bodies))


def _blinds(*bodies: dict[str, Any]) -> Callable[[Path], Happened]:
    def act(folder: Path) -> Happened:
        spec = SandboxSpec(hooks=True, lua=True, advisor=True, cpus=2)
        with Sandbox(folder / "s", spec, temporary=True) as sandbox:
            users = (ATTACKER, VICTIM)
            scripts = (job_script(*bodies), job_script(summary()))
            jobs = []
            for user, script in zip(users, scripts, strict=True):
                job_id, _ = sandbox.sbatch(script=script, **as_user(user))
                sandbox.wait(job_id)
                jobs.append(job_id)
            return _looked_at(sandbox, jobs)

    return act


def _looked_at(sandbox: Sandbox, jobs: list[int]) -> Happened:
    """True if both jobs are in the history, the advisor reads it, and training gets through it."""
    database = sandbox.path("dlqueue/history.db")
    taken = _soon(lambda: set(jobs) <= set(_jobs(database)))
    taken_s = time.time()
    read = taken and _soon(lambda: (last_success_s(database.parent, REFRESH) or 0) > taken_s)
    trained = sandbox.run([sys.executable, "-m", "slurm_ext.cli", "train", "--json"], check=False)
    ended = trained.returncode == 0 and "Traceback" not in trained.stderr
    with open_history(database, read_only=True) as history:
        size = history.conn.execute("SELECT max(length(summaries)) FROM probes").fetchone()[0] or 0
    what = f"records taken: {taken}, memory refreshed: {read}, trained: {ended}, {size} bytes kept"
    return Happened(held=taken and read and ended and size <= MOST_BYTES, what=what)


def _jobs(database: Path) -> list[int]:
    if not database.exists():
        return []
    with open_history(database, read_only=True) as history:
        return [job for (job,) in history.conn.execute("SELECT job_id FROM runs")]


def _soon(happened: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + WAIT_S
    while not happened():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


ATTACKS: tuple[Attack, ...] = (
    Attack(
        name="list_in_summary",
        row=1,
        tried='a job writes "batch_size": [1] into its own summary',
        before="a batch of up to 500 records failed for ever; nobody's were taken any more",
        act=_blinds(summary(batch_size=[1])),
    ),
    Attack(
        name="text_in_summary",
        row=1,
        tried='a job writes "batch_size": "abc" into its own summary',
        before="the advisor's memory was refreshed no more, and training ended in a traceback",
        act=_blinds(summary(batch_size="abc")),
    ),
    Attack(
        name="large_summaries",
        row=8,
        tried="a job fills its summaries with texts and unknown keys",
        before="1.7 MiB of history for one job",
        act=_blinds(*[{**summary(), "junk": True}] * 60),
    ),
)
