"""Loaders as frameworks make them are moved where no result changes by it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Environment = Callable[..., dict[str, str]]
Python = Callable[..., Any]
SCENARIOS = ("-m", "tests.probe.loader_scenarios")
W = "3"


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, environment: Environment, python: Python) -> Any:
    """A group's results and loaders: without the probe (None), watched (empty), moved."""
    done: dict[Any, Any] = {}

    def run(group: str, workers: str | None) -> Any:
        if workers not in done:
            run_dir = tmp_path_factory.mktemp(group) / "run" if workers is not None else None
            env = environment(run_dir, **({"DLQUEUE_NUM_WORKERS": workers} if workers else {}))
            one = python([*SCENARIOS, "lifted", "kept"], env)
            assert (one.returncode, one.stderr) == (0, "")
            told = [json.loads(line) for line in one.stdout.splitlines()]
            assert [said for _, _, said in told] == ["", ""]
            done[workers] = {name: results for name, results, _ in told}
            assert not run_dir or not any(map(faults, run_dir.glob("summary-*")))
        return done[workers][group]

    return run


def faults(path: Path) -> Any:
    """What the probe itself failed at."""
    return json.loads(path.read_text())["faults"]


DREW = "fetching draws random numbers in a job with pinned seeds"
PINNED = "pinned seeds (DLQUEUE_SEEDED=allow lifts this)"

LIFTED = {
    "subclass_with_its_own_iteration": None,
    "sampler_that_made_its_list": None,
    "batches_by_a_subclass": None,
    "list_of_numpys_numbers": None,
    "batches_made_and_then_given": None,
    "numbers_given_from_a_list": None,
    "columns_of_arrow": None,
    "one_iterator_for_all_epochs": None,
    "one_iterator_and_a_worker": None,
    "one_iterator_that_counts_its_epochs": None,
    "sampler_that_notes_its_end": None,
    "own_generator_left_before_the_end": None,
    "one_worker_and_no_draws": None,
    "two_that_stay_and_no_draws": None,
    "samples_tell_their_worker": None,
    "draws_long_after_the_start": DREW,
    "draws_after_the_start_with_workers_that_stay": DREW,
    "left_early_with_draws_under_way": DREW,
    "draws_in_its_last_batch": DREW,
    "fails_after_it_drew": DREW,
}


@pytest.mark.parametrize(("name", "fallback"), LIFTED.items())
def test_shapes_of_frameworks_are_moved(ran: Any, name: str, fallback: str | None) -> None:
    """More workers, and every batch and every random stream bit for bit the user's."""
    moved = ran("lifted", W)[name]
    assert moved["result"] == ran("lifted", None)[name]["result"]
    row = moved["rows"][0]
    assert (row["method"], row["started_workers"], row["left_alone"]) == ("gated", int(W), None)
    assert row["fallback"] == fallback


KEPT = {
    "draws_from_the_start": PINNED,
    "draws_in_one_worker_only": PINNED,
    "generator_of_the_datasets_own": "the dataset keeps state",
    "workers_with_a_share_each": "the dataset keeps state",
    "read_by_a_thread_of_its_own": "it is read by a thread of its own",
}


@pytest.mark.parametrize(("name", "reason"), KEPT.items())
def test_what_would_change_a_result_stays(ran: Any, name: str, reason: str) -> None:
    """The user's own workers go on as written, and the reason is told."""
    moved = ran("kept", W)[name]
    row = moved["rows"][0]
    assert moved["result"] == ran("kept", None)[name]["result"]
    assert (row["left_alone"], row["fallback"]) == (reason, None)
    assert row["started_workers"] == row["user_num_workers"]


def test_a_run_that_nobody_moves_sees_who_draws(ran: Any) -> None:
    """Nothing is promised to a pinned job whose workers draw: a first run tells."""
    watched, plain = ran("kept", ""), ran("kept", None)
    for name in KEPT:
        assert watched[name]["result"] == plain[name]["result"]
    for name in ("draws_from_the_start", "draws_in_one_worker_only"):
        assert watched[name]["rows"][0]["left_alone"] == PINNED
    for name, found in ran("lifted", "").items():
        assert found["result"] == ran("lifted", None)[name]["result"]
        assert found["rows"][0]["left_alone"] is None
