"""Samples of the trainings: real JPEGs, made here and decoded for each sample, or ready tensors."""

import io
import random
from pathlib import Path
from typing import Any

import torch

FILES = 48
WIDTH = 640  # of a JPEG, as a photograph for training is scaled
CLASSES = 10
ENDLESS = 1 << 22  # samples of a pass: a run ends by its time


def made(folder: Path) -> list[Path]:
    """The JPEGs: noise at several scales, so that decoding costs what photographs cost."""
    from PIL import Image

    folder.mkdir(exist_ok=True)
    paths = [folder / f"{number}.jpg" for number in range(FILES)]
    for number, path in enumerate(paths):
        coarse = Image.frombytes("RGB", (64, 48), random.Random(number).randbytes(64 * 48 * 3))
        image = coarse.resize((WIDTH, WIDTH * 3 // 4), Image.Resampling.BICUBIC)
        image.save(path, "JPEG", quality=92)
    return paths


class Jpegs:
    """Samples that are read, decoded, cut at random and mirrored."""

    def __init__(self, paths: list[Path], side: int) -> None:
        self.paths, self.side = paths, side

    def __len__(self) -> int:
        return ENDLESS

    def __getitem__(self, index: int) -> tuple[Any, int]:
        from PIL import Image, ImageOps

        draw, side = random.Random(index), self.side
        image = Image.open(io.BytesIO(self.paths[index % FILES].read_bytes())).convert("RGB")
        wide = draw.randint(image.width // 3, image.width)
        high = wide * 3 // 4
        left, top = draw.randint(0, image.width - wide), draw.randint(0, image.height - high)
        box = (left, top, left + wide, top + high)
        image = image.resize((side, side), Image.Resampling.BILINEAR, box)
        image = ImageOps.mirror(image) if draw.random() < 0.5 else image
        pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
        return pixels.view(side, side, 3).permute(2, 0, 1), index % CLASSES


class Ready:
    """Samples that cost nothing."""

    def __init__(self, side: int) -> None:
        self.image = torch.zeros(3, side, side, dtype=torch.uint8)

    def __len__(self) -> int:
        return ENDLESS

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.image, index % CLASSES
