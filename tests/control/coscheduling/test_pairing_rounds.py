"""The cluster's pairing: leases that end by themselves, nobody held, everything noted before."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.control.coscheduling.co_scheduling_loop import START_S, CoScheduler
from slurm_ext.control.coscheduling.jobs import BeginTimeHold, key_of
from slurm_ext.control.coscheduling.pair_memory import PairMemory, pair_state
from slurm_ext.control.coscheduling.speed_monitor import SpeedMonitor
from slurm_ext.control.loops.action_log import ActionLog
from slurm_ext.core.actions import Action, parse_action
from slurm_ext.core.errors import InputError, SlurmError
from slurm_ext.core.gpu_sharing import RelativeSpeed, SoloProfile, SpeedBasis
from slurm_ext.core.settings.document import Settings
from slurm_ext.slurm import JobInfo, MemoryClient, NodeInfo

ACT = {"sharing.pairing": "act", "sharing.lease_s": 100, "sharing.most_wait_s": 500.0}
SCRIPTS = {1: "reads a", 2: "reads b", 3: "counts c"}
DISK = {key_of(JobInfo(job_id=n, name="x"), SCRIPTS[n]) for n in (1, 2)}

UNTIL: dict[int, dict[str, Any]] = {
    at_s: {"time_limit_minutes": 60, "end_time_s": at_s} for at_s in (2000, 3000, 5000)
}


class Disk:
    """Readers of one disk hurt each other; all else goes well."""

    def speed(
        self, job: SoloProfile, beside: Sequence[SoloProfile], device: str = "cpu"
    ) -> RelativeSpeed:
        """The lower bound."""
        low = 0.4 if job.key in DISK and any(one.key in DISK for one in beside) else 0.95
        return RelativeSpeed(mean=low, low=low, high=1.0, evidence=SpeedBasis.PAIR)


def moves_in(state_dir: Path) -> list[Action]:
    """What the ledger has, in order."""
    files = sorted((state_dir / "moves").iterdir())
    return [
        parse_action(line) for file in files for line in file.read_bytes().splitlines(keepends=True)
    ]


class Here:
    """A cluster of two nodes of two CPUs at a time that the test sets."""

    def __init__(self, tmp_path: Path, settings: Mapping[str, Any] = ACT, nodes: int = 1) -> None:
        self.now_s = 1000.0
        self.readings: dict[str, tuple[float, float]] = {}
        infos = tuple(
            NodeInfo(name=f"n{n + 1}", cpus=2, mem_mib=1, state="IDLE") for n in range(nodes)
        )
        self.client = MemoryClient(known_nodes=infos, known_scripts=SCRIPTS)
        self.folder = pair_state(tmp_path)
        self.folder.path.mkdir()
        self.settings = Settings(values=settings)
        self.pairing = self.new()

    def new(self) -> CoScheduler:
        """A controller that starts with what is on the disk."""
        memory = self.folder.load(PairMemory.from_json)
        return CoScheduler(
            self.settings,
            self.client,
            self.folder,
            memory,
            slowdowns=Disk,
            monitor=SpeedMonitor(self.live, memory.solo_rates, 20.0),
            action_log=ActionLog(self.folder.path.parent, "pair"),
            clock=lambda: self.now_s,
        )

    def live(self, job: str) -> dict[str, tuple[str, float]]:
        """What the job has counted."""
        if job not in self.readings:
            return {}
        at_s, count = self.readings[job]
        return {"sample_s": ("clock", at_s), "perf_instructions": ("perf", count)}

    def jobs(self, *jobs: JobInfo) -> None:
        """What slurmctld has now."""
        self.client.known_jobs = jobs

    def asked(self) -> list[tuple[str, object, object]]:
        """What was asked of Slurm in a round."""
        self.client.asked.clear()
        self.pairing.round()
        return list(self.client.asked)


def job(number: int, **changes: Any) -> JobInfo:
    """A waiting one-CPU job that agreed to share."""
    fields = {
        "name": "x",
        "state": "PENDING",
        "cpus": 1,
        "comment": "dlqueue=share",
        "node_count": 1,
    }
    return JobInfo(job_id=number, priority=100 - number, **{**fields, **changes})


def runs(number: int, node: str = "n1", **changes: Any) -> JobInfo:
    """The same, running."""
    return job(number, state="RUNNING", nodes=node, start_time_s=900 + number, **changes)


def test_who_would_hurt_is_put_off_and_who_fits_starts(tmp_path: Path) -> None:
    """One is delayed, its lease on the disk first; of who was never delayed nothing is asked."""
    here = Here(tmp_path)
    here.jobs(runs(1), job(2), job(3))
    assert here.asked() == [("delay", (2,), 100)]
    assert here.folder.load(PairMemory.from_json).holds["2.0"] == BeginTimeHold(until_s=1100.0)


def test_where_nothing_is_at_stake_nobody_is_put_off(tmp_path: Path) -> None:
    """All that could meet go well together: Slurm's own queue does it, on a full node too."""
    here = Here(tmp_path)
    here.jobs(runs(3), runs(1), job(4), job(5), job(6))
    assert here.asked() == []
    status = here.folder.read_status()
    assert status is not None
    assert [one["free"] for one in status["waiting"]] == [True] * 3


