"""Long lists, out of a look's reach: the program's code tells if the loop writes to one of them."""

import json
from collections.abc import Callable
from typing import Any

import pytest

# Not by quickly.py: it freezes what the collector sees, and a frozen program's lists stay.
SCENARIOS = ("-u", "-m", "tests.probe.annotated_scenarios")
WRITTEN = "the program may write to the dataset's items"
KEEPS = "the dataset keeps state"
SAMPLER = "a sampler of its own kind"

Ran = dict[str, dict[str, Any]]
Results = Callable[[str], tuple[Ran, Ran]]


@pytest.fixture(scope="module")
def results(
    tmp_path_factory: pytest.TempPathFactory,
    environment: Callable[..., dict[str, str]],
    python: Callable[..., Any],
) -> Results:
    """A group's results and loaders with three workers asked for, and without the probe."""
    done: dict[str, tuple[Ran, Ran]] = {}

    def run(group: str) -> tuple[Ran, Ran]:
        if group not in done:
            run_dir = tmp_path_factory.mktemp(group) / "run"
            moved = environment(run_dir, DLQUEUE_NUM_WORKERS="3")
            ran = [python([*SCENARIOS, group], env) for env in (moved, environment(None))]
            assert [(one.returncode, one.stderr) for one in ran] == [(0, ""), (0, "")]
            summaries = [json.loads(path.read_text()) for path in run_dir.glob("summary-*")]
            assert not any(summary["faults"] for summary in summaries)
            with_probe, without = (json.loads(one.stdout)[1] for one in ran)
            done[group] = with_probe, without
        return done[group]

    return run


APART = [
    "copies_of_annotations",
    "list_that_bears_a_methods_name",
    "list_that_bears_a_librarys_name",
    "folder_of_many_files",
    "annotations_corrected_between_passes",
    "batches_in_a_list",
    "indices_in_a_list",
    "mapped_file_that_is_read",
    "looks_for_its_worker_elsewhere",
    "objects_of_the_batch_alone",
    "generator_that_hands_on",
    "list_that_a_class_keeps",
]


@pytest.mark.parametrize("name", APART)
def test_writes_to_other_things_keep_no_loader_from_workers(results: Results, name: str) -> None:
    """What is written is not the data's, or the pass is over: the same batches from workers."""
    moved, plain = results("apart")
    assert moved[name]["result"] == plain[name]["result"]
    for row in moved[name]["rows"]:
        fate = row["method"], row["left_alone"], row["fallback"]
        assert fate == ("gated", None, None)


WRITES = {
    "annotations_corrected_within_a_pass": WRITTEN,
    "corrected_by_a_method": WRITTEN,
    "part_of_a_copy": WRITTEN,
    "list_held_by_an_object": WRITTEN,
    "item_held_by_an_object": WRITTEN,
    "corrected_by_a_function": WRITTEN,
    "labels_far_in_a_list": WRITTEN,
    "reshuffled_by_the_loop": KEEPS,
    "item_of_the_dataset": WRITTEN,
    "iterator_that_outlives_its_loop": WRITTEN,
    "corrected_in_another_loop": WRITTEN,
    "corrected_where_a_generator_hands_on": WRITTEN,
    "corrected_between_parts_of_a_pass": WRITTEN,
    "list_of_a_class": WRITTEN,
    "longer_list_of_the_same_items": WRITTEN,
    "items_hidden_from_the_collector": WRITTEN,
    "attribute_by_its_name": WRITTEN,
    "objects_that_the_dataset_keeps": "the training gets the dataset's own objects",
    "mapped_file_that_is_written": WRITTEN,
    "indices_far_in_a_samplers_list": WRITTEN,
    "batches_that_the_loop_changes": SAMPLER,
    "indices_that_a_function_changes": KEEPS,
}


@pytest.mark.parametrize(("name", "reason"), WRITES.items())
def test_writes_to_items_out_of_reach_are_left_at_home(
    results: Results, name: str, reason: str
) -> None:
    """Whatever name the loop has for an item that it writes to, batches are made as written."""
    moved, plain = results("written")
    assert moved[name]["result"] == plain[name]["result"]
    assert moved[name]["rows"][-1]["left_alone"] == reason
