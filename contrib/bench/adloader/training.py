"""One training of the live proof: real reading and decoding, an accelerator, a log of every batch.

    training.py KIND --samples N --epochs E --workers W --data FOLDER --log FILE

With CUDA the step is a real forward and backward pass; without, the accelerator is emulated: for a
batch the main thread computes and waits by turns, as one does that launches kernels, which the
log's last line says. Storage is emulated, too: every record is a real read of a real file after a
fixed latency, through a token bucket that all jobs share.
The log has `<monotonic seconds> <samples so far>` for every batch, then one JSON line.
"""

import argparse
import fcntl
import io
import json
import os
import random
import resource
import struct
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

BATCH = 8
IMAGES = 24  # files of each size; an epoch draws on them many times
RECORD_BYTES = 32768
RECORDS = 256
LATENCY_S = 0.016  # of one read, as a busy network file system has
BUCKET_BYTES_PER_S = 16e6  # what all jobs together may read
LAUNCH_S = 0.01  # of one turn of computing and waiting in a step


@dataclass(frozen=True, slots=True)
class Kind:
    """A sort of training: what its samples cost, and how fast its accelerator takes them."""

    accel_samples_per_s: float
    jpeg_pixels: int = 0  # width of the square JPEG that each sample decodes; 0: none
    reads: bool = False  # each sample comes from the throttled storage
    user_workers: int = 2  # what the script's author wrote
    host_share: float = 0.05  # of a step that the main thread computes


KINDS = {
    "jpeg": Kind(accel_samples_per_s=400.0, jpeg_pixels=768),
    "records": Kind(accel_samples_per_s=360.0, reads=True),
    "thumbs": Kind(accel_samples_per_s=30.0, jpeg_pixels=256),
    "compute": Kind(accel_samples_per_s=120.0, user_workers=1, host_share=0.4),
}


def prepare(data: Path) -> None:
    """Make the files that the trainings read; the same ones everywhere."""
    from PIL import Image

    data.mkdir(parents=True, exist_ok=True)
    for pixels in sorted({kind.jpeg_pixels for kind in KINDS.values()} - {0}):
        for number in range(IMAGES):
            noise = random.Random(number).randbytes(48 * 48 * 3)
            image = Image.frombytes("RGB", (48, 48), noise)
            image = image.resize((pixels, pixels), Image.Resampling.BICUBIC)
            image.save(data / f"{pixels}-{number}.jpg", "JPEG", quality=92)
    (data / "records").write_bytes(random.Random(0).randbytes(RECORD_BYTES * RECORDS))
    (data / "bucket").write_bytes(_DUE.pack(0.0))


_DUE = struct.Struct("=d")


class Storage:
    """Reads that wait: each for its latency, all together for the bucket's tokens, in order."""

    def __init__(self, data: Path) -> None:
        self.records = os.open(data / "records", os.O_RDONLY)
        self.bucket = os.open(data / "bucket", os.O_RDWR)

    def read(self, number: int) -> bytes:
        """One record, no sooner than its turn and latency."""
        ready_s = max(time.monotonic() + LATENCY_S, self._turn())
        time.sleep(max(0.0, ready_s - time.monotonic()))
        return os.pread(self.records, RECORD_BYTES, number % RECORDS * RECORD_BYTES)

    def _turn(self) -> float:
        """Moment at which the bucket has tokens for this read; a lock orders the processes."""
        fcntl.lockf(self.bucket, fcntl.LOCK_EX)
        try:
            due = max(time.monotonic(), _DUE.unpack(os.pread(self.bucket, 8, 0))[0])
            due += RECORD_BYTES / BUCKET_BYTES_PER_S
            os.pwrite(self.bucket, _DUE.pack(due), 0)
            return float(due)
        finally:
            fcntl.lockf(self.bucket, fcntl.LOCK_UN)


