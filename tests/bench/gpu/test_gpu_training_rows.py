"""The rows of trainings, from clocks that are known: costs, errors, gains, splits, joules."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from contrib.bench.gpu.report import Report
from contrib.bench.gpu.rows import energy, loader, probe, stalls
from contrib.bench.gpu.trainings import Trained
from tests.bench.gpu.gpu_here import UUID, here
from tests.bench.gpu.known_training import KnownTraining
from tests.nvml_standin import Gpu, StandIn

FACTS = {"accelerator": "Stand-in", "faults": []}


def _measured(
    row: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, **known: Any
) -> tuple[dict[str, float], Report]:
    monkeypatch.setattr(row, "Training", type("OfTest", (KnownTraining,), known))
    report = Report()
    row.measure(here(folder), report)
    return {name: one["value"] for name, one in report.figures().items()}, report


def test_what_the_probe_costs_and_misses_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two percent of a step, and of a wait 20 ms of the 200 that a batch takes."""
    known = {"PROBE_COSTS": 0.02, "PROBE_MISSES_S": 0.02, "SUMMARY": FACTS}
    found, report = _measured(probe, tmp_path, monkeypatch, **known)
    assert found["overhead"] == pytest.approx(0.02)
    assert found["starved_wait_true"] == pytest.approx(0.15)
    assert found["starved_wait_error_probe"] == pytest.approx(0.02 / 0.201)
    assert found["starved_step_error_probe"] == pytest.approx(0.02 / 0.201)
    assert found["starved_wait_share_error_probe"] == pytest.approx(0.02 / 0.201)
    assert found["starved_wait_error_events"] == found["fed_wait_error_host"] == 0.0
    assert report.facts["accelerator that the probe names"] == "Stand-in"
    assert report.absent == {}


def test_shares_of_two_trainings_agree_where_one_loads_slower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one with marks is half as fast in all: seconds are far apart, shares are not."""

    class Slower(KnownTraining):
        SUMMARY = FACTS

        def end(self) -> Trained:
            one = super().end()
            if self.way != "marked":
                return one
            told = {"batches": 10.0, "wait_s": 2 * one.wait_s, "step_s": 2 * one.step_s}
            slow: dict[str, Any] = {
                "wall_s": 2 * one.wall_s,
                "wait_s": 2 * one.wait_s,
                "probe": told,
            }
            return replace(one, **slow)

    monkeypatch.setattr(probe, "Training", Slower)
    report = Report()
    probe.measure(here(tmp_path), report)
    found = {name: one["value"] for name, one in report.figures().items()}
    assert found["starved_wait_error_probe"] == pytest.approx(0.75)
    assert found["starved_wait_share_error_probe"] == pytest.approx(0.0)


def test_a_probe_that_counts_nothing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its clock is absent; the other clocks are measured."""

    class Unseen(KnownTraining):
        SUMMARY = FACTS

        def __init__(self, here: object, _probe: object = None) -> None:
            super().__init__(here, None)

    monkeypatch.setattr(probe, "Training", Unseen)
    report = Report()
    probe.measure(here(tmp_path), report)
    assert report.absent.keys() == {"fed: probe", "starved: probe"}
    assert "starved_wait_error_events" in report.figures()


