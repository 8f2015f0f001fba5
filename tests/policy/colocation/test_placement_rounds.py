"""Rounds of placement, step by step: who starts where, with which words."""

from collections.abc import Mapping, Sequence

from slurm_ext.policy.colocation.placement_round import NodeSlot, PlacementAction, PlacementRound
from slurm_ext.policy.colocation.terms import Candidate
from tests.policy.colocation.sharers import RULES, Table, job


def a_round(
    waiting: Sequence[Candidate],
    running: Sequence[Candidate],
    nodes: Mapping[str, int],
    table: Table | None = None,
) -> PlacementRound:
    """A round that has not begun."""
    slots = [NodeSlot(name=name, free_cpus=free) for name, free in nodes.items()]
    return PlacementRound(waiting, running, slots, table or Table(), RULES)


def test_a_round_takes_the_queue_by_rank_and_the_nodes_by_name() -> None:
    """Whatever the order of the arguments."""
    begun = a_round(
        [job("c", rank=2.0), job("b", rank=1.0), job("a", rank=2.0)], [], {"z": 1, "y": 2}
    )
    assert [candidate.job for candidate in begun.waiting] == ["b", "a", "c"]
    assert list(begun.free.items()) == [("y", 2), ("z", 1)]


def test_a_released_job_is_slurm_s() -> None:
    """No place, and not put off; it is not among those that are left."""
    begun = a_round([job("a"), job("b")], [], {"n1": 1})
    begun.release("a", "because", start=True)
    assert begun.steps["a"] == PlacementAction(
        job="a", start=True, place=None, reason="because", pair=None, room=True, free=True
    )
    assert [candidate.job for candidate in begun.left()] == ["b"]
    begun.release("b", "because", start=False)
    assert not begun.steps["b"].start


def test_a_bound_job_takes_the_cpus_of_its_place() -> None:
    """Up to the last; the next finds what is left."""
    waiting = [job("a", cpus=2), job("b", cpus=1, rank=1.0)]
    begun = a_round(waiting, [], {"n1": 2, "n2": 5})
    begun.begin_bound({"a": "n1", "b": "n1"})
    assert begun.steps == {
        "a": PlacementAction(
            job="a", start=True, place="n1", reason="its turn has come", pair=None, free=True
        )
    }
    assert (begun.free, [candidate.place for candidate in begun.begun]) == (
        {"n1": 0, "n2": 5},
        ["n1"],
    )
    assert [candidate.job for candidate in begun.running] == ["a"]
    apart = a_round([job("a")], [job("r", place="n1")], {"n1": 1}, Table({"ar": 0.1}))
    apart.begin_bound({"a": "n1"})
    assert apart.steps == {}
    elsewhere = a_round([job("a")], [job("r", place="n2")], {"n1": 1, "n2": 1}, Table({"ar": 0.1}))
    elsewhere.begin_bound({"a": "n1"})
    assert elsewhere.steps["a"].place == "n1"
    unknown = a_round([job("a")], [], {"n1": 1})
    unknown.begin_bound({"a": "n9"})
    assert unknown.steps == {}


def test_a_newcomer_joins_those_that_run() -> None:
    """With the pair's reason, and only where its CPUs fit."""
    begun = a_round([job("a", cpus=2)], [job("r", place="n1")], {"n1": 2})
    begun.begin_all()
    step = begun.steps["a"]
    assert (step.start, step.place, step.free, step.room) == (True, "n1", True, True)
    assert step.reason == (
        "a at least 100%, r at least 100% of their speed alone; 100 s earlier than one after the"
        " other"
    )
    assert step.pair is not None
    assert step.pair.jobs == ("a", "r")
    assert begun.free == {"n1": 0}
    full = a_round([job("a", cpus=2)], [job("r", place="n1")], {"n1": 1})
    full.begin_all()
    assert full.steps == {}


