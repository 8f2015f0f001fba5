"""Running jobs that give way to others, job by job: by QOS, or by the partitions' tiers."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from slurm_ext.simulate.limits.qos import Qos, QosTable
from slurm_ext.simulate.planning.preemption_conf import (
    BY_QOS,
    CANCEL,
    REQUEUE,
    PreemptingPartition,
    PreemptionConf,
)
from slurm_ext.simulate.trace.columns import Column, Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """Columns by kind (a QOS or a partition) and, the last one, by job.

    Of those who give way, the one with the least `value` goes first.
    """

    gives_way: Sequence[frozenset[int]]  # kinds whose running jobs do
    requeues: Sequence[bool]  # else the job is cancelled
    exempt_s: Sequence[float]  # for so long a started job does not give way
    grace_s: Sequence[float]  # for so long a job that gives way runs on
    value: Sequence[float]
    kind: Sequence[int]


def preemption_of(
    trace: Trace, order: Column, conf: PreemptionConf, table: QosTable | None
) -> Preemption:
    """The preemption of a replay whose jobs are in an order."""
    if conf.by == BY_QOS:
        return _among(_qos(trace, conf, table), _takes_by_qos, trace.qos[order].tolist())
    return _among(_partitions(trace, conf), _takes_by_tier, trace.vc[order].tolist())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """A QOS or a partition, as preemption looks at it."""

    name: str
    value: float
    mode: str
    exempt_s: float
    grace_s: float
    preempts: frozenset[str] = frozenset()


def _qos(trace: Trace, conf: PreemptionConf, table: QosTable | None) -> Iterator[_Kind]:
    for name in trace.qoses:
        qos = (table.qos if table else {}).get(name, Qos(name=name))
        yield _Kind(
            name=name,
            value=qos.priority,
            mode=qos.preempt_mode or conf.mode,
            exempt_s=conf.exempt_s if qos.exempt_s is None else qos.exempt_s,
            grace_s=qos.grace_s,
            preempts=qos.preempts,
        )


def _partitions(trace: Trace, conf: PreemptionConf) -> Iterator[_Kind]:
    for name in trace.vcs:
        partition = conf.partitions.get(name or conf.usual, PreemptingPartition())
        yield _Kind(
            name=name,
            value=partition.tier,
            mode=partition.mode or conf.mode,
            exempt_s=conf.exempt_s,
            grace_s=partition.grace_s,
        )


def _takes_by_qos(kind: _Kind, other: _Kind) -> bool:
    return other.name in kind.preempts and other is not kind


def _takes_by_tier(kind: _Kind, other: _Kind) -> bool:
    return other.value < kind.value


def _among(
    some: Iterable[_Kind], takes: Callable[[_Kind, _Kind], bool], kind: Sequence[int]
) -> Preemption:
    """The preemption among kinds, of which one takes the place of another's jobs."""
    kinds = [*some]
    return Preemption(
        gives_way=[
            frozenset(
                number
                for number, other in enumerate(kinds)
                if takes(taker, other) and other.mode in (REQUEUE, CANCEL)
            )
            for taker in kinds
        ],
        requeues=[row.mode == REQUEUE for row in kinds],
        exempt_s=[row.exempt_s for row in kinds],
        grace_s=[row.grace_s for row in kinds],
        value=[row.value for row in kinds],
        kind=kind,
    )
