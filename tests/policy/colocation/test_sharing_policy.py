"""Who may share and who should: the floor first, then the most time saved."""

import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from math import nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ext.core.errors import InputError
from slurm_ext.core.gpu_sharing import RelativeSpeed, SoloProfile, SpeedBasis
from slurm_ext.policy.colocation.choose_pairs import Candidate, SharingRules, fit_to_share, pairs
from slurm_ext.policy.colocation.matching import best_matching
from slurm_ext.policy.colocation.why_apart import saved_s

RULES = SharingRules()
GIB = 2.0**30


class Table:
    """Speeds by key and the keys beside; every other speed is 1."""

    def __init__(self, lows: Mapping[tuple[str, str], float]) -> None:
        self.lows = lows
        self.asked = 0

    def speed(
        self, job: SoloProfile, beside: Sequence[SoloProfile], device: str = "cpu"
    ) -> RelativeSpeed:
        """The product over those beside."""
        self.asked += 1
        low = 1.0
        for other in beside:
            low *= self.lows.get((job.key, other.key), 1.0)
        return RelativeSpeed(mean=low, low=low, high=1.0, evidence=SpeedBasis.PAIR)


class Noise(Table):
    """A speed of its own for each pair of keys, the same in every run."""

    def __init__(self, seed: int) -> None:
        super().__init__({})
        self.seed = seed

    def speed(
        self, job: SoloProfile, beside: Sequence[SoloProfile], device: str = "cpu"
    ) -> RelativeSpeed:
        """Uniform from 0.6 to 1."""
        keys = (self.seed, job.key, *(other.key for other in beside), device)
        low = random.Random(repr(keys)).uniform(0.6, 1.0)
        return RelativeSpeed(mean=low, low=low, high=1.0, evidence=SpeedBasis.COUNTERS)


def job(name: str, key: str | None = None, **changes: object) -> Candidate:
    """A job of ann's that agreed; its key is its name's first letter."""
    solo = changes.pop("solo", SoloProfile(key=key or name[0]))
    fields: dict[str, object] = {"user": "ann", "opted_in": True, "remaining_s": 100.0, **changes}
    return Candidate(job=name, solo=solo, **fields)  # type: ignore[arg-type]  # a test's own words


QUEUES = st.lists(
    st.builds(
        lambda key, user, left, floor, opted_in, mem: (key, user, left, floor, opted_in, mem),
        st.sampled_from("abcdef"),
        st.sampled_from(["ann", "bob"]),
        st.none() | st.floats(0, 1e5),
        st.none() | st.floats(0.5, 1.0),
        st.booleans(),
        st.none() | st.floats(0, 8 * GIB),
    ),
    max_size=12,
)


def queue(
    rows: Sequence[tuple[str, str, float | None, float | None, bool, float | None]],
) -> list[Candidate]:
    """Candidates of drawn rows."""
    return [
        Candidate(
            job=f"{number}.0",
            solo=SoloProfile(key=key, mem_bytes=mem),
            user=user,
            remaining_s=left,
            floor=floor,
            opted_in=opted_in,
        )
        for number, (key, user, left, floor, opted_in, mem) in enumerate(rows)
    ]


@settings(max_examples=60, deadline=None)
@given(QUEUES, st.integers(0, 5), st.none() | st.floats(1, 12 * GIB))
def test_no_pair_breaks_a_rule(rows, seed, mem_bytes) -> None:  # type: ignore[no-untyped-def]  # drawn
    """Never below a floor, above memory, across users, without consent, or one job twice."""
    jobs = queue(rows)
    rules = SharingRules(mem_bytes=mem_bytes)
    by_name = {one.job: one for one in jobs}
    speeds = Noise(seed)
    found = pairs(jobs, [], speeds, rules=rules)
    together = [name for pair in found for name in pair.jobs]
    assert len(together) == len(set(together))
    for pair in found:
        a, b = (by_name[name] for name in pair.jobs)
        assert a.opted_in
        assert b.opted_in
        assert a.user == b.user
        assert pair.weight > 0
        for one, other in ((a, b), (b, a)):
            assert pair.speeds[one.job] == speeds.speed(one.solo, [other.solo])
            assert pair.speeds[one.job].low >= (one.floor or rules.floor)
        if mem_bytes is not None:
            assert a.solo.mem_bytes is not None
            assert b.solo.mem_bytes is not None
            assert a.solo.mem_bytes + b.solo.mem_bytes <= mem_bytes


