"""Lend a node's idle cores to loader workers that run on them at idle priority. Pure.

Every job keeps each core that Slurm gave it: the kernel runs a lent worker there only while no
thread of the owner wants the core. So nothing has to be predicted for a loan to cost nothing, and
where no core is idle nothing changes. A loan is one core of one owner for one borrower; it ends in
the round in which its owner is disturbed, wants the core itself, or its borrower stops using it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

WAITS = 0.05  # least part of its time that a loop waits for data, for more workers to be worth it
MOST_WAIT = 0.9  # a larger part asks for no more at once: nine times what there is
LAST_CORE_IDLE = 0.4  # least idle part of the last core that an owner lends,
LAST_CORE_STAYS = 0.2  # and with which it stays lent
USED = 0.25  # least use of a lent core, while its borrower does not wait
NOBODY = ""  # owner of cores that no job was given


@dataclass(frozen=True, slots=True, kw_only=True)
class LendingJob:
    """One job as measured between two looks; cores are CPU seconds in a second."""

    job: str
    group: str  # jobs of one group lend to each other
    cores: frozenset[int]  # that Slurm gave it
    wanted_cores: float  # used or waited for by its processes, lent workers apart
    wait_share: float = 0.0  # part of its time that its loop waits for data
    lent_use: float = 0.0  # by its lent workers
    max_lent: int = 0  # lent workers that it may have; 0: it borrows nothing
    lends: bool = True
    lends_to_all: bool = False
    disturbed: bool = False  # since it lends, or it rests after that

    @property
    def waits(self) -> bool:
        """True if more loader workers would speed it up."""
        return self.wait_share >= WAITS

    @property
    def borrows(self) -> bool:
        """True if it has a use for others' cores: it waits, and its own are busy."""
        return self.max_lent > 0 and self.waits and not self.idle_cores(LAST_CORE_IDLE)

    def idle_cores(self, last_core_idle: float) -> int:
        """Count its cores that its own processes do not want; the last for a part of the time."""
        idle = len(self.cores) - self.wanted_cores
        return max(0, min(len(self.cores), int(idle + 1 - last_core_idle)))

    def may_lend_to(self, borrower: "LendingJob") -> bool:
        """True if both owners' words and the site's setting allow it."""
        return self.job != borrower.job and (self.lends_to_all or self.group == borrower.group)


@dataclass(frozen=True, slots=True, kw_only=True)
class LendingNode:
    """The node's jobs, the cores that no job has, and the memory node of each core."""

    jobs: Sequence[LendingJob]
    free: frozenset[int] = frozenset()  # lent as well, where the site allows it
    memory_nodes: Mapping[int, int] = field(default_factory=dict)


def lend(node: LendingNode, loans: Mapping[int, str]) -> dict[int, str]:
    """Return the loans from now on, {core: borrower}, from those of before."""
    jobs = {job.job: job for job in sorted(node.jobs, key=lambda job: job.job)}
    owners = {core: job for job in jobs.values() for core in job.cores}
    kept = _kept(jobs, owners, node.free, loans)
    offers = _offers(jobs, kept, node.free)
    wanted = {job.job: _more(job, kept) for job in jobs.values() if job.borrows}
    while grants := _one_each(jobs, owners, node, offers, wanted, kept):
        kept |= grants
    return dict(sorted(kept.items()))


def _kept(
    jobs: Mapping[str, LendingJob],
    owners: Mapping[int, LendingJob],
    free: frozenset[int],
    loans: Mapping[int, str],
) -> dict[int, str]:
    """Loans that go on."""
    kept: dict[int, str] = {}
    by_owner: Counter[str] = Counter()
    by_borrower: Counter[str] = Counter()
    for core, name in sorted(loans.items()):
        borrower, owner = jobs.get(name), owners.get(core)
        if borrower is None or by_borrower[name] >= _still_used(borrower, loans):
            continue
        if owner is None and core not in free:
            continue
        if owner is not None and (
            not owner.may_lend_to(borrower) or by_owner[owner.job] >= _stays_lent(owner)
        ):
            continue
        kept[core] = name
        by_borrower[name] += 1
        by_owner[owner.job if owner else NOBODY] += 1
    return kept


def _stays_lent(owner: LendingJob) -> int:
    """Cores of an owner that may stay lent: none of one that is disturbed or waits itself."""
    if not owner.lends or owner.disturbed or owner.borrows:
        return 0
    return owner.idle_cores(LAST_CORE_STAYS)


def _still_used(borrower: LendingJob, loans: Mapping[int, str]) -> int:
    """Lent cores that a borrower keeps: all while it waits, else those that it uses."""
    count = min(borrower.max_lent, sum(name == borrower.job for name in loans.values()))
    return count if borrower.waits else min(count, ceil(borrower.lent_use / USED))


def _offers(
    jobs: Mapping[str, LendingJob], kept: Mapping[int, str], free: frozenset[int]
) -> dict[str, int]:
    """Cores that each owner lends beyond those that it has lent; a borrower lends none."""
    borrowers = set(kept.values())
    offers = {
        name: job.idle_cores(LAST_CORE_IDLE) - sum(core in kept for core in job.cores)
        for name, job in jobs.items()
        if job.lends and not (job.disturbed or job.borrows or name in borrowers)
    }
    return {**offers, NOBODY: len(free - set(kept))}


def _more(job: LendingJob, kept: Mapping[int, str]) -> int:
    """Lent workers that would end its wait, beyond those that it has."""
    has = sum(name == job.job for name in kept.values())
    wait = min(job.wait_share, MOST_WAIT)
    ends_wait = ceil((job.wanted_cores + job.lent_use) * wait / (1 - wait))
    return max(0, min(job.max_lent - has, ends_wait))


def _one_each(
    jobs: Mapping[str, LendingJob],
    owners: Mapping[int, LendingJob],
    node: LendingNode,
    offers: dict[str, int],
    wanted: dict[str, int],
    loans: Mapping[int, str],
) -> dict[int, str]:
    """Grant one more core to each borrower, those that wait longest first; counts are reduced."""
    grants: dict[int, str] = {}
    for name in sorted(wanted, key=lambda name: (-jobs[name].wait_share, name)):
        borrower = jobs[name]
        cores = [
            core
            for core in (*owners, *node.free)
            if core not in loans and core not in grants and _offered(owners, offers, core, borrower)
        ]
        if wanted[name] > 0 and cores:
            core = min(cores, key=lambda core: _distance(node, borrower, core))
            grants[core] = name
            wanted[name] -= 1
            offers[_owner_of(owners, core)] -= 1
    return grants


def _offered(
    owners: Mapping[int, LendingJob], offers: Mapping[str, int], core: int, borrower: LendingJob
) -> bool:
    owner = owners.get(core)
    allowed = owner is None or owner.may_lend_to(borrower)
    return allowed and offers.get(_owner_of(owners, core), 0) > 0


def _owner_of(owners: Mapping[int, LendingJob], core: int) -> str:
    owner = owners.get(core)
    return owner.job if owner else NOBODY


def _distance(node: LendingNode, borrower: LendingJob, core: int) -> tuple[bool, float, int]:
    """Sort cores of the borrower's memory nodes first, then by number: neighbours share caches."""
    near = {node.memory_nodes.get(own) for own in borrower.cores}
    middle = sum(borrower.cores) / max(1, len(borrower.cores))
    return (node.memory_nodes.get(core) not in near, abs(core - middle), core)
