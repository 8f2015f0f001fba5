"""Jobs that give way to those of another QOS or partition: by hand, and laws that hold for any."""

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ext.core.errors import InputError
from slurm_ext.policy.queue.order import rule_of
from slurm_ext.simulate.limits.qos import QosTable
from slurm_ext.simulate.limits.qos_values import qos_of
from slurm_ext.simulate.limits.site_limits import Limits
from slurm_ext.simulate.planning.preemption_conf import PreemptionConf, read_preemption
from slurm_ext.simulate.queue.cluster import Cluster
from slurm_ext.simulate.queue.engine import replay
from slurm_ext.simulate.queue.run import REQUEUE_S
from slurm_ext.simulate.replay_result import ReplayResult
from tests.simulate.limits.test_qos_limits import site_trace
from tests.simulate.traces import Job

NODE = Cluster(nodes=1, gpus_per_node=8)
QOS = {"l": {}, "m": {"Priority": "5"}, "h": {"Preempt": "l,m", "Priority": "9"}}


def conf(**values: object) -> PreemptionConf:
    """By QOS, with requeueing."""
    return PreemptionConf(**{"by": "preempt/qos", "mode": "requeue", **values})  # type: ignore[arg-type]


def replayed(
    rows: list[Job],
    qos: str,
    some: PreemptionConf,
    cluster: Cluster = NODE,
    *,
    policy: str = "fifo",
    saves_s: float = inf,
    more: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> ReplayResult:
    """A replay of jobs whose QOS are a word's letters; `more`: columns of a QOS, by its name."""
    table = QosTable(
        source="q",
        qos={name: qos_of(name, {**row, **more.get(name, {})}) for name, row in QOS.items()},
    )
    trace = site_trace(rows, "u" * len(rows), qos=qos)
    limits = Limits(table=table)
    return replay(trace, cluster, rule_of(policy), limits=limits, preemption=some, saves_s=saves_s)


@pytest.mark.parametrize("policy", ["fifo", "fifo+backfill"])
def test_a_running_job_gives_way_and_runs_anew(policy: str) -> None:
    """It waits again after Slurm's two minutes; what it had done is lost."""
    outcome = replayed([(0.0, 500.0, 8), (100.0, 50.0, 4)], "lh", conf(), policy=policy)
    assert outcome.start_s.tolist() == [0, 100]
    assert outcome.end_s.tolist() == [100 + REQUEUE_S + 500, 150]
    assert (outcome.restarts, outcome.lost_gpu_s) == ({"0": 1}, 800)
    assert not outcome.unfinished


def test_a_job_is_cancelled_where_the_mode_says_so() -> None:
    """Of the QOS that gives way, before the cluster's."""
    rows, cancel = [(0.0, 500.0, 8), (100.0, 50.0, 4)], {"l": {"PreemptMode": "cancel"}}
    for outcome in (
        replayed(rows, "lh", conf(mode="cancel")),
        replayed(rows, "lh", conf(), more=cancel),
    ):
        assert outcome.unfinished == {0: "gave way to another job: cancelled"}
        assert outcome.end_s.tolist() == [100, 150]
    for left in (replayed(rows, "lh", conf(mode="off")), replayed(rows, "hl", conf())):
        assert left.start_s.tolist() == [0, 500]


def test_work_that_was_saved_is_kept() -> None:
    """Of a hundred seconds, saved every thirty, ninety."""
    outcome = replayed([(0.0, 500.0, 8), (100.0, 50.0, 4)], "lh", conf(), saves_s=30.0)
    assert outcome.end_s[0] == 100 + REQUEUE_S + 410


def test_a_started_job_is_exempt_for_a_while() -> None:
    """PreemptExemptTime of its QOS, or else of the cluster."""
    rows = [(0.0, 500.0, 8), (100.0, 50.0, 4)]
    assert replayed(rows, "lh", conf(exempt_s=180.0)).start_s.tolist() == [0, 180]
    own = {"l": {"PreemptExemptTime": "00:05:00"}}
    assert replayed(rows, "lh", conf(exempt_s=180.0), more=own).start_s.tolist() == [0, 300]


GRACE = {"l": {"GraceTime": "00:00:30"}}


def test_a_job_that_gives_way_runs_on_for_its_time_of_grace() -> None:
    """GraceTime of its QOS; who takes its place waits as long, and nobody behind goes before."""
    rows = [(0.0, 500.0, 8), (100.0, 50.0, 8), (110.0, 5.0, 4)]
    requeued = replayed(rows, "lhh", conf(), more=GRACE, policy="fifo+backfill")
    assert requeued.start_s.tolist() == [0, 130, 180]
    assert (requeued.restarts, requeued.end_s[0]) == ({"0": 1}, 130 + REQUEUE_S + 500)
    cancelled = replayed(rows, "lhh", conf(mode="cancel"), more=GRACE)
    assert cancelled.end_s.tolist() == [130, 180, 185]
    assert cancelled.unfinished == {0: "gave way to another job: cancelled"}


def test_a_job_may_end_within_its_time_of_grace() -> None:
    """It completes, and whoever took its place starts then."""
    outcome = replayed([(0.0, 110.0, 8), (100.0, 50.0, 8)], "lh", conf(), more=GRACE)
    assert outcome.end_s.tolist() == [110, 160]
    assert not outcome.restarts


def test_of_those_who_give_way_each_has_its_own_time_of_grace() -> None:
    """Without one a job goes at once; who leaves is not asked for a second time."""
    rows = [(0.0, 500.0, 4), (0.0, 500.0, 4), (100.0, 50.0, 8), (120.0, 50.0, 8)]
    outcome = replayed(rows, "lmhh", conf(), more=GRACE)
    assert outcome.start_s.tolist() == [0, 0, 130, 180]
    assert outcome.restarts == {"0": 1, "1": 1}
    assert outcome.lost_gpu_s == 4 * (100 + 130)


def test_no_more_jobs_go_than_have_to() -> None:
    """Those of the lower priority go first, and nobody whose room would not be enough."""
    rows = [(0.0, 500.0, 2), (0.0, 500.0, 2), (0.0, 500.0, 4), (100.0, 50.0, 4)]
    assert replayed(rows, "lmmh", conf()).restarts == {"0": 1, "1": 1}
    assert replayed(rows, "hlmh", conf()).restarts == {"2": 1}
    full = [*rows[:3], (100.0, 50.0, 8)]
    assert replayed(full, "lhmh", conf()).start_s.tolist() == [0, 0, 0, 500]


def test_tiers_of_partitions_preempt() -> None:
    """A higher tier takes the room of a lower one, unless that partition's mode is off."""
    from slurm_ext.simulate.planning.preemption_conf import PreemptingPartition as Partition

    trace = site_trace([(0.0, 500.0, 8), (100.0, 50.0, 4)], "uu", vc="ab")
    for mode, starts in (("", [0, 100]), ("off", [0, 500])):
        for grace_s in (0.0, 20.0):
            tier = Partition(tier=1, mode=mode, grace_s=grace_s)
            partitions = {"a": tier, "b": Partition(tier=2)}
            some = conf(by="preempt/partition_prio", partitions=partitions)
            outcome = replay(trace, NODE, rule_of("fifo"), preemption=some)
            waited_s = grace_s if mode == "" else 0.0
            assert outcome.start_s.tolist() == [starts[0], starts[1] + waited_s]


CONF = """PreemptType=preempt/{by}
PreemptMode=REQUEUE,GANG
PreemptExemptTime=0:30:00
PartitionName=low Default=YES PreemptMode=cancel GraceTime=00:00:00
PartitionName=high PriorityTier=10 PreemptMode=suspend GraceTime=30
"""


def test_a_slurm_conf_is_read(tmp_path: Path) -> None:
    """Types, modes and times; what no replay has is named."""
    path = tmp_path / "slurm.conf"
    path.write_text(CONF.format(by="partition_prio"))
    found = read_preemption(path)
    assert found is not None
    assert (found.mode, found.exempt_s, found.usual) == ("requeue", 1800.0, "low")
    assert [(one.tier, one.mode) for one in found.partitions.values()] == [
        (1.0, "cancel"),
        (10.0, "suspend"),
    ]
    assert [one.grace_s for one in found.partitions.values()] == [0.0, 30.0]
    assert found.left_out == ("PreemptMode=suspend",)
    path.write_text(CONF.format(by="none"))
    assert read_preemption(path) is None
    path.write_text(CONF.format(by="luck"))
    with pytest.raises(InputError, match=r"PreemptType is preempt/luck"):
        read_preemption(path)


@pytest.mark.parametrize("policy", ["fifo", "fewest+backfill"])
@given(
    data=st.data(),
    exempt_s=st.sampled_from([0.0, 7.0]),
    grace=st.sampled_from(["0", "5"]),
    requeues=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_nothing_is_lost_or_invented(
    data: st.DataObject, exempt_s: float, grace: str, requeues: bool, policy: str
) -> None:
    """GPU-seconds are those of the work and of the losses; who preempts is never preempted."""
    job = st.tuples(
        st.integers(0, 60).map(float), st.integers(1, 40).map(float), st.integers(1, 12)
    )
    rows = sorted(data.draw(st.lists(job, min_size=1, max_size=14)), key=lambda row: row[0])
    letters = data.draw(st.lists(st.sampled_from("lmh"), min_size=len(rows), max_size=len(rows)))
    some = conf(exempt_s=exempt_s, mode="requeue" if requeues else "cancel")
    cluster = Cluster(nodes=3, gpus_per_node=4)
    more = {"l": {"GraceTime": grace}}
    outcome = replayed(rows, "".join(letters), some, cluster, policy=policy, more=more)
    assert 0 <= outcome.used.min() <= outcome.used.max() <= cluster.gpus
    gpus = np.array([row[2] for row in rows])
    done = outcome.completed
    work = float(np.sum((outcome.duration_s * gpus)[done]))
    assert outcome.used_gpu_s == pytest.approx(work + outcome.lost_gpu_s)
    assert all(letters[int(job)] != "h" for job in outcome.restarts)
    assert bool(outcome.unfinished) <= (not requeues)
    same = replace(some, mode="off")
    free = replayed(rows, "".join(letters), same, cluster, policy=policy)
    assert not free.restarts
