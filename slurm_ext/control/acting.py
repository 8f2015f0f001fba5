"""What a decision changes on the node: CPU shares, and gates of loaders."""

import logging
from collections.abc import Mapping
from contextlib import suppress

from slurm_ext.control.cores import placed
from slurm_ext.control.errors import GoneError, HostileError
from slurm_ext.control.node import Machine
from slurm_ext.control.tenancy import Tenancy
from slurm_ext.policy.offers import Offer

SAME_READS = 0.05  # a limit that is off by less is left
log = logging.getLogger("dlqueue.control")


def carry_out(
    tenancies: Mapping[str, Tenancy], offers: Mapping[str, Offer], machine: Machine
) -> dict[str, str]:
    """Whoever gives comes before whoever gets; told are the jobs that cannot be changed, and why.

    Those are as they were again.
    """
    hold = not _alone_at_share(tenancies, offers)
    pins = _pins(tenancies, offers) if hold and machine.grain_cores == 1 else {}
    mean_cores = _mean_cores(tenancies, offers, machine)
    refused = {}
    for key in sorted(offers, key=lambda key: offers[key].units - (tenancies[key].units or 0)):
        tenancy, offer = tenancies[key], offers[key]
        before = tenancy.bounds
        try:
            if hold:
                _hold(tenancy, offer.units, pins.get(key), mean_cores, machine)
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


def _cores(tenancy: Tenancy, units: int, machine: Machine) -> float:
    """What a job is sure of: nobody is promised less than his share, unless he agreed.

    Who needs less leaves it to the others by himself.
    """
    least = 0 if tenancy.agreed else tenancy.share_units
    return max(units, least) * machine.grain_cores


def _mean_cores(
    tenancies: Mapping[str, Tenancy], offers: Mapping[str, Offer], machine: Machine
) -> float:
    given = [_cores(tenancies[key], offer.units, machine) for key, offer in offers.items()]
    return sum(given) / max(1, len(given))


def _hold(
    tenancy: Tenancy,
    units: int,
    pin: frozenset[int] | None,
    mean_cores: float,
    machine: Machine,
) -> None:
    """To its cores by number, or a weight; where neither can be, to so much time.

    Nobody has to wait for those who want more than their own: who does not is served before them.
    Under quotas whoever is within his share is served before those who are beyond theirs.
    """
    share, cores = tenancy.share, _cores(tenancy, units, machine)
    first = units <= tenancy.share_units
    if pin is not None:
        if share.pinned != pin:
            share.pin(pin)
    elif machine.lends and share.lends:
        capped = tenancy.sated and not tenancy.agreed
        if not share.weighs(cores, mean_cores, capped=capped):
            share.weigh(cores, mean_cores, capped=capped)
    elif (share.held_cores, share.first) != (cores, first):
        share.limit(cores, first=first)


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
