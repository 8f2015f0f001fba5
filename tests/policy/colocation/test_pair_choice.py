"""Choice of pairs at its bounds: who goes first, whom it saves nothing, who is held back."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import nan

from slurm_ext.core.gpu_sharing import RelativeSpeed, SoloProfile, SpeedBasis
from slurm_ext.policy.colocation.candidates import at_stake
from slurm_ext.policy.colocation.choose_pairs import fit_to_share, pairs
from slurm_ext.policy.colocation.terms import Candidate
from tests.policy.colocation.test_sharing_terms import RULES, job, speed


class Table:
    """Speeds by key and key beside; every other one is `usual`."""

    def __init__(
        self, table: Mapping[str, float] | None = None, usual: float = 1.0, prior: str = ""
    ) -> None:
        self.table, self.usual, self.prior = table or {}, usual, prior

    def speed(
        self, job: SoloProfile, beside: Sequence[SoloProfile], device: str = "cpu"
    ) -> RelativeSpeed:
        """The slowest beside any of them; of the kind `prior` nothing is known."""
        keys = [job.key + other.key for other in beside]
        low = min((self.table.get(key, self.usual) for key in keys), default=1.0)
        known = not any(self.prior and self.prior in key for key in keys)
        return speed(low, by=SpeedBasis.PAIR if known else SpeedBasis.PRIOR)


def test_the_best_pairs_first() -> None:
    """By the time that they save; each job in one pair; a place takes one more."""
    waiting = [job("a", remaining_s=400.0), job("b", remaining_s=400.0), job("c"), job("d")]
    found = pairs(waiting, [], Table(), rules=RULES)
    assert [pair.jobs for pair in found] == [("a", "b"), ("c", "d")]
    assert [pair.weight for pair in found] == [400.0, 100.0]
    assert found[0].reason == (
        "a at least 100%, b at least 100% of their speed alone; 400 s earlier than one after"
        " the other"
    )
    (joined,) = pairs(waiting[:2], [job("r", place="n1", remaining_s=900.0)], Table(), rules=RULES)
    assert (joined.place, joined.worst) in (("n1", 1.0), (None, 1.0))
    running = [job("r", place="n1", remaining_s=900.0), job("s", place="n2", remaining_s=900.0)]
    both = pairs(waiting[:2], running, Table(), rules=RULES)
    assert sorted(pair.place or "" for pair in both) == ["n1", "n2"]


def test_a_pair_that_saves_nothing_is_none() -> None:
    """Nor one that has no room, nor one beside a full group."""
    low = replace(RULES, floor=0.1)
    assert pairs([job("a"), job("b")], [], Table(usual=0.5), rules=low) == ()
    assert len(pairs([job("a"), job("b")], [], Table(usual=0.51), rules=low)) == 1
    nowhere = pairs([job("a"), job("b")], [], Table(), rules=RULES, fits=lambda *_: False)
    assert nowhere == ()
    group = [job("r", place="n1"), job("s", place="n1")]
    assert pairs([job("a")], group, Table(), rules=RULES) == ()
    three = replace(RULES, most_together=3)
    assert len(pairs([job("a")], group, Table(), rules=three)) == 1


def test_room_is_asked_for_the_newcomers_alone() -> None:
    """For both where both wait, for the one that comes where others run."""
    calls: list[tuple[list[str], str | None]] = []

    def fits(newcomers: Sequence[Candidate], place: str | None) -> bool:
        calls.append(([candidate.job for candidate in newcomers], place))
        return True

    pairs([job("b"), job("a")], [job("r", place="n1")], Table(), rules=RULES, fits=fits)
    assert sorted(calls, key=str) == sorted(
        [(["a", "b"], None), (["a"], "n1"), (["b"], "n1")], key=str
    )


def test_equal_pairs_go_to_those_that_came_first() -> None:
    """By rank, then by name."""
    late = [job("a", rank=3.0), job("b", rank=2.0), job("c", rank=1.0)]
    assert pairs(late, [], Table(), rules=RULES)[0].jobs == ("b", "c")
    assert pairs([replace(c, rank=0.0) for c in late], [], Table(), rules=RULES)[0].jobs == (
        "a",
        "b",
    )


def test_jobs_beyond_the_window_are_matched_among_themselves() -> None:
    """A place that was taken is not offered again."""
    rules = replace(RULES, window=2)
    waiting = [job(name, rank=float(at)) for at, name in enumerate("abcd")]
    bad = Table({"ab": 0.1, "ba": 0.1, "cd": 0.1, "dc": 0.1})
    assert pairs(waiting, [], bad, rules=rules) == ()
    assert len(pairs(waiting, [], bad, rules=replace(rules, window=4))) == 2
    (one,) = pairs(waiting, [job("r", place="n1")], bad, rules=rules)
    assert one.jobs in (("a", "r"), ("b", "r"))


def test_whoever_shares_with_anybody_may_share_with_all() -> None:
    """The worst of those that it may meet decides; its twin where there is nobody."""
    a, table = job("a"), Table({"ab": 0.9, "ac": 0.88, "aa": 0.86})
    good = fit_to_share(a, [job("b"), job("c")], table, RULES)
    assert (good.share, good.worst, good.beside) == (True, 0.88, "c")
    assert good.reason == f"at least 88% of its speed alone, {SpeedBasis.PAIR.value}"
    twin = fit_to_share(a, [job("x", user="bob")], table, RULES)
    assert (twin.share, twin.worst, twin.beside) == (True, 0.86, "a")
    assert fit_to_share(a, [a], table, RULES).beside == "a"
    hurt = fit_to_share(a, [job("b"), job("d")], Table({"da": 0.5}), RULES)
    assert (hurt.share, hurt.beside) == (False, "d")
    assert "d may run at 50%" in hurt.reason
    refused = fit_to_share(replace(a, opted_in=False), [job("b")], table, RULES)
    assert (refused.share, refused.worst, refused.beside) == (False, None, None)
    late = fit_to_share(a, [job("b")], table, RULES, in_time=lambda: False)
    assert (late.share, late.reason[:17]) == (False, "there was no time")
    unknown = fit_to_share(a, [job("b")], Table({"ab": nan}), RULES)
    assert (unknown.share, unknown.worst) == (False, None)
    slow_twin = fit_to_share(a, [], Table({"aa": 0.5}), RULES)
    assert "a may run at 50%" in slow_twin.reason
    bad = replace(RULES, bad_pairs=frozenset({frozenset("a")}))
    assert "below the floor together lately" in fit_to_share(a, [], Table(), bad).reason


def test_only_known_jobs_are_held_back_and_only_if_one_is_hurt() -> None:
    """From 95 % of its speed alone on nobody is hurt, or from its floor on where that is higher."""
    a, b = job("a"), job("b")
    anyway = replace(RULES, anyway=True)
    assert at_stake([a], [b], Table(usual=0.95), anyway) == frozenset()
    assert at_stake([a], [b], Table(usual=0.949), anyway) == {"a"}
    strict = replace(a, floor=0.97)
    assert at_stake([strict], [b], Table(usual=0.96), anyway) == {"a"}
    assert at_stake([strict], [b], Table(usual=0.97), anyway) == frozenset()
    assert at_stake([a, b], [], Table({"ba": 0.5}), anyway) == {"a", "b"}
    assert at_stake([a], [], Table(usual=0.5), anyway) == frozenset()
    assert at_stake([a], [b], Table(usual=0.5, prior="b"), anyway) == frozenset()
    apart = replace(anyway, bad_pairs=frozenset({frozenset("ab")}))
    assert at_stake([a], [b], Table(prior="b"), apart) == {"a"}
