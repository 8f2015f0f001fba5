"""A queue whose jobs stand aside at a limit, against a plain list that is looked through."""

from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ext.simulate.limits.budgets import Budgets
from slurm_ext.simulate.limits.claims import Claim, LimitTest
from slurm_ext.simulate.queue.limited_queue import LimitedQueue

JOBS = 40
DEPTH = 3


def claims() -> list[Claim]:
    """Three users with two jobs each at a time, of whom two share a sum of three; one is free."""
    own = [LimitTest(counter=user, adds=1, most=2, why="") for user in range(3)]
    shared = LimitTest(counter=3, adds=1, most=3, why="")
    return [
        Claim(starts=(own[0], shared), running=((0, 1), (3, 1))),
        Claim(starts=(shared, own[1]), running=((3, 1), (1, 1))),
        Claim(starts=(own[2],), running=((2, 1),)),
        Claim(),
    ]


@given(
    of=st.lists(st.integers(0, 3), min_size=JOBS, max_size=JOBS),
    steps=st.lists(
        st.tuples(st.sampled_from(["push", "look", "end", "drop", "reorder"]), st.integers(0, 99)),
        max_size=60,
    ),
)
@settings(max_examples=200, deadline=None)
def test_it_shows_the_first_ones_that_no_limit_keeps_back(
    of: list[int], steps: list[tuple[str, int]]
) -> None:
    """Whatever came before: as many as the front is deep, in order, and never another one."""
    budgets = Budgets(claims(), of, 4)
    queue = LimitedQueue(DEPTH, budgets)
    waiting: list[int] = []
    running: list[int] = []
    coming = list(range(JOBS))
    for step, number in steps:
        if step == "push" and coming:
            job = coming.pop(number % len(coming))
            queue.push(job)
            waiting.append(job)
        elif step == "end" and running:
            queue.stopped(running.pop(number % len(running)))
        elif step == "drop" and waiting:
            queue.drop(waiting.pop(number % len(waiting)))
        elif step == "reorder":
            queue = LimitedQueue(DEPTH, budgets, queue.ranks())
        elif step == "look":
            allowed = [job for job in sorted(waiting) if budgets.blocker(of[job]) is None]
            assert list(queue.looked(99)) == allowed[:DEPTH]
            for job in queue.looked(1):
                queue.start(queue.front.index(job))
                waiting.remove(job)
                running.append(job)
        assert sorted(queue.ranks()) == sorted(waiting)
        assert len(queue) == len(waiting)
