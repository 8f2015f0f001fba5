"""Running jobs that give way to others, job by job: by QOS, or by the partitions' tiers."""

from collections.abc import Mapping, Sequence
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
    value: Sequence[float]
    kind: Sequence[int]


def preemption_of(
    trace: Trace, order: Column, conf: PreemptionConf, table: QosTable | None
) -> Preemption:
    """The preemption of a replay whose jobs are in an order."""
    if conf.by == BY_QOS:
        qos = [(table.qos if table else {}).get(name, Qos(name=name)) for name in trace.qoses]
        return _by_qos(qos, conf, trace.qos[order].tolist())
    partitions = [_partition(name or conf.usual, conf.partitions) for name in trace.vcs]
    return _by_partition(partitions, conf, trace.vc[order].tolist())


def _by_qos(qos: Sequence[Qos], conf: PreemptionConf, kind: Sequence[int]) -> Preemption:
    modes = [one.preempt_mode or conf.mode for one in qos]
    return Preemption(
        gives_way=[
            frozenset(
                number
                for number, other in enumerate(qos)
                if other.name in one.preempts and other is not one and _gives(modes[number])
            )
            for one in qos
        ],
        requeues=[mode == REQUEUE for mode in modes],
        exempt_s=[conf.exempt_s if one.exempt_s is None else one.exempt_s for one in qos],
        value=[one.priority for one in qos],
        kind=kind,
    )


def _by_partition(
    partitions: Sequence[PreemptingPartition], conf: PreemptionConf, kind: Sequence[int]
) -> Preemption:
    modes = [one.mode or conf.mode for one in partitions]
    return Preemption(
        gives_way=[
            frozenset(
                number
                for number, other in enumerate(partitions)
                if other.tier < one.tier and _gives(modes[number])
            )
            for one in partitions
        ],
        requeues=[mode == REQUEUE for mode in modes],
        exempt_s=[conf.exempt_s] * len(partitions),
        value=[one.tier for one in partitions],
        kind=kind,
    )


def _partition(name: str, known: Mapping[str, PreemptingPartition]) -> PreemptingPartition:
    return known.get(name, PreemptingPartition())


def _gives(mode: str) -> bool:
    return mode in (REQUEUE, CANCEL)
