"""The trainings of `autotune`: what a sample costs, what the step takes, what its author wrote."""

import io
import time
from dataclasses import dataclass
from typing import Any

from contrib.bench.curve.loaders import jpeg_bytes

EPOCH_S = 20.0  # an epoch has as many batches as the emulated steps of so long


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderKind:
    """One loader: work of a sample (in this order), its size, the step, the user's workers."""

    step_s: float
    workers: int = 0
    batch: int = 16
    sleep_s: float = 0.0  # waiting of a sample
    slow_every: int = 0  # one sample of so many waits ten times as long
    jpeg: int = 0  # width of a picture to decode
    arithmetic: int = 0  # passes over a vector of 4,096 numbers
    kib: int = 16  # size of the sample delivered
    held_mib: int = 0  # what each process keeps privately once it has loaded a sample
    healthy: bool = False  # as written is as good as it gets
    validation: int = 0  # batches of another loader after each epoch
    beside: bool = False  # a second loader gives each step a batch, too

    @property
    def batches(self) -> int:
        """Batches of an epoch."""
        return max(40, int(EPOCH_S / self.step_s / 4))


KINDS = {
    "compute": LoaderKind(step_s=0.06, arithmetic=12, batch=8, healthy=True),
    "greedy": LoaderKind(step_s=0.04, arithmetic=24, batch=32, workers=8, healthy=True),
    "jpeg": LoaderKind(step_s=0.03, jpeg=640),
    "slow_storage": LoaderKind(step_s=0.02, sleep_s=0.02),
    "decode_heavy": LoaderKind(step_s=0.01, jpeg=768, batch=8),
    "latency": LoaderKind(step_s=0.01, sleep_s=0.005, workers=1),
    "mixed": LoaderKind(step_s=0.02, sleep_s=0.004, jpeg=256, batch=8),
    "tiny": LoaderKind(step_s=0.004, batch=64, kib=0),
    "large_tensors": LoaderKind(step_s=0.05, batch=8, sleep_s=0.01, kib=4096),
    "memory_heavy": LoaderKind(step_s=0.03, sleep_s=0.01, held_mib=200),
    "slow_samples": LoaderKind(step_s=0.03, sleep_s=0.002, slow_every=20, workers=1),
    "healthy": LoaderKind(step_s=0.05, jpeg=256, batch=4, workers=2, healthy=True),
    "validation": LoaderKind(step_s=0.03, jpeg=384, batch=8, validation=30),
    "two_loaders": LoaderKind(step_s=0.03, sleep_s=0.003, jpeg=256, batch=4, beside=True),
}


class Samples:
    """A map-style dataset of one kind."""

    def __init__(self, kind: LoaderKind, batches: int) -> None:
        self.kind, self.length = kind, batches * kind.batch
        self.held: Any = None

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        import torch

        kind = self.kind
        if kind.held_mib and self.held is None:
            self.held = bytearray(b"1" * (kind.held_mib << 20))
        slow = kind.slow_every and index * 7919 % kind.slow_every == 0
        if kind.sleep_s:
            time.sleep(kind.sleep_s * (10 if slow else 1))
        if kind.jpeg:
            return _picture(kind.jpeg)
        row = torch.arange(max(1, kind.kib * 256), dtype=torch.float32)
        for _ in range(kind.arithmetic):
            row = row.sin().mul(1.01)
        return row


def _picture(width: int) -> Any:
    import numpy as np
    import torch
    from PIL import Image

    with Image.open(io.BytesIO(jpeg_bytes(width))) as image:
        pixels = np.asarray(image.convert("RGB").resize((224, 224)))
    return torch.from_numpy(pixels.copy()).permute(2, 0, 1)
