"""A training for accuracy: its batch, its decoding, its storage and its step are arguments."""

import argparse
import io
import os
import time
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset[Any]):
    """JPEGs of one width, decoded, made into tensors of one side, behind a delay."""

    def __init__(self, args: argparse.Namespace) -> None:
        noise = np.random.default_rng(1).integers(0, 255, (48, 64, 3), dtype=np.uint8)
        out = io.BytesIO()
        Image.fromarray(noise).resize((args.width, args.width)).save(out, "JPEG", quality=90)
        self.jpeg, self.side, self.latency_s = out.getvalue(), args.side, args.latency_s
        self.samples = args.samples

    def __len__(self) -> int:
        return int(self.samples)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(self.latency_s)
        with Image.open(io.BytesIO(self.jpeg)) as image:
            small = image.convert("RGB").resize((self.side, self.side))
        return torch.from_numpy(np.asarray(small).copy()).permute(2, 0, 1).float(), index


def main() -> None:
    """Train; the accelerator's step is a timed wait."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--side", type=int, default=128)
    parser.add_argument("--latency-s", type=float, default=0.0)
    parser.add_argument("--step-s", type=float, default=0.01)
    parser.add_argument("--samples", type=int, default=512)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=0)
    args = parser.parse_args()
    os.environ["DLQUEUE_EMULATED"] = "1"  # for the probe: the step costs no cores
    loader = DataLoader(Pictures(args), batch_size=args.batch, num_workers=args.workers)
    for _ in range(args.epochs):
        for _pictures, _indices in loader:
            time.sleep(args.step_s)


if __name__ == "__main__":
    main()
