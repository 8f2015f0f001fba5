"""Profile of one rank alone on its GPU, from measured runs. Pure.

The time of kernels in a step is the share of the time in which the GPU worked (NVML's utilisation,
over the whole run), spread over the run's steps; what is left of a step is the host's. Memory is
not told apart into weights and samples, so every rank is counted with all of it: that is more than
a rank of a smaller batch holds. The reduction among GPUs is part of the step as it was measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from slurm_ext.policy.ranks.choose import CONTEXT_BYTES, Profile, RankResources


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleRankRun:
    """One run; None is not measured."""

    job_id: int
    batch: float  # of one rank
    samples_per_s: float  # of one rank
    accel_samples_per_s: float  # of one rank, waiting for data taken away
    workers: int = 0  # of one rank
    ranks: int | None = None  # of the whole job
    gpus: int = 0  # of the whole job
    cpus: float | None = None  # of the whole job
    elapsed_s: float = 0.0
    run_samples: float | None = None  # of all ranks
    emulated: bool = False
    shared: bool = False  # another job was on the same GPU
    util: float | None = None  # of its GPUs, mean over the run, 0 to 1
    mem_bytes: float | None = None  # the most that was held on one GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksEvidence:
    """The profile with the runs that it rests on, or what is missing for one."""

    profile: Profile | None = None
    room: RankResources | None = None
    runs: tuple[SingleRankRun, ...] = ()
    missing: tuple[str, ...] = ()


def evidence_of(
    measured: Sequence[SingleRankRun], gpu_mem_bytes: float | None, most_batch: int | None = None
) -> RanksEvidence:
    """From runs of one job, newest first; those of the newest's batch count.

    `gpu_mem_bytes`: of the GPU; None or 0: not told. `most_batch`: see Room.
    """
    usable = [run for run in measured if _why_unusable(run) is None]
    if not usable:
        return RanksEvidence(missing=_missing(measured))
    alike = [run for run in usable if run.batch == usable[0].batch]
    holds = [run.mem_bytes for run in alike if run.mem_bytes]
    missing = []
    if not gpu_mem_bytes:
        missing.append("how much memory the GPU has (sharing.gpu_mem_mib, or --gpu-mem-mib)")
    if not holds:
        missing.append("how much GPU memory a rank holds: no run of it counted that")
    if missing or not gpu_mem_bytes:
        return RanksEvidence(runs=tuple(alike), missing=tuple(missing))
    room = RankResources(
        gpus=alike[0].gpus,
        gpu_mem_bytes=gpu_mem_bytes,
        cores_per_gpu=alike[0].cpus / alike[0].gpus if alike[0].cpus else float("inf"),
        most_batch=most_batch,
    )
    return RanksEvidence(profile=_profile(alike, max(holds)), room=room, runs=tuple(alike))


def _profile(alike: Sequence[SingleRankRun], held_bytes: float) -> Profile:
    step_s = median(run.batch / run.accel_samples_per_s for run in alike)
    kernel_s = min(step_s, median(_kernel_s(run) for run in alike))
    return Profile(
        batch=max(1, round(alike[0].batch)),
        host_s=max(0.0, step_s - kernel_s),
        kernel_s=kernel_s,
        fixed_bytes=max(0.0, held_bytes - CONTEXT_BYTES),
        workers=alike[0].workers,
    )


def _kernel_s(run: SingleRankRun) -> float:
    """Busy seconds of the GPU in one step of one rank."""
    util = min(1.0, run.util or 0.0)
    if run.run_samples and run.ranks:
        return util * run.elapsed_s / (run.run_samples / run.ranks / run.batch)
    return util * run.batch / run.samples_per_s


def _missing(measured: Sequence[SingleRankRun]) -> tuple[str, ...]:
    """Reasons for which no run can be used, each once, with its number of runs."""
    if not measured:
        return ("a run of it: the history has none (`dlqueue jobs` lists yours)",)
    whys = [_why_unusable(run) or "" for run in measured]
    return tuple(f"{why} ({whys.count(why)} of {len(whys)} runs)" for why in dict.fromkeys(whys))


def _why_unusable(run: SingleRankRun) -> str | None:
    if run.gpus == 0:
        return "a run on a GPU: the accelerator was emulated" if run.emulated else "a run on a GPU"
    if run.shared:
        return "a run with its GPU to itself: another job was on it"
    if run.ranks is not None and run.ranks != run.gpus:
        return f"a run with one rank on each GPU: it had {run.ranks} ranks on {run.gpus}"
    if run.util is None:
        return "the GPU's utilisation: no run counted it (`dlqueue doctor` says why)"
    whole = run.batch > 0 and run.accel_samples_per_s > 0 and run.samples_per_s > 0
    return None if whole else "a run whose training loop was measured"
