"""The jobs that share a node, and whether a division of its units among them is possible. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from slurm_ext.core.errors import InputError
from slurm_ext.policy.allocator.max_min_share import limited
from slurm_ext.policy.allocator.operating_points import Offer, fault, within

CREDIBLE = 4.0  # times as fast as in proportion to units: measured curves have steps, not wonders


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """One running job."""

    job: str
    offers: tuple[Offer, ...]  # ascending units; empty: nothing is known of it, it keeps its share
    share_units: int  # its proportional share: what Slurm gave it
    now: Offer | None  # what it has, at its measured or believed rate; None: it has just started
    remaining_s: float | None = None  # None: unknown
    news: bool = False  # its curve has become known since something was changed for it
    agreed: bool = False  # it may fall below the rate of its share
    least_units: int = 1  # that its accelerators need; never more than its share is promised
    weight: float = 1.0  # of its gains against those of others
    written: Offer | None = None  # its share with the user's own workers; None: with the best ones


def check(tenants: Sequence[Tenant], units: int, io_bytes_per_s: float | None) -> None:
    """InputError where no division of what the node has could give everybody his share."""
    if units < 1:
        raise InputError("node", f"{units} units to divide: at least 1 is needed")
    if io_bytes_per_s is not None and not (isfinite(io_bytes_per_s) and io_bytes_per_s > 0):
        raise InputError("node", f"storage of {io_bytes_per_s} bytes/s: expected more than 0")
    jobs = [tenant.job for tenant in tenants]
    for job in jobs:
        if jobs.count(job) > 1:
            raise InputError(f"job {job}", "named twice among the tenants of one node")
    for tenant in tenants:
        _check_one(tenant, units)
    shares = sum(tenant.share_units for tenant in tenants)
    if shares > units:
        raise InputError("node", f"shares of {shares} units are promised, it has {units}")


def _check_one(tenant: Tenant, units: int) -> None:
    source = f"job {tenant.job}"
    if not 1 <= tenant.share_units <= units:
        raise InputError(source, f"its share of {tenant.share_units} units is not in 1 to {units}")
    if tenant.least_units < 0:
        raise InputError(source, f"least_units = {tenant.least_units}: expected 0 or more")
    if not (isfinite(tenant.weight) and tenant.weight > 0):
        raise InputError(source, f"weight = {tenant.weight}: expected a positive number")


def unusable(tenant: Tenant) -> str | None:
    """Why nothing can be decided for this job, so that it keeps its share; None: something can."""
    why = fault(tenant.offers)
    if why is not None:
        return why
    share = share_offer(tenant)
    if share is None:
        return f"none of its offers is within its share of {tenant.share_units} units"
    if any(offer.samples_per_s > _credible(share, offer) for offer in tenant.offers):
        return "its offers claim more from further units than any training gains"
    return None


def share_offer(tenant: Tenant) -> Offer | None:
    """What the job would make of its proportional share, its accelerators supplied."""
    return within(_supplied(tenant), tenant.share_units)


def promised_offer(tenant: Tenant) -> Offer | None:
    """What the job never falls below: its share as its user wrote the job.

    Workers that were added since are not the user's: what they bring may go to other jobs again.
    """
    share, written = share_offer(tenant), tenant.written
    if share is None or written is None or not 0 < written.samples_per_s < share.samples_per_s:
        return share
    return written


def allowed(
    tenant: Tenant, floor_samples_per_s: float, level: float, most_io_bytes_per_s: float
) -> list[Offer]:
    """Offers that keep the promises: accelerators supplied, not below the rate of its share.

    `level`: bandwidth that it can have; `most_io_bytes_per_s`: that it may ask for.
    """
    floor = 0.0 if tenant.agreed else floor_samples_per_s
    return [
        offer
        for offer in _supplied(tenant)
        if limited(offer, level).samples_per_s >= floor
        and offer.io_bytes_per_s <= most_io_bytes_per_s
    ]


def _credible(share: Offer, offer: Offer) -> float:
    """The most that so many units can bring; units below the share bring no more than it does."""
    return CREDIBLE * share.samples_per_s * max(1.0, offer.units / share.units)


def _supplied(tenant: Tenant) -> list[Offer]:
    least = min(tenant.least_units, tenant.share_units)
    return [offer for offer in tenant.offers if offer.units >= least]
