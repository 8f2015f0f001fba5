"""Who gets how much of a storage bandwidth that is too small for all. Pure.

Max-min fair, as storage that serves its readers in turn divides itself: nobody is given more than
he asks for, and nobody who is given less than he asks for has less than anybody else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

from slurm_ext.policy.allocator.operating_points import Offer

ROUNDING = 1e-6  # of a bandwidth


def level(demands: Sequence[float], supply: float) -> float:
    """Bandwidth that each may have at most, in the unit of the demands; inf: there is enough."""
    left = supply
    for served, demand in enumerate(sorted(demands)):
        even = left / (len(demands) - served)
        if demand > even:
            return even
        left -= demand
    return inf


def limited(offer: Offer, most_io_bytes_per_s: float) -> Offer:
    """The offer as it is with at most so much bandwidth: the rate falls with what is read."""
    if offer.io_bytes_per_s <= most_io_bytes_per_s:
        return offer
    return replace(
        offer,
        samples_per_s=offer.samples_per_s * most_io_bytes_per_s / offer.io_bytes_per_s,
        io_bytes_per_s=most_io_bytes_per_s,
    )


def level_of(offers: Sequence[Offer], supply: float | None) -> float:
    """The level that these offers together leave each other; `supply` None: not limited."""
    if supply is None:
        return inf
    return level([offer.io_bytes_per_s for offer in offers], supply)


def capped(offers: Mapping[str, Offer], supply: float) -> dict[str, float]:
    """Bandwidth of those who have less than they ask for, by job: nobody else needs a limit.

    `offers`: as they are beside each other (`limited` to their level). Who reads alone is never
    held back.
    """
    demands = {job: offer.io_bytes_per_s for job, offer in offers.items() if offer.io_bytes_per_s}
    most = max(demands.values(), default=0.0)
    if len(demands) < 2 or sum(demands.values()) < supply * (1 - ROUNDING):
        return {}
    return {job: demand for job, demand in demands.items() if demand >= most * (1 - ROUNDING)}
