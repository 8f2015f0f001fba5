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
        return self.idle_of(len(self.cores), last_core_idle)

    def idle_of(self, count: int, last_core_idle: float) -> int:
        """The same of `count` cores that hold all of its processes."""
        idle = count - self.wanted_cores
        return max(0, min(count, int(idle + 1 - last_core_idle)))

    def may_lend_to(self, borrower: "LendingJob") -> bool:
        """True if both owners' words and the site's setting allow it."""
        return self.job != borrower.job and (self.lends_to_all or self.group == borrower.group)


@dataclass(frozen=True, slots=True, kw_only=True)
class LendingNode:
    """The node's jobs, the cores that no job has, and the neighbours of each core.

    `siblings`: hardware threads of one core, each with all of them; one that is not there is alone.
    """

    jobs: Sequence[LendingJob]
    free: frozenset[int] = frozenset()  # lent as well, where the site allows it
    memory_nodes: Mapping[int, int] = field(default_factory=dict)
    siblings: Mapping[int, frozenset[int]] = field(default_factory=dict)

    def beside(self, core: int) -> frozenset[int]:
        """The hardware threads of a core, itself included: what runs on one slows the others."""
        return self.siblings.get(core, frozenset({core}))

    def idle_whole(self, job: LendingJob, last_core_idle: float) -> int:
        """Count its cores that its own processes do not want, all threads of a core as one."""
        return job.idle_of(len({self.beside(core) for core in job.cores}), last_core_idle)


def lend(node: LendingNode, loans: Mapping[int, str]) -> dict[int, str]:
    """Return the loans from now on, {core: borrower}, from those of before."""
    jobs = {job.job: job for job in sorted(node.jobs, key=lambda job: job.job)}
    owners = {core: job for job in jobs.values() for core in job.cores}
    kept = _kept(node, jobs, owners, loans)
    offers = _offers(node, jobs, owners, kept)
    wanted = {job.job: _more(job, kept) for job in jobs.values() if job.borrows}
    while grants := _one_each(node, jobs, offers, wanted, kept):
        kept |= grants
    return dict(sorted(kept.items()))


class _Offers:
    """Whole cores that owners may have lent; a core with a thread lent is lent to all its threads.

    A thread beside others' costs each of their owners a core, and needs the word of each.
    """

    def __init__(
        self, node: LendingNode, owners: Mapping[int, LendingJob], most: dict[str, int]
    ) -> None:
        self._node, self._owners, self._left = node, owners, most
        self._lenders = frozenset(most)
        self._lent: set[tuple[str, frozenset[int]]] = set()

    def fits(self, core: int, borrower: LendingJob) -> bool:
        """True if all whose core it is have an idle one more, and lend to the borrower."""
        return all(
            owner.job in self._lenders
            and owner.may_lend_to(borrower)
            and (is_lent or self._left[owner.job] > 0)
            for owner, is_lent in self._concerned(core, borrower)
        )

    def take(self, core: int, borrower: LendingJob) -> None:
        """Count it as lent."""
        for owner, is_lent in self._concerned(core, borrower):
            if not is_lent:
                self._left[owner.job] = self._left.get(owner.job, 0) - 1
                self._lent.add((owner.job, self._node.beside(core)))

    def _concerned(self, core: int, borrower: LendingJob) -> list[tuple[LendingJob, bool]]:
        """The owner of the core and those of its other threads; True: it is lent already."""
        threads = self._node.beside(core)
        owners = {
            owner.job: owner
            for thread in sorted(threads)
            if (owner := self._owners.get(thread)) and (thread == core or owner is not borrower)
        }
        return [(owner, (name, threads) in self._lent) for name, owner in owners.items()]


def _kept(
    node: LendingNode,
    jobs: Mapping[str, LendingJob],
    owners: Mapping[int, LendingJob],
    loans: Mapping[int, str],
) -> dict[int, str]:
    """Loans that go on."""
    kept: dict[int, str] = {}
    by_borrower: Counter[str] = Counter()
    staying = _Offers(node, owners, {job.job: _stays_lent(node, job) for job in jobs.values()})
    for core, name in sorted(loans.items()):
        borrower = jobs.get(name)
        if borrower is None or by_borrower[name] >= _still_used(borrower, loans):
            continue
        if (core in owners or core in node.free) and staying.fits(core, borrower):
            staying.take(core, borrower)
            kept[core] = name
            by_borrower[name] += 1
    return kept


def _stays_lent(node: LendingNode, owner: LendingJob) -> int:
    """Cores of an owner that may stay lent: none of one that is disturbed or waits itself."""
    if not owner.lends or owner.disturbed or owner.borrows:
        return 0
    return node.idle_whole(owner, LAST_CORE_STAYS)


def _still_used(borrower: LendingJob, loans: Mapping[int, str]) -> int:
    """Lent cores that a borrower keeps: all while it waits, else those that it uses."""
    count = min(borrower.max_lent, sum(name == borrower.job for name in loans.values()))
    return count if borrower.waits else min(count, ceil(borrower.lent_use / USED))


def _offers(
    node: LendingNode,
    jobs: Mapping[str, LendingJob],
    owners: Mapping[int, LendingJob],
    kept: Mapping[int, str],
) -> _Offers:
    """Cores that each owner lends beyond those that it has lent; a borrower lends none."""
    borrowers = set(kept.values())
    most = {
        name: node.idle_whole(job, LAST_CORE_IDLE)
        for name, job in jobs.items()
        if job.lends and not (job.disturbed or job.borrows or name in borrowers)
    }
    offers = _Offers(node, owners, most)
    for core, name in kept.items():
        offers.take(core, jobs[name])
    return offers


def _more(job: LendingJob, kept: Mapping[int, str]) -> int:
    """Lent workers that would end its wait, beyond those that it has."""
    has = sum(name == job.job for name in kept.values())
    wait = min(job.wait_share, MOST_WAIT)
    ends_wait = ceil((job.wanted_cores + job.lent_use) * wait / (1 - wait))
    return max(0, min(job.max_lent - has, ends_wait))


def _one_each(
    node: LendingNode,
    jobs: Mapping[str, LendingJob],
    offers: _Offers,
    wanted: dict[str, int],
    loans: Mapping[int, str],
) -> dict[int, str]:
    """Grant one more core to each borrower, those that wait longest first; counts are reduced."""
    grants: dict[int, str] = {}
    there = sorted({core for job in jobs.values() for core in job.cores} | node.free)
    for name in sorted(wanted, key=lambda name: (-jobs[name].wait_share, name)):
        borrower, lent = jobs[name], {**loans, **grants}
        cores = [
            core
            for core in there
            if core not in lent and core not in borrower.cores and offers.fits(core, borrower)
        ]
        if wanted[name] > 0 and cores:
            core = min(cores, key=lambda core: _distance(node, borrower, lent, core))
            offers.take(core, borrower)
            grants[core] = name
            wanted[name] -= 1
    return grants


def _distance(
    node: LendingNode, borrower: LendingJob, lent: Mapping[int, str], core: int
) -> tuple[bool, int, float, int]:
    """Sort cores of the borrower's memory nodes first, then those of which no thread is used.

    Then by number: neighbours share caches.
    """
    near = {node.memory_nodes.get(own) for own in borrower.cores}
    used = len(node.beside(core) & (lent.keys() | borrower.cores))
    middle = sum(borrower.cores) / max(1, len(borrower.cores))
    return (node.memory_nodes.get(core) not in near, used, abs(core - middle), core)
