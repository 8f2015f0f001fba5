"""Two optimisers, one objective: who gets how much is within what there is, and as good."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ext.core.errors import InputError
from slurm_ext.core.settings.document import TABLE
from slurm_ext.policy.elastic.gpu_division import (
    DivisionTerms,
    Utility,
    admitted,
    allot,
    divide,
    sizes_of,
    utilities,
)
from slurm_ext.policy.elastic.optimiser import OPTIMISERS, GpuBudget, divided, sizes_for
from tests.policy.elastic.integer_programme import best_worth

TERMS = DivisionTerms(gpus_a_job=0.0)
PER_NODE = 4


def crowd(jobs: int, seed: int, sizes: tuple[int, ...]) -> list[Utility]:
    """Jobs that scale by different powers; every third one runs."""
    rng = np.random.default_rng(seed)
    powers, work = rng.uniform(0.3, 0.95, jobs), rng.uniform(10, 1e4, jobs)
    return [
        Utility(
            name=f"j{i}",
            goodput=np.array(sizes, dtype=float) ** powers[i],
            left=work[i],
            held=int(rng.choice(sizes)) if i % 3 == 0 else 0,
            arrival_s=float(i),
        )
        for i in range(jobs)
    ]


def worth(
    wishes: list[Utility], sizes: tuple[int, ...], board: GpuBudget, found: dict[str, int]
) -> float:
    """The objective of a division among those that are admitted."""
    kept = admitted(wishes, sizes, board.gpus, TERMS)
    utility = utilities(kept, sizes, TERMS)
    return float(sum(utility[i, sizes.index(found[w.name])] for i, w in enumerate(kept)))


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 6), st.integers(0, 99), st.integers(1, 14), st.sampled_from(OPTIMISERS))
def test_every_optimiser_keeps_to_what_there_is(
    jobs: int, seed: int, gpus: int, optimiser: str
) -> None:
    """Everybody admitted has a size that it can have; asked twice, the answer is the same."""
    board = GpuBudget(gpus=gpus, per_node=PER_NODE)
    sizes = sizes_for(optimiser, board, gpus)
    wishes = crowd(jobs, seed, sizes)
    found = divided(optimiser, wishes, sizes, board, TERMS)
    assert set(found) == {wish.name for wish in admitted(wishes, sizes, gpus, TERMS)}
    assert sum(found.values()) <= gpus
    assert set(found.values()) <= set(sizes)
    assert divided(optimiser, wishes, sizes, board, TERMS) == found


@settings(max_examples=40)
@given(
    st.integers(1, 4).flatmap(
        lambda jobs: st.lists(
            st.lists(st.one_of(st.floats(-40, 40), st.just(-np.inf)), min_size=3, max_size=3),
            min_size=jobs,
            max_size=jobs,
        )
    ),
    st.integers(1, 12),
)
def test_the_division_is_as_good_as_the_integer_programme(
    rows: list[list[float]], gpus: int
) -> None:
    """The same objective, so the same worth; where no division exists, both say so."""
    utility, sizes = np.array(rows), (1, 2, 4)
    best = best_worth(utility, sizes, gpus)
    if not np.isfinite(best):
        with pytest.raises(InputError, match="too few"):
            divide(utility, sizes, gpus)
        return
    columns = divide(utility, sizes, gpus)
    assert sum(sizes[column] for column in columns) <= gpus
    assert utility[np.arange(len(rows)), columns].sum() == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize(("seed", "gpus"), [(0, 16), (1, 13), (2, 13)])
def test_evolution_is_no_worse_than_where_it_starts(seed: int, gpus: int) -> None:
    """It starts from the programme's division, also where others have a part of a node."""
    board = GpuBudget(gpus=gpus, per_node=PER_NODE)
    usual = sizes_of(gpus, PER_NODE, gpus)
    sizes = sizes_for("evolution", board, gpus)
    wishes = [replace(wish, held=0) for wish in crowd(5, seed, sizes)]
    fewer = [replace(w, goodput=w.goodput[np.isin(sizes, usual)]) for w in wishes]
    start = worth(wishes, sizes, board, allot(fewer, usual, gpus, TERMS))
    exact = worth(wishes, sizes, board, allot(wishes, sizes, gpus, TERMS))
    found = worth(wishes, sizes, board, divided("evolution", wishes, sizes, board, TERMS))
    assert start - 1e-9 <= found <= exact + 1e-9


def test_evolution_knows_sizes_that_are_no_part_of_a_node() -> None:
    """One job that scales and one that does not on a node of 4: 3 and 1, where dp leaves one."""
    board, terms = GpuBudget(gpus=4, per_node=PER_NODE), replace(TERMS, favour=0.0)
    found = {}
    for name in OPTIMISERS:
        sizes = sizes_for(name, board, 4)
        flat, steep = np.ones(len(sizes)), np.array(sizes, dtype=float)
        jobs = [
            Utility(name=n, goodput=g, held=0, left=9.0) for n, g in (("a", flat), ("b", steep))
        ]
        found[name] = divided(name, jobs, sizes, board, terms)
    assert found == {"dp": {"a": 1, "b": 2}, "evolution": {"a": 1, "b": 3}}


def test_sizes_are_alike_on_all_nodes_of_a_job() -> None:
    """Slurm is asked for so many GPUs of each node: 5 on nodes of 4 are none such."""
    board = GpuBudget(gpus=12, per_node=PER_NODE)
    assert sizes_for("evolution", board, 64) == (1, 2, 3, 4, 6, 8, 9, 12)
    assert sizes_for("dp", board, 8) == (1, 2, 4, 8)


def test_the_setting_has_these_names() -> None:
    """Facts cannot import a policy: the names stand in both."""
    (row,) = (row for row in TABLE if row.key == "elastic.optimiser")
    assert row.valid == f"one of {', '.join(OPTIMISERS)}"
