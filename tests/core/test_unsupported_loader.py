"""Loaders whose curve is not the job's: told apart from the usual ones."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.core.loader_run import loader_run
from slurm_ext.core.stalls.step_split import step_split
from slurm_ext.core.stalls.waited_share import waited_share
from slurm_ext.core.unsupported_loader import CLAUSES, UnsupportedLoader, unsupported_loader
from slurm_ext.probe.counters.turns import READ_ELSEWHERE

GOLDEN = json.loads(
    (Path(__file__).parent.parent / "golden" / "spool" / "v1.json").read_text(encoding="utf-8")
)


def record() -> tuple[dict[str, Any], dict[str, Any]]:
    """A copy of the golden record, and its only process's summary."""
    one = deepcopy(GOLDEN)
    return one, one["probe"]["summaries"][0]


def beside(summary: dict[str, Any], share: float, **changes: Any) -> dict[str, Any]:
    """A second loader, used `share` as much as the training's, with `changes`."""
    second: dict[str, Any] = deepcopy(summary["loaders"][0]) | {"id": 1, **changes}
    for phase in second["phases"]:
        for name in ("samples", "batches", "wall_s", "wait_s", "step_s", "fetch_samples"):
            phase[name] = type(phase[name])(phase[name] * share)
    summary["loaders"].append(second)
    return second


def doubt(one: dict[str, Any]) -> int | None:
    """The doubt of the record's evidence, which has to be there."""
    run = loader_run(one)
    assert run is not None
    return run.doubt


def test_the_usual_training_is_not_doubted() -> None:
    """One map-style loader in one batch size."""
    assert doubt(record()[0]) is None


def test_an_iterable_dataset_is_doubted() -> None:
    """What one more worker would do to it, nobody knows but its author."""
    one, summary = record()
    summary["loaders"][0]["style"] = "iterable"
    assert doubt(one) == UnsupportedLoader.ITERABLE


def test_a_loader_that_a_thread_reads_is_doubted() -> None:
    """Its own waits are not the training's: neither a curve nor a share of waiting follows."""
    one, summary = record()
    summary["loaders"][0]["left_alone"] = READ_ELSEWHERE
    assert doubt(one) == UnsupportedLoader.READ_BY_A_THREAD
    assert waited_share([summary]) is None
    assert step_split([summary]) is None


def test_a_validation_loader_beside_it_is_usual() -> None:
    """Small, or in its own time: the training loader's curve holds."""
    one, summary = record()
    beside(summary, 0.2, dataset="Validation")
    assert doubt(one) is None
    one, summary = record()
    second = beside(summary, 0.9, dataset="Validation")
    both = [*summary["loaders"][0]["phases"], *second["phases"]]
    summary["ended_s"] = summary["started_s"] + sum(phase["wall_s"] for phase in both)
    assert doubt(one) is None


def test_two_loaders_at_once_are_doubted() -> None:
    """Each one's step holds the other's waiting."""
    one, summary = record()
    beside(summary, 0.9, dataset="Second")
    walls = [phase["wall_s"] for phase in summary["loaders"][0]["phases"]]
    summary["ended_s"] = summary["started_s"] + sum(walls)
    assert doubt(one) == UnsupportedLoader.TWO_LOADERS


def test_a_batch_size_that_changed_is_doubted() -> None:
    """The same data in batches of another size, half-way; a last few batches do not count."""
    one, summary = record()
    beside(summary, 0.5, batch_size=256)
    assert doubt(one) == UnsupportedLoader.BATCH_CHANGED
    one, summary = record()
    beside(summary, 0.05, batch_size=256)
    assert doubt(one) is None


