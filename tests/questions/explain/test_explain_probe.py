"""`dlqueue explain` tells what the probe measured, and why it measured or changed nothing."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.questions.explain.probe import (
    MARK,
    MOST_CHARACTERS,
    NO_STEP,
    NOTHING,
    TOO_SHORT,
    UNCOUNTED,
    UNPROBED,
    lines,
    measured,
    probe_of,
)

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "probe" / "v1.json").read_text())

TUNED = "tuned:    4 workers after 4 s of measuring (samples/s by workers: 0: 52.5, 4: 178)"


def run(**loader: Any) -> dict[str, Any]:
    """A run whose probe wrote the golden summary, its loader changed."""
    summary = copy.deepcopy(GOLDEN)
    summary["loaders"][0].update(loader)
    return {"probe": {"summaries": [summary], "faults": []}}


def test_steps_stand_in_where_no_loader_is_known() -> None:
    """95 steps after the first, in 22.75 s."""
    probe = probe_of(run())
    assert probe is not None
    assert (probe["steps"], probe["steps_wall_s"]) == (96, 22.75)
    told = measured({"loader_samples_per_s": None, "probe": probe})
    assert told.startswith("no samples/s: no DataLoader of torch was long enough; ")
    assert told.endswith("; 96 optimizer steps, 4.176 a second")


def test_batches_whose_samples_nobody_knows_are_told_of() -> None:
    """A stream of subgraphs: steps, and the reason why no samples."""
    golden = GOLDEN["loaders"][0]["phases"]
    probe = probe_of(run(phases=[{**phase, "samples": 0, "fetch_samples": 0} for phase in golden]))
    assert probe is not None
    assert probe["trainings"] == []
    told = measured({"loader_samples_per_s": None, "probe": probe})
    assert told == f"no samples/s: {UNCOUNTED}; 96 optimizer steps, 4.176 a second"


@pytest.mark.parametrize("wall_s", [0, 0.0])
def test_steps_at_one_moment_have_no_rate(wall_s: float) -> None:
    """A single step lasts no time."""
    probe = {"steps": 1, "steps_wall_s": wall_s, "left_alone": []}
    told = measured({"loader_samples_per_s": None, "probe": probe})
    assert told.endswith("; 1 optimizer steps")


@pytest.mark.parametrize(
    ("probe", "expected"),
    [
        (None, NOTHING),
        ({"summaries": [], "unprobed": None}, NOTHING),
        ({"summaries": [], "unprobed": 0}, f"no throughput: {NO_STEP}"),
        ({"summaries": [], "unprobed": 2}, f"{NOTHING}: {UNPROBED}"),
        (
            {"summaries": [{"v": 1, "loaders": [], "frameworks": ["keras", "jax"]}]},
            f"no throughput: {NO_STEP} (jax, keras); {MARK}",
        ),
        ({"summaries": [{"v": 1, "loaders": []}], "unprobed": 1}, f"{NOTHING}: {UNPROBED}"),
    ],
)
def test_why_there_is_no_figure(probe: Any, expected: str) -> None:
    """No Python was seen, one lacked the probe, or none made a step that is known."""
    assert measured({"loader_samples_per_s": None, "probe": probe_of({"probe": probe})}) == expected


def test_a_short_loader_is_not_a_program_without_a_step() -> None:
    """Its batches were seen: too few."""
    short = run()
    short["probe"]["summaries"][0]["optimizer"] = None
    told = measured({"loader_samples_per_s": None, "probe": probe_of(short)})
    assert told == f"no samples/s: {TOO_SHORT}"


def test_the_rate_is_the_whole_jobs() -> None:
    """Two ranks of 332 samples/s are a job of 664."""
    told = measured({"loader_samples_per_s": 332.0, "loader_ranks": 2, "loader_workers": 4})
    assert told == "664 samples/s with 4 workers, 332 by each of 2 ranks"
    whole = {"loader_samples_per_s": 332.0, "loader_ranks": 2, "loader_workers": 4}
    told = measured({**whole, "loader_whole_samples_per_s": 600.0})
    assert told == "600 samples/s (steady 664) with 4 workers, 300 by each of 2 ranks"
    alone = measured({"loader_samples_per_s": 332.0, "loader_ranks": 1, "loader_workers": 1})
    assert alone == "332 samples/s with 1 worker"


def test_each_training_of_a_job_has_a_line() -> None:
    """Two ranks, and after them a smaller training; a job with one training has no such line."""
    several = run()
    first = several["probe"]["summaries"][0]
    first |= {"world_size": 2, "rank": 0, "started_s": 0.0, "ended_s": 50.0}
    late = copy.deepcopy(first) | {"world_size": 1, "started_s": 60.0, "ended_s": 90.0}
    late["loaders"][0]["phases"].pop()
    late["optimizer"] = None
    several["probe"]["summaries"] += [copy.deepcopy(first) | {"rank": 1}, late]
    probe = probe_of(several)
    assert probe is not None
    assert [(one["samples"], one["ranks"]) for one in probe["trainings"]] == [(6144, 2), (1024, 1)]
    told = [line for line in lines(probe) if line.startswith("training:")]
    assert told[0].startswith("training: 6144 samples, ")
    assert told[0].endswith(" samples/s, 4 workers, 2 ranks")
    assert told[1].startswith("training: 1024 samples, ")
    alone = probe_of(run())
    assert alone is not None
    assert list(lines(alone)) == [TUNED]


def test_a_refusal_is_told_once() -> None:
    """Both loaders of a job with a pinned seed are left alone for one reason."""
    changed = run(left_alone="torch's seed is pinned")
    summary = changed["probe"]["summaries"][0]
    summary["loaders"].append(copy.deepcopy(summary["loaders"][0]))
    probe = probe_of(changed)
    assert probe is not None
    told = [line for line in lines(probe) if not line.startswith("training:")]
    assert told == [TUNED, TUNED, "workers:  as the script set them: torch's seed is pinned"]


def test_workers_that_were_given_up_are_told() -> None:
    """Half-way, a batch could not be sent from a worker."""
    probe = probe_of(run(fallback="a batch cannot be sent"))
    assert probe is not None
    assert probe["left_alone"] == ["a batch cannot be sent"]


@pytest.mark.parametrize(
    "probe",
    [
        None,
        [],
        {"summaries": []},
        {"summaries": [{"optimizer": {"steps": "many", "wall_s": 1}}]},
        {"summaries": [{"optimizer": {"steps": 10}}]},
        {"summaries": [{"loaders": [{"phases": [], "left_alone": ["x"]}]}]},
    ],
)
def test_what_no_probe_writes_is_set_aside(probe: Any) -> None:
    """A job's own process wrote it: a wrong type is no fault of explain's."""
    assert probe_of({"probe": probe}) is None


def test_a_long_reason_is_cut() -> None:
    """A job cannot fill the page."""
    probe = probe_of(run(left_alone="x" * 4000))
    assert probe is not None
    assert probe["left_alone"] == ["x" * MOST_CHARACTERS]
