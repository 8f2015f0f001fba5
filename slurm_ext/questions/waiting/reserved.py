"""Reservations and closed nodes that a waiting job waits for."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slurm_ext.control.queue.queue_position import has_room
from slurm_ext.slurm.hostlist import expand
from slurm_ext.slurm.records import JobInfo, NodeInfo, ReservationInfo

MOST_SHOWN = 6  # reservations, closed nodes
NOT_AVAILABLE = "ReqNodeNotAvail"


def reservation_of(job: JobInfo, reservations: Sequence[ReservationInfo]) -> dict[str, Any] | None:
    """`{kind, reservations}` of a job that asks for a reservation; None: it asks for none."""
    if job.reason != "Reservation" or not job.reservation:
        return None
    wanted = job.reservation.split(",")
    own = [_row(reservation) for reservation in reservations if reservation.name in wanted]
    return {"kind": "reservation", "name": job.reservation, "reservations": own}


def nodes_of(
    job: JobInfo,
    nodes: Sequence[NodeInfo],
    reservations: Sequence[ReservationInfo],
    now_s: float,
) -> dict[str, Any] | None:
    """`{kind, asked, partition_nodes, closed: [{name, state}], reservations, minutes_left}`.

    Of a job whose nodes are closed or reserved. `asked`: nodes that it names; `minutes_left`: until
    the first reservation on one of its nodes begins; a job with less time may start before. None:
    Slurm's reason is another one.
    """
    if job.reason != NOT_AVAILABLE and not job.reason_detail.startswith("Nodes required for job"):
        return None
    names = set(job.partition.split(","))
    required = list(expand(job.required_nodes)) if job.required_nodes else []
    mine = [n for n in nodes if names & set(n.partitions) and (not required or n.name in required)]
    usable = {node.name for node in mine}
    ahead = [r for r in reservations if r.end_s > now_s and usable & set(r.nodes)]
    first = min((r.start_s for r in ahead), default=None)
    return {
        "kind": "nodes",
        "asked": required,
        "nodes": len(mine),
        "closed": [{"name": n.name, "state": n.state} for n in mine if not has_room(n)],
        "reservations": [_row(reservation) for reservation in ahead],
        "minutes_left": None if first is None else max(0.0, first - now_s) / 60,
        "minutes_asked": job.time_limit_minutes,
    }


def _row(reservation: ReservationInfo) -> dict[str, Any]:
    times = {"start_s": reservation.start_s, "end_s": reservation.end_s}
    return {
        "name": reservation.name,
        **times,
        "nodes": list(reservation.nodes),
        "flags": list(reservation.flags),
    }


def reservation_lines(cause: Mapping[str, Any]) -> Iterator[str]:
    """For people: when the job's own reservation begins."""
    if not cause["reservations"]:
        yield f"reserved: Slurm knows no reservation {cause['name']} any more"
    yield from map(_reserved, cause["reservations"][:MOST_SHOWN])


def node_lines(cause: Mapping[str, Any]) -> Iterator[str]:
    """For people: closed nodes, reservations of others, and what would fit before them."""
    from slurm_ext.core.units import format_minutes
    from slurm_ext.report.formatting import counted

    closed = cause["closed"]
    if closed:
        which = ", ".join(f"{node['name']} ({node['state']})" for node in closed[:MOST_SHOWN])
        more = f" and {len(closed) - MOST_SHOWN} more" if len(closed) > MOST_SHOWN else ""
        yield f"closed:   {len(closed)} of {counted(cause['nodes'], 'node')}: {which}{more}"
    yield from map(_reserved, cause["reservations"][:MOST_SHOWN])
    left, minutes = cause["minutes_left"], cause["minutes_asked"]
    if left and minutes and minutes > left:
        yield (
            f"shorter:  it asks for {format_minutes(minutes)}; with a --time below"
            f" {format_minutes(float(int(left)))} it could end before the reservation begins"
        )


def _reserved(reservation: Mapping[str, Any]) -> str:
    from slurm_ext.questions.waiting.times import at

    nodes = reservation["nodes"]
    which = ", ".join(nodes[:MOST_SHOWN]) + (" ..." if len(nodes) > MOST_SHOWN else "")
    why = " for maintenance" if "MAINT" in reservation["flags"] else ""
    times = f"{at(reservation['start_s'])} to {at(reservation['end_s'])}"
    return f"reserved: {which}{why} from {times} (reservation {reservation['name']})"
