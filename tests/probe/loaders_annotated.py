"""Loaders without workers of long lists of annotations, and loops that write near them or to them.

Those of the group `apart` write to other things, or at another time; those of `written` to them.
"""

# ruff: noqa: D101, D103 - written as jobs are, each named by what it does

import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, SubsetRandomSampler, get_worker_info

from tests.probe.loader_frame import Numbers, named_scenarios

FAR = 400  # items from here on are out of a look's reach


class Annotated(Dataset[Any]):
    """Annotations are dicts, made by a method that writes to them."""

    def __init__(self) -> None:
        self.notes: list[Any] = [{"weight": 1, "target": {"label": 0}} for _ in range(FAR + 96)]
        self._number()

    def _number(self) -> None:
        for number, note in enumerate(self.notes):
            note["weight"] = number % 7

    def __len__(self) -> int:
        return 96

    def __getitem__(self, index: int) -> Any:
        note = dict(self.notes[FAR + index])
        note["label"] = note["target"]["label"] + index
        return torch.tensor(note["weight"] * 1000 + note["label"])


def ahead(number: int) -> int:
    """An item that a later batch reads."""
    return FAR + (4 * number + 30) % 96


def seen_by(data: Dataset[Any], change: Callable[[int], Any]) -> list[Any]:
    seen = []
    for number, batch in enumerate(DataLoader(data, batch_size=4)):
        seen += batch.tolist()
        change(number)
    return seen


# -- harmless --------------------------------------------------------------------------------


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


class Mapped(Dataset[Any]):
    """A file of numbers, mapped as numpy does where nobody says how: for writing, too."""

    def __init__(self, path: str) -> None:
        np.repeat(np.arange(96.0), 3000).tofile(path)
        self.table = np.memmap(path, np.float64, shape=(96, 3000))

    def __len__(self) -> int:
        return 96

    def __getitem__(self, index: int) -> Any:
        return torch.tensor(self.table[index].sum())


def mapped_file_that_is_read() -> Any:
    totals = np.zeros(4)
    with tempfile.NamedTemporaryFile() as file:
        seen = []
        for batch in DataLoader(Mapped(file.name), batch_size=4):
            totals[:] += batch.numpy()
            seen += batch.tolist()
    return [seen, totals.tolist()]


class Told(Numbers):
    """It looks for its worker where a worker starts, and nowhere else."""

    def start(self) -> None:  # noqa: D102
        self.worker = get_worker_info()


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


# -- harmful ---------------------------------------------------------------------------------


def annotations_corrected_within_a_pass() -> Any:
    data = Annotated()

    def change(number: int) -> None:
        data.notes[ahead(number)]["weight"] += number

    return seen_by(data, change)


def corrected_by_a_method() -> Any:
    data = Annotated()
    return seen_by(data, lambda number: data.notes[ahead(number)].update(weight=number))


def part_of_a_copy() -> Any:
    """What a copied item has is the item's own."""
    data = Annotated()

    def change(number: int) -> None:
        note = dict(data.notes[ahead(number)])
        note["target"]["label"] += number * 100

    return seen_by(data, change)


class Trainer:
    def __init__(self, table: Any, worst: Any) -> None:
        self.table, self.worst = table, worst


def list_held_by_an_object() -> Any:
    data = Annotated()
    trainer = Trainer(data.notes, None)

    def change(number: int) -> None:
        trainer.table[ahead(number)]["weight"] += number

    return seen_by(data, change)


def item_held_by_an_object() -> Any:
    data = Annotated()
    trainer = Trainer(None, data.notes[FAR + 77])

    def change(number: int) -> None:
        trainer.worst["weight"] += number

    return seen_by(data, change)


def reweigh(table: Any, number: int) -> None:
    table[ahead(number)]["weight"] += number


def corrected_by_a_function() -> Any:
    data = Annotated()
    return seen_by(data, lambda number: reweigh(data.notes, number))


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


