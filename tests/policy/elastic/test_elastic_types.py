"""GPUs of several types are assigned as well as can be."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ext.core.errors import InputError
from slurm_ext.policy.elastic.gpu_division import divide
from slurm_ext.policy.elastic.integer_programme import Given, Kind, assign

pytest.importorskip("scipy", reason="the solver comes with scipy")
LEFT_OUT = -50.0


@st.composite
def problems(draw: st.DrawFn) -> list[Kind]:
    """Up to three jobs and two types of up to four GPUs."""
    jobs = draw(st.integers(1, 3))
    kinds = []
    for name in ("old", "new")[: draw(st.integers(1, 2))]:
        sizes = sorted(draw(st.sets(st.integers(1, 4), min_size=1, max_size=3)))
        cell = st.one_of(st.floats(-40, 40), st.just(float("-inf")))
        row = st.lists(cell, min_size=len(sizes), max_size=len(sizes))
        rows = draw(st.lists(row, min_size=jobs, max_size=jobs))
        gpus = draw(st.integers(0, 4))
        kinds.append(Kind(name=name, gpus=gpus, sizes=sizes, utility=np.array(rows)))
    return kinds


def worth(kinds: list[Kind], given_out: list[Given | None]) -> float:
    """The sum of utilities; -inf where more is given than there is."""
    by = {kind.name: kind for kind in kinds}
    total, used = 0.0, dict.fromkeys(by, 0)
    for job, one in enumerate(given_out):
        if one is None:
            total += LEFT_OUT
            continue
        used[one.kind] += one.gpus
        total += by[one.kind].utility[job, list(by[one.kind].sizes).index(one.gpus)]
    return total if all(used[name] <= by[name].gpus for name in by) else float("-inf")


@settings(max_examples=30)
@given(problems())
def test_the_assignment_is_the_best_of_all(kinds: list[Kind]) -> None:
    """As good as trying everything; no type gives more than it has."""
    each: list[Given | None] = [
        Given(kind=kind.name, gpus=size) for kind in kinds for size in kind.sizes
    ]
    everything = product([None, *each], repeat=len(kinds[0].utility))
    best = max(worth(kinds, list(one)) for one in everything)
    assert worth(kinds, assign(kinds, LEFT_OUT)) == pytest.approx(best, abs=1e-3, rel=1e-3)


def test_with_one_type_it_is_the_division() -> None:
    """Two ways to one answer."""
    rng = np.random.default_rng(1)
    sizes = (1, 2, 4, 8)
    utility = -rng.uniform(1, 2, (5, 1)) / np.array(sizes) ** rng.uniform(0.3, 1, (5, 1))
    columns = divide(utility, sizes, 16)
    kind = Kind(name="only", gpus=16, sizes=sizes, utility=utility)
    found = [one.gpus for one in assign([kind], -1e3) if one is not None]
    assert found == [sizes[column] for column in columns]


def test_no_jobs_and_bad_tables() -> None:
    """Nothing to assign is nothing; tables of different jobs are an error."""
    none = Kind(name="x", gpus=4, sizes=(1,), utility=np.zeros((0, 1)))
    assert assign([none], 0.0) == []
    with pytest.raises(InputError, match="types"):
        assign([none, Kind(name="y", gpus=4, sizes=(1,), utility=np.zeros((2, 1)))], 0.0)
