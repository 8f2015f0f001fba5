"""One run of a training in its surroundings, as a job's: under the probe, on its own cores."""

import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contrib.bench.promises.draws import Surroundings, Training

ROOT = Path(__file__).parents[3]
SITE = ROOT / "slurm_ext" / "probe" / "site"
PROGRAM = Path(__file__).with_name("training.py")
TIMEOUT_S = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A run by the clock of its program, and as the node counted it."""

    samples_per_s: float  # of all ranks, start-up of workers included
    elapsed_s: float
    cpu_s: float
    summaries: Sequence[Mapping[str, Any]]
    cpus: int


def ran(training: Training, where: Surroundings, cpus: int, env: Mapping[str, str]) -> Ran:
    """Run it on `cpus` cores with the job's environment."""
    every = sorted(os.sched_getaffinity(0))
    own, others = _cores(every, where, cpus)
    with tempfile.TemporaryDirectory(prefix="dlqueue-bench-") as folder, _busy(others):
        arguments = [*training.arguments(), f"--store={folder}/store"]
        began_s, used_s = time.monotonic(), _children_s()
        done = subprocess.run(
            [sys.executable, "-W", "ignore", str(PROGRAM), *arguments],
            env={**_clean(), "PYTHONPATH": str(SITE), "DLQUEUE_RUN_DIR": folder, **env},
            check=True,
            timeout=TIMEOUT_S,
            stdout=subprocess.PIPE,
            preexec_fn=lambda: os.sched_setaffinity(0, own),
        )
        elapsed_s, cpu_s = time.monotonic() - began_s, _children_s() - used_s
        found = Path(folder).glob("summary-*.json")
        summaries = [json.loads(path.read_text()) for path in found]
    clock = json.loads(done.stdout.splitlines()[-1])
    return Ran(
        samples_per_s=clock["samples"] / clock["seconds"],
        elapsed_s=elapsed_s,
        cpu_s=cpu_s,
        summaries=summaries,
        cpus=cpus,
    )


def _cores(
    every: Sequence[int], where: Surroundings, cpus: int
) -> tuple[Sequence[int], list[Sequence[int]]]:
    """The job's cores, and those of each of the others.

    Where cores are not constrained, the job uses them all as well: Slurm only counts them.
    """
    if not where.constrained:
        return every, [every] * where.others
    rest = every[cpus:]
    return every[:cpus], [rest] * where.others if rest else []


@contextmanager
def _busy(others: Sequence[Sequence[int]]) -> Iterator[None]:
    """Other jobs' processes, each at work on its cores all the time."""
    started = [multiprocessing.get_context("fork").Process(target=_burn, args=(o,)) for o in others]
    for one in started:
        one.start()
    try:
        yield
    finally:
        for one in started:
            one.kill()
            one.join()


def _burn(cores: Sequence[int]) -> None:
    os.sched_setaffinity(0, cores)
    while True:
        pass


def _clean() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith(("DLQUEUE_", "PYTHON"))}


def _children_s() -> float:
    """CPU seconds of the processes that ended; the others' are still at work."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
