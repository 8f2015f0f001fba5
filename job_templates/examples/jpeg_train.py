"""Trains on JPEG files: decoding and augmentation on the CPU, with the DataLoader's defaults."""

import os
import random
import tempfile

import torch
from accelerator import Accelerator, Tally, size
from PIL import Image, ImageEnhance
from torch.utils.data import DataLoader, Dataset

IMAGES = 48  # files on disk; an epoch draws on them several times
SAMPLES = size("EXAMPLE_SAMPLES", 512)
EPOCHS = size("EXAMPLE_EPOCHS", 3)
FOLDER = os.path.join(
    os.environ.get("TMPDIR", tempfile.gettempdir()), f"example-jpegs-{os.getuid()}"
)


def prepare():
    """Generates the images once; the same ones everywhere."""
    os.makedirs(FOLDER, exist_ok=True)
    for number in range(IMAGES):
        path = os.path.join(FOLDER, f"{number}.jpg")
        if not os.path.exists(path):
            pixels = random.Random(number).randbytes(48 * 48 * 3)
            image = Image.frombytes("RGB", (48, 48), pixels).resize((640, 640), Image.BICUBIC)
            image.save(path + f".{os.getpid()}", "JPEG", quality=92)
            os.replace(path + f".{os.getpid()}", path)


class Jpegs(Dataset):
    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        image = Image.open(os.path.join(FOLDER, f"{index % IMAGES}.jpg")).convert("RGB")
        left, top = random.randrange(200), random.randrange(200)
        image = image.crop((left, top, left + 440, top + 440)).resize((224, 224), Image.BICUBIC)
        if random.random() < 0.5:
            image = image.transpose(Image.FLIP_LEFT_RIGHT)
        image = ImageEnhance.Color(image).enhance(random.uniform(0.6, 1.4))
        pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
        return pixels.view(224, 224, 3).permute(2, 0, 1).float().div(255), index


def main():
    prepare()
    accelerator = Accelerator(0.03)
    loader = DataLoader(Jpegs(), batch_size=16, shuffle=True)
    tally = Tally()
    for epoch in range(EPOCHS):
        ids = []
        for images, indices in loader:
            accelerator.step(images)
            ids += indices.tolist()
        tally.epoch(epoch, ids)
    tally.done()


if __name__ == "__main__":
    main()
