"""The search of the loader policy: counts that it looks at, and when a climb ends."""

from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.core.records import (
    Interval,
    Level,
    Prediction,
    Shape,
    ShapeLimits,
)
from slurm_ext.policy.loader import counts, decide
from tests.policy.loader_cases import NODE, from_run, shape, told_by


@given(st.integers(0, 300), st.integers(0, 300))
def test_the_grid_rises_from_low_to_high(low_count: int, high: int) -> None:
    """Counts are ascending, without doubles, and hold both ends."""
    found = list(counts(low_count, high))
    assert found == sorted(set(found))
    if low_count <= high:
        assert found[-1] == high
        assert found[0] == low_count or low_count > 16
    else:
        assert found == []


@pytest.mark.parametrize(
    ("low_count", "high", "found"),
    [
        (1, 1, [1]),
        (2, 1, []),
        (1, 8, [*range(1, 9)]),
        (0, 16, [*range(17)]),
        (15, 17, [15, 16, 17]),
        (16, 20, [16, 20]),
        (16, 21, [16, 20, 21]),
        (17, 40, [20, 24, 28, 32, 40]),
        (1, 65, [*range(1, 17), 20, 24, 28, 32, 40, 48, 56, 64, 65]),
        (50, 100, [56, 64, 80, 96, 100]),
    ],
)
def test_every_count_to_16_and_four_a_doubling_beyond(
    low_count: int, high: int, found: list[int]
) -> None:
    """The highest is there in any case."""
    assert list(counts(low_count, high)) == found


def test_a_climb_goes_on_after_one_step_without_help_and_ends_after_two() -> None:
    """The third worker is found behind a plateau of one; what comes after two is not asked for."""
    asked: list[int] = []
    bounds = {0: 10.0, 1: 20.0, 2: 20.0, 3: 30.0, 4: 30.0, 5: 30.0, 6: 90.0}
    table = told_by({shape(1, count): (low, low) for count, low in bounds.items()})

    def noted(wanted: Shape) -> Prediction:
        asked.append(wanted.num_workers)
        return table(wanted)

    told = decide(shape(1, 0), noted, ShapeLimits(max_cpus_per_task=1, node_cores=1, max_workers=6))
    assert told.after == shape(1, 3)
    assert sorted(asked) == [0, 1, 2, 3, 4, 5]


def test_asking_is_cheap_on_a_large_node() -> None:
    """A node of 256 cores is searched with a few hundred predictions, each asked once."""
    asked: list[Shape] = []
    real = from_run(accel=1e6, wall=0.02, cpu=exp(-4), workers=1, cores=256, node=256)

    def counting(wanted: Shape) -> Prediction:
        asked.append(wanted)
        return real(wanted)

    decide(
        shape(1, 1),
        counting,
        ShapeLimits(max_cpus_per_task=256, node_cores=256),
        may_change_cpus="any",
    )
    assert len(asked) == len(set(asked)) < 200


@pytest.mark.parametrize(
    ("level", "lowest", "action"),
    [
        (Level.SCRIPT, 444.0, "change"),
        (Level.SCRIPT, 443.0, "leave"),
        (Level.SCRIPT, 262.0, "leave"),
        (Level.USER_NAME, 465.0, "leave"),
        (Level.USER_NAME, 466.0, "change"),
    ],
)
def test_a_lower_bound_below_the_present_rate_is_no_reason_to_act(
    level: Level, lowest: float, action: str
) -> None:
    """`about 1.1x faster (443 -> 480, 262 to 879)` is not said; from afar a margin is wanted."""

    def answer(wanted: Shape) -> Prediction:
        faster = wanted.num_workers > 0
        return Prediction(
            shape=wanted,
            samples_per_s=480.0 if faster else 443.0,
            interval=Interval(lowest, 879.0) if faster else Interval(200.0, 811.0),
            bottleneck="data",
            level=level,
            runs=4,
        )

    told = decide(shape(2, 0), answer, NODE)
    assert told.action == action
    if action == "leave":
        assert told.reason == f"it may gain 8%, but {lowest:.3g} to 879 samples/s is too uncertain"


@pytest.mark.parametrize(
    ("lowest", "reason"), [(440.0, "7 CPUs would stay idle"), (444.0, "it waits")]
)
def test_an_unsure_gain_keeps_no_cpus(lowest: float, reason: str) -> None:
    """One CPU is as good as eight: seven go back whether or not the rate may rise with that."""

    def answer(wanted: Shape) -> Prediction:
        smaller = wanted.num_workers == 2
        return Prediction(
            shape=wanted,
            samples_per_s=480.0 if smaller else 443.0,
            interval=Interval(lowest, 500.0) if smaller else Interval(400.0, 490.0),
            bottleneck="data",
            level=Level.SCRIPT,
            runs=4,
        )

    told = decide(shape(8, 8), answer, NODE, may_change_cpus="any")
    assert (told.action, told.after.num_workers) == ("change", 2)
    assert told.reason.startswith(reason)
    assert told.after.cpus_per_task < 8
