"""Windows are planned alike on every rank, and their figures come back with honest intervals."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.probe.windows import estimate, plan
from slurm_ext.probe.windows.plan import BOTH, CACHED, NORMAL, UNSYNCED, WindowPlan, make_plan

KINDS = (NORMAL, CACHED, UNSYNCED, BOTH)


@given(
    kinds=st.sampled_from([KINDS, KINDS[:2]]),
    workers=st.integers(0, 16),
    step_s=st.floats(0.001, 2.0),
    seed=st.integers(0, 9),
)
def test_a_plan_keeps_within_its_bounds(
    kinds: tuple[str, ...], workers: int, step_s: float, seed: int
) -> None:
    """Whole rounds within the steps and seconds, each kind once a round, windows long enough."""
    drop = plan.dropped_steps(workers, 2)
    made = make_plan(kinds, drop, step_s, steps=400, seconds=180, seed=seed)
    if made is None:
        least = WindowPlan(kinds, drop, plan.LEAST_KEPT, 1, seed).round_steps()
        assert least > min(400, 180 / step_s) - 1
        return
    assert made.rounds * made.round_steps() <= 400
    assert made.rounds * made.round_steps() * step_s <= 180
    assert made.kept >= plan.LEAST_KEPT
    order = list(made.order())
    assert order == list(made._replace().order())
    for at in range(0, len(order), len(kinds)):
        window_round = order[at : at + len(kinds)]
        assert Counter(kind for kind, _ in window_round) == Counter(kinds)
        assert [last for _, last in window_round] == [False] * (len(kinds) - 1) + [True]


def test_a_window_is_three_times_what_is_dropped_where_there_is_room() -> None:
    """The queue that filled meanwhile is no longer felt in what counts."""
    made = make_plan(KINDS, plan.dropped_steps(4, 2), 0.1, steps=400, seconds=180, seed=0)
    assert made is not None
    assert made.length(NORMAL) == 3 * made.dropped(NORMAL) == 30
    assert made.dropped(CACHED) == 2


def test_rounds_come_in_different_orders() -> None:
    """A drift of the machine meets every kind alike; another seed is another order."""
    made = make_plan(KINDS, 2, 0.01, steps=400, seconds=180, seed=0)
    assert made is not None
    orders = list(made.order())
    assert len({tuple(orders[at : at + 4]) for at in range(0, len(orders), 4)}) > 1
    assert orders != list(made._replace(seed=1).order())


def drawn(means: dict[str, float], seed: int, windows: int = 4) -> dict[str, list[list[float]]]:
    """Windows of noisy steps around these means, with a drift of the machine."""
    rng = random.Random(seed)
    drift = [rng.gauss(1, 0.02) for _ in range(windows)]
    return {
        kind: [[mean * d * rng.gauss(1, 0.05) for _ in range(24)] for d in drift]
        for kind, mean in means.items()
    }


def test_the_figures_of_a_hidden_communication() -> None:
    """A data stall hides communication: what windows with and without it tell apart."""
    means = {NORMAL: 0.3, CACHED: 0.2, UNSYNCED: 0.3, BOTH: 0.12}
    figures = {name: figure(means) for name, figure in estimate.figures_of(KINDS).items()}
    assert figures == pytest.approx(
        {"step": 0.3, "computing": 0.12, "data": 0.1, "communication": 0.08, "hidden": 0.08}
    )
    assert set(estimate.figures_of(KINDS[:2])) == {"step", "computing", "data"}


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    """Of 90 % intervals of a data stall over many runs, most hold it; few draws make them rough."""
    means = {NORMAL: 0.15, CACHED: 0.1}
    figures = estimate.figures_of(KINDS[:2])
    held = 0
    for seed in range(60):
        found = estimate.estimates(drawn(means, seed), figures, block=4, seed=seed, draws=200)
        held += found["data"].low <= 0.05 <= found["data"].high
    assert held >= 42


def test_parts_add_up_to_the_step() -> None:
    """Computing, communication and data stall are the normal step."""
    means = {NORMAL: 0.3, CACHED: 0.2, UNSYNCED: 0.25, BOTH: 0.12}
    found = estimate.estimates(drawn(means, 1), estimate.figures_of(KINDS), block=4, seed=0)
    parts = ("computing", "communication", "data")
    assert sum(found[name].value for name in parts) == pytest.approx(found["step"].value)


@pytest.mark.parametrize(("noise", "enough"), [(0.01, True), (0.5, False)])
def test_measuring_stops_when_differences_are_known(noise: float, enough: bool) -> None:
    """Half an interval within 2.5 % of a step for every difference, no sooner."""
    rng = random.Random(3)
    windows = {
        kind: [[mean * rng.lognormvariate(0, noise) for _ in range(20)] for _ in range(3)]
        for kind, mean in ((NORMAL, 0.15), (CACHED, 0.1))
    }
    assert estimate.precise(windows, block=4, seed=0) is enough
