"""Which waiting job starts next, and where."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from slurm_ext.core.gpu_sharing import RelativeSpeed, SoloProfile, SpeedBasis
from slurm_ext.policy.colocation.choose_pairs import Candidate, SharingRules
from slurm_ext.policy.colocation.co_scheduling import (
    NodeSlot,
    PlacementAction,
    place_waiting,
    rooms,
)

RULES = SharingRules()


class Table:
    """Lower bounds by two keys; every other is `usual`."""

    def __init__(
        self, lows: Mapping[tuple[str, str], float], usual: float = 0.95, unknown: str = ""
    ) -> None:
        self.lows, self.usual, self.unknown = lows, usual, unknown

    def speed(
        self, job: SoloProfile, beside: Sequence[SoloProfile], device: str = "cpu"
    ) -> RelativeSpeed:
        """The worst of those beside."""
        low = min([self.lows.get((job.key, one.key), self.usual) for one in beside], default=1.0)
        known = not {job.key, *(one.key for one in beside)} & {self.unknown}
        by = SpeedBasis.PAIR if known else SpeedBasis.PRIOR
        return RelativeSpeed(mean=low, low=low, high=1.0, evidence=by)


DISK = Table({("d", "d"): 0.4})


def job(name: str, place: str | None = None, cpus: int = 1, rank: float = 0.0) -> Candidate:
    """A job whose key is its name's first letter."""
    solo = SoloProfile(key=name[0])
    return Candidate(
        job=name,
        solo=solo,
        user="ann",
        opted_in=True,
        remaining_s=100.0,
        place=place,
        cpus=cpus,
        rank=rank,
    )


def steps(
    waiting: Sequence[Candidate],
    running: Sequence[Candidate],
    *places: tuple[str, int],
    table: Table = DISK,
    **more: Any,
) -> dict[str, PlacementAction]:
    """What becomes of each."""
    open_places = [NodeSlot(name=name, free_cpus=free) for name, free in places]
    told = place_waiting(waiting, running, open_places, table, rules=RULES, **more)
    return {step.job: step for step in told}


def test_the_one_that_fits_starts_before_the_one_that_came_first() -> None:
    """Beside a job that reads the disk, the second in the queue starts; the first is told why."""
    found = steps([job("d2", rank=1), job("c", rank=2)], [job("d1", "n1")], ("n1", 1))
    assert (found["c"].start, found["c"].place) == (True, "n1")
    assert not found["d2"].start
    assert "40%" in found["d2"].reason or found["d2"].reason == "no node has room"


def test_nobody_starts_beside_one_that_it_would_hurt() -> None:
    """The slot stays free rather than somebody below his floor, with the reason said."""
    found = steps([job("d2")], [job("d1", "n1")], ("n1", 1))
    assert not found["d2"].start
    assert "may run at 40%" in found["d2"].reason


def test_whoever_has_waited_long_enough_starts_anywhere() -> None:
    """No job waits for ever for a good companion."""
    found = steps([job("d2")], [job("d1", "n1")], ("n1", 1), overdue=frozenset({"d2"}))
    assert (found["d2"].start, found["d2"].place) == (True, None)


def test_a_pair_takes_an_idle_node_and_the_rest_waits() -> None:
    """Two that go well together start at once on one node; the third finds no room."""
    found = steps([job("d1"), job("d2", rank=1), job("c", rank=2)], [], ("n1", 2))
    assert [one for one, step in found.items() if step.start] == ["d1", "c"]
    assert found["d2"].reason == "no node has room"
    assert found["c"].pair is not None


def test_whoever_fits_nobody_has_a_node_to_itself() -> None:
    """Two readers of one disk take two nodes."""
    found = steps([job("d1"), job("d2")], [], ("n1", 2), ("n2", 2))
    assert {found["d1"].place, found["d2"].place} == {"n1", "n2"}
    assert found["d1"].reason == "a node to itself"


def test_a_free_slot_is_not_kept_for_later() -> None:
    """Where the best pair waits for an idle node, its half that fits starts beside who runs."""
    table = Table({}, usual=0.86)
    table.lows = {("a", "b"): 0.99, ("b", "a"): 0.99}
    found = steps([job("a"), job("b", rank=1)], [job("r", "n1")], ("n1", 1), table=table)
    assert [one for one, step in found.items() if step.start] in (["a"], ["b"])


def test_an_idle_node_is_not_kept_for_a_pair_that_it_does_not_hold() -> None:
    """The first of the two starts there alone."""
    waiting = [job("d2", cpus=2), job("c", rank=1)]
    found = steps(waiting, [job("d1", "n2")], ("n1", 2), ("n2", 0))
    assert (found["d2"].place, found["d2"].start, found["c"].start) == ("n1", True, False)
    apart = [
        replace(job("d2"), nodes=frozenset({"n1", "n2"})),
        replace(job("c", rank=1), nodes=frozenset({"n2", "n3"})),
    ]
    found = steps(apart, [job("d1", "n2")], ("n1", 2), ("n2", 0), ("n3", 2))
    assert {name: step.place for name, step in found.items()} == {"d2": "n1", "c": "n3"}


def test_a_job_goes_only_where_it_has_room() -> None:
    """CPUs are counted, those of jobs that never agreed as well."""
    found = steps([job("c", cpus=2)], [job("d1", "n1")], ("n1", 1))
    assert not found["c"].start
    assert rooms({"n1": 4}, [("n1", 3), ("gone", 1)]) == [NodeSlot(name="n1", free_cpus=1)]


