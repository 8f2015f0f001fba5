"""A job's own processes that wait for each other are nobody else's fault."""

from dataclasses import replace
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.core.records import Level, LoaderRun, Shape
from slurm_ext.core.stalls.own_queue import (
    crowded,
    needs_others,
    processes,
    queued_s,
    waited_for_others,
)
from slurm_ext.model.throughput.estimate import estimate
from slurm_ext.model.throughput.shape_predictor import predict
from tests.model.throughput.test_beside_others import RUN, met

CORES = st.one_of(st.integers(1, 8).map(float), st.floats(0.1, 8))


@st.composite
def moments(draw: st.DrawFn) -> tuple[int, list[int]]:
    """A number of processes, and how many of them are ready in each moment."""
    own = draw(st.integers(1, 16))
    return own, draw(st.lists(st.integers(0, own), min_size=1, max_size=50))


@given(moments(), CORES)
def test_a_job_alone_never_needs_others(drawn: tuple[int, list[int]], cores: float) -> None:
    """Whenever its processes are ready: what its cores cannot compute at once waits."""
    own, ready = drawn
    computed = [min(one, cores) for one in ready]
    queued = [one - done for one, done in zip(ready, computed, strict=True)]
    assert not needs_others(own, cores, sum(computed), sum(queued))


@given(st.integers(1, 16), CORES, st.floats(0.22, 9))
def test_processes_of_others_on_every_core_are_needed(own: int, cores: float, each: float) -> None:
    """A job that fills its cores, and has so many others on each of them, shows them."""
    ready = max(own, ceil(cores))
    share = cores * ready / (ready + each * cores)
    assert needs_others(ready, cores, share, ready - share)


# Four workers on two cores, alone: each worker's fetch takes twice as long, the loop waits too.
CROWDED = replace(RUN, workers=4, cores=2, fetch_wall_s=0.045, fetch_queued_s=0.025)
CROWDED = replace(CROWDED, samples_per_s=70, main_queued_s=0.002, main_cpu_s=0.0005)


def test_the_loop_and_each_worker_are_a_process() -> None:
    """A step on CPUs has its threads, and a busy loop has as many as it kept busy."""
    assert processes(CROWDED) == 5
    assert processes(replace(CROWDED, on_cpu=1, threads=3)) == 7
    assert processes(replace(CROWDED, on_cpu=1)) == 6
    assert processes(replace(CROWDED, main_cpu_s=0.025)) == 6


def test_a_wait_of_a_loop_that_loads_itself_counts_once() -> None:
    """Its own wait has that of its fetches in it."""
    serial = replace(RUN, workers=0, fetch_queued_s=0.01, main_queued_s=0.011)
    assert queued_s(serial) == pytest.approx(0.011)
    assert queued_s(replace(serial, workers=2)) == pytest.approx(0.021)


def told(run: LoaderRun) -> float | None:
    """The rate without others that a prediction from one run tells."""
    known = estimate({Level.SCRIPT_ARGS: [run]})
    assert known is not None
    assert known.others > 0
    told = predict(known, Shape(cpus_per_task=2, num_workers=run.workers)).elsewhere
    return None if told is None else told.samples_per_s


def test_others_are_named_only_where_they_are_needed() -> None:
    """Its own five processes on two cores wait for each other; three on two wait for more."""
    assert not waited_for_others(CROWDED)
    assert told(CROWDED) is None
    beside = met(2.0, cores=2)
    assert waited_for_others(beside)
    alone = told(beside)
    assert alone is not None
    assert alone > 1.3 * beside.samples_per_s


def test_a_record_tells_the_world_of_its_run() -> None:
    """Beside others, on cores of its own, or either where its own processes may have queued."""
    assert crowded(met(2.0, cores=2)) is True
    assert crowded(CROWDED) is None
    quiet = replace(CROWDED, workers=2, cores=4, fetch_queued_s=0.0, main_queued_s=0.0)
    assert crowded(quiet) is False
    assert crowded(replace(quiet, main_queued_s=None)) is None


def test_two_that_the_kernel_wakes_on_one_core_are_no_crowd() -> None:
    """A loop and its worker on two cores wait for each other now and then; a step waits little."""
    woken = replace(RUN, workers=1, cores=2, samples_per_s=380, fetch_cpu_s=0.0018)
    woken = replace(woken, main_cpu_s=0.0003, fetch_queued_s=0.0003, main_queued_s=0.00008)
    assert crowded(woken) is None
    slow = replace(woken, samples_per_s=100, fetch_queued_s=0.0006)
    assert needs_others(processes(slow), slow.cores, 0.0021, queued_s(slow))
    assert crowded(slow) is None
