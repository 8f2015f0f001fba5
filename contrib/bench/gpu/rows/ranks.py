"""Ranks 1 to 4 on one GPU (AccDP) at several busy shares, beside the product's prediction.

Ranks are started by the product's launcher under its MPS, and reduce by its two levels. One rank
without MPS is the baseline, measured first and last. Gaps are waits, which need no core.
"""

import contextlib
import sys
from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any

from contrib.bench.gpu.here import ROOT, Here
from contrib.bench.gpu.mps_jobs import MpsJobs
from contrib.bench.gpu.report import AbsentError, Report
from contrib.bench.gpu.talker import Talker
from slurm_ext.policy.ranks.choose import Profile, RankResources, choose, throughput

SHARES = (0.43, 0.7, 0.95)
RANKS = (2, 3, 4)
REPEATS = 3
BATCH = 48  # of one rank: 2, 3 and 4 divide it
START_S = 8.0  # of a launch, that is no step
SPAN_S = (0.25, 1.0)
ANSWER_S = 60.0
_PROGRAM = str(ROOT / "contrib" / "bench" / "gpu" / "programs" / "rank.py")
Rates = dict[tuple[float, bool], list[float]]


def measure(here: Here, report: Report) -> None:
    """One rank, two to four, and one again."""
    here.needs_device()
    seconds = _span_s(here.seconds)
    alone: Rates = {}
    profiles: dict[float, Profile] = {}
    for found in _launched(here, 1, seconds, {}):
        _note(alone, found)
        profiles[found["share"]] = _profile(found)
    for share, profile in profiles.items():
        picked = choose(profile, RankResources(most_batch=8 * BATCH))
        report.add(f"picked_{100 * share:.0f}", picked.ranks_per_gpu, "ranks")
    with _environment(here, report) as env:
        for ranks in RANKS:
            for found in _launched(here, ranks, seconds, env):
                _add(report, found, alone, profiles[found["share"]])
            _reduction(here, report, found)
    for found in _launched(here, 1, seconds, {}):
        before = median(alone[found["share"], False])
        report.add("one_rank_again", _rate(found) / before)


def _span_s(seconds: float) -> float:
    """Seconds of one repeat, where every launch has its start."""
    spans = REPEATS * len(SHARES) * (2 + 2 * len(RANKS))
    least, most = SPAN_S
    return min(most, max(least, (seconds - START_S * (2 + len(RANKS))) / spans))


@contextlib.contextmanager
def _environment(here: Here, report: Report) -> Iterator[Mapping[str, str]]:
    """MPS, or the reason why ranks take turns."""
    with contextlib.ExitStack() as stack:
        env: Mapping[str, str] = {}
        try:
            here.needs_cuda()
            env = stack.enter_context(MpsJobs(here)).start(1, 100.0)
        except AbsentError as error:
            report.lacks("MPS", f"{error}: ranks take turns")
        yield env


def _launched(
    here: Here, ranks: int, seconds: float, env: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """The answer of each repeat, share and mode."""
    words = [here.device, f"{seconds:.2f}", str(REPEATS), *map(str, SHARES)]
    launcher = ["-m", "slurm_ext.ranks", "--ranks-per-gpu", str(ranks)]
    argv = [sys.executable, "-W", "ignore", *launcher, _PROGRAM, *words]
    told = here.environment({**env, "PYTHONPATH": str(ROOT)})
    with Talker(argv, told, f"{here.folder}/ranks-{ranks}") as talker:
        for number in range(REPEATS * len(SHARES) * (2 if ranks > 1 else 1)):
            yield talker.hear(ANSWER_S if number else 2 * ANSWER_S)


def _note(rates: Rates, found: Mapping[str, Any]) -> None:
    rates.setdefault((found["share"], found["held"]), []).append(_rate(found))


def _rate(found: Mapping[str, Any]) -> float:
    """Samples a second of all ranks."""
    batch = BATCH / found["ranks"] if found["held"] else BATCH
    return float(found["ranks"] * batch * found["steps"] / found["wall_s"])


def _profile(found: Mapping[str, Any]) -> Profile:
    return Profile(batch=BATCH, host_s=found["host_s"], kernel_s=found["kernel_s"])


def _reduction(here: Here, report: Report, found: Mapping[str, Any]) -> None:
    """The way that the ranks' gradients took, and how long one reduction of 4 MiB was."""
    memory = "CUDA's IPC" if here.device == "cuda" else "a file of /dev/shm"
    way = f"shared memory, by {memory}" if found["shared"] else "gloo: no memory could be shared"
    report.facts[f"gradients of {found['ranks']} ranks"] = way
    report.add(f"reduction_{found['ranks']}", found["reduction_s"], "s")


def _add(report: Report, found: Mapping[str, Any], alone: Rates, profile: Profile) -> None:
    """Gain over one rank, and how far the prediction of it was off."""
    room, ranks = RankResources(most_batch=8 * BATCH), int(found["ranks"])
    batch = BATCH // ranks if found["held"] else BATCH
    gain = _rate(found) / median(alone[found["share"], False])
    foretold = throughput(profile, room, ranks, batch) / throughput(profile, room, 1, BATCH)
    name = f"{'held_' if found['held'] else ''}{100 * found['share']:.0f}_{ranks}"
    report.add(f"gain_{name}", gain)
    report.add(f"predicted_{name}", foretold)
    report.add(f"error_{name}", abs(gain / foretold - 1))
