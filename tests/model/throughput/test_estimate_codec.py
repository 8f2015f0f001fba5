"""The line that carries a curve to the node: short, exact enough, and read with suspicion."""

import json
from math import exp, inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.core.records import Level, LoaderRun
from slurm_ext.model.throughput.estimate import Estimate, estimate
from slurm_ext.model.throughput.estimate_codec import MAX_CHARS, read, write
from slurm_ext.model.throughput.shape_predictor import core_predictor

RUN = LoaderRun(
    samples_per_s=180.0,
    workers=2,
    cores=2.0,
    batch_size=16,
    accel_samples_per_s=533.3,
    fetch_wall_s=0.0101,
    fetch_cpu_s=0.0098,
    main_cpu_s=0.0004,
    worker_rss_bytes=123_456_789,
    epoch_samples=4096,
    node_cores=8,
)


def known(runs: int = 1) -> Estimate:
    """What such runs teach."""
    found = estimate({Level.SCRIPT_ARGS: [RUN] * runs})
    assert found is not None
    return found


def test_a_curve_arrives_as_it_was_believed() -> None:
    """Predictions from the line and from the estimate differ by rounding only."""
    there = read(write(known()))
    assert there is not None
    sent, got = core_predictor(known()), core_predictor(there)
    for cores in (0.25, 1.0, 2.0, 6.0):
        for workers in (0, 1, 4, 16):
            assert got(cores, workers).samples_per_s == pytest.approx(
                sent(cores, workers).samples_per_s, rel=2e-3
            )
    assert exp(there.accel.log_mean) == pytest.approx(exp(known().accel.log_mean), rel=2e-3)


def test_it_is_short_enough_for_slurms_environment() -> None:
    """However many shapes were seen; Lua refuses a longer value, and with it the whole reply."""
    from dataclasses import replace

    many = replace(known(), seen=tuple((w, w + 0.123) for w in range(200)), epoch_samples=inf)
    line = write(many)
    assert len(line) <= MAX_CHARS
    assert line.isascii()
    assert line.isprintable()
    assert read(line) is not None


GOOD = json.loads(write(known()))
BAD: list[Any] = [None, "x", True, [], {}, 1e300, -1e300, float("nan"), float("inf"), 10**400]


@pytest.mark.parametrize("cell", range(1, len(GOOD)))
@pytest.mark.parametrize("bad", ["x", [[1]], {}, 1e300, float("nan"), float("-inf"), -1e300])
def test_what_is_no_curve_reads_as_none(cell: int, bad: object) -> None:
    """A lie in any place is refused, without an error."""
    row = list(GOOD)
    row[cell] = bad
    assert read(json.dumps(row)) is None


@given(
    st.text(max_size=300)
    | st.recursive(st.none() | st.booleans() | st.floats() | st.integers(), st.lists).map(
        json.dumps
    )
)
def test_any_text_is_read_without_an_error(text: str) -> None:
    """The user owns the file; whatever is in it, the answer is an Estimate or None."""
    found = read(text)
    assert found is None or isinstance(found, Estimate)
