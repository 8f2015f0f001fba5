"""Ranks in `explain`: whom the others waited for, and whose fault it is."""

from typing import Any

import pytest

from slurm_ext.questions.explain.stragglers import lines, stragglers_of
from tests.core.stalls.test_stragglers import summary


def job(waited: dict[int, list[float]]) -> list[dict[str, Any]]:
    """Records of two nodes with the ranks' waits; an earlier start of the job came before."""
    old = {"restart": 0, "node": "n0", "probe": {"summaries": [summary(9, [0.5] * 8)]}}
    nodes = {
        f"n{at}": [summary(rank, s) for rank, s in waited.items() if rank % 2 == at]
        for at in range(2)
    }
    return [
        old,
        *(
            {"restart": 1, "node": name, "probe": {"summaries": some}}
            for name, some in nodes.items()
        ),
    ]


def test_a_rank_that_is_always_slow_is_its_nodes() -> None:
    """The node of its record is named, and the last start counts alone."""
    told = stragglers_of(job({0: [0.3] * 8, 1: [0.1] * 8, 2: [0.3] * 8}))
    assert told == {"kind": "fixed", "rank": 1, "node": "n1", "cost": pytest.approx(0.2 / 0.7)}
    (line,) = lines(told or {})
    assert line.startswith("ranks:    rank 1 on n1 was always the slowest")


def test_one_that_moves_is_the_loaders() -> None:
    """No rank, no node."""
    turns = {rank: [0.1 if at % 3 == rank else 0.3 for at in range(9)] for rank in range(3)}
    told = stragglers_of(job(turns))
    assert told is not None
    assert (told["kind"], told["rank"], told["node"]) == ("moving", None, None)
    assert "the loader" in next(iter(lines(told)))


def test_of_ranks_that_are_even_nothing_is_said() -> None:
    """And nothing is known of one rank, or of ranks that timed nothing."""
    told = stragglers_of(job({rank: [0.2] * 8 for rank in range(3)}))
    assert told is not None
    assert list(lines(told)) == []
    assert stragglers_of(job({0: [0.2] * 8})) is None
    assert stragglers_of([{"restart": 0, "node": "n", "probe": None}]) is None
    assert stragglers_of([]) is None
