"""How a node's CPU units and storage bandwidth are divided among the jobs on it. Pure.

Maximises the sum over jobs of weight x rate / rate at the proportional share (division.py), where
- the sum of units is at most the node's,
- nobody is below the rate of his proportional share, as his user wrote the job (KEPT of it: no
  measurement tells the rest, and a modelled curve never becomes quite flat), unless he agreed,
- nobody has less than `least_units`: no accelerator is stranded without cores.
A job of which nothing usable is known keeps exactly its share.

Bandwidth is not dealt out but shared by the storage itself, so that what one job reads more the
others may lack. Its level (waterfill.py) follows from the demands, and the demands from the units:
the division is repeated with each found level, and the best one that keeps the promises is taken.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from slurm_ext.policy.allocator.job_demands import Tenant, allowed, check, promised_offer, unusable
from slurm_ext.policy.allocator.knapsack_dp import Choice, divide, enough
from slurm_ext.policy.allocator.max_min_share import level_of, limited
from slurm_ext.policy.allocator.operating_points import Offer

ROUNDS = 3  # of division and water level
ROUNDING = 1e-9
KEPT = 0.995  # of the rate at a share is its rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """What each job has, at the rate that it then reaches."""

    offers: Mapping[str, Offer]  # by job
    reason: Mapping[str, str]  # by job
    value: float  # sum of weight x rate / rate at the proportional share
    spare_units: int  # that would speed up nobody


def allocate(
    tenants: Sequence[Tenant], units: int, *, io_bytes_per_s: float | None = None
) -> Allocation:
    """The best division of `units` among the tenants; the order of tenants does not matter.

    `io_bytes_per_s`: what the node's storage gives in all; None: not limited. InputError where the
    shares do not fit the node or a tenant is described wrongly: then nothing should be changed.
    """
    check(tenants, units, io_bytes_per_s)
    ordered = sorted(tenants, key=lambda tenant: tenant.job)
    shares = at_shares(ordered, io_bytes_per_s)
    best, most = shares, total(ordered, shares, shares)
    for asked in _divisions(ordered, units, io_bytes_per_s):
        found = together(asked, io_bytes_per_s)
        gained = total(ordered, found, shares)
        if gained > most - ROUNDING and _kept(ordered, found, shares):
            best, most = found, gained
    return allocation(ordered, best, shares, units)


def at_shares(tenants: Sequence[Tenant], io_bytes_per_s: float | None = None) -> list[Offer]:
    """What each would have with its proportional share, storage shared with the others."""
    return together([share_or_nothing(tenant) for tenant in tenants], io_bytes_per_s)


def together(asked: Sequence[Offer], io_bytes_per_s: float | None) -> list[Offer]:
    """The offers as they are when all read from one storage."""
    level = level_of(asked, io_bytes_per_s)
    return [limited(offer, level) for offer in asked]


def total(tenants: Sequence[Tenant], offers: Sequence[Offer], shares: Sequence[Offer]) -> float:
    """The objective."""
    return sum(worth(*row) for row in zip(tenants, offers, shares, strict=True))


def worth(tenant: Tenant, offer: Offer, share: Offer) -> float:
    """One job's part of the objective; a job of which nothing is known counts as at its share."""
    if not share.samples_per_s:
        return tenant.weight
    return tenant.weight * offer.samples_per_s / share.samples_per_s


def allocation(
    tenants: Sequence[Tenant], offers: Sequence[Offer], shares: Sequence[Offer], units: int
) -> Allocation:
    """The offers with their value and reasons."""
    rows = list(zip(tenants, offers, shares, strict=True))
    return Allocation(
        offers={tenant.job: offer for tenant, offer, _ in rows},
        reason={tenant.job: _reason(tenant, offer, share) for tenant, offer, share in rows},
        value=total(tenants, offers, shares),
        spare_units=units - sum(offer.units for offer in offers),
    )


def share_or_nothing(tenant: Tenant) -> Offer:
    """What it would make of its share alone on the storage; rate 0 where that is not known."""
    offer = None if unusable(tenant) else promised_offer(tenant)
    return offer or Offer(units=tenant.share_units, workers=None, samples_per_s=0.0)


def _divisions(
    tenants: Sequence[Tenant], units: int, io_bytes_per_s: float | None
) -> Iterator[list[Offer]]:
    """Divisions worth a look; the last one reads no more than the shares would."""
    shares = [share_or_nothing(tenant) for tenant in tenants]
    first = level = level_of(shares, io_bytes_per_s)
    for _ in range(1 if io_bytes_per_s is None else ROUNDS):
        asked = _division(tenants, shares, units, level, frugal=False)
        yield asked
        level = level_of(asked, io_bytes_per_s)
    if io_bytes_per_s is not None:
        yield _division(tenants, shares, units, first, frugal=True)


def _division(
    tenants: Sequence[Tenant], shares: Sequence[Offer], units: int, level: float, *, frugal: bool
) -> list[Offer]:
    pairs = zip(tenants, shares, strict=True)
    return divide([_choice(tenant, share, level, frugal) for tenant, share in pairs], units)


def _choice(tenant: Tenant, share: Offer, level: float, frugal: bool) -> Choice:
    floor = limited(share, level).samples_per_s
    most_io = share.io_bytes_per_s if frugal else inf
    options = allowed(tenant, KEPT * floor, level, most_io) if floor else [share]
    rates = [limited(offer, level).samples_per_s for offer in options]
    return Choice(
        options=tuple(options),
        level=level,
        enough_samples_per_s=enough(rates),
        share_samples_per_s=floor or 1.0,
        share_units=tenant.share_units,
        now=tenant.now,
        weight=tenant.weight,
    )


def _kept(tenants: Sequence[Tenant], offers: Sequence[Offer], shares: Sequence[Offer]) -> bool:
    """Whether nobody is below his share without having agreed."""
    return all(
        tenant.agreed or offer.samples_per_s >= KEPT * share.samples_per_s - ROUNDING
        for tenant, offer, share in zip(tenants, offers, shares, strict=True)
    )


def _reason(tenant: Tenant, offer: Offer, share: Offer) -> str:
    """One clause on what the job has against its share."""
    why = unusable(tenant)
    if why is not None:
        return f"keeps its share: {why}"
    more = offer.units - tenant.share_units
    gain = offer.samples_per_s / share.samples_per_s - 1
    if more == 0:
        return "has its share"
    if more > 0:
        return f"{_units(more)} beyond its share: {gain:+.0%}"
    if gain < KEPT - 1:
        return f"does without {_units(-more)} of its share, as agreed: {gain:+.0%}"
    return f"has no use for {_units(-more)} of its share"


def _units(count: int) -> str:
    return "1 unit" if count == 1 else f"{count} units"
