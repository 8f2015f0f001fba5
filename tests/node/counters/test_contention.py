"""The contention probe: off unless asked for, only where it hurts nobody, bounded."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurm_ext.node.common import state
from slurm_ext.node.counters import contention
from slurm_ext.node.counters.columns import CONTENTION_UNITS
from slurm_ext.node.counters.contention import ACTIVE, AT_S, PASSIVE, Contention, free_cpus
from slurm_ext.node.hooks.prolog import first_state
from slurm_ext.node.sampling.sampler import _Sampler
from tests.node.by_hand import Node, wait_for

MakeNode = Callable[..., Node]

STAT = "cpu0 0 0 0 {} 0 0 0 0\ncpu1 0 0 0 {} 0 0 0 0\n"


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine of two processors, the second always idle; small copies."""
    monkeypatch.setattr(contention, "COPY_BYTES", 1 << 20)
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None)
    (tmp_path / "stat").write_text(STAT.format(100, 100))
    before = _children()
    yield tmp_path
    assert _children() <= before


def _children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def _later(proc: Path) -> None:
    """A second on, in which the first processor worked."""
    (proc / "stat").write_text("cpu0 100 0 0 100 0 0 0 0\ncpu1 0 0 0 200 0 0 0 0\n")


def test_only_idle_processors_that_no_job_may_use_are_touched() -> None:
    """Never the job's own, never another's, and none where one job's are not known."""
    idle = {0: 1.0, 1: 0.99, 2: 0.5, 3: 1.0}
    assert free_cpus(idle, "0", ["3"]) == {1}
    assert free_cpus(idle, "0-3", []) == set()
    assert free_cpus(idle, None, []) == set()
    assert free_cpus(idle, "0", [None]) == set()


def test_what_the_job_adds_is_measured_and_what_it_cost(proc: Path) -> None:
    """Copies before and during; the pressure is never negative, and the cost is told."""
    probe = Contention(PASSIVE, str(proc))
    _later(proc)
    probe.before()
    (proc / "stat").write_text("cpu0 200 0 0 100 0 0 0 0\ncpu1 0 0 0 300 0 0 0 0\n")
    probe.step(AT_S[0], "0", [], lambda: None)
    found = {name: value for name, (_, value) in probe.totals().items()}
    assert set(found) == {"contention_copy", "contention_pressure", "contention_cost"}
    assert set(found) <= set(CONTENTION_UNITS)
    assert 0 <= found["contention_pressure"] < 1
    assert found["contention_cost"] > 0


def test_an_unbound_job_is_left_alone_with_the_reason(proc: Path) -> None:
    """It may use every processor: there is none to measure on."""
    probe = Contention(ACTIVE, str(proc))
    _later(proc)
    for at_s in AT_S:
        probe.step(at_s, "0-1", [], lambda: None)
    assert probe.totals() == {}
    assert probe.why == "no idle processor that no job may use"


@pytest.mark.parametrize(
    ("others", "counted", "why"),
    [(["0"], True, "other jobs"), ([], False, "no hardware counters"), ([], True, None)],
)
def test_stress_only_where_the_job_is_alone_and_its_speed_is_seen(
    proc: Path, others: list[str | None], counted: bool, why: str | None
) -> None:
    """A job at half its instructions a second under stress has a sensitivity of one half."""
    probe, clock, before = Contention(ACTIVE, str(proc)), [0.0, 0.0], _children()

    def rate() -> tuple[float, float] | None:
        clock[0] += 1e9 if _children() <= before else 5e8
        clock[1] += 1.0
        return (clock[0], clock[1]) if counted else None

    for number, at_s in enumerate(AT_S):
        text = f"cpu0 0 0 0 100 0 0 0 0\ncpu1 0 0 0 {300 + number * 100} 0 0 0 0\n"
        (proc / "stat").write_text(text)
        probe.step(at_s, "0", others, rate)
    assert (probe.why or "").startswith(why or "")
    sensitivity = probe.totals().get("contention_sensitivity", ("", None))[1]
    assert sensitivity == (pytest.approx(0.5, abs=0.3) if why is None else None)


def test_a_probe_that_cannot_be_costs_nothing_but_a_line(make_node: MakeNode) -> None:
    """An unbound job on a node that asked for the probe: a reason for the record, no figure."""
    node = make_node(**{"node.contention_probe": "passive"})
    node.spool.prepare()
    known = first_state(node.config, node.env(7))
    known["started_uptime_s"] = state.uptime_s() - 60
    held = state.lock(node.spool.state_file("7.0", "lock"))
    assert held is not None
    sampler = _Sampler(node.config, node.spool, "7.0", known, held)
    node.job(7, "import time; time.sleep(60)")
    wait_for(sampler.meter.processes.find)
    sampler._sample(last=True)
    assert known["faults"] == ["contention probe: no idle processor that no job may use"]
    assert not any(name.startswith("contention") for name in sampler.meter.totals)
    assert make_node().config.contention_probe == "off"
