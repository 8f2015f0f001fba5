"""Rounds of the node allocator: status and log, word for word."""

import json
import logging
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slurm_ext.control.allocator import allocator_round
from slurm_ext.control.allocator.actuator import SAME_READS
from slurm_ext.control.allocator.controlled_job import ControlledJob
from slurm_ext.control.allocator.undo_log import allocator_state
from slurm_ext.node.common.spool_layout import Spool
from slurm_ext.policy.allocator.operating_points import OperatingPoint
from tests.control.allocator.recorded_jobs import allocator_of, recorded
from tests.control.allocator.test_control_hostile import summary


def test_the_status_of_a_node_without_jobs(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every field of it; nothing is decided."""
    monkeypatch.setattr(time, "time", lambda: 12.34567)
    allocator = allocator_of(spool, grain_cores=0.5)
    assert allocator.round() is None
    assert allocator_state(spool).read_status() == {
        "t_s": 12.346,
        "pid": os.getpid(),
        "mode": "act",
        "acts": True,
        "allocator": "divide",
        "grain_cores": 0.5,
        "change": False,
        "reason": "no job here can be moved",
        "jobs": [],
        "left_alone": {},
    }


def test_jobs_are_left_alone_with_their_reasons(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One without a training, one with odd summaries, one that no quota can be set for."""
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    recorded(spool, "1.0")
    folder = recorded(spool, "2.0")
    (folder / "summary-0.json").write_text(json.dumps(summary()))
    allocator = allocator_of(spool, "shadow", grain_cores=1.0)
    allocator._refused["2.0"] = "a link"
    allocator.round()
    expected = {"1.0": "no training that the probe knows runs in it", "2.0": "a link"}
    assert allocator.left_alone == expected
    allocator._refused.clear()

    def odd(*_: object) -> None:
        raise TypeError

    monkeypatch.setattr(ControlledJob, "look", odd)
    allocator.round()
    assert allocator.left_alone["2.0"] == "its summaries are not what the probe writes"
    allocator = allocator_of(spool, "shadow", grain_cores=0.5)
    monkeypatch.setattr(
        allocator_round,
        "ControlledJob",
        lambda *_, **__: SimpleNamespace(share=SimpleNamespace(mechanisms=("affinity",))),
    )
    allocator.round()
    message = "no CPU quota can be set here, and control.grain_cores needs one"
    assert allocator.left_alone["2.0"] == message


@pytest.mark.parametrize(
    ("lends", "grain", "expected"),
    [(True, 0.5, True), (True, 1.0, False), (False, 0.5, False)],
)
def test_cpus_are_lent_by_weight(spool: Spool, lends: bool, grain: float, expected: bool) -> None:
    """Only parts of cores are."""
    assert allocator_of(spool, lends_unused=lends, grain_cores=grain)._lends is expected


@pytest.mark.parametrize(("mode", "prefix"), [("act", ""), ("shadow", "would: ")])
def test_a_decision_is_logged_once(
    spool: Spool, caplog: pytest.LogCaptureFixture, mode: str, prefix: str
) -> None:
    """By job: units and workers; again where it differs."""
    caplog.set_level(logging.INFO, "dlqueue.control")
    allocator = allocator_of(spool, mode)

    def decision(units: int) -> Any:
        points = {
            "b": OperatingPoint(units=units, workers=4, samples_per_s=1.0),
            "a": OperatingPoint(units=2, workers=None, samples_per_s=1.0),
        }
        allocation = SimpleNamespace(points=points, reason={})
        return SimpleNamespace(reason="news", gain=0.5, allocation=allocation, change=True)

    for units in (1, 1, 3):
        allocator._record(decision(units), 8)
    assert caplog.messages == [
        f"{prefix}news: {{'a': (2, None), 'b': ({units}, 4)}}" for units in (1, 3)
    ]
    lines = (Path(spool.root) / "control/decisions.jsonl").read_text().splitlines()
    assert [(row["acted"], row["units"]) for row in map(json.loads, lines)] == [
        (mode == "act", 8)
    ] * 2


def test_limits_of_reads_are_logged(
    spool: Spool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In MiB/s, in log and decisions; only in act, with a disk and a rate."""
    caplog.set_level(logging.INFO, "dlqueue.control")
    limits: dict[str, float] = {"a": 1.5 * 2**20, "b": 0.0}
    monkeypatch.setattr(allocator_round, "limit_reads", lambda *_: limits)
    for mode, mib, device in (("shadow", 9.0, "8:0"), ("act", 0.0, "8:0"), ("act", 9.0, None)):
        allocator = allocator_of(spool, mode, storage_mib_per_s=mib)
        allocator._device = device
        allocator._limit_reads({})
    assert caplog.messages == []
    allocator._device = "8:0"
    allocator._limit_reads({})
    limits.clear()
    allocator._limit_reads({})
    assert caplog.messages == ["reads, MiB/s, 0 for no limit: {'a': 1.5, 'b': 0.0}"]
    (line,) = (Path(spool.root) / "control/decisions.jsonl").read_text().splitlines()
    row = json.loads(line)
    assert (row["acted"], row["read_mib_per_s"]) == (True, {"a": 1.5, "b": 0.0})
    assert SAME_READS == 0.05
