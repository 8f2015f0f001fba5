"""Jobs that pairing bound to a node: none stays bound for longer than it waits for it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.control.coscheduling.co_scheduling_loop import KIND, START_S
from slurm_ext.control.coscheduling.jobs import BeginTimeHold
from slurm_ext.control.coscheduling.pair_memory import PairMemory
from slurm_ext.control.loops.runner import LoopRunner
from slurm_ext.core.errors import SlurmError
from slurm_ext.core.settings.document import Settings
from slurm_ext.policy.colocation.co_scheduling import PlacementAction
from slurm_ext.slurm import MemoryClient
from tests.control.coscheduling.test_pairing_rounds import ACT, Here, job, runs


def bound(tmp_path: Path) -> Here:
    """A cluster that does as it is told; job 2 is bound to n2 and may start there."""
    here = Here(tmp_path, nodes=2)
    here.client.obeys = True
    here.jobs(runs(1), job(2))
    assert here.asked() == [("bind", 2, "n2")]
    return here


def now(here: Here, **changes: Any) -> None:
    """Something happens to job 2."""
    here.jobs(*(replace(one, **changes) if one.job_id == 2 else one for one in here.client.jobs()))


def holds(here: Here) -> dict[str, str | None]:
    """The nodes that the disk says jobs are bound to."""
    kept = here.folder.load(PairMemory.from_json).holds
    return {name: hold.node for name, hold in kept.items()}


@pytest.mark.parametrize(
    "changes",
    [
        {"reason": "QOSMaxCpuPerUserLimit"},
        {"reason": "ReqNodeNotAvail"},
        {"reason": "JobHeldUser", "priority": 0},
        {"eligible_time_s": 9000, "reason": "BeginTime"},
        {"comment": ""},
        {"restarts": 1},
    ],
)
def test_a_job_that_no_longer_waits_for_us_may_start_anywhere(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    """Its node is no longer required; its time to begin, which may be its user's, stays."""
    here = bound(tmp_path)
    now(here, **changes)
    assert here.asked() == [("bind", 2, None)]
    assert holds(here) == {}


def test_a_bond_outlives_the_job_that_runs_until_it_ends(tmp_path: Path) -> None:
    """Requeued by anyone, it would be bound again; a new controller still knows."""
    here = bound(tmp_path)
    now(here, state="RUNNING", nodes="n2")
    assert here.asked() == []
    here.pairing = here.new()
    assert here.pairing.undo() == 0
    assert holds(here) == {"2.0": "n2"}
    now(here, state="PENDING", nodes="", restarts=1)
    assert here.pairing.undo() == 1
    assert here.client.asked == [("bind", 2, None)]
    assert holds(here) == {}


def test_the_bond_of_a_job_that_ended_is_forgotten(tmp_path: Path) -> None:
    """Nothing is asked for it."""
    here = bound(tmp_path)
    now(here, state="COMPLETED")
    assert here.asked() == []
    assert holds(here) == {}


def test_a_node_that_is_its_users_choice_stays(tmp_path: Path) -> None:
    """The user chose another node after us: that is not undone."""
    here = bound(tmp_path)
    now(here, required_nodes="n1", reason="JobHeldUser")
    assert here.asked() == []
    assert holds(here) == {}


class Refusals:
    """A slurmctld that refuses to unbind, or to delay, while it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.unbind = self.delay = False
        bind, delay = MemoryClient.bind, MemoryClient.delay

        def bound_to(client: MemoryClient, job_id: int, node: str | None) -> None:
            if self.unbind and node is None:
                raise SlurmError("scontrol update", 1, "Unable to contact slurm controller")
            bind(client, job_id, node)

        def delayed(client: MemoryClient, job_ids: Sequence[int], seconds: int) -> None:
            if self.delay:
                raise SlurmError("scontrol update", 1, "Job is no longer pending")
            delay(client, job_ids, seconds)

        monkeypatch.setattr(MemoryClient, "bind", bound_to)
        monkeypatch.setattr(MemoryClient, "delay", delayed)


def test_a_job_that_could_not_be_unbound_is_unbound_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bond stays on the disk until Slurm has ended it."""
    here, refusals = bound(tmp_path), Refusals(monkeypatch)
    now(here, reason="ReqNodeNotAvail")
    refusals.unbind = True
    here.pairing.round()
    assert holds(here) == {"2.0": "n2"}
    refusals.unbind = False
    assert here.asked() == [("bind", 2, None)]
    assert holds(here) == {}


