"""Faults that this machine can have, as real trainings under the real probe.

Sleeping and spinning samples, one core by affinity, small files behind a slow open, a disk behind
a throttled loop device (root, cgroup v1), workers that start slowly, a busy neighbour. What needs
several nodes or an accelerator stays simulated.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from contrib.bench.advice.profiles import PROFILES
from contrib.bench.advice.scoring import Said, is_right
from contrib.bench.advice.slow_storage import slow_disk
from contrib.bench.curve.loaders import burning
from slurm_ext.core.advice.from_record import advice_of

ROOT = Path(__file__).parents[3]
SITE = ROOT / "slurm_ext" / "probe" / "site"
TIMEOUT_S = 180

Surroundings = Callable[[], AbstractContextManager[str | None]]
"""Where a training runs: a context whose value is a folder of files to read, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFault:
    """Arguments of faulty.py, the cores, and what is around it."""

    words: str
    cores: int = 2
    around: Surroundings = nullcontext
    for_two: bool = False  # its memory holds two workers


@contextmanager
def neighbour() -> Iterator[None]:
    """Another job that always wants these cores."""
    with burning(len(os.sched_getaffinity(0))):
        yield


@contextmanager
def small_files() -> Iterator[str]:
    """Files of 4 KB."""
    with tempfile.TemporaryDirectory(prefix="dlqueue-bench-") as folder:
        for number in range(500):
            Path(folder, f"{number:04}").write_bytes(os.urandom(4096))
        yield folder


LIVE: Mapping[str, LiveFault] = MappingProxyType(
    {
        "main_loads": LiveFault(words="--workers 0 --cpu-s 0.006"),
        "too_few": LiveFault(words="--workers 1 --sleep-s 0.012 --cpu-s 0.0008"),
        "starved": LiveFault(words="--workers 6 --cpu-s 0.015", cores=1),
        "small_files": LiveFault(
            words="--workers 1 --sleep-s 0.012 --cpu-s 0.0003", around=small_files
        ),
        "slow_disk": LiveFault(words="--workers 4 --batch 8", around=slow_disk),
        "mem_wall": LiveFault(words="--workers 2 --sleep-s 0.03", for_two=True),
        "slow_samples": LiveFault(
            words="--workers 3 --batch 4 --sleep-s 0.016 --slow-share 0.03 --slow-times 25"
        ),
        "epoch_restart": LiveFault(words="--workers 2 --start-s 1.5 --batches 40 --cpu-s 0.002"),
        "tiny_step": LiveFault(
            words="--workers 1 --step-s 0.003 --host-s 0.002 --batches 20000 --batch 2"
        ),
        "healthy": LiveFault(words="--workers 2 --cpu-s 0.002 --step-s 0.08"),
        "noisy_neighbour": LiveFault(
            words="--workers 2 --cpu-s 0.003 --step-s 0.06", around=neighbour
        ),
    }
)


def live(seeds: int) -> dict[str, Any]:
    """Faults that are right on all runs, what was said first, and what cannot be had here."""
    said: dict[str, list[list[Said]]] = {}
    missing: dict[str, str] = {}
    for name, fault in LIVE.items():
        try:
            said[name] = [_advice(fault) for _ in range(seeds)]
        except (OSError, subprocess.CalledProcessError) as error:
            missing[name] = str(error)
        print(f"live {name}: {said.get(name, missing.get(name))}", file=sys.stderr)
    whole = [
        name for name, every in said.items() if all(is_right(PROFILES[name], one) for one in every)
    ]
    firsts = {
        name: dict(Counter(one[0][1] if one else "nothing" for one in every))
        for name, every in said.items()
    }
    return {
        "runs": seeds,
        "of": len(said),
        "faults_right": len(whole),
        "confusion": firsts,
        "said": said,
        "missing": missing,
    }


def _advice(fault: LiveFault) -> list[Said]:
    with fault.around() as files:
        record = run(fault, files)
    return [(one["word"], one["action"]) for one in advice_of(record)]


def run(fault: LiveFault, files: str | None) -> dict[str, Any]:
    """The record of one training: as much of it as advice rests on."""
    words = [*fault.words.split(), *(["--files", files] if files else [])]
    with tempfile.TemporaryDirectory(prefix="dlqueue-bench-") as folder:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("DLQUEUE_", "PYTHON"))}
        env |= {"PYTHONPATH": str(SITE), "DLQUEUE_RUN_DIR": folder}
        every = os.sched_getaffinity(0)
        os.sched_setaffinity(0, sorted(every)[: fault.cores])
        try:
            program = str(Path(__file__).with_name("faulty.py"))
            subprocess.run(
                [sys.executable, program, *words], env=env, check=True, timeout=TIMEOUT_S
            )
        finally:
            os.sched_setaffinity(0, every)
        summaries = [json.loads(path.read_text()) for path in Path(folder).glob("summary-*.json")]
    return _record(summaries, fault)


def _record(summaries: list[dict[str, Any]], fault: LiveFault) -> dict[str, Any]:
    """A node of 64 cores of which the job has so many; memory for two workers where asked."""
    rss = max((one["worker_rss_bytes"] or 0 for s in summaries for one in s["loaders"]), default=0)
    return {
        "allocation": {
            "cpus": fault.cores,
            "cpus_per_task": fault.cores,
            "num_tasks": 1,
            "num_nodes": 1,
            "mem_bytes": int(2.5 * rss) if fault.for_two else None,
            "gpus": 0,
        },
        "times": {},
        "outcome": {"state": "COMPLETED"},
        "host": {"cores": 64, "gpus": []},
        "counters": [],
        "probe": {"summaries": [{**one, "node_cores": 64} for one in summaries]},
    }
