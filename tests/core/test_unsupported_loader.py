"""Loaders whose curve is not the job's: told apart from the usual ones."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.core.loader_run import loader_run
from slurm_ext.core.unsupported_loader import CLAUSES, UnsupportedLoader

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