class Samples:
    """A map-style dataset of one kind."""

    def __init__(self, kind: Kind, samples: int, data: Path) -> None:
        self.kind, self.samples, self.data = kind, samples, data
        self.storage = Storage(data)

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> tuple[Any, int]:
        import torch

        if self.kind.reads:
            record = bytearray(self.storage.read(index))
            return torch.frombuffer(record, dtype=torch.uint8)[:16384].float().div(255), index
        if self.kind.jpeg_pixels:
            return self._image(index), index
        return torch.arange(4096, dtype=torch.float32).add(index).sin(), index

    def _image(self, index: int) -> Any:
        import torch
        from PIL import Image, ImageEnhance

        size = self.kind.jpeg_pixels
        path = self.data / f"{size}-{index % IMAGES}.jpg"
        with Image.open(io.BytesIO(path.read_bytes())) as file:
            image = file.convert("RGB")
        crop, low = size * 3 // 4, random.randrange(size // 4)
        image = image.crop((low, low, low + crop, low + crop)).resize((128, 128))
        if random.random() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        image = ImageEnhance.Color(image).enhance(random.uniform(0.6, 1.4))
        pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
        return pixels.view(128, 128, 3).permute(2, 0, 1).float().div(255)


class Accelerator:
    """`step(batch)`: a real one with CUDA, else as long as the kind's samples/s say."""

    def __init__(self, kind: Kind) -> None:
        import torch

        self.sample_s, self.host_share = 1 / kind.accel_samples_per_s, kind.host_share
        self.model: Any = None
        self.emulated = not torch.cuda.is_available()
        if self.emulated:
            os.environ["DLQUEUE_EMULATED"] = "1"  # for the probe: the step costs no cores

    def step(self, batch: Any) -> None:
        """One training step."""
        if self.emulated:
            self._emulate(self.sample_s * len(batch))
            return
        import torch

        inputs = batch.cuda(non_blocking=True).flatten(1)
        if self.model is None:
            self.model = torch.nn.Sequential(
                torch.nn.Linear(inputs.shape[1], 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10)
            ).cuda()
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.optimizer.zero_grad()
        self.model(inputs).square().mean().backward()
        self.optimizer.step()
        torch.cuda.synchronize()

    def _emulate(self, step_s: float) -> None:
        """Compute for the host's share and wait for the rest: kept from a core, it is late."""
        turns = max(1, round(step_s / LAUNCH_S))
        for _ in range(turns):
            end_s = time.thread_time() + self.host_share * step_s / turns
            while time.thread_time() < end_s:
                pass
            time.sleep((1 - self.host_share) * step_s / turns)


def loader(kind: Kind, samples: int, workers: int, data: Path) -> Any:
    """One as the script's author wrote it."""
    from torch.utils.data import DataLoader

    dataset: Any = Samples(kind, samples, data)
    return DataLoader(dataset, batch_size=BATCH, shuffle=True, num_workers=workers)


def train(kind: Kind, args: argparse.Namespace, log: TextIO) -> dict[str, Any]:
    """Log each batch; return whether each epoch had each sample once, and what was used."""
    accelerator, once, count = Accelerator(kind), True, 0
    batches = loader(kind, args.samples, args.workers, args.data)
    for _ in range(args.epochs):
        ids: list[int] = []
        for batch, indices in batches:
            accelerator.step(batch)
            ids += indices.tolist()
            count += len(batch)
            log.write(f"{time.monotonic():.4f} {count}\n")
        once = once and sorted(ids) == list(range(args.samples))
    return {"each_once": once, "emulated": accelerator.emulated, "cpu_s": round(cpu_s(), 3)}


def cpu_s() -> float:
    """CPU seconds of this process, its threads and the workers that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main() -> None:
    """Train and log it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--samples", type=int, required=True)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--log", type=Path, required=True)
    args = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    with args.log.open("w", buffering=1) as log:
        last = train(KINDS[args.kind], args, log)
        log.write(json.dumps(last) + "\n")


if __name__ == "__main__":
    main()