def test_a_job_given_up_while_slurm_is_away_is_unbound_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It did not start in time, and its node was refused to be undone: the next round tries it."""
    here, refusals = bound(tmp_path), Refusals(monkeypatch)
    here.now_s += START_S + 1
    refusals.unbind = True
    here.pairing.round()
    assert holds(here) == {"2.0": "n2"}
    refusals.unbind = False
    assert here.asked() == [("bind", 2, None)]
    assert holds(here) == {}


def test_an_end_that_leaves_a_job_bound_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hold stays on the disk, for the next try."""
    here, refusals = bound(tmp_path), Refusals(monkeypatch)
    refusals.unbind = True
    with pytest.raises(SlurmError, match="not every job could be freed"):
        here.pairing.undo()
    assert holds(here) == {"2.0": "n2"}
    refusals.unbind = False
    assert here.pairing.undo() == 1
    assert [one.required_nodes for one in here.client.jobs()] == ["", ""]
    assert holds(here) == {}


def test_a_refused_delay_leaves_nobody_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that is put off is unbound on its own, and known to be bound until then."""
    here, refusals = bound(tmp_path), Refusals(monkeypatch)
    refusals.delay = refusals.unbind = True
    here.pairing._holds._delay(["2.0"], ["2.0"])
    assert here.pairing.memory.holds["2.0"].node == "n2"
    refusals.unbind = False
    here.pairing._holds._delay(["2.0"], ["2.0"])
    assert [one.required_nodes for one in here.client.jobs()] == ["", ""]
    assert holds(here) == {"2.0": None}


def test_a_job_bound_but_not_released_is_known_to_be_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm took the node and refused the start: the node is still ours to undo."""
    here, refusals = bound(tmp_path), Refusals(monkeypatch)
    here.pairing.memory.holds["2.0"] = before = BeginTimeHold(until_s=2000.0)
    refusals.delay = True
    assert not here.pairing._holds._free("2.0", "n2", before)
    assert here.pairing.memory.holds["2.0"] == replace(before, node="n2")


def test_a_controller_killed_before_it_unbinds_leaves_the_bond_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node stays noted until Slurm has taken it away, whether put off or free anywhere."""
    here = bound(tmp_path)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(MemoryClient, "bind", killed)
    for free in (False, True):
        step = PlacementAction(job="2.0", start=free, free=free, place=None, reason="")
        with pytest.raises(KeyboardInterrupt):
            here.pairing._holds.carry_out([step], here.now_s, bind=True)
        assert holds(here) == {"2.0": "n2"}


@pytest.mark.parametrize("mode", ["shadow", "off"])
def test_a_loop_that_stopped_acting_unbinds_a_job_when_slurm_requeues_it(
    tmp_path: Path, mode: str
) -> None:
    """Slurm refuses to unbind it while it runs, and would keep it on a node that is down."""
    here = bound(tmp_path)
    now(here, state="RUNNING", nodes="n2")
    kill = {"paths.kill_file": str(tmp_path / "off"), "sharing.interval_s": 1.0}
    here.settings = Settings(values={**ACT, "sharing.pairing": mode, **kill})
    kind = replace(KIND, make=lambda *_: here.new())
    rounds = LoopRunner(kind, here.settings, here.client, here.folder)
    here.client.asked.clear()
    rounds.turn()
    now(here, state="COMPLETING", restarts=1)
    rounds.turn()
    assert (here.client.asked, holds(here)) == ([], {"2.0": "n2"})
    now(here, state="PENDING", nodes="", reason="ReqNodeNotAvail")
    for _ in range(3):
        rounds.turn()
    assert here.client.asked == [("bind", 2, None)]
    assert holds(here) == {}
