"""What a decision changes on the node: CPU shares, and gates of loaders."""

import logging
from collections.abc import Mapping
from contextlib import suppress

from slurm_ext.control.cores import placed
from slurm_ext.control.errors import GoneError, HostileError
from slurm_ext.control.node import Machine
from slurm_ext.control.tenancy import Tenancy
from slurm_ext.policy.offers import Offer

log = logging.getLogger("dlqueue.control")


def carry_out(
    tenancies: Mapping[str, Tenancy], offers: Mapping[str, Offer], machine: Machine
) -> dict[str, str]:
    """Whoever gives comes before whoever gets; told are the jobs that cannot be changed, and why.

    Those are as they were again.
    """
    hold = not _alone_at_share(tenancies, offers, machine)
    pins = _pins(tenancies, offers) if hold and machine.grain_cores == 1 else {}
    refused = {}
    for key in sorted(offers, key=lambda key: offers[key].units - (tenancies[key].units or 0)):
        tenancy, offer = tenancies[key], offers[key]
        try:
            _hold(tenancy, offer.units if hold else None, pins.get(key), machine)
            tenancy.units = offer.units
            tenancy.ask(offer.workers)
            tenancy.settled()
        except GoneError:
            tenancy.restore()  # the next look sees it gone
        except (HostileError, OSError) as error:
            refused[key] = str(error)
            log.warning("%s is left alone: %s", key, error)
            tenancy.restore()
    return refused


def _alone_at_share(
    tenancies: Mapping[str, Tenancy], offers: Mapping[str, Offer], machine: Machine
) -> bool:
    """Whether nobody is there from whom, or for whom, a share would have to be kept."""
    return len(offers) == 1 and all(
        offer.units == machine.units(tenancies[key].job.cpus) for key, offer in offers.items()
    )


def _hold(
    tenancy: Tenancy, units: int | None, pin: frozenset[int] | None, machine: Machine
) -> None:
    """To its cores by number, or to so much time; None: as Slurm left it.

    Nobody is capped below his share: who needs less leaves it to the others by himself, and
    whoever is within his share is served before those who are beyond theirs.
    """
    share, own = tenancy.share, machine.units(tenancy.job.cpus)
    if pin is not None:
        if share.pinned != pin:
            share.pin(pin)
    elif units is None:
        share.restore()
    else:
        cores, first = max(units, own) * machine.grain_cores, units <= own
        if (share.held_cores, share.first) != (cores, first):
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
