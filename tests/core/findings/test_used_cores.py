"""Cores that a task kept busy, from its record's CPU time."""

import json
from typing import Any

import pytest

from slurm_ext.core.findings.used_cores import UNSEEN, used_cores
from slurm_ext.core.loader_run import loader_run
from tests.house import PACKAGE

GOLDEN = PACKAGE.parent / "tests" / "golden" / "spool" / "v1.json"


def record(*rows: list[Any], cpu_s: Any = (30.0, 10.0), **values: Any) -> dict[str, Any]:
    """A run of 100 s and one task, which used these seconds of CPU time."""
    names = zip(("cpu_user", "cpu_system"), cpu_s, strict=True)
    return {
        "times": {"elapsed_s": 100.0},
        "counters": [{"name": name, "value": value} for name, value in names],
        "timeline": {"columns": ["t_s", "cpu_s"], "rows": list(rows)},
        "allocation": {"num_tasks": 1, "num_nodes": 1},
        **values,
    }


def test_the_busiest_stretch_counts() -> None:
    """A start of 90 s with nothing to do does not hide 10 s on four cores."""
    assert used_cores(record([0.0, 0.0], [90.0, 0.0], [100.0, 40.0])) == 4.0


def test_a_burst_shorter_than_a_stretch_does_not() -> None:
    """Eight processes that start for a second are a mean over the two around it."""
    assert used_cores(record([0, 0.0], [50, 20.0], [51, 28.0], [52, 28.4], [100, 40.0])) == (
        pytest.approx(4.2)
    )


def test_the_mean_counts_where_it_is_more() -> None:
    """A time line that ends early does not make the run smaller than it was."""
    assert used_cores(record([0.0, 0.0], [10.0, 1.0])) == 0.4


def test_without_a_time_line_the_mean_has_slack() -> None:
    """On a full disk the record has no time line."""
    assert used_cores(record(timeline=None)) == pytest.approx(0.4 * UNSEEN)
    assert used_cores(record([0.0, 0.0])) == pytest.approx(0.4 * UNSEEN)


def test_tasks_share_their_node() -> None:
    """Four tasks on two nodes: a node's record is of two of them."""
    tasks = {"num_tasks": 4, "num_nodes": 2}
    assert used_cores(record([0.0, 0.0], [100.0, 40.0], allocation=tasks)) == 0.2


@pytest.mark.parametrize(
    "values",
    [
        {"counters": []},
        {"cpu_s": (None, None)},
        {"cpu_s": (-90.0, 1.0)},
        {"times": {"elapsed_s": None}},
        {"times": {"elapsed_s": 0}},
    ],
)
def test_what_was_not_counted_is_not_known(values: dict[str, Any]) -> None:
    """No counters, no run time, or figures that cannot be: None, which never means zero."""
    assert used_cores(record(**values)) is None


@pytest.mark.parametrize("row", [None, [], [5.0], [5.0, None], ["5", "1"], {"t_s": 5}])
def test_a_faulty_row_is_left_out(row: Any) -> None:
    """A torn time line costs its row."""
    assert used_cores(record([0.0, 0.0], row, [100.0, 40.0])) == 0.4


def test_the_golden_record_has_it() -> None:
    """A run's evidence carries the cores that it used: 34.5 s of CPU time in 41.5 s."""
    run = loader_run(json.loads(GOLDEN.read_text(encoding="utf-8")))
    assert run is not None
    assert run.used_cores == pytest.approx(34.5 / 41.5 * UNSEEN)
    assert run.refused == 1
