"""Whose steps are whose, of loaders in turn, zipped, and read by threads; short batches."""

import json
import threading
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from slurm_ext.probe import pass_starts
from slurm_ext.probe.counters.batches import BatchCounts
from slurm_ext.probe.counters.steps import StepClock
from slurm_ext.probe.counters.turns import READ_ELSEWHERE, Turn, Turns
from tests.probe.conftest import Environment, Python


@pytest.fixture(scope="module", params=["watched", "moved"])
def loaders(
    environment: Environment,
    python: Python,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> dict[Any, dict[str, Any]]:
    """The loaders of the programs' process, by the length of their data; of streams a list."""
    run_dir = tmp_path_factory.mktemp("in_turn") / "run"
    more = {"DLQUEUE_NUM_WORKERS": "2"} if request.param == "moved" else {}
    done = python(["-m", "tests.probe.programs_in_turn"], environment(run_dir, **more))
    assert (done.returncode, done.stderr) == (0, "")
    (path,) = run_dir.glob("summary-*.json")
    summary = json.loads(path.read_text())
    assert summary["faults"] == []
    streams = [one for one in summary["loaders"] if one["style"] == "iterable"]
    return {None: streams, **{one["length"]: one for one in summary["loaders"] if one["length"]}}


def totals(loader: dict[str, Any], *names: str) -> tuple[float, ...]:
    """Sums over a loader's phases."""
    return tuple(sum(phase[name] for phase in loader["phases"]) for name in names)


def test_a_short_batch_of_a_stream_counts_as_what_it_holds(loaders: Any) -> None:
    """Two workers' shards of 5 in batches of 4, twice: 20 samples, made and delivered."""
    short, _ = loaders[None]
    assert totals(short, "batches", "samples", "fetch_samples") == (8, 20, 20)


def test_a_batch_that_tells_no_samples_counts_as_asked_for(loaders: Any) -> None:
    """One long row of each batch: its first dimension is not the samples."""
    _, flattened = loaders[None]
    assert totals(flattened, "batches", "samples") == (4, 16)


def test_loaders_in_turn_have_their_own_steps(loaders: Any) -> None:
    """Twenty steps, a batch of one task each."""
    assert [totals(loaders[n], "steps", "shared_steps") for n in (40, 41)] == [(10, 0), (10, 0)]
    assert loaders[40]["model"] == loaders[41]["model"]


def test_zipped_loaders_share_their_steps(loaders: Any) -> None:
    """Eleven steps, a batch of both each."""
    assert [totals(loaders[n], "steps", "shared_steps") for n in (42, 43)] == [(11, 11), (11, 11)]


def test_threads_that_train_have_their_own_steps(loaders: Any) -> None:
    """However they take turns; and workers are not forked beside another training."""
    both = [loaders[n] for n in (45, 46)]
    assert [totals(one, "batches", "samples", "steps") for one in both] == [
        (12, 45, 12),
        (12, 46, 12),
    ]
    assert both[0]["model"] != both[1]["model"]
    assert [one["started_workers"] for one in both] == [0, 0]


def test_a_thread_that_reads_ahead_is_told(loaders: Any) -> None:
    """The steps are those of another thread; its loader stays as it is."""
    assert loaders[48]["left_alone"] == READ_ELSEWHERE
    assert totals(loaders[48], "samples", "steps")[0] == 48


def a_pass() -> Any:
    """A pass that has handed a batch."""
    counts = {"steps": 0, "shared_steps": 0, "elsewhere": False, "over": False}
    return SimpleNamespace(last=1.0, left=None, note_first=lambda _: None, **counts)


def asks(turns: Turns, current: Any) -> None:
    """A thread of its own asks this pass for a batch."""
    thread = threading.Thread(target=turns.to, args=(current, 1.0))
    thread.start()
    thread.join()


def test_an_evaluation_beside_a_reading_thread_takes_no_steps() -> None:
    """The thread that trains evaluates, too, by a loader that it reads itself."""
    turns, training, held_out = Turns(StepClock()), a_pass(), a_pass()
    optimiser: Any = torch.optim.SGD([torch.zeros(1)], lr=0.1)
    asks(turns, training)
    turns.to(held_out, 2.0)
    held_out.over = True
    asks(turns, training)
    turns.count(optimiser, 3.0)
    turns.credit()
    assert (training.steps, training.elsewhere, held_out.steps) == (1, True, 0)


def test_threads_without_end_cost_no_memory() -> None:
    """A thread for each epoch."""
    turns = Turns(StepClock())
    passes = [a_pass() for _ in range(100)]
    for current in passes:
        turns._of[id(current)] = turn = Turn(turns)
        turn.to(current, 1.0)
        current.over = True
    assert len(turns._of) > 32
    asks(turns, a_pass())
    assert len(turns._of) == 1


@pytest.mark.parametrize(
    ("full", "sizes", "expected"),
    [(4, [4, 4, 1], 9), (4, [1, 1, 1], None), (None, [3, 3, 1], 7), (4, [8, 8], None)],
)
def test_batches_are_believed_where_a_full_one_is_full(
    full: int | None, sizes: list[int], expected: int | None
) -> None:
    """As many samples as were asked for came with the largest."""
    counts = BatchCounts(full)
    for size in sizes:
        counts.count_rows(torch.zeros(size, 2))
    assert counts.samples(len(sizes)) == expected


def test_a_pass_that_begins_within_another_is_left_as_it_is() -> None:
    """Two threads at once, or a sampler that reads a loader: one of them may be moved."""
    with pass_starts.starting_alone() as first, pass_starts.starting_alone() as second:
        assert (first, second) == (True, False)
    with pass_starts.starting_alone() as third:
        assert third
