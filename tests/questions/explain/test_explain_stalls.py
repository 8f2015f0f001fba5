"""`dlqueue explain` shows a run's step as one bar, with its parts in words."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.core.stalls.step_split import PARTS
from slurm_ext.questions.explain.stalls import WIDTH, WORDS, bar, lines, stalls_of

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "probe" / "v1.json").read_text())


def run(number: int, rank: int = 0, restart: int = 0, **more: Any) -> dict[str, Any]:
    """A run on a node of its own, of one rank of two."""
    summary = copy.deepcopy(GOLDEN) | {"rank": rank, "world_size": 2, "pid": number}
    row = {"id": number, "job_id": 7, "restart": restart, "split": None}
    return {**row, "probe": {"summaries": [summary], "faults": []}, **more}


def test_every_part_has_a_letter_of_its_own() -> None:
    """And words."""
    assert tuple(WORDS) == PARTS
    assert len({letter for letter, _ in WORDS.values()}) == len(PARTS)


@given(st.lists(st.floats(0.0, 1e6), min_size=len(PARTS), max_size=len(PARTS)).filter(any))
def test_a_bar_is_as_long_as_it_should_be(seconds: list[float]) -> None:
    """Each part within one letter of its share."""
    parts = dict(zip(PARTS, seconds, strict=True))
    drawn = bar(parts)
    assert len(drawn) == WIDTH
    for name, part in parts.items():
        assert abs(drawn.count(WORDS[name][0]) - WIDTH * part / sum(seconds)) <= 1


def test_the_lines_of_a_run() -> None:
    """The step, the bar, its parts; a rank that is slower than the others has a line."""
    parts = dict.fromkeys(PARTS, 0.0)
    parts |= {"computing": 0.1, "communicating": 0.06, "fetch": 0.04, "other": 1e-6}
    stalls = {"parts": parts, "step_s": 0.2, "au": 0.8, "ranks": 2}
    told = [*lines({**stalls, "rank_skew_s": None, "slow_rank": None})]
    assert told == [
        "step:     200 ms a batch, AU 80%",
        f"          [{30 * 'C'}{18 * 'X'}{12 * 'F'}]",
        "          C computing 100 ms (50%); X communicating 60 ms (30%); F waiting for data:",
        "          fetching 40 ms (20%)",
    ]
    told = [*lines({**stalls, "rank_skew_s": 0.03, "slow_rank": 1})]
    assert told[-1] == "ranks:    rank 1 computes 30 ms longer than the middle one of 2"
    assert len([*lines({**stalls, "rank_skew_s": 0.001, "slow_rank": 1})]) == 4
    assert [*lines({**stalls, "step_s": 0.0})] == []


def test_ranks_of_all_nodes_of_a_start_have_one_bar() -> None:
    """Another start of the job has its own."""
    told = stalls_of([run(1), run(2, rank=1), run(3, restart=1)])
    assert told[1] == told[2]
    assert [told[number]["ranks"] for number in (1, 2, 3)] == [2, 2, 1]
    assert sum(told[1]["parts"].values()) == pytest.approx(told[1]["step_s"])


def test_a_run_without_summaries_has_the_parts_that_were_kept() -> None:
    """Those of its own node; one of which nothing was measured has none."""
    kept: dict[str, Any] = {f"{name}_s": 0.1 for name in PARTS}
    kept |= {"au": 0.5, "rank_skew_s": None, "slow_rank": None, "ranks": 1}
    told = stalls_of([run(1, probe=None, split=kept), run(2, restart=1, probe=None)])
    assert told == {
        1: {
            "step_s": pytest.approx(0.1 * len(PARTS)),
            "parts": dict.fromkeys(PARTS, 0.1),
            "au": 0.5,
            "rank_skew_s": None,
            "slow_rank": None,
            "ranks": 1,
        }
    }
