"""Trains on records behind slow storage, read in order by one worker.

The storage is emulated: each record is a real read of a real file after a fixed wait, as a
network file system under load would take.
"""

import os
import tempfile
import time

import torch
from accelerator import Accelerator, Tally, size
from torch.utils.data import DataLoader, Dataset

LATENCY_S = 0.02  # emulated storage latency of one record
RECORD_BYTES = 16384
SAMPLES = size("EXAMPLE_SAMPLES", 384)
EPOCHS = size("EXAMPLE_EPOCHS", 2)
PATH = os.path.join(
    os.environ.get("TMPDIR", tempfile.gettempdir()), f"example-records-{os.getuid()}.bin"
)


def prepare():
    """Writes the records once."""
    if not os.path.exists(PATH) or os.path.getsize(PATH) != 64 * RECORD_BYTES:
        with open(f"{PATH}.{os.getpid()}", "wb") as file:
            file.writelines(
                bytes((number * 7 + k) % 256 for k in range(RECORD_BYTES)) for number in range(64)
            )
        os.replace(f"{PATH}.{os.getpid()}", PATH)


class Records(Dataset):
    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        time.sleep(LATENCY_S)
        with open(PATH, "rb") as file:
            file.seek(index % 64 * RECORD_BYTES)
            record = bytearray(file.read(RECORD_BYTES))
        return torch.frombuffer(record, dtype=torch.uint8).float(), index


def main():
    prepare()
    accelerator = Accelerator(0.06)
    loader = DataLoader(Records(), batch_size=16, num_workers=1)
    tally = Tally()
    for epoch in range(EPOCHS):
        ids = []
        for records, indices in loader:
            accelerator.step(records)
            ids += indices.tolist()
        tally.epoch(epoch, ids)
    tally.done()


if __name__ == "__main__":
    main()
