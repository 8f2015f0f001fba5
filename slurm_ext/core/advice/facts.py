"""Facts of a training that first advice rests on.

All seconds are of one step of one rank (one batch, from one `next()` to the next one), whichever
way they were measured; None is "not measured" and never zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFacts:
    """Costs of the loader: seconds of one worker for one batch."""

    workers: int  # 0: the training process loads
    wall_s: float  # in all: computing, queued for a core, and blocked (storage, network, locks)
    cpu_s: float
    queued_s: float = 0.0
    sample_bytes: float = 0.0  # of read() for one sample, from memory or from storage
    p50_s: float | None = None  # half of the batches took less,
    p99_s: float | None = None  # 99 of 100
    flat: bool | None = None  # more workers were tried and brought nothing; None: nobody tried
    storage_s: float = 0.0  # between two batches, if storage is known to give no more to anybody
    rss_bytes: int | None = None  # memory of the largest worker
    stays: bool = False  # its number of workers: it was searched for, or others read data twice

    @property
    def alone_s(self) -> float:
        """Seconds for one batch without the wait for a core."""
        return max(self.cpu_s, self.wall_s - self.queued_s)

    @property
    def blocked_s(self) -> float:
        """Seconds for one batch that were neither computing nor waiting for a core."""
        return max(0.0, self.wall_s - self.queued_s - self.cpu_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFacts:
    """Waiting of the ranks of one training for each other."""

    exposed_s: float = 0.0  # communication that nothing hides, without waiting for a slower rank
    skew_s: float = 0.0  # waiting for a slower rank
    slow_rank: int | None = None  # always the same one; None: it moves, or nobody knows
    moves: bool = False  # the slower rank: now it is this one, now that
    slow_node: str | None = None  # that rank's, where there are several
    comm_s: float | None = None  # from the first bucket's start to the last one's end
    overlap_s: float | None = None  # the part of it inside the backward pass
    backward_s: float | None = None  # computing gradients
    buckets: Sequence[int] = ()  # bytes of each gradient bucket
    backend: str | None = None  # nccl or gloo
    nodes: int = 1
    fits_one_node: bool = False  # it runs on several nodes, and one has room for all its ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingFacts:
    """One training at the shape that it ran at, or is predicted at."""

    step_s: float  # the whole step: wait, start and everything else
    wait_s: float = 0.0  # for data, without `start_s`
    start_s: float = 0.0  # starting workers and filling their queues, at each pass's first batch
    restart_s: float = 0.0  # the part of it that passes after the first one took
    main_cpu_s: float = 0.0  # CPU of the training process itself
    cores: float = inf  # of one rank
    room_cores: float = inf  # that one rank can have: its node or partition has no more
    mem_bytes: float | None = None  # for the workers of one rank
    loader: WorkerFacts | None = None
    ranks: RankFacts | None = None
    accelerator_busy: float | None = None  # share of the time; None: not measured, or no GPU
    frameworks: Sequence[str] = ()  # that the program imported
    steps: float = 1.0  # of the run, or 1 for a prediction
    measured_s: float = inf  # a training's time, as far as it was measured
    spread: float | None = None  # log sd of these figures, where several runs or a model tell it

    @property
    def loop_s(self) -> float:
        """Seconds of a step in which it neither waits for data nor starts workers."""
        return max(0.0, self.step_s - self.wait_s - self.start_s)
