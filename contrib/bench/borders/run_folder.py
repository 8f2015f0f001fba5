"""A job's run folder, which its user fills as it likes and which root reads and removes."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from contrib.bench.borders.attack import ATTACKER, VICTIM, Attack, Happened, as_user
from slurm_ext.sandbox import Sandbox, SandboxSpec

WAIT_S = 30.0
_NEST = """#!/usr/bin/python3
import os
os.chdir(os.environ["DLQUEUE_RUN_DIR"])
for _ in range(1200):
    os.mkdir("d")
    os.chdir("d")
os.utime(os.environ["DLQUEUE_RUN_DIR"], (1, 1))  # old: to be swept at once
"""
_GROW = """#!/usr/bin/python3
import json, os
body = json.dumps({"v": 1, "loaders": [], "faults": ["\\u00e9" * 4096] * 28}, ensure_ascii=False)
for n in range(1, 40):
    path = os.path.join(os.environ["DLQUEUE_RUN_DIR"], f"summary-{n}.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write(body)
"""
_FILL = """#!/usr/bin/python3
import os, time
os.chdir(os.environ["DLQUEUE_RUN_DIR"])
most = 0
end = time.monotonic() + 12
with open("held", "wb") as held:
    while time.monotonic() < end:
        try:
            for number in range(2000):
                open(f"f{most}-{number}", "w").close()
            held.write(bytes(8 << 20))
        except OSError:
            pass
        most += 1
        time.sleep(0.05)
"""
_PLAIN = "#!/bin/sh\ntrue\n"


@contextmanager
def cluster(folder: Path, **settings: object) -> Iterator[Sandbox]:
    """A node with hooks, whose records are delivered into a folder."""
    spec = SandboxSpec(hooks=True, cpus=4, settings={"node.sample_s": 0.2, **settings})
    with Sandbox(folder / "s", spec, temporary=True) as sandbox:
        sandbox.path("dlqueue/spool").mkdir(exist_ok=True)
        yield sandbox


def run_job(sandbox: Sandbox, user: str, script: str) -> int:
    """Id of a job of this user that has ended."""
    job_id, _ = sandbox.sbatch(script=script, **as_user(user))
    sandbox.wait(job_id)
    return job_id


def delivered(sandbox: Sandbox, job_id: int) -> bool:
    """True once the job's record is delivered."""
    return soon(lambda: list(sandbox.path("dlqueue/spool").glob(f"*-{job_id}-*.json")))


def soon(happened: Callable[[], object]) -> bool:
    """True once `happened` is true; False if it does not become so."""
    deadline = time.monotonic() + WAIT_S
    while not happened():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def _ends_deliveries(folder: Path, script: str) -> Happened:
    with cluster(folder) as sandbox:
        run_job(sandbox, ATTACKER, script)
        taken = [delivered(sandbox, run_job(sandbox, VICTIM, _PLAIN)) for _ in range(2)]
        run = sandbox.path("nodes/n1/dlqueue/run")
        clean = soon(lambda: not list(run.iterdir()))
        subprocess.run(["rm", "-rf", run], check=True)  # shutil.rmtree cannot
    what = f"{sum(taken)} of {len(taken)} later records were delivered"
    return Happened(held=all(taken) and clean, what=what + ("" if clean else "; folders are left"))


def fill_run_folder(folder: Path) -> Happened:
    """Write files into the run folder as fast as possible, and look at it from outside."""
    with cluster(folder) as sandbox:
        job_id, _ = sandbox.sbatch(script=_FILL, **as_user(ATTACKER))
        run = sandbox.path(f"nodes/n1/dlqueue/run/{job_id}.0")
        most = [0, 0]
        while sandbox.job(job_id)["JobState"] in ("PENDING", "RUNNING"):
            held = list(run.iterdir()) if run.exists() else []
            size = sum(_blocks(path) for path in held) * 512
            most = [max(most[0], len(held)), max(most[1], size)]
            last = len(held) if held else 0
            time.sleep(0.2)
        taken = delivered(sandbox, job_id)
    what = f"at most {most[0]} files and {most[1] >> 20} MiB, {last} files at the end"
    what += ", the record was delivered" if taken else ", and no record"
    return Happened(held=taken and last < 100 and most[0] < 20_000, what=what)


def _blocks(path: Path) -> int:
    try:
        return path.lstat().st_blocks
    except OSError:
        return 0


ATTACKS = (
    Attack(
        name="nested_folders",
        row=6,
        tried="a job leaves 1,200 folders one inside the other in its run folder",
        before="deliveries of that node ended for ever",
        act=lambda folder: _ends_deliveries(folder, _NEST),
    ),
    Attack(
        name="growing_summaries",
        row=6,
        tried="a job's summaries are three times as long in the record, which no reader takes",
        before="the node's worker stopped at that record for ever",
        act=lambda folder: _ends_deliveries(folder, _GROW),
    ),
    Attack(
        name="fill_run_folder",
        row=8,
        tried="a job writes files and bytes into its run folder for 12 seconds",
        before="the folder had no bound: the node's disk was full of it",
        act=fill_run_folder,
    ),
)
