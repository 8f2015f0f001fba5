"""What the four example trainings share: the accelerator's step, and a tally of samples seen.

With CUDA the step is a real forward and backward pass. Without, it is emulated: a timed wait of a
fixed length per batch, and the first line printed says so.
"""

import os
import time
import zlib

import torch


def size(name, default):
    """A size that tests and demos may set in the environment."""
    return int(os.environ.get(name, default))


class Accelerator:
    """`step(batch)` takes about `seconds` per batch where it is emulated."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.model = None
        if torch.cuda.is_available():
            print(f"accelerator: {torch.cuda.get_device_name()}", flush=True)
        else:
            os.environ["DLQUEUE_EMULATED"] = "1"  # for the probe: the step costs no cores
            print(f"emulated accelerator: {seconds * 1000:.0f} ms per batch", flush=True)

    def step(self, batch):
        if not torch.cuda.is_available():
            time.sleep(self.seconds)
            return
        inputs = batch.cuda(non_blocking=True).float().flatten(1)
        if self.model is None:
            self.model = torch.nn.Sequential(
                torch.nn.Linear(inputs.shape[1], 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10)
            ).cuda()
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.optimizer.zero_grad()
        self.model(inputs).square().mean().backward()
        self.optimizer.step()
        torch.cuda.synchronize()


class Tally:
    """Counts the samples of each epoch and, at the end, the samples per second of the training."""

    def __init__(self):
        self.began = time.perf_counter()
        self.samples = 0

    def epoch(self, number, ids):
        """`set` is the same for the same samples in any order, `order` only in the same order."""
        self.samples += len(ids)
        each = [zlib.crc32(b"%d" % i) for i in ids]
        order = zlib.crc32(b",".join(b"%d" % i for i in ids))
        print(
            f"epoch {number}: {len(ids)} samples, set {sum(each) % 2**32:08x}, order {order:08x}",
            flush=True,
        )

    def done(self):
        seconds = time.perf_counter() - self.began
        print(f"samples/s: {self.samples / seconds:.1f}", flush=True)
