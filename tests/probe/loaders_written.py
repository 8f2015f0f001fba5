"""Long lists of data, and loops that write to an item of one, by whatever name."""

# ruff: noqa: D101, D103 - written as jobs are, each named by what it does

from typing import Any

import torch
from torch.utils.data import DataLoader

from tests.probe.annotated_data import FAR, Annotated, OfAClass, ahead, seen_by
from tests.probe.loader_frame import Numbers, named_scenarios


class Trainer:
    def __init__(self, table: Any, worst: Any) -> None:
        self.table, self.worst = table, worst


def reweigh(table: Any, number: int) -> None:
    table[ahead(number)]["weight"] += number


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


def corrected_by_a_function() -> Any:
    data = Annotated()
    return seen_by(data, lambda number: reweigh(data.notes, number))


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


def objects_that_the_dataset_keeps() -> Any:
    """A batch is a list of the dataset's own dicts, to which the loop writes."""
    notes, seen = [{"weight": n} for n in range(FAR + 96)], []
    data = Numbers(lambda index: notes[FAR + index])
    for batch in DataLoader(data, batch_size=4, collate_fn=list):
        for note in batch:
            note.update(weight=note["weight"] + 1)
            seen.append(note["weight"])
    return [seen, notes[FAR]]


def list_of_a_class() -> Any:
    def change(number: int) -> None:
        OfAClass.table[ahead(number)]["weight"] += number

    return seen_by(OfAClass(), change)


def attribute_by_its_name() -> Any:
    data = Annotated()

    def change(number: int) -> None:
        getattr(data, "notes")[ahead(number)]["weight"] += number  # noqa: B009

    return seen_by(data, change)


def longer_list_of_the_same_items() -> Any:
    """The dataset has a part of a list, and so the list's items."""
    notes = [{"weight": n % 5} for n in range(FAR + 200)]
    part = notes[: FAR + 96]
    data = Numbers(lambda index: torch.tensor(part[FAR + index]["weight"]))

    def change(number: int) -> None:
        notes[ahead(number)]["weight"] += number

    return seen_by(data, change)


# By their names in a text: no code mentions a scenario, as none mentions a program's main function.
named_scenarios(
    globals(),
    written=(
        "longer_list_of_the_same_items"
        " annotations_corrected_within_a_pass corrected_by_a_method part_of_a_copy"
        " list_held_by_an_object item_held_by_an_object corrected_by_a_function"
        " item_of_the_dataset objects_that_the_dataset_keeps list_of_a_class"
        " attribute_by_its_name"
    ),
)
