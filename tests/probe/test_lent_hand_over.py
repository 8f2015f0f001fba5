"""What a silent lent worker holds is made by others: when, by whom, and once."""

import math
import threading
from types import SimpleNamespace
from typing import Any

from slurm_ext.probe.lending.lent_worker import LentWorker
from slurm_ext.probe.workers.gate import Gate, OpenWorkers
from slurm_ext.probe.workers.lent import LentWorkers


class Silent(LentWorker):
    """A lent worker without a process, which has returned nothing for so long."""

    def __init__(self, held: dict[int, Any], seconds: float) -> None:
        self.held, self.owed, self.gone = held, set(), False
        self._pass, self._lock, self.seconds = 0, threading.Lock(), seconds

    def silent_s(self) -> float:
        """As told."""
        return self.seconds


class Queue(list[Any]):
    """Tasks that were put."""

    put = list.append


def torchs(lent: Silent, own_s: float) -> tuple[Any, LentWorkers]:
    """An iterator with two workers of its own and a lent one, which holds batches 4 and 6."""
    loans = LentWorkers("/nowhere/lent")
    loans.ids, loans.active = [2], [2]
    loans._speeds.own_s = own_s
    opened = OpenWorkers(Gate("/nowhere/workers", 2))
    opened.lent, opened.tasks = loans, {4: (2,), 5: (0,), 6: (2,), 7: (1, "here")}
    iterator = SimpleNamespace(
        _rcvd_idx=4,
        _task_info=opened.tasks,
        _workers=[SimpleNamespace(pid=1), SimpleNamespace(pid=2), lent],
        _index_queues=[Queue(), Queue(), lent],
        _dlqueue_open=opened,
    )
    return iterator, loans


def received(iterator: Any, loans: LentWorkers, *answers: Any) -> tuple[Any, list[float]]:
    """What the training gets where torch's wait has these answers, and how long each wait was."""
    waits: list[float] = []
    left = list(answers)

    def wait(seconds: float) -> Any:
        waits.append(seconds)
        return left.pop(0)

    return loans.receive(iterator, wait, 5.0), waits


def test_all_that_a_silent_one_holds_goes_to_the_job_s_own_workers() -> None:
    """Oldest first, each to the one that has least to do; it gets no more until it has answered."""
    lent = Silent({6: [60], 4: [40]}, seconds=0.31)
    iterator, loans = torchs(lent, own_s=0.1)
    answer, waits = received(iterator, loans, (True, (4, "made")))
    assert answer == (True, (4, "made"))
    assert waits[0] > 4.9  # nothing is left to be done about it
    assert iterator._index_queues[:2] == [[(6, [60])], [(4, [40])]]
    assert iterator._task_info == {4: (1,), 5: (0,), 6: (0,), 7: (1, "here")}
    assert (loans.active, lent.usable, lent.held) == ([], False, {})


def test_one_that_is_slow_for_a_moment_is_waited_for() -> None:
    """Three batches of the job's own workers, and a fifth of a second at least."""
    for own_s, silent_s, left_s in ((0.1, 0.2, 0.1), (0.01, 0.15, 0.05), (2.0, 5.0, 1.0)):
        iterator, loans = torchs(Silent({4: [40]}, silent_s), own_s)
        answer, waits = received(iterator, loans, (True, (4, "made")))
        assert answer == (True, (4, "made"))
        assert math.isclose(waits[0], left_s)
        assert iterator._index_queues[:2] == [[], []]


def test_before_anything_is_measured_a_second_is_waited() -> None:
    """No worker has made a batch yet: the first ones are the slowest."""
    iterator, loans = torchs(Silent({4: [40]}, 0.75), own_s=0.0)
    assert received(iterator, loans, (True, (4, "made")))[1] == [0.25]


def test_a_dead_one_is_not_waited_for() -> None:
    """However short its silence was."""
    lent = Silent({4: [40]}, 0.0)
    lent.gone = True
    iterator, loans = torchs(lent, own_s=0.1)
    received(iterator, loans, (True, (4, "made")))
    assert iterator._index_queues[1] == [(4, [40])]


def test_a_batch_that_comes_twice_is_delivered_once() -> None:
    """The second one is dropped, delivered or still kept; no other worker's is."""
    iterator, loans = torchs(Silent({}, 0.0), own_s=0.1)
    twice = [(True, (3, "again")), (True, (7, "again")), (True, (5, "made"))]
    assert received(iterator, loans, *twice)[0] == (True, (5, "made"))


def test_no_batch_within_the_time_is_told_as_torch_tells_it() -> None:
    """A loader's own timeout holds."""
    iterator, loans = torchs(Silent({}, 0.0), own_s=0.1)

    def wait(seconds: float) -> Any:
        return False, None

    assert loans.receive(iterator, wait, 0.0) == (False, None)