def test_who_comes_next_is_free_before_its_slot_is(tmp_path: Path) -> None:
    """On a full node the good companion may start, whoever ends first; the reader may not."""
    here = Here(tmp_path)
    here.jobs(runs(1, **UNTIL[5000]), runs(4, **UNTIL[2000]), job(2), job(3))
    assert here.asked() == [("delay", (2,), 100)]
    assert here.asked() == []
    status = here.folder.read_status()
    assert status is not None
    assert [(one["job"], one["free"]) for one in status["waiting"]] == [
        ("2.0", False),
        ("3.0", True),
    ]


def test_who_was_next_is_put_off_again_where_the_plan_changes(tmp_path: Path) -> None:
    """Another reader came to run: beside it only the computing job, which came later, may start."""
    here = Here(tmp_path)
    here.jobs(runs(4, **UNTIL[5000]), runs(1, **UNTIL[2000]), job(2), job(3))
    assert here.asked() == [("delay", (2, 3), 100)]  # whichever ends first decides
    here.jobs(runs(1, **UNTIL[5000]), runs(4, **UNTIL[2000]), job(2), job(3))
    assert here.asked() == [("delay", (3,), 0)]
    here.jobs(runs(4, **UNTIL[5000]), runs(1, **UNTIL[2000]), job(2), job(3))
    assert here.asked() == [("delay", (3,), 100)]


def test_when_nothing_is_at_stake_any_more_all_are_freed_in_one_command(tmp_path: Path) -> None:
    """A queue that became harmless costs slurmctld one update, not one a job."""
    here = Here(tmp_path)
    here.jobs(runs(1), runs(4, cpus=2), job(2), job(3), job(5))
    assert here.asked() == [("delay", (2, 3, 5), 100)]
    here.jobs(runs(4, cpus=2), job(3), job(5))
    assert here.asked() == [("delay", (3, 5), 0)]


def test_with_several_nodes_the_next_is_bound_to_its_own(tmp_path: Path) -> None:
    """It is a good companion there, perhaps not elsewhere; and it is free again at the end."""
    here = Here(tmp_path, nodes=2)
    full = [runs(1, **UNTIL[5000]), runs(4, **UNTIL[2000])]
    full += [runs(number, "n2", name="z", **UNTIL[3000]) for number in (11, 12)]
    here.jobs(*full, job(2), job(3))
    assert here.asked() == [("bind", 2, "n2"), ("bind", 3, "n1")]
    here.jobs(*full, job(2, required_nodes="n2"), job(3, required_nodes="n1"))
    assert here.asked() == []
    here.client.asked.clear()
    assert here.pairing.undo() == 2
    assert ("bind", 3, None) in here.client.asked


def test_a_lease_is_renewed_only_when_half_of_it_is_over(tmp_path: Path) -> None:
    """Few commands to slurmctld; and the time of waiting counts from the first."""
    here = Here(tmp_path)
    here.jobs(runs(1), job(2, eligible_time_s=1100))
    assert here.asked() == []  # its user's own --begin, for all that is known
    here.jobs(runs(1), job(2))
    assert here.asked() == [("delay", (2,), 100)]
    here.jobs(runs(1), job(2, eligible_time_s=1100, reason="BeginTime"))
    here.now_s = 1040.0
    assert here.asked() == []
    here.now_s = 1060.0
    assert here.asked() == [("delay", (2,), 100)]
    assert here.folder.load(PairMemory.from_json).holds["2.0"] == BeginTimeHold(
        until_s=1160.0, put_off_s=60.0
    )