def test_gains_of_workers_are_over_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One worker makes a batch in 200 ms, four make the model the limit; both ways find that."""
    monkeypatch.setattr(loader, "counts_of", lambda _: [1, 2, 4, 8])
    told = {"method": "gated", "started_workers": 4, "left_alone": None, "fallback": None}
    tuned = {**told, "tuned": {"workers": 4, "settled_s": 3.5}}
    found, report = _measured(loader, tmp_path, monkeypatch, SUMMARY={"loaders": [tuned]})
    assert report.facts["best fixed count"] == 4
    assert (found["directed_gain"], found["tuned_gain"]) == pytest.approx((4.0, 4.0))
    assert found["tuned_of_best"] == found["best_of_model_alone"] == pytest.approx(1.0)
    assert report.facts["tuned"] == "method gated, started 4, settled at 4 in 3.5 s"
    going = {**told, "tuned": {"workers": None, "settled_s": None}}
    _, report = _measured(loader, tmp_path, monkeypatch, SUMMARY={"loaders": [going]})
    assert report.facts["tuned"] == "method gated, started 4, not settled"
    left = {**told, "tuned": None, "left_alone": "it has its own sampler"}
    _, report = _measured(loader, tmp_path, monkeypatch, SUMMARY={"loaders": [left]})
    assert report.facts["directed"].endswith("left alone: it has its own sampler")


@pytest.mark.parametrize(("cores", "counts"), [(1, [1]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8])])
def test_counts_double_up_to_the_cores(cores: int, counts: list[int]) -> None:
    """All cores are among them."""
    assert loader.counts_of(cores) == counts


def _summary(wait_s: float) -> dict[str, Any]:
    """Ten batches that wait so long each, for one worker that computes."""
    phase: dict[str, Any] = {
        "epochs": 1,
        "samples": 640,
        "batches": 10,
        "steps": 10,
        "workers": 1.0,
    }
    phase |= {"phase": "later", "wait_s": 10 * wait_s, "step_s": 0.5, "first_wait_s": 0.0}
    phase |= {"wall_s": 10 * wait_s + 0.5, "fetch_samples": 640, "fetch_wall_s": 2.0}
    phase |= {"fetch_cpu_s": 2.0, "fetch_queued_s": 0.0, "step_queued_s": 0.0}
    one = {"id": 0, "style": "map", "batch_size": 64, "user_num_workers": 1, "phases": [phase]}
    return {"v": 1, "pid": 1, "rank": 0, "world_size": 1, "loaders": [one], "faults": []}


def test_shares_of_the_split_are_held_against_the_profilers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The profiler makes everything twice as slow: shares agree all the same; wrong ones do not."""
    found, report = _measured(stalls, tmp_path, monkeypatch, SUMMARY=_summary(0.15))
    assert found["starved_preparation"] == pytest.approx(0.75)
    assert found["starved_data_split"] == found["starved_data_profiler"] == pytest.approx(0.75)
    errors = (found["starved_data_error"], found["starved_computing_error"])
    assert errors == pytest.approx((0.0, 0.0))
    assert (found["fed_data_error"], found["fed_computing_error"]) == pytest.approx((0.75, 0.75))
    assert found["fed_device_busy_profiler"] == pytest.approx(1.0)
    assert report.facts["starved: device's time by"] == "kernels"


def test_a_device_that_idles_between_launches_is_no_error_of_the_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Launches and Python are a record's computing: kernels of half the step stand beside it."""

    class Launching(KnownTraining):
        SUMMARY = _summary(0.15)

        def end(self) -> Trained:
            one = super().end()
            return replace(one, profile=one.profile and {**one.profile, "busy_s": 0.02})

    monkeypatch.setattr(stalls, "Training", Launching)
    report = Report()
    stalls.measure(here(tmp_path), report)
    found = {name: one["value"] for name, one in report.figures().items()}
    assert found["starved_computing_error"] == pytest.approx(0.0)
    assert found["starved_device_busy_profiler"] == pytest.approx(0.05)


def test_joules_of_a_sample_are_the_counters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The meter's watts by the training's rate, beside its power's and what idleness takes."""
    library = StandIn(tmp_path)
    for name, text in library.env.items():
        monkeypatch.setenv(name, text)
    library.load()
    library.say(Gpu(uuid=UUID, state="metered"))
    monkeypatch.setattr(energy, "SETTLE_S", 0.0)
    monkeypatch.setattr(energy, "STARTS_S", 0.0)
    monkeypatch.setattr(energy, "SPAN_S", (0.5, 0.5))
    found, report = _measured(energy, tmp_path, monkeypatch)
    assert report.absent == {}
    assert found["rate_64"] == pytest.approx(64 / 0.05)
    assert found["joules_by_power_64"] == pytest.approx(300 * 0.05 / 64, rel=0.01)
    assert found["joules_per_sample_64"] == pytest.approx(300 * 0.05 / 64, rel=0.5)
    assert found["joules_per_sample_16"] > found["joules_per_sample_256"]
    assert found["joules_above_idle_64"] < found["joules_per_sample_64"] / 2
