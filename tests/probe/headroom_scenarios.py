"""Trainings whose workers a controller moves; run under the probe by test_probe_headroom.py.

Usage: python -m tests.probe.headroom_scenarios NAME...: each says what was delivered, which workers
made it, and how many processes lived.
"""

# ruff: noqa: D101, D103 - written as jobs are, each named by what it does

import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from tests.probe.in_children import each_in_a_child

RUN_DIR = Path(os.environ["DLQUEUE_RUN_DIR"])
FELT_S = 0.25  # the gate is looked at five times a second


class Numbers(Dataset[Any]):
    """Item i is i and who made it."""

    def __init__(self, length: int = 600, seconds: float = 0.001) -> None:
        self.length, self.seconds = length, seconds

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        time.sleep(self.seconds)
        return torch.tensor([index, os.getpid()])


def ask(count: int | None) -> None:
    gate = RUN_DIR / "workers"
    if count is None:
        gate.unlink()
    else:
        gate.with_suffix(".new").write_text(f"{count}\n")
        gate.with_suffix(".new").rename(gate)
    time.sleep(FELT_S)


def children() -> int:
    return len(multiprocessing.active_children())


class Watched:
    """One epoch: order, the makers in each stretch between two askings, processes alive."""

    def __init__(self, loader: Any, asked: dict[int, int | None]) -> None:
        self.order: list[int] = []
        self.lived: list[int] = []
        self.windows: list[int] = []
        stretches: list[list[int]] = [[]]
        iterator = iter(loader)
        for count, batch in enumerate(iterator):
            if count in asked:
                ask(asked[count])
                stretches.append([])
            self.order += batch[:, 0].tolist()
            stretches[-1] += batch[:, 1].tolist()
            self.lived.append(children())
            inner = getattr(iterator, "_send_idx", None)
            self.windows.append(0 if inner is None else inner - iterator._rcvd_idx)
        # What was under way when the gate moved is delivered first.
        self.makers = [len(set(stretch[len(stretch) // 2 :])) for stretch in stretches]


def in_order(*epochs: Watched, length: int = 600) -> bool:
    return all(epoch.order == list(range(length)) for epoch in epochs)


def eight_two_six() -> Any:
    loader = DataLoader(Numbers(), batch_size=2, num_workers=2)
    epoch = Watched(loader, {40: 8, 120: 2, 200: 6})
    return [in_order(epoch), epoch.makers, set(epoch.lived) == {8}]


def below_prefetch() -> Any:
    loader = DataLoader(Numbers(), batch_size=2, num_workers=6, prefetch_factor=4)
    epoch = Watched(loader, {50: 1, 200: 3})
    return [in_order(epoch), epoch.makers, max(epoch.windows[150:199]) <= 4]


def persistent() -> Any:
    loader = DataLoader(Numbers(200), batch_size=2, num_workers=2, persistent_workers=True)
    epochs = [Watched(loader, {20: count}) for count in (5, 1, 8)]
    return [in_order(*epochs, length=200), [e.makers[-1] for e in epochs], epochs[-1].lived[-1]]


def new_sets() -> Any:
    """Epochs so short that idle workers are not worth their start: those asked for are there."""
    loader = DataLoader(Numbers(100), batch_size=2, num_workers=2)
    epochs = []
    for count in (5, 1, 8):
        ask(count)
        epochs.append(Watched(loader, {}))
    return [in_order(*epochs, length=100), [e.makers[-1] for e in epochs], children()]


def as_at_first_once_the_file_is_gone() -> Any:
    loader = DataLoader(Numbers(), batch_size=2, num_workers=3)
    epoch = Watched(loader, {40: 7, 150: None})
    return [in_order(epoch), epoch.makers]


def none_until_asked() -> Any:
    loader = DataLoader(Numbers(200), batch_size=2)
    alone = Watched(loader, {})
    asked = Watched(loader, {30: 3})
    later = Watched(loader, {})
    return [
        in_order(alone, asked, later, length=200),
        set(alone.lived) == {0} == set(asked.lived[:30]),
        [asked.makers[-1], later.makers[-1]],
        type(iter(loader)).__name__,
    ]


def seeded_draws_stay_at_home() -> Any:
    """A pinned job's random stream is the user's own, asked for workers or not."""
    torch.manual_seed(7)

    class Noisy(Numbers):
        def __getitem__(self, index: int) -> Any:
            return torch.stack((torch.tensor(float(index)), torch.rand(())))

    rows = []
    for count, batch in enumerate(DataLoader(Noisy(100), batch_size=2)):
        if count == 10:
            ask(4)
        rows += batch[:, 1].tolist()
    torch.manual_seed(7)
    torch.empty((), dtype=torch.int64).random_()  # torch's base seed
    return [rows == [float(torch.rand(())) for _ in range(100)], children()]


def batch_size_changes_half_way() -> Any:
    ask(4)
    small = Watched(DataLoader(Numbers(160), batch_size=2, num_workers=1), {})
    large = Watched(DataLoader(Numbers(160), batch_size=8, num_workers=1), {})
    return [in_order(small, large, length=160), small.makers, large.makers]


def two_loaders() -> Any:
    """A validation pass in the midst of an epoch keeps the workers that its script asks for."""
    train = DataLoader(Numbers(160), batch_size=2, num_workers=2)
    check = DataLoader(Numbers(40), batch_size=2, num_workers=1)
    seen: list[int] = []
    between, most = None, 0
    for count, batch in enumerate(train):
        if count == 30:
            between = Watched(check, {})
            most = max(between.lived)
        seen += batch[:, 0].tolist()
    return [seen == list(range(160)), between is not None and in_order(between, length=40), most]


def two_that_wait() -> Any:
    """Neither had workers; asked for four, the two hold no more than the headroom between them."""
    most, seen = 0, []
    loaders = [DataLoader(Numbers(120), batch_size=2) for _ in range(2)]
    for count, (a, b) in enumerate(zip(*loaders, strict=True)):
        if count == 10:
            ask(4)
        seen.append(a[:, 0].tolist() == b[:, 0].tolist() == [2 * count, 2 * count + 1])
        most = max(most, children())
    return [all(seen), most]


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(60))


def iterable() -> Any:
    ask(6)
    loader = DataLoader(Stream(), batch_size=4, num_workers=1)
    lived = [children() for _ in loader]
    return [[i for b in loader for i in b.tolist()] == list(range(60)), set(lived) == {1}]


def nothing() -> Any:
    ask(6)
    empty: Any = []
    batches = [list(DataLoader(Numbers(0), batch_size=4, num_workers=n)) for n in (0, 2)]
    return [batches == [empty, empty], children()]


def warnings_are_the_users_own() -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Watched(DataLoader(Numbers(40), batch_size=2, num_workers=1), {})
        Watched(DataLoader(Numbers(40), batch_size=2), {5: 64})
        return [str(one.message) for one in caught]


def too_large_to_copy() -> Any:
    """Each worker holds 200 MiB of its own: known after the first epoch."""

    class Hoard(Numbers):
        hoard = bytearray()

        def __getitem__(self, index: int) -> Any:
            if not self.hoard:
                self.hoard = bytearray(os.urandom(1)) * (200 << 20)
            return super().__getitem__(index)

    loader = DataLoader(Hoard(16), batch_size=2, num_workers=1)
    return [max(Watched(loader, {}).lived) for _ in range(2)]


SCENARIOS: dict[str, Callable[[], Any]] = {
    name: each
    for name, each in list(globals().items())
    if getattr(each, "__module__", "") == "__main__"
    and callable(each)
    and name.islower()
    and name not in ("ask", "children", "in_order")
}

if __name__ == "__main__":
    each_in_a_child(SCENARIOS, sys.argv[1:])
