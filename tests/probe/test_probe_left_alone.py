"""Loaders that have to stay as written: by a look, by one fetch, or by what the loop does."""

import pytest
import torch

from slurm_ext.probe.inspection.loop_changes import LoopWatch
from tests.probe.conftest import Scenarios

ALONE = {
    "keeps_state": "the dataset keeps state",
    "open_file": "the dataset holds an open BufferedRandom",
    "own_generator": "the dataset keeps state",
    "custom_sampler": "a sampler of its own kind",
    "batches_whose_size_is_asked_for": "a sampler of its own kind",
    "batches_with_a_draw_between": "a sampler of its own kind",
    "batches_that_the_loop_makes": "a sampler of its own kind",
    "batches_of_another_generator": "a sampler of its own kind",
    "arrows_open_file": "the dataset holds an open BufferReader",
    "subclass_with_its_own_iteration": "a DataLoader subclass of its own kind",
    "iterable_without_workers": "iterable dataset",
    "iterable_with_workers": "iterable dataset",
    "few_batches": "few batches",
    "spawned_workers": "workers would not be forked",
    "counts_in_a_dict": "the dataset keeps state",
    "generator_of_the_module": "the dataset keeps state",
    "place_in_a_file": "fetching moves an open file's position",
    "items_themselves": "the training gets the dataset's own objects",
    "views_of_an_array": "the training gets the dataset's own objects",
    "seeds_in_a_fetch": "fetching seeds the training's random numbers",
    "asks_for_its_worker": "the dataset asks in which process it is",
    "one_item_of_many": "the program may write to the dataset's items",
    "lock_and_a_thread": "the dataset takes a lock that another thread may hold",
    "array_of_a_gigabyte": "the dataset is too large to be watched",
}


@pytest.mark.parametrize(("name", "reason"), ALONE.items())
def test_what_is_not_understood_is_left_alone(scenarios: Scenarios, name: str, reason: str) -> None:
    """Such a loader keeps the user's setting, and the summary says why."""
    probed, plain, _ = scenarios("alone")
    row = probed[name]["rows"][0]
    assert probed[name]["result"] == plain[name]["result"]
    assert (row["method"], row["left_alone"]) == ("own", reason)
    assert row["started_workers"] == row["user_num_workers"]


CHANGED = [
    "attribute",
    "attribute_of_the_class",
    "attribute_late_in_the_second_pass",
    "labels_in_place",
    "array_in_place",
    "number_that_processes_share",
    "model_that_trains",
    "variable_of_the_module",
    "name_of_the_module",
    "variable_of_a_closure",
    "collate_function",
    "items_of_a_long_list",
    "large_array_in_place",
    "tensor_by_its_array",
    "large_array_before_another_fork",
    "deque_of_fixed_length",
    "environment",
    "indices_of_the_sampler",
    "size_of_the_batches",
    "size_of_late_batches",
]


@pytest.mark.parametrize("name", CHANGED)
def test_data_that_the_loop_changes_are_read_at_home(scenarios: Scenarios, name: str) -> None:
    """A batch is made after the change that came before it, as without the probe."""
    probed, plain, errors = scenarios("changed")
    row = probed[name]["rows"][0]
    assert probed[name]["result"] == plain[name]["result"]
    assert "the dataset keeps state" in (row["left_alone"], row["fallback"])
    assert row["started_workers"] == 0 or row["gate"] == 0
    assert errors == ""


# Found by a trial, which nobody asked for.
TRIED = (
    "keeps_state",
    "open_file",
    "arrows_open_file",
    "own_generator",
    "custom_sampler",
    "batches_whose_size_is_asked_for",
    "batches_with_a_draw_between",
    "batches_that_the_loop_makes",
    "batches_of_another_generator",
    "counts_in_a_dict",
    "generator_of_the_module",
    "place_in_a_file",
    "items_themselves",
    "views_of_an_array",
    "seeds_in_a_fetch",
    "asks_for_its_worker",
    "one_item_of_many",
    "lock_and_a_thread",
    "array_of_a_gigabyte",
)


def test_a_run_that_nobody_asked_says_what_would_be_left_alone(scenarios: Scenarios) -> None:
    """A look is enough for most reasons: the first run tells them, and no promise follows it."""
    probed, plain, _ = scenarios("alone", DLQUEUE_NUM_WORKERS="")
    for name, reason in ALONE.items():
        row = probed[name]["rows"][0]
        assert probed[name]["result"] == plain[name]["result"]
        assert row["method"] == "own"
        assert row["left_alone"] == (None if name in TRIED else reason)


def test_looks_at_a_large_array_are_a_small_part_of_what_a_batch_takes() -> None:
    """The same array may be watched beside batches that take long, and not beside short ones."""
    watch = LoopWatch(torch.empty(1 << 28, dtype=torch.uint8), None)
    watch.begin()
    assert (watch.may_look(0.001), watch.may_look(0.1)) == (False, True)
