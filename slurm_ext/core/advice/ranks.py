"""Advice on ranks: one node instead of several, gradient buckets, compression, a slow rank. Pure.

Advised with their conditions, never applied. Communication can hide behind the backward pass that
computes the gradients: k even buckets leave at least the last one (1 / k of it) exposed, and what
is longer than the backward pass.
"""

from collections.abc import Iterator
from math import ceil

from slurm_ext.core.advice.advice import Advice, Cost
from slurm_ext.core.advice.facts import RankFacts, TrainingFacts
from slurm_ext.core.units import MIB

WANTED_BUCKETS = 8
HALVED = 0.5  # of the messages' bytes are left of 32-bit gradients in 16 bits


def rank_advice(facts: TrainingFacts) -> Iterator[Advice]:
    """Advice on what ranks wait for each other."""
    ranks = facts.ranks
    if ranks is None:
        return
    yield from _slow_rank(ranks)
    if ranks.exposed_s > 0:
        yield from _one_node(ranks)
        yield from _buckets(ranks)
        yield from _compression(ranks)


def _slow_rank(ranks: RankFacts) -> Iterator[Advice]:
    """A rank that is always slow is its node's; one that moves is its batches'."""
    if ranks.skew_s <= 0 or (ranks.slow_rank is None and not ranks.moves):
        return
    if ranks.slow_rank is None:
        clause = (
            "batches of equal cost for all ranks: they wait for a slower one, each time another"
        )
        action, cost = "even_batches", Cost.CODE
    else:
        where = f" on {ranks.slow_node}" if ranks.slow_node else ""
        clause = (
            f"leave out or report the node or GPU of rank {ranks.slow_rank}{where}: the others"
            " always wait for it"
        )
        action, cost = "exclude_node", Cost.SETTING
    yield Advice(
        word="skew",
        action=action,
        next=clause,
        cost=cost,
        removable_s=ranks.skew_s,
        option=f"sbatch --exclude={ranks.slow_node}" if ranks.slow_node else "",
    )


def _one_node(ranks: RankFacts) -> Iterator[Advice]:
    """All ranks on one node, where one has room; how fast its own links are, nobody measured."""
    if not (ranks.fits_one_node and ranks.nodes > 1):
        return
    yield Advice(
        word="network",
        action="one_node",
        next="all its GPUs on one node: they wait for each other's messages",
        removable_s=ranks.exposed_s,
        low_s=0.0,
        high_s=ranks.exposed_s,
        value=1,
    )


def _buckets(ranks: RankFacts) -> Iterator[Advice]:
    """Buckets that are sent while earlier layers' gradients are computed."""
    removable_s = bucket_gain_s(ranks)
    if removable_s <= 0:
        return
    few = 0 < len(ranks.buckets) < WANTED_BUCKETS
    kind = "smaller" if few else "larger"
    mib = ceil(sum(ranks.buckets) / WANTED_BUCKETS / MIB) if few else None
    yield Advice(
        word="network",
        action="buckets",
        next=f"{kind} gradient buckets that overlap the backward pass (more than two ranks then"
        " round sums in another order)",
        removable_s=removable_s,
        low_s=0.0,
        high_s=ranks.exposed_s,
        value=mib,
    )


def bucket_gain_s(ranks: RankFacts) -> float:
    """Exposed seconds that other buckets could hide; all of them where nobody measured why."""
    comm_s, backward_s, overlap_s = ranks.comm_s, ranks.backward_s, ranks.overlap_s
    if comm_s is None or backward_s is None or overlap_s is None:
        return ranks.exposed_s
    hidden_s = min(backward_s, comm_s * (1 - 1 / WANTED_BUCKETS))
    return min(ranks.exposed_s, max(0.0, hidden_s - overlap_s))


def _compression(ranks: RankFacts) -> Iterator[Advice]:
    """Gradients in half of their bytes, where hiding cannot be enough; torch's hook needs NCCL."""
    comm_s, backward_s = ranks.comm_s, ranks.backward_s
    if ranks.backend != "nccl" or comm_s is None or backward_s is None or comm_s <= backward_s:
        return
    yield Advice(
        word="network",
        action="compress_gradients",
        next="gradients in 16 bits (a communication hook), if the loss stays the same in a short"
        " trial: the messages last longer than the backward pass that could hide them",
        cost=Cost.CODE,
        removable_s=min(ranks.exposed_s, HALVED * comm_s),
        low_s=0.0,
        high_s=min(ranks.exposed_s, HALVED * comm_s),
    )
