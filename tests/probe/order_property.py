"""Run under the probe by test_probe_order.py: any loader, gate schedule and moment of failure."""

# ruff: noqa: T201 - its output is its answer

import os
from pathlib import Path
from typing import Any

import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    RandomSampler,
    SequentialSampler,
    get_worker_info,
)

SAME = "SAME_EXAMPLES" in os.environ
GATE = Path(os.environ["DLQUEUE_RUN_DIR"], "workers")


def _in_worker() -> bool:
    return get_worker_info() is not None


class Numbers(Dataset[Any]):
    """Item i is i; in a worker, item `breaks_at` raises, or ends the worker where `hard`."""

    def __init__(self, length: int, breaks_at: int | None, hard: bool) -> None:
        self.length = length
        self.breaks_at = breaks_at
        self.hard = hard

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        if index == self.breaks_at and _in_worker():
            if self.hard:
                os._exit(3)
            raise RuntimeError("not in a worker")
        return torch.tensor(index)


@settings(
    max_examples=8 if SAME else 60,
    deadline=None,
    database=None,
    derandomize=SAME,
    phases=[Phase.generate],
)
@given(data=st.data())
def test(data: st.DataObject) -> None:
    """Every sample once and in the order that the sampler gave, whatever happens meanwhile."""
    workers = data.draw(st.sampled_from([0, 0, 1, 2]))
    length, size = data.draw(st.integers(40, 120)), data.draw(st.integers(1, 5))
    drop_last, seed = data.draw(st.booleans()), data.draw(st.integers(0, 1000))
    shuffle = data.draw(st.booleans())
    breaks_at = data.draw(st.none() | st.integers(0, length - 1)) if workers == 0 else None
    schedule = data.draw(st.dictionaries(st.integers(0, 30), st.integers(0, 9), max_size=4))
    generator = torch.Generator().manual_seed(seed)
    loader = DataLoader(
        Numbers(length, breaks_at, data.draw(st.booleans())),
        batch_size=size,
        shuffle=shuffle,
        drop_last=drop_last,
        num_workers=workers,
        generator=generator,
    )
    for expected in _expected(length, size, shuffle, drop_last, seed):
        seen = []
        for count, batch in enumerate(loader):
            if count in schedule:
                GATE.write_text(str(schedule[count]))
            seen.append(batch.tolist())
        assert seen == expected


def _expected(
    length: int, size: int, shuffle: bool, drop_last: bool, seed: int
) -> list[list[list[int]]]:
    """Two epochs' batches, as a loader without workers in an unprobed process draws them."""
    generator = torch.Generator().manual_seed(seed)
    data = range(length)
    sampler: Any = RandomSampler(data, generator=generator) if shuffle else SequentialSampler(data)
    epochs = []
    for _ in range(2):
        torch.empty((), dtype=torch.int64).random_(generator=generator)  # torch's base seed
        epochs.append(list(BatchSampler(sampler, size, drop_last)))
    return epochs


if __name__ == "__main__":
    test()
    print("held")
