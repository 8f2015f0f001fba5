"""The campaign goes on where it was stopped, and its page tells all that was measured."""

from dataclasses import replace
from pathlib import Path

import pytest

from contrib.bench.campaign.faults import FAULTS
from contrib.bench.campaign.measure import Counts
from contrib.bench.campaign.pages.earlier import read
from contrib.bench.campaign.pages.page import page
from contrib.bench.campaign.state import State
from contrib.bench.campaign.wanted import wanted
from slurm_ext.core.errors import InputError
from tests.bench.campaign.a_campaign import judged, ran, submitted

COUNTS = Counts(submissions=100, jobs=20)
KEPT = {"commit": "abc", "load": 3.14}


def test_rows_are_kept_and_belong_to_their_counts(tmp_path: Path) -> None:
    """A stopped campaign goes on; rows of other counts, or another file, are refused by name."""
    path = tmp_path / "state.json"
    row = judged(submitted())
    State(path, COUNTS).keep(row, commit="abc", load=3.14, seconds=3.2)
    again = State(path, COUNTS)
    assert again.row("none") == row
    told = page(FAULTS, {"none": row}, again.rows)
    assert "| no fault" in told
    assert "| 3.1 | abc |" in told
    with pytest.raises(InputError, match="not of"):
        State(path, Counts(submissions=1, jobs=1))
    path.write_text("[]")
    with pytest.raises(InputError, match="is no campaign's state"):
        State(path, COUNTS)


def test_runs_that_are_not_over_are_told() -> None:
    """What they will come to is not measured, and the table says how many."""
    row = judged(submitted(), ran=[ran(1), ran(2, state="")])
    assert (row.runs, row.running) == (1, 1)
    assert "| 1, 1 not over |" in page(FAULTS, {"none": row}, {"none": KEPT})


def test_a_page_keeps_rows_that_a_state_lacks() -> None:
    """With their commit and load; a row that is measured again replaces its own and what missed."""
    slow = judged(recovery_s=61.0)
    rows = {"none": slow, "advisor_dead": replace(slow, fault="advisor_dead")}
    before = page(FAULTS, rows, dict.fromkeys(rows, KEPT))
    again = page(FAULTS, {"none": judged()}, {"none": {"commit": "def", "load": 0.5}}, read(before))
    lines = [line.split(" | ") for line in again.splitlines() if line.startswith("| ")]
    assert [line[-2:] for line in lines[1:]] == [["0.5", "def |"], ["3.1", "abc |"]]
    assert again.endswith("## Missed\n\n- advisor_dead: recovery in 61 s\n")
    assert page(FAULTS, {}, {}, read(before)) == before
    older = before.replace(" | load |", " |").replace("| 3.1 | abc |", "| abc |")
    assert page(FAULTS, {}, {}, read(older)).count("| ? | abc |") == len(rows)


def test_a_slow_recovery_misses() -> None:
    """So does one that never came."""
    assert all(row["met"] for row in wanted([judged(submitted())]))
    assert [row["what"] for row in wanted([judged(recovery_s=61.0)]) if not row["met"]] == [
        "seconds to recover"
    ]


def test_what_the_machine_cannot_have_is_named_until_it_is_measured() -> None:
    """With the reason; a row that was measured, here or elsewhere, is enough."""
    here = replace(FAULTS[0], missing=lambda: "")
    fault = replace(FAULTS[0], what="cgroup v2", missing=lambda: "slurmd ends")
    unmeasured = page([fault], {}, {})
    assert unmeasured.endswith("## Not measured here\n\n- cgroup v2: slurmd ends\n")
    measured = page([fault], {"none": judged()}, {"none": KEPT})
    for told in (measured, page([fault], {}, {}, read(measured)), page([here], {}, {})):
        assert "Not measured" not in told