def item_of_the_dataset() -> Any:
    """What the loop takes from the dataset is the dataset's own item."""

    class Whole(Annotated):
        def __getitem__(self, index: int) -> Any:
            return self.notes[FAR + index]

    data, seen = Whole(), []
    loader = DataLoader(
        data, batch_size=4, collate_fn=lambda notes: sum(n["weight"] for n in notes)
    )
    for number, batch in enumerate(loader):
        seen.append(batch)
        note = data[(4 * number + 30) % 96]
        note["weight"] += number
    return seen


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


def swap(order: list[int], number: int) -> None:
    order[(4 * number + 40) % 96], order[0] = order[0], order[(4 * number + 40) % 96]


def objects_that_the_dataset_keeps() -> Any:
    """A batch is a list of the dataset's own dicts, to which the loop writes."""
    notes, seen = [{"weight": n} for n in range(FAR + 96)], []
    data = Numbers(lambda index: notes[FAR + index])
    for batch in DataLoader(data, batch_size=4, collate_fn=list):
        for note in batch:
            note.update(weight=note["weight"] + 1)
            seen.append(note["weight"])
    return [seen, notes[FAR]]


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


def handed_on(loader: Any) -> Any:
    for batch in loader:  # noqa: UP028 - as it is written where there is more to do
        yield batch


def corrected_where_a_generator_hands_on() -> Any:
    """The loop that has the loader is not the one that writes."""
    data, seen = Annotated(), []
    for number, batch in enumerate(handed_on(DataLoader(data, batch_size=4))):
        seen += batch.tolist()
        data.notes[ahead(number)]["weight"] += number
    return seen


class Kept(DataLoader[Any]):
    """One iterator for all epochs, of which each has a part."""

    def __iter__(self) -> Any:
        if not hasattr(self, "batches"):
            self.__dict__["batches"] = super().__iter__()
        for _ in range(6):
            yield next(self.__dict__["batches"])


def corrected_between_parts_of_a_pass() -> Any:
    data, seen = Annotated(), []
    loader = Kept(data, batch_size=4)
    for epoch in range(4):
        for batch in loader:
            seen += batch.tolist()
        data.notes[ahead(6 * epoch)]["weight"] += 1 + epoch
    return seen


class OfAClass(Annotated):
    table: ClassVar = [{"weight": n} for n in range(FAR + 96)]

    def __getitem__(self, index: int) -> Any:
        return torch.tensor(self.table[FAR + index]["weight"])


def list_of_a_class() -> Any:
    def change(number: int) -> None:
        OfAClass.table[ahead(number)]["weight"] += number

    return seen_by(OfAClass(), change)


def attribute_by_its_name() -> Any:
    data = Annotated()

    def change(number: int) -> None:
        getattr(data, "notes")[ahead(number)]["weight"] += number  # noqa: B009

    return seen_by(data, change)


# By their names in a text: no code mentions a scenario, as none mentions a program's main function.
named_scenarios(
    globals(),
    apart=(
        "copies_of_annotations list_that_bears_a_methods_name list_that_bears_a_librarys_name"
        " folder_of_many_files annotations_corrected_between_passes batches_in_a_list"
        " indices_in_a_list mapped_file_that_is_read looks_for_its_worker_elsewhere"
        " objects_of_the_batch_alone generator_that_hands_on list_that_a_class_keeps"
    ),
    written=(
        "corrected_where_a_generator_hands_on corrected_between_parts_of_a_pass"
        " list_of_a_class attribute_by_its_name"
        " objects_that_the_dataset_keeps mapped_file_that_is_written"
        " indices_far_in_a_samplers_list"
        " batches_that_the_loop_changes indices_that_a_function_changes"
        " annotations_corrected_within_a_pass corrected_by_a_method part_of_a_copy"
        " list_held_by_an_object item_held_by_an_object corrected_by_a_function"
        " labels_far_in_a_list reshuffled_by_the_loop item_of_the_dataset"
        " iterator_that_outlives_its_loop corrected_in_another_loop"
    ),
)