@pytest.mark.parametrize(
    ("trained", "steps", "doubted"), [(96, 0, False), (96, 1, True), (0, 0, True), (None, 0, True)]
)
def test_evaluating_the_same_data_is_no_change_of_batch(
    trained: int | None, steps: int, doubted: bool
) -> None:
    """Batches that no step of an optimiser followed, where steps were seen at all."""
    _, summary = record()
    second = beside(summary, 0.5, batch_size=256)
    for phase in summary["loaders"][0]["phases"]:
        phase["steps"] = trained
    for phase in second["phases"]:
        phase["steps"] = steps
    found = unsupported_loader(summary, summary["loaders"][0])
    assert (found == UnsupportedLoader.BATCH_CHANGED) is doubted


@pytest.mark.parametrize("name", ["started_s", "ended_s"])
def test_a_summary_without_its_times_is_not_doubted_for_that(name: str) -> None:
    """Missing is unknown, and no crash."""
    one, summary = record()
    beside(summary, 0.9, dataset="Second")
    del summary[name]
    assert doubt(one) is None


def test_each_doubt_has_its_clause() -> None:
    """What is kept as a number is said in words."""
    assert set(CLAUSES) == set(UnsupportedLoader)


@pytest.mark.parametrize(
    ("share", "seconds", "doubted"),
    [
        (0.5, 1.0, True),
        (0.49, 1.0, False),
        (1.0, 1.66, True),
        (1.0, 1.67, False),
        (1.0, 0.0, False),
    ],
)
def test_two_loaders_are_at_once_by_their_size_and_time(
    share: float, seconds: float, doubted: bool
) -> None:
    """Half of the samples at least, and a fifth more time together than the process had."""
    one, summary = record()
    beside(summary, share, dataset="Second")
    walls = [phase["wall_s"] for phase in summary["loaders"][0]["phases"]]
    summary["ended_s"] = summary["started_s"] + seconds * sum(walls)
    assert (doubt(one) == UnsupportedLoader.TWO_LOADERS) is doubted


@pytest.mark.parametrize(
    ("share", "changes", "doubted"),
    [
        (0.101, {"batch_size": 256}, True),
        (0.09, {"batch_size": 256}, False),
        (0.4, {}, False),
        (0.4, {"batch_size": 256, "dataset": "Other"}, False),
        (0.4, {"batch_size": 256, "length": 7}, False),
        (0.4, {"batch_size": 256, "style": "iterable"}, False),
    ],
)
def test_a_changed_batch_is_of_the_same_data(
    share: float, changes: dict[str, Any], doubted: bool
) -> None:
    """A tenth of the samples at least, of one dataset, length and style, in another size."""
    one, summary = record()
    beside(summary, share, **changes)
    assert (doubt(one) == UnsupportedLoader.BATCH_CHANGED) is doubted


def test_values_are_those_of_histories() -> None:
    """They are stored: a new reason gets a new number."""
    values = {reason.name: reason.value for reason in UnsupportedLoader}
    assert values == {
        "ITERABLE": 1,
        "TWO_LOADERS": 2,
        "BATCH_CHANGED": 3,
        "CLOCKS_DISAGREE": 4,
        "READ_BY_A_THREAD": 5,
    }


def test_a_phase_without_a_number_counts_as_none_of_it() -> None:
    """An older probe leaves fields out."""
    one, summary = record()
    second = beside(summary, 0.9, dataset="Second")
    for phase in second["phases"]:
        phase["wall_s"] = None
    summary["ended_s"] = summary["started_s"] + 23
    assert unsupported_loader(summary, summary["loaders"][0]) is None
    assert doubt(one) is None


@pytest.mark.parametrize(("samples", "doubted"), [(99.0, False), (100.0, True), (101.0, True)])
def test_a_batch_that_changed_counts_from_a_tenth_of_the_samples(
    samples: float, doubted: bool
) -> None:
    """Fewer are left by a change in the last moments."""
    training = {"dataset": "d", "length": 9, "style": "map", "batch_size": 8}
    other = training | {"batch_size": 16, "phases": [{"samples": samples}]}
    training["phases"] = [{"samples": 1000.0}]
    found = unsupported_loader({"loaders": [training, other]}, training)
    assert (found is UnsupportedLoader.BATCH_CHANGED) is doubted