def test_nobody_waits_longer_than_the_site_allows(tmp_path: Path) -> None:
    """After most_wait_s beside room the job is Slurm's; time on a full cluster counts not."""
    here = Here(tmp_path)
    here.jobs(runs(1), runs(3), job(2))
    here.asked()
    here.now_s = 5000.0
    assert here.asked() == [("delay", (2,), 100)]  # no room since
    here.jobs(runs(1), job(2))
    here.now_s = 5400.0
    assert here.asked() == [("delay", (2,), 100)]
    here.now_s = 5501.0
    assert here.asked() == [("delay", (2,), 100)]
    assert here.asked() == [("delay", (2,), 0)]


def test_a_large_job_that_others_pass_waits_no_longer_than_the_site_allows(tmp_path: Path) -> None:
    """Each freed CPU goes to a job behind it, so that no node ever has room: that time counts."""
    here = Here(tmp_path)
    large = job(2, cpus=2)
    here.jobs(runs(1, **UNTIL[5000]), runs(4, **UNTIL[2000]), large, job(3))
    assert here.asked() == [("delay", (2,), 100)]
    here.now_s = 1400.0
    here.jobs(runs(1, **UNTIL[5000]), runs(3, **UNTIL[2000]), large, job(5))
    assert here.asked() == [("delay", (2,), 100)]
    here.now_s = 1501.0
    here.jobs(runs(1, **UNTIL[5000]), runs(5, **UNTIL[2000]), large, job(6))
    assert here.asked() == [("delay", (2,), 100)]
    assert here.asked() == [("delay", (2,), 0)]


def test_a_user_may_still_choose_when_to_begin(tmp_path: Path) -> None:
    """A start that is later than ours is not ours: it stays."""
    here = Here(tmp_path)
    here.jobs(runs(1), job(2))
    here.asked()
    here.jobs(runs(1), job(2, eligible_time_s=9000, reason="BeginTime"))
    assert here.asked() == []
    assert here.pairing.undo() == 0


def test_shadow_changes_nothing_and_says_what_it_would(tmp_path: Path) -> None:
    """No command to Slurm; ledger and status have the decision."""
    here = Here(tmp_path, {**ACT, "sharing.pairing": "shadow"})
    here.jobs(runs(1), job(2), job(3))
    assert here.asked() == []
    assert here.asked() == []
    assert [(one.job_id, one.mode, one.done) for one in moves_in(tmp_path)] == [
        (2, "shadow", "StartTime=now+100"),
        (3, "shadow", "StartTime=now on n1"),
    ]
    status = here.folder.read_status()
    assert status is not None
    assert status["waiting"][1]["at_least"] == {"1.0": 0.95, "3.0": 0.95}


def test_with_several_nodes_a_job_is_bound_until_it_runs(tmp_path: Path) -> None:
    """The chosen node; where it does not start there, it is free again and left to Slurm."""
    here = Here(tmp_path, nodes=2)
    here.jobs(runs(1), job(2), job(3))
    assert here.asked() == [("bind", 2, "n2"), ("bind", 3, "n1")]
    here.jobs(runs(1), runs(2, "n2"), job(3, required_nodes="n1"))
    here.now_s += START_S + 1
    assert here.asked() == [("bind", 3, None), ("delay", (3,), 0)]
    here.jobs(runs(1), runs(2, "n2"), job(3))
    assert here.asked() == []
    status = here.folder.read_status()
    assert status is not None
    assert status["left_alone"] == {"3.0": "left to Slurm"}


def test_a_room_that_was_given_is_not_given_twice(tmp_path: Path) -> None:
    """Between release and start the released job counts as running."""
    here = Here(tmp_path)
    here.jobs(job(1), job(3), job(2))
    assert ("delay", (2,), 100) in here.asked()
    here.now_s += 1
    assert here.asked() == []


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"array_job_id": 9}, "array"),
        ({"het_job_id": 9}, "heterogeneous"),
        ({"gres": "gres:gpu:1"}, "more than CPUs"),
        ({"node_count": 2}, "several nodes"),
        ({"reason": "JobHeldUser"}, "JobHeldUser"),
        ({"reason": "Dependency"}, "Dependency"),
        ({"required_nodes": "n1"}, "chose nodes"),
        ({"excluded_nodes": "n1"}, "chose nodes"),
        ({"eligible_time_s": 5000}, "when to begin"),
        ({"reservation": "class"}, "reservation"),
    ],
)
def test_what_its_user_or_slurm_decided_is_left_alone(
    tmp_path: Path, changes: dict[str, Any], why: str
) -> None:
    """Arrays, holds, dependencies, --begin, --nodelist: as they were, with the reason said."""
    here = Here(tmp_path)
    here.jobs(runs(1), job(2, **changes))
    assert here.asked() == []
    status = here.folder.read_status()
    assert status is not None
    assert why in status["left_alone"]["2.0"]