@settings(max_examples=40, deadline=None)
@given(QUEUES, st.integers(0, 5), st.randoms(use_true_random=False))
def test_the_order_of_the_jobs_does_not_matter(rows, seed, shuffler) -> None:  # type: ignore[no-untyped-def]  # drawn
    """The same jobs in another order are the same pairs."""
    jobs = queue(rows)
    shuffled = list(jobs)
    shuffler.shuffle(shuffled)
    speeds = Noise(seed)
    assert pairs(jobs, [], speeds, rules=RULES) == pairs(shuffled, [], speeds, rules=RULES)


def greedy(weights: Mapping[tuple[str, str], float]) -> float:
    """The heaviest edge first."""
    taken: set[str] = set()
    total = 0.0
    for (a, b), weight in sorted(weights.items(), key=lambda row: -row[1]):
        if not {a, b} & taken:
            taken |= {a, b}
            total += weight
    return total


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("abcdefgh")).filter(
            lambda edge: edge[0] < edge[1]
        ),
        st.floats(0.01, 100),
        max_size=28,
    )
)
def test_the_matching_is_never_worse_than_greedy(weights: dict[tuple[str, str], float]) -> None:
    """Best of all matchings, so at least as good as taking the best edge first."""
    found = best_matching(weights)
    ends = [end for edge in found for end in edge]
    assert len(ends) == len(set(ends))
    assert sum(weights[edge] for edge in found) >= greedy(weights) - 1e-6


def test_a_matching_beats_greed_where_greed_is_wrong() -> None:
    """Two good pairs are more than the best one and a leftover."""
    weights = {("a", "b"): 5.0, ("b", "c"): 6.0, ("c", "d"): 5.0}
    assert best_matching(weights) == (("a", "b"), ("c", "d"))


def test_time_saved_depends_on_what_is_left() -> None:
    """Equal jobs at 0.9 save 80 of 200 s; beside a short one a long job saves little."""
    assert saved_s([100, 100], [0.9, 0.9]) == pytest.approx(200 - 100 / 0.9)
    assert saved_s([100, 1000], [0.9, 0.9]) == pytest.approx(saved_s([100, 100], [0.9, 0.9]))
    assert saved_s([100, 0], [0.9, 0.9]) == 0
    assert saved_s([100, 100], [0.4, 0.4]) < 0


def test_below_its_own_floor_a_job_is_not_touched() -> None:
    """A job's floor is its own, the site's where it set none."""
    speeds = Table({("a", "b"): 0.87})
    assert pairs([job("a"), job("b")], [], speeds, rules=RULES)
    assert not pairs([job("a", floor=0.9), job("b")], [], speeds, rules=RULES)
    assert not pairs([job("a"), job("b")], [], speeds, rules=SharingRules(floor=0.9))
    assert not pairs([job("a"), job("b")], [], Table({("a", "b"): nan}), rules=RULES)


def test_remembered_pairs_stay_apart() -> None:
    """Whoever disappointed is not put together again; twins neither."""
    bad = SharingRules(bad_pairs={frozenset("ab"), frozenset("c")})
    speeds = Table({})
    assert not pairs([job("a"), job("b")], [], speeds, rules=bad)
    assert not pairs([job("c1"), job("c2")], [], speeds, rules=bad)
    assert pairs([job("a"), job("c1")], [], speeds, rules=bad)


def test_a_waiting_job_joins_one_that_runs() -> None:
    """A running job's place takes one more, where the floor of both allows it."""
    (pair,) = pairs(
        [job("a"), job("b")], [job("r", place="n1")], Table({("a", "b"): 0.1}), rules=RULES
    )
    assert pair.place == "n1"
    assert "r" in pair.jobs
    full = [job("r", place="n1"), job("s", place="n1")]
    assert not pairs([job("a")], full, Table({}), rules=RULES)
    (three,) = pairs([job("a")], full, Table({}), rules=SharingRules(most_together=3))
    assert three.jobs == ("a", "r", "s")
    tight = Table({("r", "s"): 0.9, ("r", "a"): 0.9})
    assert not pairs([job("a")], full, tight, rules=SharingRules(most_together=3))


