"""Real DataLoaders without workers: opened to some, and brought home where those fail."""

import pytest

from tests.probe.conftest import Scenarios

OPENED = [
    "shuffled",
    "in_order_with_a_short_last_batch",
    "drop_last",
    "without_batches",
    "custom_collate_and_batch_sampler",
    "subclass_that_only_constructs",
    "distributed_sampler",
    "dataset_changed_between_epochs",
    "left_early",
    "pickled_loader",
    "two_at_once",
    "counted_and_kept",
    "counted_and_forked",
    "loop_that_writes_elsewhere",
    "setting_written_again",
    "warned_by_a_signal",
    "opens_something_in_each_process",
]


@pytest.mark.parametrize("name", OPENED)
def test_opened_loaders_give_what_they_gave(scenarios: Scenarios, name: str) -> None:
    """From no workers to four: the same batches in the same order, and the same face."""
    probed, plain, errors = scenarios("open")
    assert probed[name]["result"] == plain[name]["result"]
    assert (probed[name]["rows"][0]["method"], probed[name]["rows"][0]["started_workers"]) == (
        "gated",
        4,
    )
    assert probed[name]["rows"][0]["fallback"] is None
    assert errors == ""


def test_two_loaders_share_the_workers(scenarios: Scenarios) -> None:
    """Of two loaders at once one has the workers; the other keeps its setting and says so."""
    rows = scenarios("open")[0]["two_at_once"]["rows"]
    assert [row["left_alone"] for row in rows] == [None, "the workers are with another loader"]


def test_a_pass_that_is_over_or_given_up_holds_no_workers(scenarios: Scenarios) -> None:
    """Who counts batches never asks for the end: the next pass has workers all the same."""
    (row,) = scenarios("open")[0]["counted_and_kept"]["rows"]
    assert row["left_alone"] is None
    whole = [phase for phase in row["phases"] if phase["batches"] > 1]
    assert min(phase["workers"] for phase in whole) > 0


FALLBACKS = {
    "worker_dies": "",  # which error tells first is the kernel's choice
    "worker_raises": "Cannot re-initialize CUDA in forked subprocess",
    "batch_that_cannot_travel": "a batch cannot be sent from a worker",
    "batch_with_gradients": "requires grad",
    "error_of_the_users_own": "no label",
    "counts_bad_items_late": "the dataset keeps state",
    "lists_bad_files_late": "the dataset keeps state",
    "counts_full_batches_late": "the dataset keeps state",
}


@pytest.mark.parametrize(("name", "reason"), FALLBACKS.items())
def test_what_cannot_live_in_workers_comes_home(
    scenarios: Scenarios, name: str, reason: str
) -> None:
    """The same epoch goes on at home: nothing lost, nothing twice, the user's errors the user's.

    So it is with what a worker's copy of the dataset would note where nobody reads it.
    """
    probed, plain, errors = scenarios("fallback")
    row = probed[name]["rows"][0]
    assert probed[name]["result"] == plain[name]["result"]
    assert row["method"] == "gated"
    assert reason in row["fallback"]
    assert row["gate"] == 0
    assert errors == ""


def test_without_a_directive_loaders_are_only_measured(scenarios: Scenarios) -> None:
    """No DLQUEUE_NUM_WORKERS: every loader keeps its workers, and nothing is against others."""
    probed, plain, errors = scenarios("open", DLQUEUE_NUM_WORKERS="")
    for name in OPENED:
        assert probed[name]["result"] == plain[name]["result"]
        assert {(row["method"], row["left_alone"]) for row in probed[name]["rows"]} == {
            ("own", None)
        }
    assert errors == ""


def test_memory_bounds_the_gate(scenarios: Scenarios) -> None:
    """A job with no room for a second worker's memory is opened to one worker."""
    probed, plain, _ = scenarios("open", SLURM_MEM_PER_NODE="64")
    assert probed["shuffled"]["result"] == plain["shuffled"]["result"]
    assert probed["shuffled"]["rows"][0]["gate"] == 1
