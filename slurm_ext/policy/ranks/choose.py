"""Best number of data-parallel ranks on each GPU of a job (AccDP, HiPC 2022). Pure.

One rank leaves the GPU idle while it works on the host; the kernels of another fill that gap. The
paper's bound for R ranks with `h` seconds of host time, `k` of kernels and `a` of reduction a step
is max(h + k, R k) + a, which ranks reach that never want the GPU at once. Ours do: the step is that
of a closed queue of R customers, by mean value analysis (Reiser and Lavenberg, 1980). On an H100
under MPS, 2 to 4 ranks at busy shares of 43 to 95 %, it was 9 % too short to 16 % too long; the
bound was up to 22 % too short. The global batch stays unless its owner allows a larger one.
"""

from collections.abc import Iterator
from dataclasses import dataclass

RANKS = (1, 2, 3, 4, 6, 8)
MIN_GAIN = 0.05  # of a trial
LEAST_PREDICTED = 0.08  # gain: the model's own error on hardware
MEMORY_SHARE = 0.92  # of a GPU's memory that ranks may fill
CONTEXT_BYTES = 600 * 2**20  # of one CUDA process, at the upper end


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One rank alone on its GPU: what a step costs, and what it holds."""

    batch: int  # samples of one rank's step
    host_s: float  # of a step, in which the GPU does nothing
    kernel_s: float  # of a step, in which it is busy
    kernel_fixed_s: float = 0.0  # the part of `kernel_s` that does not shrink with the batch
    reduction_s: float = 0.0  # the gradients' reduction that no computation hides
    fixed_bytes: float = 0.0  # weights, gradients, optimiser
    sample_bytes: float = 0.0  # activations of one sample
    workers: int = 0  # data-loader workers of one rank

    def kernels_s(self, batch: int) -> float:
        """Busy seconds of one step of `batch` samples."""
        moving = self.kernel_s - self.kernel_fixed_s
        return self.kernel_fixed_s + moving * batch / self.batch

    @property
    def busy(self) -> float:
        """Share of the time in which the GPU works, one rank alone."""
        return self.kernel_s / (self.host_s + self.kernel_s + self.reduction_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankResources:
    """Resources of a job: GPUs of one kind, each with its memory and CPUs."""

    gpus: int = 1
    gpu_mem_bytes: float = float("inf")
    cores_per_gpu: float = float("inf")
    most_batch: int | None = None  # the largest global batch its owner allows; None: as it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """So many ranks on each GPU, and what is expected of it."""

    ranks_per_gpu: int
    batch: int  # of one rank
    workers: int  # of one rank
    samples_per_s: float  # of the whole job
    gain: float  # over one rank on each GPU
    reason: str

    @property
    def global_batch(self) -> int:
        """Samples of one step on one GPU."""
        return self.ranks_per_gpu * self.batch


def throughput(profile: Profile, room: RankResources, ranks: int, batch: int) -> float:
    """Samples/s of the whole job with so many ranks a GPU, `batch` samples each."""
    step_s = _shared_s(profile.host_s, profile.kernels_s(batch), ranks) + profile.reduction_s
    return room.gpus * ranks * batch / step_s


def _shared_s(host_s: float, kernel_s: float, ranks: int) -> float:
    """Seconds of a step in which a rank's kernels meet those of others that are there."""
    step_s = there = 0.0
    for count in range(1, ranks + 1):
        at_gpu_s = kernel_s * (1 + there)
        step_s = host_s + at_gpu_s
        there = count * at_gpu_s / step_s
    return step_s


def packings(profile: Profile, room: RankResources) -> list[Packing]:
    """Everything that fits, the quickest first; one rank a GPU as it is now always fits."""
    before = throughput(profile, room, 1, profile.batch)
    by_shape = {}
    for ranks in RANKS:
        for batch in _batches(profile, room, ranks):
            if _fits(profile, room, ranks, batch):
                rate = throughput(profile, room, ranks, batch)
                by_shape[ranks, batch] = _packing(profile, room, ranks, batch, rate / before - 1)
    by_shape.setdefault((1, profile.batch), _packing(profile, room, 1, profile.batch, 0.0))
    return sorted(
        by_shape.values(), key=lambda packing: (-packing.samples_per_s, packing.ranks_per_gpu)
    )


def choose(profile: Profile, room: RankResources, *, min_gain: float = LEAST_PREDICTED) -> Packing:
    """The quickest packing that gains enough to be worth it, with the fewest ranks.

    One rank with a larger batch comes first, where its owner allows one and it is as good: it
    needs neither MPS nor memory twice.
    """
    every = packings(profile, room)
    now = next(p for p in every if (p.ranks_per_gpu, p.batch) == (1, profile.batch))
    best = every[0]
    if best.gain < min_gain:
        return now
    enough = [packing for packing in every if 1 + packing.gain >= (1 + best.gain) / (1 + min_gain)]
    return min(enough, key=lambda packing: (packing.ranks_per_gpu, -packing.samples_per_s))


def trial_confirms(measured: float, before: float, *, min_gain: float = MIN_GAIN) -> bool:
    """True if a trial of some dozen steps, in samples/s, confirms a packing."""
    return measured > before * (1 + min_gain)


def _batches(profile: Profile, room: RankResources, ranks: int) -> Iterator[int]:
    """Batches of one rank: the global batch as it is, and as it may become."""
    if profile.batch % ranks == 0:
        yield profile.batch // ranks
    most = room.most_batch
    if most is None:
        return
    for batch in (profile.batch, 2 * profile.batch)[: 2 if ranks == 1 else 1]:
        if ranks * batch * room.gpus <= most:
            yield batch


def _fits(profile: Profile, room: RankResources, ranks: int, batch: int) -> bool:
    fixed = profile.fixed_bytes
    if not profile.sample_bytes:  # all that was held may be the batch's
        fixed *= max(1.0, batch / profile.batch)
    bytes_of_rank = fixed + batch * profile.sample_bytes + CONTEXT_BYTES
    cores = ranks * (_workers(profile, ranks, batch) + 1)
    fits = (
        ranks * bytes_of_rank <= MEMORY_SHARE * room.gpu_mem_bytes and cores <= room.cores_per_gpu
    )
    return fits and batch >= 1


def _workers(profile: Profile, ranks: int, batch: int) -> int:
    """Each rank's part of the workers that the same samples/s needed; none stays none."""
    share = profile.workers * batch / profile.batch
    return 0 if profile.workers == 0 else max(1, round(share)) if ranks > 1 else profile.workers


def _packing(profile: Profile, room: RankResources, ranks: int, batch: int, gain: float) -> Packing:
    return Packing(
        ranks_per_gpu=ranks,
        batch=batch,
        workers=_workers(profile, ranks, batch),
        samples_per_s=throughput(profile, room, ranks, batch),
        gain=gain,
        reason=_reason(profile, ranks, batch),
    )


def _reason(profile: Profile, ranks: int, batch: int) -> str:
    busy = f"one rank keeps the GPU busy for {profile.busy:.0%} of the time"
    if ranks == 1:
        return f"{busy}: more ranks would not gain enough" if batch == profile.batch else busy
    return f"{busy}; {ranks} ranks fill each other's gaps"
