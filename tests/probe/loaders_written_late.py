"""Long lists that a loop writes to at a moment, or at a place, that is easily overlooked."""

# ruff: noqa: D103 - written as jobs are, each named by what it does

import gc
import random
import tempfile
from typing import Any

import torch
from torch.utils.data import DataLoader, SubsetRandomSampler

from tests.probe.annotated_data import FAR, Annotated, Mapped, ahead, handed_on, seen_by
from tests.probe.loader_frame import Numbers, named_scenarios


class Kept(DataLoader[Any]):
    """One iterator for all epochs, of which each has a part."""

    def __iter__(self) -> Any:
        if not hasattr(self, "batches"):
            self.__dict__["batches"] = super().__iter__()
        for _ in range(6):
            yield next(self.__dict__["batches"])


def swap(order: list[int], number: int) -> None:
    order[(4 * number + 40) % 96], order[0] = order[0], order[(4 * number + 40) % 96]


def labels_far_in_a_list() -> Any:
    """Numbers, whose places are written."""
    labels = [0] * (FAR + 96)
    data = Numbers(lambda index: torch.tensor(labels[FAR + index]))

    def change(number: int) -> None:
        labels[ahead(number)] = number

    return seen_by(data, change)


def reshuffled_by_the_loop() -> Any:
    data = Annotated()

    def change(number: int) -> None:
        random.Random(number).shuffle(data.notes)

    return seen_by(data, change)


def iterator_that_outlives_its_loop() -> Any:
    """One pass over several loops: what lies between them lies within it."""
    data, seen = Annotated(), []
    batches = iter(DataLoader(data, batch_size=4))
    for epoch in range(4):
        for _ in range(6):
            seen += next(batches).tolist()
        data.notes[ahead(6 * epoch)]["weight"] += 1 + epoch
    return seen


def corrected_in_another_loop() -> Any:
    """The first pass writes nothing; the second, over the same loader, does."""
    data, seen = Annotated(), []
    loader = DataLoader(data, batch_size=4)
    for batch in loader:
        seen += batch.tolist()
    for number, batch in enumerate(loader):
        seen += batch.tolist()
        data.notes[ahead(number)]["weight"] += number
    return seen


def batches_that_the_loop_changes() -> Any:
    """Deep in a list of lists."""
    batches, seen = [[n, n + 1, n + 2] for n in range(0, 90, 3)], []
    for number, batch in enumerate(DataLoader(Numbers(), batch_sampler=batches)):
        seen += batch.tolist()
        batches[(number + 5) % 30][1] = number
    return seen


def indices_that_a_function_changes() -> Any:
    order, seen = list(range(95, -1, -1)), []
    for number, batch in enumerate(DataLoader(Numbers(), batch_size=4, sampler=order)):
        seen += batch.tolist()
        swap(order, number)
    return seen


def mapped_file_that_is_written() -> Any:
    with tempfile.NamedTemporaryFile() as file:
        data, seen = Mapped(file.name), []
        table = torch.from_numpy(data.table)
        for number, batch in enumerate(DataLoader(data, batch_size=4)):
            seen += batch.tolist()
            table[(4 * number + 60) % 96] += number
    return seen


def indices_far_in_a_samplers_list() -> Any:
    """Torch's sampler reads its list as it goes."""
    torch.manual_seed(1 << 40)
    sampler, seen = SubsetRandomSampler([n % 96 for n in range(FAR + 96)]), []
    for number, batch in enumerate(DataLoader(Numbers(), batch_size=16, sampler=sampler)):
        seen += batch.tolist()
        sampler.indices[FAR + number] = 95 - number  # type: ignore[index]
    return seen


def corrected_where_a_generator_hands_on() -> Any:
    """The loop that has the loader is not the one that writes."""
    data, seen = Annotated(), []
    for number, batch in enumerate(handed_on(DataLoader(data, batch_size=4))):
        seen += batch.tolist()
        data.notes[ahead(number)]["weight"] += number
    return seen


def corrected_between_parts_of_a_pass() -> Any:
    data, seen = Annotated(), []
    loader = Kept(data, batch_size=4)
    for epoch in range(4):
        for batch in loader:
            seen += batch.tolist()
        data.notes[ahead(6 * epoch)]["weight"] += 1 + epoch
    return seen


def items_hidden_from_the_collector() -> Any:
    """A frozen object is not found by those that it refers to."""
    data = Annotated()
    gc.freeze()

    def change(number: int) -> None:
        data.notes[ahead(number)]["weight"] += number

    seen = seen_by(data, change)
    gc.unfreeze()
    return seen


# By their names in a text: no code mentions a scenario, as none mentions a program's main function.
named_scenarios(
    globals(),
    written=(
        "items_hidden_from_the_collector"
        " labels_far_in_a_list reshuffled_by_the_loop iterator_that_outlives_its_loop"
        " corrected_in_another_loop batches_that_the_loop_changes"
        " indices_that_a_function_changes mapped_file_that_is_written"
        " indices_far_in_a_samplers_list corrected_where_a_generator_hands_on"
        " corrected_between_parts_of_a_pass"
    ),
)
