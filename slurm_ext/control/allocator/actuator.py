"""Apply a decision on the node: CPU shares, and the number of workers that loaders use."""

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from slurm_ext.control.allocator.cgroup.cores import assign_cores
from slurm_ext.control.allocator.cgroup.job_location import JobGoneError, UntrustedJobDirError
from slurm_ext.control.allocator.controlled_job import ControlledJob
from slurm_ext.control.allocator.node import Machine
from slurm_ext.policy.allocator.max_min_share import latency_weight
from slurm_ext.policy.allocator.operating_points import OperatingPoint

SAME_READS = 0.05  # a limit that is off by less is left
log = logging.getLogger("dlqueue.control")


def apply(
    controlled: Mapping[str, ControlledJob],
    points: Mapping[str, OperatingPoint],
    machine: Machine,
    units: int,
) -> dict[str, str]:
    """Apply shrinking jobs before growing ones; {job: reason} for jobs that cannot be changed.

    Those are as they were again. `units`: that are there to divide.
    """
    hold = not _alone_at_share(controlled, points)
    pins = _pins(controlled, points) if hold and machine.grain_cores == 1 else {}
    parts = _grants(controlled, points, machine, units) if hold else {}
    refused = {}
    for key in sorted(points, key=lambda key: points[key].units - (controlled[key].units or 0)):
        job, point = controlled[key], points[key]
        before = job.bounds
        try:
            if hold:
                _hold(job, pins.get(key) or parts[key])
            else:
                job.share.restore()
            job.units = point.units
            job.ask(point.workers)
            job.acted_on(changed=job.bounds != before)
        except JobGoneError:
            job.restore()  # the next look sees it gone
        except (UntrustedJobDirError, OSError) as error:
            refused[key] = str(error)
            log.warning("%s is left alone: %s", key, error)
            job.restore()
    return refused


def limit_reads(
    controlled: Mapping[str, ControlledJob], most: Mapping[str, float], device: str
) -> dict[str, float]:
    """Limit the reads of jobs that get less than they demand; returns the new limits.

    A job whose reads cannot be limited here stays as it is: its CPUs do not depend on that.
    """
    new = {}
    for key, job in controlled.items():
        wanted, now = most.get(key), job.share.read_bytes_per_s
        if wanted is not None and now is not None and abs(wanted / now - 1) < SAME_READS:
            continue
        if wanted != now:
            with suppress(JobGoneError, OSError):
                job.share.read_at_most(wanted, device)
                new[key] = wanted or 0.0
    return new


def limited_without_need(controlled: Mapping[str, ControlledJob]) -> bool:
    """True if only one job is left and it is still held to its share: nobody else needs that."""
    return len(controlled) == 1 and all(
        point.share.held_cores is not None and point.units == point.share_units
        for point in controlled.values()
    )


def _alone_at_share(
    controlled: Mapping[str, ControlledJob], points: Mapping[str, OperatingPoint]
) -> bool:
    """True if only one job runs and it is to have its share: no limit is needed."""
    return len(points) == 1 and all(
        point.units == controlled[key].share_units for key, point in points.items()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuGrant:
    """CPU time of one job, in cores."""

    cores: float  # that it is sure of
    mean_cores: float  # of all
    most_cores: float
    latency_weight: float
    lends: bool
    within: bool  # its share


def _grants(
    controlled: Mapping[str, ControlledJob],
    points: Mapping[str, OperatingPoint],
    machine: Machine,
    units: int,
) -> dict[str, CpuGrant]:
    """Guarantee each job its share, or what it agreed to, and lend what is not used.

    Only as much is lent as the others are predicted to leave: if all cores were taken at all times,
    jobs that sleep and wake would wait for them. A job with a larger weight never has more than its
    own, and a job without a curve may have all that there is, by its weight.
    """
    cores = {key: _cores(controlled[key], point.units, machine) for key, point in points.items()}
    used = {
        key: count * controlled[key].utilisation(count, points[key].workers)
        for key, count in cores.items()
    }
    all_cores, mean_cores = units * machine.grain_cores, sum(cores.values()) / max(1, len(cores))
    parts = {}
    for key, own in cores.items():
        weight_factor = 1.0 if controlled[key].agreed else latency_weight(used[key] / own)
        others = sum(used.values()) - used[key]
        free = all_cores if controlled[key].curve is None else all_cores - others
        parts[key] = CpuGrant(
            cores=own,
            mean_cores=mean_cores,
            most_cores=own if weight_factor > 1 or not machine.lends else max(own, free),
            latency_weight=weight_factor,
            lends=machine.lends,
            within=points[key].units <= controlled[key].share_units,
        )
    return parts


def _cores(job: ControlledJob, units: int, machine: Machine) -> float:
    """Cores that are guaranteed to a job; what it does not use is free for others anyway."""
    least = 0 if job.agreed else job.share_units
    return max(units, least) * machine.grain_cores


def _hold(job: ControlledJob, part: CpuGrant | frozenset[int]) -> None:
    """To its cores by number, or a weight and so much time; where no weight can be, to its time.

    There a job within its share is served before jobs beyond theirs.
    """
    share = job.share
    if isinstance(part, frozenset):
        if share.pinned != part:
            share.pin(part)
    elif part.lends and share.lends:
        weight = (part.cores * part.latency_weight, part.mean_cores)
        if (share.weight, share.held_cores) != (weight, part.most_cores):
            share.weigh(
                part.cores,
                part.mean_cores,
                part.most_cores,
                latency_weight=part.latency_weight,
            )
    elif (share.held_cores, share.first) != (part.cores, part.within):
        share.limit(part.cores, first=part.within)


def units_there(
    controlled: Mapping[str, ControlledJob], machine: Machine, own: int, idle_cpus: int
) -> int:
    """Units to divide: the jobs' `own`, and those of idle CPUs on which the jobs may run."""
    units = own + machine.units(idle_cpus)
    if not idle_cpus or machine.grain_cores != 1:
        return units
    pool = frozenset().union(*_homes(controlled, controlled).values())
    return max(own, min(units, len(pool)))


def _homes(
    controlled: Mapping[str, ControlledJob], keys: Iterable[str]
) -> dict[str, frozenset[int]]:
    homes: dict[str, frozenset[int]] = {}
    for key in keys:
        with suppress(JobGoneError):
            homes[key] = controlled[key].share.own_cores
    return homes


def _pins(
    controlled: Mapping[str, ControlledJob], points: Mapping[str, OperatingPoint]
) -> dict[str, frozenset[int]]:
    """Which cores: of those that Slurm gave to these jobs, or any where it gave them all."""
    homes = _homes(controlled, points)
    pool = frozenset().union(*homes.values())
    bound = sum(map(len, homes.values())) == len(pool)
    wanted = {key: points[key].units for key in homes}
    now = {key: controlled[key].share.pinned or frozenset() for key in homes}
    return assign_cores(wanted, pool, now, homes if bound else {})
