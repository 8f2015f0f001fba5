"""Trainings with real JPEGs and a real model, as processes of their own; here on the CPU."""

from pathlib import Path

import pytest

from contrib.bench.gpu.report import AbsentError, Report
from contrib.bench.gpu.rows import buckets
from contrib.bench.gpu.talker import ProgramError
from contrib.bench.gpu.trainings import Training
from slurm_ext.core.stalls.step_split import step_split
from tests.bench.gpu.gpu_here import here

WAYS = ("plain", "probed", "marked", "synchronised", "profiled")


def _seconds(way: str) -> float:
    """Short where only the optimiser's steps are counted: else they pass for steps from memory."""
    return 0.05 if way == "plain" else 0.3


def test_every_way_has_its_clocks(tmp_path: Path) -> None:
    """The probe's where it is in, marks where they are asked for, the profiler's own view."""
    with Training(here(tmp_path), {}) as training:
        training.hear()
        done = {way: training.run(_seconds(way), "jpeg", 1, way=way, batch=2) for way in WAYS}
        summary = training.summary()
    for way, one in done.items():
        assert one.samples == 2 * one.batches > 0
        assert one.wait_s + one.step_s == pytest.approx(one.wall_s / one.batches)
        assert (one.probe is None) == (way == "plain")
        assert (one.marks_wait_s is None) == (way != "marked")
        assert (one.profile is None) == (way != "profiled")
        if one.probe is not None:
            assert one.probe["batches"] == one.batches
            assert 0 < one.probe["wait_s"] <= one.wait_s
    profile = done["profiled"].profile or {}
    assert profile["waits"] == done["profiled"].batches
    assert not profile["by_kernels"]
    assert 0 < profile["busy_s"] < done["profiled"].wall_s
    assert len(list((tmp_path / "jpegs").glob("*.jpg"))) == 48
    assert step_split([summary]) is not None


def test_a_training_without_the_probe_has_none_of_its_words(tmp_path: Path) -> None:
    """Neither sums nor a summary; where it fails, its last words are the reason."""
    with Training(here(tmp_path)) as training:
        training.hear()
        assert training.run(0.1, "ready", 0, batch=2).probe is None
        with pytest.raises(AbsentError, match="no summary"):
            training.summary()
        training.begin(0.1, "ready", -1)
        with pytest.raises(ProgramError, match="num_workers"):
            training.end()


@pytest.mark.journey
def test_buckets_are_measured_by_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ranks; each size as often as the others; the plan, or why there is none."""
    monkeypatch.setattr(buckets, "FIRST", 12)
    monkeypatch.setattr(buckets, "TURN", 2)
    monkeypatch.setattr(buckets, "TURNS", 1)
    monkeypatch.setattr(buckets, "SIZES", (1,))
    report = Report()
    buckets.measure(here(tmp_path), report)
    found = report.figures()
    assert {"first_run", "step_default", "step_1"} <= found.keys()
    assert ("plan" in report.absent) != ("chosen_over_default" in found)


def test_one_gpu_has_no_link(tmp_path: Path) -> None:
    """The row is absent before anything starts."""
    with pytest.raises(AbsentError, match="no second GPU"):
        buckets.measure(here(tmp_path, device="cuda"), Report())
