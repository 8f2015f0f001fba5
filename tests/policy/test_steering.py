"""Which waiting job starts next, and where."""

import random
from collections.abc import Mapping, Sequence

from slurm_ext.facts.sharing import Evidence, Solo, Speed
from slurm_ext.policy.sharing import Candidate, SharingRules
from slurm_ext.policy.steering import Place, Step, rooms, steer

RULES = SharingRules()


class Table:
    """Lower bounds by two keys; every other is `usual`."""

    def __init__(self, lows: Mapping[tuple[str, str], float], usual: float = 0.95) -> None:
        self.lows, self.usual = lows, usual

    def speed(self, job: Solo, beside: Sequence[Solo], device: str = "cpu") -> Speed:
        """The worst of those beside."""
        low = min([self.lows.get((job.key, one.key), self.usual) for one in beside], default=1.0)
        return Speed(mean=low, low=low, high=1.0, evidence=Evidence.PAIR)


DISK = Table({("d", "d"): 0.4})


def job(name: str, place: str | None = None, cpus: int = 1, rank: float = 0.0) -> Candidate:
    """A job whose key is its name's first letter."""
    solo = Solo(key=name[0])
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
    **more: frozenset[str],
) -> dict[str, Step]:
    """What becomes of each."""
    open_places = [Place(name=name, free_cpus=free) for name, free in places]
    told = steer(waiting, running, open_places, table, rules=RULES, **more)
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


def test_a_job_goes_only_where_it_has_room() -> None:
    """CPUs are counted, those of jobs that never agreed as well."""
    found = steps([job("c", cpus=2)], [job("d1", "n1")], ("n1", 1))
    assert not found["c"].start
    assert rooms({"n1": 4}, [("n1", 3), ("gone", 1)]) == [Place(name="n1", free_cpus=1)]


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
