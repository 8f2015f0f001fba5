"""Samples over time become a few points, whatever a record holds."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.node.counters.columns import TIMELINE
from slurm_ext.questions.explain.series import POINTS, series_of
from slurm_ext.questions.explain.time_line import BLOCKS, LETTERS, lines, sparkline


def made(*rows: list[Any]) -> dict[str, Any]:
    """A time line with these rows."""
    return {"columns": list(TIMELINE), "rows": list(rows)}


def test_totals_become_rates_of_equal_stretches() -> None:
    """Ten seconds idle, ten of two CPUs and half a GPU: unequal samples, two stretches."""
    found = series_of(made([10.0, 0.0, 5, 0, 0.0, 7], [20.0, 20.0, 9, 100, 5.0, 8]))
    assert found is not None
    assert found["end_s"] == [10.0, 20.0]
    assert found["cpus"] == [0.0, 2.0]
    assert found["gpus"] == [0.0, 0.5]
    assert found["read_bytes_per_s"] == [0.0, 10.0]
    assert (found["mem_bytes"], found["gpu_mem_bytes"]) == ([5, 9], [7, 8])
    assert found["wait"] is None


def test_an_idle_stretch_between_two_busy_ones_stays_idle() -> None:
    """A total that stands still is known to: its rate is 0, not the mean around it."""
    cpu_s = [10, 10, 10, 20]
    found = series_of(made(*([10.0 * n, total] for n, total in enumerate(cpu_s, 1))))
    assert found is not None
    assert found["cpus"] == [1.0, 0.0, 0.0, 1.0]


def test_waiting_is_told_between_summaries_that_said_something_new() -> None:
    """A summary is written every few seconds: a sample that repeats it is no standstill."""
    told = [(5.0, 5.0), (5.0, 5.0), (15.0, 10.0), (15.0, 10.0), (25.0, 10.0)]
    rows = [[10.0 * n, 0, 0, 0, None, None, *pair] for n, pair in enumerate(told, 1)]
    found = series_of(made(*rows))
    assert found is not None
    assert found["wait"] == [None, 0.5, 0.5, 0.0, 0.0]


def test_a_long_run_has_as_many_points_as_fit_a_terminal() -> None:
    """240 samples are 60 points, and a full core is one throughout."""
    found = series_of(made(*([float(n), float(n)] for n in range(1, 241))))
    assert found is not None
    assert len(found["end_s"]) == POINTS
    assert found["cpus"] == pytest.approx([1.0] * POINTS)


@pytest.mark.parametrize(
    "timeline",
    [
        None,
        {},
        {"rows": []},
        made([1.0, 2.0]),
        made([0.0, 0.0], [0.0, 1.0]),
        {"columns": ["t_s"], "rows": ["x", {}, [None], [True], ["7"]]},
    ],
)
def test_nothing_comes_of_nothing(timeline: dict[str, Any] | None) -> None:
    """An older record, one sample, or what no sampler wrote."""
    assert series_of(timeline) is None


_CELL = st.none() | st.floats(0, 1e17) | st.integers(0, 10**17) | st.text(max_size=2)


@given(st.lists(st.lists(_CELL, max_size=9), max_size=8))
def test_any_rows_give_lists_of_one_length_or_nothing(rows: list[list[Any]]) -> None:
    """A record is another machine's word: out of order, short, long, doubled."""
    found = series_of(made(*rows))
    if found is None:
        return
    assert {len(values) for values in found.values() if values} == {len(found["end_s"])}
    assert all(0 <= share <= 1 for share in found["wait"] or () if share is not None)
    assert list(lines(found, {"cpus": 2, "mem_bytes": None, "gpus": 0, "node": "n"}, "utf-8"))


def test_marks_are_as_high_as_the_share_of_what_was_held() -> None:
    """From nothing to all, and never above; a blank where nobody looked."""
    assert sparkline([0.0, 1.0, 2.0, 4.0, None], 2.0) == "▁▅██ "
    assert sparkline([0.0, 0.0], 0.0) == "▁▁"


@pytest.mark.parametrize(("encoding", "marks"), [("utf-8", BLOCKS), ("ascii", LETTERS)])
def test_a_terminal_without_blocks_gets_letters(encoding: str, marks: str) -> None:
    """Question marks would tell nothing."""
    found = series_of(made([10.0, 0.0], [20.0, 20.0]))
    assert found is not None
    row = list(lines(found, {"cpus": 2, "mem_bytes": None, "gpus": 0, "node": "n1"}, encoding))[1]
    assert row == f"  cpus    {marks[0]}{marks[-1]}  2 of 2"
