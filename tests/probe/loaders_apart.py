"""Long lists of data, and loops that write near them or at another time, not to them."""

# ruff: noqa: D103 - written as jobs are, each named by what it does

import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, get_worker_info

from tests.probe.annotated_data import FAR, Annotated, Mapped, OfAClass, handed_on, seen_by
from tests.probe.loader_frame import Numbers, named_scenarios


class Told(Numbers):
    """It looks for its worker where a worker starts, and nowhere else."""

    def start(self) -> None:  # noqa: D102
        self.worker = get_worker_info()


def copies_of_annotations() -> Any:
    """A fetch writes to its copy of an item, and the loop to what is its own."""
    counts, data = {"batches": 0}, Annotated()

    def change(number: int) -> None:
        counts["batches"] += number

    return [seen_by(data, change), counts]


def list_that_bears_a_methods_name() -> Any:
    """The loop takes the items of a batch, which is a dict, and writes to it."""
    items = [{"weight": n % 5} for n in range(FAR + 96)]
    data, seen = Numbers(lambda index: {"x": torch.tensor(items[FAR + index]["weight"])}), []
    for batch in DataLoader(data, batch_size=4):
        for name, value in batch.items():
            batch[name] = value * 2
        seen += batch["x"].tolist()
    return seen


def list_that_bears_a_librarys_name() -> Any:
    """A function of a library has a variable of that name."""
    kept = [{"weight": n % 5} for n in range(FAR + 96)]
    return seen_by(Numbers(lambda i: torch.tensor(kept[FAR + i]["weight"])), lambda _: None)


def folder_of_many_files() -> Any:
    """Paths are objects that nobody writes to."""
    files = [Path(f"/{number}") for number in range(FAR + 96)]
    counts = [0]

    def change(number: int) -> None:
        counts[0] += number + len(files)

    return [seen_by(Numbers(lambda i: torch.tensor(int(files[i].name))), change), counts]


def annotations_corrected_between_passes() -> Any:
    """A pass begins with what the loop wrote when the one before was over."""
    data, seen = Annotated(), []
    for epoch in range(3):
        for batch in DataLoader(data, batch_size=4):
            seen += batch.tolist()
        for index in range(FAR, FAR + 96, 5):
            data.notes[index]["weight"] += epoch + 1
        random.Random(epoch).shuffle(data.notes)
    return seen


def batches_in_a_list() -> Any:
    """Batches of indices as translations have them: a list of the program's, which stays."""
    batches = [[n, n + 1, n + 2] for n in range(0, 90, 3)]
    seen = []
    for epoch in range(2):
        random.Random(epoch).shuffle(batches)
        for batch in DataLoader(Numbers(), batch_sampler=batches):
            seen += batch.tolist()
    return seen


def indices_in_a_list() -> Any:
    order = list(range(95, -1, -1))
    return [batch.tolist() for batch in DataLoader(Numbers(), batch_size=4, sampler=order)]


def mapped_file_that_is_read() -> Any:
    totals = np.zeros(4)
    with tempfile.NamedTemporaryFile() as file:
        seen = []
        for batch in DataLoader(Mapped(file.name), batch_size=4):
            totals[:] += batch.numpy()
            seen += batch.tolist()
    return [seen, totals.tolist()]


def looks_for_its_worker_elsewhere() -> Any:
    return seen_by(Told(), lambda _: None)


def objects_of_the_batch_alone() -> Any:
    """A batch is a list of new dicts, to which the loop writes."""
    notes, seen = [{"weight": n} for n in range(FAR + 96)], []
    data = Numbers(lambda index: dict(notes[FAR + index]))
    for batch in DataLoader(data, batch_size=4, collate_fn=list):
        for note in batch:
            note.update(weight=note["weight"] + 1)
            seen.append(note["weight"])
    return [seen, notes[FAR]]


def list_that_a_class_keeps() -> Any:
    counts = [0]

    def change(number: int) -> None:
        counts[0] += number

    return [seen_by(OfAClass(), change), counts]


def generator_that_hands_on() -> Any:
    data, seen, counts = Annotated(), [], [0]
    for epoch in range(2):
        for batch in handed_on(DataLoader(data, batch_size=4)):
            seen += batch.tolist()
            counts[0] += 1
        data.notes[FAR]["weight"] += epoch
    return [seen, counts]


# By their names in a text: no code mentions a scenario, as none mentions a program's main function.
named_scenarios(
    globals(),
    apart=(
        "copies_of_annotations list_that_bears_a_methods_name list_that_bears_a_librarys_name"
        " folder_of_many_files annotations_corrected_between_passes batches_in_a_list"
        " indices_in_a_list mapped_file_that_is_read looks_for_its_worker_elsewhere"
        " objects_of_the_batch_alone list_that_a_class_keeps generator_that_hands_on"
    ),
)