def test_a_pair_takes_an_idle_node_that_holds_both() -> None:
    """The first by name; a job without a partner has a node to itself."""
    waiting = [job("a", cpus=2), job("b", cpus=1)]
    begun = a_round(waiting, [], {"n2": 3, "n1": 2, "n3": 3})
    begun.begin_all()
    assert {name: step.place for name, step in begun.steps.items()} == {"a": "n2", "b": "n2"}
    assert begun.free == {"n1": 2, "n2": 0, "n3": 3}
    assert begun.steps["a"].pair == begun.steps["b"].pair
    alone = a_round(
        [job("a", cpus=2)], [job("r", place="n1")], {"n1": 2, "n2": 2}, Table({"ar": 0.1})
    )
    alone.begin_all()
    assert (alone.steps["a"].place, alone.steps["a"].reason) == ("n2", "a node to itself")
    assert alone.steps["a"].pair is None


def test_half_of_a_pair_without_an_idle_node_joins_who_runs() -> None:
    """In the end only jobs that run are asked: two newcomers need a node of their own."""
    table = Table({"ab": 1.0, "ba": 1.0}, usual=0.86)
    begun = a_round([job("a"), job("b", rank=1.0)], [job("r", place="n1")], {"n1": 1}, table)
    begun.begin_all()
    assert [(name, step.place) for name, step in begun.steps.items()] == [("a", "n1")]
    newcomers = begun.matched([job("x"), job("y")], newcomers_only=True)
    assert all(pair.place for pair in newcomers)


def test_those_that_wait_are_told_what_is_in_their_way() -> None:
    """No room; who they would be beside; or the others' turn."""
    running = [job("r", place="n2")]
    begun = a_round(
        [job("a", cpus=3), job("b", cpus=2), job("c", cpus=1)],
        running,
        {"n1": 0, "n2": 2},
        Table({"br": 0.5}),
    )
    begun.keep_waiting()
    no_room = PlacementAction(
        job="a", start=False, place=None, reason="no node has room", room=False
    )
    assert begun.steps["a"] == no_room
    assert not no_room.free
    assert begun.steps["b"].reason == "b may run at 50% of its speed alone, its floor is 85%"
    assert (begun.steps["b"].room, begun.steps["b"].start) == (True, False)
    assert begun.steps["c"].reason == "others go first"
    idle = a_round([job("a")], [], {"n1": 1})
    idle.keep_waiting()
    assert idle.steps["a"].reason == "others go first"


def test_a_job_that_others_pass_counts_as_one_with_room() -> None:
    """A job behind it starts where it could; one ahead of it, or elsewhere, does not pass it."""

    def room(small_rank: float, nodes: frozenset[str] | None = None) -> bool:
        large = job("a", cpus=3, rank=1.0, nodes=nodes)
        begun = a_round([large, job("b", rank=small_rank)], [], {"n1": 1})
        begun.begin_all()
        begun.settle(())
        begun.keep_waiting()
        assert begun.steps["b"].place == "n1"
        assert begun.steps["a"].reason == "no node has room"
        return begun.steps["a"].room

    assert room(2.0)
    assert not room(0.0)
    assert not room(2.0, frozenset({"n2"}))


def test_jobs_of_different_nodes_are_no_pair() -> None:
    """Each has a node of its own instead, and none that it may not have."""
    waiting = [
        job("a", nodes=frozenset({"n2"})),
        job("b", rank=1.0, nodes=frozenset({"n1"})),
        job("c", rank=2.0, nodes=frozenset({"n3"})),
    ]
    begun = a_round(waiting, [job("r", place="n3")], {"n1": 2, "n2": 2, "n3": 0})
    begun.begin_bound({"b": "n2"})
    begun.begin_all()
    begun.keep_waiting()
    assert {name: step.place for name, step in begun.steps.items()} == {
        "a": "n2",
        "b": "n1",
        "c": None,
    }
    assert begun.steps["a"].pair is None
    assert (begun.steps["c"].reason, begun.steps["c"].room) == ("no node has room", False)
