"""What a user's other runs with workers say of receiving batches, where a run's own do not."""

from dataclasses import replace
from math import exp, log

import pytest

from slurm_ext.core.records import Level, LoaderRun
from slurm_ext.model.throughput.curve.costs import RECEIVE_S
from slurm_ext.model.throughput.estimate import estimate
from slurm_ext.model.throughput.inversion import MOST_RECEIVE_S, LogNormal, invert
from slurm_ext.model.throughput.receiving import LEAST_S, UNSEEN, learned, machine_of, of_user

SERIAL = LoaderRun(
    samples_per_s=44.0,
    workers=0,
    cores=4.0,
    batch_size=32,
    accel_samples_per_s=400.0,
    fetch_wall_s=0.02,
    fetch_cpu_s=0.018,
    node_cores=8,
    gpu_model="A100",
    emulated=True,
)


def idle_workers(receive_s: float, **changes: object) -> LoaderRun:
    """A run of twelve workers that mostly wait, where each batch takes so long to receive."""
    rate = 1 / (1 / 400.0 + receive_s / 32)
    run = replace(SERIAL, workers=12, cores=12.0, samples_per_s=rate)
    return replace(run, **changes)  # type: ignore[arg-type]  # fields of a run


@pytest.mark.parametrize("receive_s", [0.0004, 0.001, 0.006])
def test_other_programs_tell_what_receiving_takes_here(receive_s: float) -> None:
    """The middle is near what they show, the doubt less than without them, and never small."""
    runs = [idle_workers(receive_s, fetch_wall_s=0.02 + n / 1000) for n in range(8)]
    known = learned(runs)
    assert known is not None
    assert exp(known.log_mean) == pytest.approx(receive_s, rel=0.25)
    assert 0.1 < known.log_sd < UNSEEN.log_sd


def test_what_cannot_be_is_bounded() -> None:
    """A run that received for nothing, or for ever, moves nobody beyond these ends."""
    for seconds in (0.0, 10.0):
        known = learned([idle_workers(seconds)] * 16)
        assert known is not None
        assert LEAST_S / 2 < exp(known.log_mean) < 2 * MOST_RECEIVE_S


def test_runs_that_show_nothing_teach_nothing() -> None:
    """Busy workers, none at all, doubtful and impossible runs."""
    busy = replace(SERIAL, workers=1, samples_per_s=45.0)
    impossible = idle_workers(0.006, fetch_wall_s=0.0)
    assert invert(busy).receive_s is None
    assert learned([SERIAL, busy, impossible, idle_workers(0.006, doubt=1)]) is None


def test_each_machine_has_its_own() -> None:
    """By the cores of the node and the model of its GPUs."""
    slow, quick = idle_workers(0.006), idle_workers(0.0004, node_cores=64)
    known = dict(of_user([slow, quick, slow]))
    assert set(known) == {(8, "A100"), (64, "A100")} == {machine_of([slow]), machine_of([quick])}
    assert known[8, "A100"].log_mean > known[64, "A100"].log_mean
    assert machine_of([]) == (None, None)


def test_an_estimate_takes_it_where_its_own_runs_do_not_show_it() -> None:
    """On the same kind of machine; a run's own measurement goes first."""
    here = (((8, "A100"), LogNormal(log(0.006), 0.3)),)
    elsewhere = (((64, "A100"), LogNormal(log(0.006), 0.3)),)
    serial = {Level.SCRIPT_ARGS: [SERIAL]}
    told = estimate(serial, None, here)
    assert told is not None
    assert told.receive_s == pytest.approx(0.006)
    assert told.receive_sd == 0.3
    assert estimate(serial, None, elsewhere) == estimate(serial)
    shown = {Level.SCRIPT_ARGS: [idle_workers(RECEIVE_S)]}
    assert estimate(shown, None, here) == estimate(shown)
