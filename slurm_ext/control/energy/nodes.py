"""From what Slurm says of nodes and jobs to what the energy policy decides about. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from slurm_ext.model.demand.model import PEAK_SLOTS, SLOT_S
from slurm_ext.model.demand.series import NOBODY
from slurm_ext.policy.energy import EnergyNode, PowerState, for_jobs
from slurm_ext.slurm.records import JobInfo, NodeInfo, ReservationInfo

EVERY = "*"
AHEAD_S = PEAK_SLOTS * SLOT_S  # a reservation that begins sooner keeps its nodes awake
DUE_S = 1800.0  # and one that begins so soon has them woken
AWAY = frozenset(
    {"DOWN", "DRAIN", "DRAINED", "DRAINING", "ERROR", "FAIL", "FAILING", "FUTURE", "INVAL"}
    | {"MAINT", "MAINTENANCE", "REBOOT", "REBOOT_ISSUED", "REBOOT_REQUESTED", "UNKNOWN"}
)
FALLING = frozenset({"POWER_DOWN", "POWERING_DOWN"})
WAKING = frozenset({"POWER_UP", "POWERING_UP"})
WAITING = frozenset({"Resources", "Priority"})  # for nodes, and for nothing else
HOLDING = frozenset({"RUNNING", "COMPLETING", "SUSPENDED", "CONFIGURING"})


@dataclass(frozen=True, slots=True)
class NodeTimes:
    """Since when nodes sleep and are idle (Unix seconds)."""

    asleep: Mapping[str, float]
    idle: Mapping[str, float]


def states(node: NodeInfo) -> frozenset[str]:
    """The base state and every flag."""
    return frozenset(node.state.split("+"))


def power_of(node: NodeInfo) -> PowerState:
    """Of one that Slurm is putting to sleep and one that it wakes: that.

    A busy node that is to sleep is on: it sleeps when it is idle, and takes jobs till then.
    """
    flags = states(node)
    if flags & AWAY:
        return PowerState.AWAY
    if flags & WAKING:
        return PowerState.WAKING
    if flags & FALLING:
        waits = "POWERING_DOWN" not in flags and is_busy(node)
        return PowerState.ON if waits else PowerState.FALLING
    if "POWERED_DOWN" in flags:
        return PowerState.ASLEEP
    return PowerState.AWAY if "NOT_RESPONDING" in flags else PowerState.ON


def failed(nodes: Iterable[NodeInfo]) -> tuple[str, ...]:
    """Nodes that were to wake and did not come: Slurm has them down and powered down."""
    return tuple(node.name for node in nodes if states(node) >= {"DOWN", "POWERED_DOWN"})


def pool_of(nodes: Iterable[NodeInfo], pool: str) -> tuple[NodeInfo, ...]:
    """The nodes of a partition; of "*", all."""
    return tuple(node for node in nodes if pool in (EVERY, *node.partitions))


def nodes_of(
    nodes: Sequence[NodeInfo],
    reservations: Sequence[ReservationInfo],
    times: NodeTimes,
    now_s: float,
    excluded: Mapping[str, str] = MappingProxyType({}),
) -> tuple[EnergyNode, ...]:
    """Each with its power, whether it is busy, and why it is to stay awake or to be woken.

    `excluded` has the reason of each node that never sleeps.
    """
    kept, due = _reserved(reservations, now_s)
    held = {name for one in reservations if one.start_s <= now_s < one.end_s for name in one.nodes}
    energy_nodes = []
    for node in nodes:
        power = power_of(node)
        since = times.asleep if power is PowerState.ASLEEP else times.idle
        flagged = "RESERVED" in states(node)
        reserved = kept.get(node.name, "reserved" if flagged else "")
        energy_nodes.append(
            EnergyNode(
                name=node.name,
                power=power,
                busy=is_busy(node),
                kept=excluded.get(node.name, reserved),
                set_apart=flagged or node.name in held,
                due=due.get(node.name, ""),
                since_s=since.get(node.name, now_s),
            )
        )
    return tuple(energy_nodes)


def is_busy(node: NodeInfo) -> bool:
    """True if jobs have any of it, or Slurm has planned one for it."""
    flags = states(node)
    return "IDLE" not in flags or bool(flags & {"COMPLETING", "PLANNED"})


def need(nodes: Sequence[EnergyNode], jobs: Iterable[JobInfo], pool: str) -> int:
    """Nodes that running jobs have and waiting ones lack; never more than any job may have."""
    there = for_jobs(nodes)
    busy = sum(1 for node in there if node.busy)
    waiting = sum(max(1, job.node_count or 1) for job in jobs if _waits(job, pool))
    return min(len(there), busy + waiting)


def neediest_user(jobs: Iterable[JobInfo], pool: str) -> int:
    """Id of the user whose jobs have, or lack, the most nodes of the pool; NOBODY: none does."""
    nodes = Counter[int]()
    for job in jobs:
        if _waits(job, pool) or (job.state in HOLDING and _in(job, pool)):
            nodes[job.user_id] += max(1, job.node_count or 1)
    return max(nodes, key=lambda user: (nodes[user], -user), default=NOBODY)


def _waits(job: JobInfo, pool: str) -> bool:
    return _in(job, pool) and job.state == "PENDING" and job.reason in WAITING


def _in(job: JobInfo, pool: str) -> bool:
    return pool == EVERY or pool in job.partition.split(",")


def _reserved(
    reservations: Iterable[ReservationInfo], now_s: float
) -> tuple[dict[str, str], dict[str, str]]:
    """Nodes with why they are kept awake, and with why they are woken."""
    kept: dict[str, str] = {}
    due: dict[str, str] = {}
    for reservation in reservations:
        if reservation.end_s <= now_s or reservation.start_s > now_s + AHEAD_S:
            continue
        kept |= dict.fromkeys(reservation.nodes, f"reserved by {reservation.name}")
        if reservation.start_s <= now_s + DUE_S:
            due |= dict.fromkeys(
                reservation.nodes, f"reservation {reservation.name} begins or has begun"
            )
    return kept, due