def test_who_did_not_agree_is_not_even_listed(tmp_path: Path) -> None:
    """No comment, or dlqueue=alone where the account shares: Slurm decides."""
    here = Here(tmp_path, {**ACT, "sharing.accounts": ["lab"]})
    here.jobs(job(2, comment=""), job(3, comment="dlqueue=alone", account="lab"))
    assert here.asked() == []
    assert not here.pairing.round()


def test_the_end_and_a_new_start_free_every_job(tmp_path: Path) -> None:
    """Whether it ends well or is killed, the next one frees what was put off."""
    here = Here(tmp_path)
    here.jobs(runs(1), job(2))
    here.asked()
    here.pairing = here.new()  # the earlier one was killed
    here.client.asked.clear()
    assert here.pairing.undo() == 1
    assert here.client.asked == [("delay", (2,), 0)]
    assert here.pairing.undo() == 0


def test_a_refused_command_hurts_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm says no: the round goes on, the next one tries again."""
    here = Here(tmp_path)

    def refuse(_self: MemoryClient, _job_ids: Sequence[int], _seconds: int) -> None:
        raise SlurmError("scontrol update", 1, "Access denied")

    monkeypatch.setattr(MemoryClient, "delay", refuse)
    here.jobs(runs(1), job(2), job(3))
    assert len(here.pairing.round()) == 2


@pytest.mark.parametrize(
    ("comment", "done"),
    [
        ("dlqueue=share", [(1, "kept apart the next time")]),
        ("dlqueue=share dlqueue=requeue", [(1, "requeue 3"), (3, "requeue")]),
    ],
)
def test_a_pair_below_the_floor_is_parted_and_remembered(
    tmp_path: Path, comment: str, done: list[tuple[int, str]]
) -> None:
    """Alone a job sets its scale; half of it beside another, for a while, parts the two."""
    here = Here(tmp_path)
    count = 0.0
    for second in range(0, 120, 10):
        here.now_s = 1000.0 + second
        both = second >= 40
        here.jobs(runs(1), *([runs(3, comment=comment, requeues=True)] if both else []))
        here.readings["1.0"] = (float(second), count)
        here.pairing.round()
        count += 5e9 if both else 1e10
    told = [one for one in moves_in(tmp_path) if "below its floor" in one.why]
    assert [(one.job_id, one.done) for one in told] == done
    assert told[0].why == "below its floor for a while beside job 3"
    assert (("requeue", 3, None) in here.client.asked) == (len(done) == 2)
    keys = {key_of(job(n), SCRIPTS[n]) for n in (1, 3)}
    assert set(here.folder.load(PairMemory.from_json).cooldowns) == {frozenset(keys)}
    here.jobs(runs(1), job(3))
    (step,) = here.pairing.round()
    assert "below the floor together" in step.reason


def test_a_damaged_memory_is_an_error_that_names_it(tmp_path: Path) -> None:
    """Nothing is guessed; the message says which file and what to do."""
    folder = pair_state(tmp_path)
    folder.path.mkdir()
    (folder.path / "kept.json").write_text('{"v": 9}')
    with pytest.raises(InputError, match=r"kept\.json.*remove it"):
        folder.load(PairMemory.from_json)


def test_the_memory_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Leases, grudges and rates."""
    folder = pair_state(tmp_path)
    folder.path.mkdir()
    lease = BeginTimeHold(until_s=2.0, put_off_s=1.0, node="n1")
    memory = PairMemory(holds={"1.0": lease}, solo_rates={"k": 2.5})
    folder.keep(memory.as_json())
    assert folder.load(PairMemory.from_json) == replace(memory)


def test_two_controllers_do_not_work_at_once(tmp_path: Path) -> None:
    """The second one is told."""
    folder = pair_state(tmp_path)
    folder.lock()
    with pytest.raises(InputError, match="another"):
        pair_state(tmp_path).lock()
