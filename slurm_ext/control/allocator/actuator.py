"""What a decision changes on the node: CPU shares, and gates of loaders."""

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from slurm_ext.control.allocator.cgroup.cores import placed
from slurm_ext.control.allocator.cgroup.errors import GoneError, HostileError
from slurm_ext.control.allocator.controlled_job import Tenancy
from slurm_ext.control.allocator.node import Machine
from slurm_ext.policy.allocator.operating_points import Offer
from slurm_ext.policy.allocator.shares import ahead

SAME_READS = 0.05  # a limit that is off by less is left
log = logging.getLogger("dlqueue.control")


def carry_out(
    tenancies: Mapping[str, Tenancy], offers: Mapping[str, Offer], machine: Machine, units: int
) -> dict[str, str]:
    """Whoever gives comes before whoever gets; told are the jobs that cannot be changed, and why.

    Those are as they were again. `units`: that are there to divide.
    """
    hold = not _alone_at_share(tenancies, offers)
    pins = _pins(tenancies, offers) if hold and machine.grain_cores == 1 else {}
    parts = _parts(tenancies, offers, machine, units) if hold else {}
    refused = {}
    for key in sorted(offers, key=lambda key: offers[key].units - (tenancies[key].units or 0)):
        tenancy, offer = tenancies[key], offers[key]
        before = tenancy.bounds
        try:
            if hold:
                _hold(tenancy, pins.get(key) or parts[key])
            else:
                tenancy.share.restore()
            tenancy.units = offer.units
            tenancy.ask(offer.workers)
            tenancy.acted_on(changed=tenancy.bounds != before)
        except GoneError:
            tenancy.restore()  # the next look sees it gone
        except (HostileError, OSError) as error:
            refused[key] = str(error)
            log.warning("%s is left alone: %s", key, error)
            tenancy.restore()
    return refused


def share_reads(
    tenancies: Mapping[str, Tenancy], most: Mapping[str, float], device: str
) -> dict[str, float]:
    """Limit those to whom the storage gives less than they ask for; the limits that are new.

    Whose reads cannot be limited here is left as he is: his CPUs do not depend on it.
    """
    new = {}
    for key, tenancy in tenancies.items():
        wanted, now = most.get(key), tenancy.share.read_bytes_per_s
        if wanted is not None and now is not None and abs(wanted / now - 1) < SAME_READS:
            continue
        if wanted != now:
            with suppress(GoneError, OSError):
                tenancy.share.read_at_most(wanted, device)
                new[key] = wanted or 0.0
    return new


def held_alone(tenancies: Mapping[str, Tenancy]) -> bool:
    """Whether the only job that is left is still held to its share: nobody is there to guard."""
    return len(tenancies) == 1 and all(
        one.share.held_cores is not None and one.units == one.share_units
        for one in tenancies.values()
    )


def _alone_at_share(tenancies: Mapping[str, Tenancy], offers: Mapping[str, Offer]) -> bool:
    """Whether nobody is there from whom, or for whom, a share would have to be kept."""
    return len(offers) == 1 and all(
        offer.units == tenancies[key].share_units for key, offer in offers.items()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """What a job has where CPUs are given as time."""

    cores: float  # that it is sure of
    mean_cores: float  # of all
    most_cores: float
    ahead: float
    lends: bool
    within: bool  # its share


def _parts(
    tenancies: Mapping[str, Tenancy], offers: Mapping[str, Offer], machine: Machine, units: int
) -> dict[str, _Part]:
    """Nobody is promised less than his share, unless he agreed; what is not used is lent.

    As much of it as the others are foretold to leave: were all cores taken at all times, those who
    sleep and wake would wait for them. Whoever is ahead of others never has more than his own, and
    who is not known yet may have all that there is, by his weight.
    """
    cores = {key: _cores(tenancies[key], one.units, machine) for key, one in offers.items()}
    used = {key: cores[key] * tenancies[key].used(cores[key], offers[key].workers) for key in cores}
    all_cores, mean_cores = units * machine.grain_cores, sum(cores.values()) / max(1, len(cores))
    parts = {}
    for key, own in cores.items():
        forward = 1.0 if tenancies[key].agreed else ahead(used[key] / own)
        others = sum(used.values()) - used[key]
        free = all_cores if tenancies[key].known is None else all_cores - others
        parts[key] = _Part(
            cores=own,
            mean_cores=mean_cores,
            most_cores=own if forward > 1 or not machine.lends else max(own, free),
            ahead=forward,
            lends=machine.lends,
            within=offers[key].units <= tenancies[key].share_units,
        )
    return parts


def _cores(tenancy: Tenancy, units: int, machine: Machine) -> float:
    """What a job is sure of. Who needs less leaves it to the others by himself."""
    least = 0 if tenancy.agreed else tenancy.share_units
    return max(units, least) * machine.grain_cores


def _hold(tenancy: Tenancy, part: _Part | frozenset[int]) -> None:
    """To its cores by number, or a weight and so much time; where no weight can be, to its time.

    There whoever is within his share is served before those who are beyond theirs.
    """
    share = tenancy.share
    if isinstance(part, frozenset):
        if share.pinned != part:
            share.pin(part)
    elif part.lends and share.lends:
        weight = (part.cores * part.ahead, part.mean_cores)
        if (share.weight, share.held_cores) != (weight, part.most_cores):
            share.weigh(part.cores, part.mean_cores, part.most_cores, ahead=part.ahead)
    elif (share.held_cores, share.first) != (part.cores, part.within):
        share.limit(part.cores, first=part.within)


def _pins(
    tenancies: Mapping[str, Tenancy], offers: Mapping[str, Offer]
) -> dict[str, frozenset[int]]:
    """Which cores: of those that Slurm gave to these jobs, or any where it gave them all."""
    homes: dict[str, frozenset[int]] = {}
    for key in offers:
        with suppress(GoneError):
            homes[key] = tenancies[key].share.own_cores
    pool = frozenset().union(*homes.values())
    bound = sum(map(len, homes.values())) == len(pool)
    wanted = {key: offers[key].units for key in homes}
    now = {key: tenancies[key].share.pinned or frozenset() for key in homes}
    return placed(wanted, pool, now, homes if bound else {})