def test_no_node_is_ever_overfilled_and_nobody_hurt() -> None:
    """200 random clusters: room and floors hold after every round, and every job has one step."""
    dice = random.Random(5)
    for _ in range(200):
        keys = "abcdef"
        table = Table({(x, y): dice.uniform(0.5, 1) for x in keys for y in keys})
        waiting = [
            job(f"{dice.choice(keys)}{i}", cpus=dice.choice((1, 1, 2)), rank=float(i))
            for i in range(dice.randrange(8))
        ]
        running = [job(f"{dice.choice(keys)}r{n}", f"n{n}") for n in range(dice.randrange(4))]
        free = {f"n{n}": dice.randrange(4) for n in range(4)}
        found = steps(waiting, running, *free.items(), table=table)
        assert list(found) == [one.job for one in waiting]
        by_job = {one.job: one for one in (*waiting, *running)}
        here = {name: [one.job for one in running if one.place == name] for name in free}
        for step in found.values():
            if step.start:
                assert step.place is not None
                here[step.place].append(step.job)
                free[step.place] -= by_job[step.job].cpus
        assert min(free.values()) >= 0
        for together in here.values():
            assert len(together) <= 2
            for one in together:
                beside = [by_job[o].solo for o in together if o != one]
                assert table.speed(by_job[one].solo, beside).low >= RULES.floor


def left(name: str, place: str, seconds: float) -> Candidate:
    """A job that runs, with what is left of it."""
    return replace(job(name, place), remaining_s=seconds)


def test_who_comes_next_may_start_before_the_slot_is_free() -> None:
    """Beside the reader that stays, a computing job; it goes well with the other one too."""
    full = [left("d1", "n1", 500.0), left("c1", "n1", 100.0)]
    found = steps([job("d2", rank=1), job("c2", rank=2)], full, ("n1", 0))
    assert (found["c2"].free, found["c2"].place, found["c2"].start) == (True, "n1", False)
    assert not found["d2"].free


def test_who_is_good_only_if_the_right_one_ends_waits_for_that() -> None:
    """The reader is next when the reader ends; freed before, it could meet it."""
    full = [left("d1", "n1", 100.0), left("c1", "n1", 500.0)]
    found = steps([job("d2", rank=1), job("c2", rank=2)], full, ("n1", 0))
    assert not found["d2"].free
    assert not found["c2"].free


def test_who_is_next_and_hurts_whoever_is_there_now_is_not_freed_into_an_open_slot() -> None:
    """With a third core open Slurm would start it at once beside the reader."""
    found = steps([job("d2")], [left("d1", "n1", 100.0)], ("n1", 1))
    assert not found["d2"].free


def test_where_somebody_is_about_to_start_nobody_is_freed_ahead() -> None:
    """He could take the slot of the other."""
    full = [left("d1", "n1", 500.0), left("c1", "n1", 100.0)]
    waiting = [job("d2", rank=1), job("c2", rank=2)]
    found = steps(waiting, full, ("n1", 0), coming=frozenset({"c1"}))
    assert not found["c2"].free


def test_who_was_freed_ahead_takes_its_slot() -> None:
    """Slurm is about to start it: no other is sent to the same slot."""
    table = Table({("d", "d"): 0.4, ("e", "d"): 1.0, ("d", "e"): 1.0})
    waiting = [job("e2", rank=1), job("c2", rank=2), job("d2", rank=3)]
    here = [left("d1", "n1", 500.0)]
    assert steps(waiting, here, ("n1", 1), table=table)["e2"].start
    found = steps(waiting, here, ("n1", 1), table=table, bound={"c2": "n1"})
    assert (found["c2"].start, found["e2"].start) == (True, False)


def test_of_whom_nothing_is_known_is_left_to_slurm() -> None:
    """Neither put off nor sent anywhere, whatever is known of others."""
    table = Table({("d", "d"): 0.4}, unknown="x")
    waiting = [job("x1"), job("d2", rank=1), job("c", rank=2)]
    found = steps(waiting, [job("d1", "n1")], ("n1", 1), table=table)
    assert (found["x1"].free, found["x1"].place, found["x1"].start) == (True, None, False)
    assert not found["d2"].free


def test_where_all_go_well_together_nobody_is_steered() -> None:
    """What is left to gain is not worth a wait."""
    found = steps([job("a"), job("b", rank=1)], [job("c", "n1")], ("n1", 0), table=Table({}, 0.97))
    assert [(one.free, one.place) for one in found.values()] == [(True, None)] * 2


def test_whoever_is_freed_ahead_goes_well_with_all_that_may_be_there() -> None:
    """200 random full clusters: whichever job ends first, the next one keeps every floor."""
    dice = random.Random(6)
    freed = 0
    for _ in range(200):
        keys = "abcdef"
        table = Table({(x, y): dice.uniform(0.6, 1) for x in keys for y in keys})
        waiting = [job(f"{dice.choice(keys)}{i}", rank=float(i)) for i in range(6)]
        running = [
            left(f"{dice.choice(keys)}r{n}{at}", f"n{n}", dice.uniform(1, 900))
            for n in range(3)
            for at in range(2)
        ]
        found = steps(waiting, running, *((f"n{n}", 0) for n in range(3)), table=table)
        for step in (step for step in found.values() if step.free and step.place):
            freed += 1
            for other in (one for one in running if one.place == step.place):
                newcomer = SoloProfile(key=step.job[0])
                assert table.speed(newcomer, [other.solo]).low >= RULES.floor
                assert table.speed(other.solo, [newcomer]).low >= RULES.floor
    assert freed > 50
