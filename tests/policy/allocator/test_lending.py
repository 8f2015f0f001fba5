"""Loans on made-up nodes: whatever the jobs do, nobody loses a core that it wants."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slurm_ext.policy.allocator.lending import LendingJob, LendingNode, lend

CORES = st.integers(1, 4)


@st.composite
def nodes(draw: st.DrawFn) -> tuple[LendingNode, dict[int, str]]:
    """A node of up to six jobs, cores that nobody has, and loans that came from anywhere."""
    jobs, first = [], 0
    for number in range(draw(st.integers(0, 6))):
        count = draw(CORES)
        jobs.append(
            LendingJob(
                job=f"j{number}",
                group=draw(st.sampled_from("ab")),
                cores=frozenset(range(first, first + count)),
                wanted_cores=draw(st.floats(0, count * 1.1)),
                wait_share=draw(st.sampled_from([0.0, 0.04, 0.05, 0.3, 1.0])),
                lent_use=draw(st.floats(0, 4)),
                max_lent=draw(st.integers(0, 8)),
                lends=draw(st.booleans()),
                lends_to_all=draw(st.booleans()),
                disturbed=draw(st.booleans()),
            )
        )
        first += count
    free = frozenset(range(first, first + draw(st.integers(0, 3))))
    cores = range(first + len(free) + 1)
    names = st.sampled_from([*(job.job for job in jobs), "gone"])
    loans = draw(st.dictionaries(st.sampled_from(cores), names))
    memory_nodes = {core: core // 4 for core in cores}
    pairs = {core: frozenset({core & ~1, core | 1}) for core in cores}
    siblings = pairs if draw(st.booleans()) else {}
    node = LendingNode(jobs=jobs, free=free, memory_nodes=memory_nodes, siblings=siblings)
    return node, loans


def job(name: str, first: int, used: float, **more: object) -> LendingJob:
    """A job of one core of one user's."""
    values: dict[str, object] = {"group": "u", "max_lent": 8, **more}
    cores = frozenset({first})
    return LendingJob(job=name, cores=cores, wanted_cores=used, **values)  # type: ignore[arg-type] # by name


def settled(node: LendingNode) -> dict[int, str]:
    """Loans of a node on which nothing was lent before."""
    return lend(node, {})


@given(nodes())
def test_a_core_is_its_owners_to_lend(made_up: tuple[LendingNode, dict[int, str]]) -> None:
    """Each core once, to another job of the group, by an owner who lends and is not disturbed.

    So it is with the owners of the other hardware threads of that core.
    """
    node, loans = made_up
    jobs = {one.job: one for one in node.jobs}
    owners = {core: one for one in node.jobs for core in one.cores}
    for core, borrower in lend(node, loans).items():
        assert core not in jobs[borrower].cores
        assert core in owners or core in node.free
        beside = {owners[thread] for thread in node.beside(core) if thread in owners}
        for owner in beside - {jobs[borrower]}:
            assert owner.lends
            assert not owner.disturbed
            assert owner.lends_to_all or owner.group == jobs[borrower].group


@given(nodes())
def test_no_more_is_lent_than_is_idle(made_up: tuple[LendingNode, dict[int, str]]) -> None:
    """An owner's last core is idle for a fifth of the time at least; a borrower has its bound.

    A core is lent as soon as one of its hardware threads is, also one of somebody else's.
    """
    node, loans = made_up
    result = lend(node, loans)
    for one in node.jobs:
        whole = {node.beside(core) for core in one.cores}
        others = {core for core, borrower in result.items() if borrower != one.job}
        lent = sum(bool(threads & others) for threads in whole)
        assert lent == 0 or len(whole) - one.wanted_cores >= lent - 0.8 - 1e-9
        assert Counter(result.values())[one.job] <= one.max_lent


@given(nodes())
def test_who_does_not_wait_borrows_nothing_new(
    made_up: tuple[LendingNode, dict[int, str]],
) -> None:
    """Nor one with idle cores of its own, nor one that lends at the same time."""
    node, loans = made_up
    result = lend(node, loans)
    for one in node.jobs:
        new = {core for core, name in result.items() if name == one.job} - {
            core for core, name in loans.items() if name == one.job
        }
        if not one.borrows:
            assert new == set()
        if new:
            assert not any(core in result for core in one.cores)


@given(nodes())
def test_a_node_that_stays_as_it_is_keeps_its_loans(
    made_up: tuple[LendingNode, dict[int, str]],
) -> None:
    """What is still waited for and used is not taken back and lent again."""
    node, _ = made_up
    first = settled(node)
    assert first.items() <= lend(node, first).items()


@given(nodes())
def test_everything_goes_back_when_the_jobs_go(
    made_up: tuple[LendingNode, dict[int, str]],
) -> None:
    """Without jobs there are no loans."""
    _, loans = made_up
    assert lend(LendingNode(jobs=[]), loans) == {}


@given(nodes(), st.data())
def test_a_disturbed_lender_has_its_cores_back_in_one_round(
    made_up: tuple[LendingNode, dict[int, str]], data: st.DataObject
) -> None:
    """Whatever else is wanted on the node; the same for one that fills its cores itself."""
    node, loans = made_up
    loans = lend(node, loans)
    lenders = [one for one in node.jobs if any(core in loans for core in one.cores)]
    if not lenders:
        return
    one = data.draw(st.sampled_from(lenders))
    change: dict[str, object] = data.draw(
        st.sampled_from([{"disturbed": True}, {"wanted_cores": float(len(one.cores))}])
    )
    worse = replace(one, **change)  # type: ignore[arg-type] # by name
    jobs = [worse if other is one else other for other in node.jobs]
    after = lend(replace(node, jobs=jobs), loans)
    assert not any(core in after for core in one.cores)


