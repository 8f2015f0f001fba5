"""Costs of one training, and what every machine adds to them."""

from dataclasses import dataclass, field
from math import inf

from slurm_ext.model.floats import FLOATS, Arithmetic

# From contrib/bench/curve (decoding, latency, both, large batches; 0.25 to 2 cores; torch 2.13):
# its error hardly moves for 8 to 24 and 2 to 4, and is smallest near these two.
SHARPNESS = 12.0  # prefetched batches hide nearly all of what varies from one to the next
SLEEPY_SHARPNESS = 2.0  # of workers that use next to no CPU
# Seconds, seen there in every setting.
SEND_S = 0.0003  # that a worker spends on a batch outside fetching it
SEND_S_PER_BYTE = 0.6e-9  # fresh pages of shared memory
RECEIVE_S = 0.0010  # that the training process spends on a batch that is ready
FREE_S_PER_BYTE = 0.16e-9  # giving its pages back, at the beginning of the next step
START_S = 0.030  # that a pass over the data waits for new workers to run, and for their end
START_S_PER_WORKER = 0.005
SLICE_S = 0.003  # that a woken process waits for a busy core (Linux 6.18, EEVDF)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One training's costs; rates in samples/s, costs in seconds per sample."""

    accel_samples_per_s: float
    fetch_wall_s: float  # in the training process, when no other process wants the CPU
    fetch_cpu_s: float
    main_cpu_s: float = 0.0
    storage_samples_per_s: float = inf
    efficiency: float = 1.0
    receive_s: float = 0.0  # for a batch
    slice_s: float = SLICE_S
    batch_size: float = 0.0  # 0: unknown, and nothing that is paid for a batch is counted
    sample_bytes: float = 0.0
    epoch_samples: float = inf
    threads: float = 0.0  # cores that the step's threads had; 0: the step is an accelerator's
    arithmetic: Arithmetic = field(
        default=FLOATS, repr=False, compare=False
    )  # or numpy, for arrays
    # Wall and CPU seconds of a worker for one sample, sending it included: every point needs them.
    worker_s: tuple[float, float] = field(init=False, repr=False, compare=False)
    sharpness: float = field(init=False, repr=False, compare=False)  # between workers and cores

    def __post_init__(self) -> None:
        """Compute once what every point needs."""
        extra_s = sending_s(self.batch_size, self.sample_bytes)
        wall_s, cpu_s = self.fetch_wall_s + extra_s, self.fetch_cpu_s + extra_s
        m = self.arithmetic
        sleeping = m.maximum(1 - m.minimum(1.0, cpu_s / wall_s), 1e-6)
        object.__setattr__(self, "worker_s", (wall_s, cpu_s))
        sharpness = m.minimum(SHARPNESS, SLEEPY_SHARPNESS / sleeping)
        object.__setattr__(self, "sharpness", sharpness)


def sending_s(batch_size: float, sample_bytes: float) -> float:
    """Seconds for one sample that a worker adds to fetching it in the training process."""
    return SEND_S / batch_size + SEND_S_PER_BYTE * sample_bytes if batch_size else 0.0


def is_serial(workers: float) -> bool:
    """True for no workers; a search asks for many counts at once above zero only."""
    return isinstance(workers, int | float) and workers <= 0