def test_other_users_and_devices_stay_apart_unless_the_site_says_so() -> None:
    """One user's jobs share; another's only by a site's flag; never across devices."""
    two = [job("a"), job("b", user="bob")]
    assert not pairs(two, [], Table({}), rules=RULES)
    assert pairs(two, [], Table({}), rules=SharingRules(same_user=False))
    assert not pairs([job("a"), job("b", device="H200")], [], Table({}), rules=RULES)


def test_unknown_memory_does_not_fit_a_limit() -> None:
    """A GPU's memory is shared only by jobs whose need is known."""
    rules = SharingRules(gpu_mem_bytes=16 * GIB)
    known = [job(n, solo=SoloProfile(key=n, gpu_mem_bytes=7 * GIB), device="A100") for n in "ab"]
    assert pairs(known, [], Table({}), rules=rules)
    assert not pairs([known[0], job("c", device="A100")], [], Table({}), rules=rules)
    assert "not known" in fit_to_share(job("c", device="A100"), [], Table({}), rules).reason


class Unknown(Table):
    """Nothing but jobs in general."""

    def speed(
        self, job: SoloProfile, beside: Sequence[SoloProfile], device: str = "cpu"
    ) -> RelativeSpeed:
        """A guess with a bound that rules out everything."""
        return RelativeSpeed(mean=0.75, low=0.25, high=1.2, evidence=SpeedBasis.PRIOR)


def test_jobs_of_which_nothing_is_known_meet_only_where_they_would_anyway() -> None:
    """A GPU is not shared on a guess; CPU jobs that Slurm puts on one node stay so."""
    two = [job("a"), job("b")]
    assert not pairs(two, [], Unknown({}), rules=RULES)
    assert pairs(two, [], Unknown({}), rules=SharingRules(anyway=True))


def test_at_submission_the_worst_companion_decides() -> None:
    """Nobody chooses who is met, so the bound is that beside the worst; both floors count."""
    speeds = Table({("a", "b"): 0.95, ("a", "c"): 0.9, ("d", "a"): 0.5})
    verdict = fit_to_share(job("a"), [job("b"), job("c")], speeds, RULES)
    assert (verdict.share, verdict.worst, verdict.beside) == (True, 0.9, "c")
    hurt = fit_to_share(job("a"), [job("b"), job("d")], speeds, RULES)
    assert not hurt.share
    assert "d may run at 50%" in hurt.reason
    assert fit_to_share(job("a"), [job("d", user="bob")], speeds, RULES).share
    assert not fit_to_share(job("a", opted_in=False), [], speeds, RULES).share
    assert not fit_to_share(job("a"), [], Table({("a", "a"): 0.7}), RULES).share


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ([job("a", floor=1.5)], "job a: floor = 1.5"),
        ([job("a", remaining_s=-1.0)], "job a: remaining_s = -1.0"),
        ([job("a"), job("a")], "job a: named twice"),
        ([job("a", solo=SoloProfile(key="a", mem_bytes=nan))], "job a: mem_bytes = nan"),
    ],
)
def test_a_job_described_wrongly_is_named(wrong: list[Candidate], said: str) -> None:
    """The error names the job, the field and what is valid."""
    with pytest.raises(InputError, match=said):
        pairs(wrong, [], Table({}), rules=RULES)


def test_rules_that_cannot_be_meant_are_named() -> None:
    """A floor of nothing is no floor."""
    with pytest.raises(InputError, match="floor = 0"):
        pairs([], [], Table({}), rules=SharingRules(floor=0.0))
    with pytest.raises(InputError, match="its place is not given"):
        pairs([], [job("r")], Table({}), rules=RULES)


def test_a_long_queue_asks_for_a_bounded_number_of_speeds() -> None:
    """500 jobs are matched window by window: at most both ways of each pair within one."""
    jobs = [job(f"{n}.0", key=f"{n}", rank=float(n)) for n in range(500)]
    speeds = Table({})
    found = pairs(jobs, [], speeds, rules=SharingRules(window=8))
    assert len(found) == 250
    assert speeds.asked <= 500 * 7


def test_networkx_is_imported_only_to_match() -> None:
    """The path of a submission does not pay for the graph library."""
    code = (
        "import slurm_ext.policy.colocation.choose_pairs, sys; sys.exit('networkx' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