@given(st.integers(2, 8), st.floats(0.85, 1.1), st.floats(0, 1))
@example(4, 1.0, 1.0)
def test_equal_busy_jobs_lend_each_other_nothing(count: int, used: float, wait: float) -> None:
    """Where no core is idle nothing changes, however long everybody waits."""
    jobs = [job(f"j{n}", n, used, wait_share=wait) for n in range(count)]
    assert settled(LendingNode(jobs=jobs)) == {}


@pytest.mark.parametrize(
    ("used", "wait", "lent"),
    [(1.0, 0.6, 1), (1.0, 0.04, 0), (0.5, 0.6, 0)],
)
def test_a_busy_job_that_waits_has_the_idle_core(used: float, wait: float, lent: int) -> None:
    """The owner computes for half of the time; one that does not wait, or is idle, gets none."""
    jobs = [job("owner", 0, 0.5), job("borrower", 1, used, wait_share=wait)]
    assert settled(LendingNode(jobs=jobs)) == dict.fromkeys(range(lent), "borrower")


def test_two_borrowers_share_what_is_idle() -> None:
    """One core each, and near ones: a borrower's cores are of its own memory node where it can."""
    owner = LendingJob(job="owner", group="u", cores=frozenset({1, 5}), wanted_cores=0.0)
    jobs = [
        owner,
        job("left", 0, 1.0, wait_share=0.7),
        job("right", 4, 1.0, wait_share=0.8),
    ]
    memory_nodes = {core: core // 4 for core in range(8)}
    node = LendingNode(jobs=jobs, memory_nodes=memory_nodes)
    assert settled(node) == {1: "left", 5: "right"}


def test_what_is_not_used_goes_back() -> None:
    """A borrower that waits no more keeps as many cores as its lent workers use."""
    owner = LendingJob(job="owner", group="u", cores=frozenset({1, 2, 3}), wanted_cores=0.0)
    loans = dict.fromkeys((1, 2, 3), "b")
    for use, kept in ((0.0, 0), (0.2, 1), (0.6, 3)):
        node = LendingNode(jobs=[owner, job("b", 0, 1.0, lent_use=use)])
        assert len(lend(node, loans)) == kept


def test_no_more_is_lent_than_ends_the_wait() -> None:
    """A loop that waits for a third of its time is served by half as many workers more."""
    owner = LendingJob(job="owner", group="u", cores=frozenset(range(8)), wanted_cores=0.0)
    cores = frozenset({8, 9, 10, 11})
    borrower = LendingJob(
        job="b", group="u", cores=cores, wanted_cores=4.0, wait_share=1 / 3, max_lent=8
    )
    assert len(settled(LendingNode(jobs=[owner, borrower]))) == 2
    endless = replace(borrower, wait_share=1.0, max_lent=5)
    assert len(settled(LendingNode(jobs=[owner, endless]))) == 5


def test_cores_that_no_job_has_are_lent_too() -> None:
    """To anybody, where the site says so."""
    node = LendingNode(jobs=[job("b", 0, 1.0, wait_share=0.5)], free=frozenset({3}))
    assert settled(node) == {3: "b"}


PAIRS = {core: frozenset({core & ~1, core | 1}) for core in range(8)}


def test_a_thread_beside_a_busy_one_is_not_lent() -> None:
    """The owner fills one thread of its only core: the other one is idle, and not to be had."""
    owner = LendingJob(job="owner", group="u", cores=frozenset({0, 1}), wanted_cores=1.0)
    jobs = [owner, job("b", 2, 1.0, wait_share=0.9)]
    assert settled(LendingNode(jobs=jobs, siblings=PAIRS)) == {}
    assert len(settled(LendingNode(jobs=jobs))) == 1


def test_whole_cores_are_lent_first() -> None:
    """One of three cores is busy: a thread of each idle one, then the others, no more."""
    owner = LendingJob(job="owner", group="u", cores=frozenset(range(6)), wanted_cores=1.0)
    for lent, cores in ((2, {2, 4}), (4, {2, 3, 4, 5}), (6, {2, 3, 4, 5})):
        borrower = job("b", 6, 1.0, wait_share=1.0, max_lent=lent)
        node = LendingNode(jobs=[owner, borrower], siblings=PAIRS)
        found = set(settled(node))
        assert len({PAIRS[core] for core in found}) == 2
        assert len(found) == len(cores)


@pytest.mark.parametrize(
    ("neighbour", "lent"),
    [
        ({}, True),
        ({"wanted_cores": 0.7}, False),
        ({"lends": False}, False),
        ({"group": "v"}, False),
    ],
)
def test_a_neighbour_on_the_same_core_has_its_say(neighbour: dict[str, object], lent: bool) -> None:
    """Two jobs of one thread each on a core: both have to be idle, and to lend."""
    beside = replace(job("beside", 1, 0.1), **neighbour)  # type: ignore[arg-type] # by name
    jobs = [job("owner", 0, 0.1), beside, job("b", 2, 1.0, wait_share=0.5)]
    assert bool(settled(LendingNode(jobs=jobs, siblings=PAIRS))) is lent
