"""Whoever reads an answer sees which runs it rests on, and what would have made it another."""

import json
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.cli.common.evidence_text import past, would_change
from tests.cli.predict.test_predict_explain import TOKEN, dlqueue, predicted, script, taught

__all__ = ["script", "taught"]  # fixtures

RUN = {"job_id": 7, "cpus": 2.0, "num_workers": 0, "samples_per_s": 190.4}


def answer(action: str, written: float, best: float, **more: Any) -> dict[str, Any]:
    """A document of `predict --json`, as far as it matters here."""
    return {
        "eligible": True,
        "action": action,
        "level": "same script and arguments",
        "predicted_before": {"samples_per_s": written},
        "predicted_after": {"samples_per_s": written if action == "leave" else best},
        "maximum": {"samples_per_s": best},
        **more,
    }


def test_past_runs_are_named_by_their_jobs() -> None:
    """With shape and rate, so that people can look them up."""
    assert list(past([RUN])) == ["job 7: 2 CPUs, 0 workers, 190.4 samples/s"]


@pytest.mark.parametrize(
    ("said", "part"),
    [
        (answer("leave", 100, 103), "changed where it runs below 98.1 samples/s"),
        (answer("change", 100, 210), "left as it is where it runs above 200 samples/s"),
        (answer("change", 100, 101), "keeps its CPUs where fewer"),
        (answer("leave", 100, 103, level="this cluster"), "counts more than this cluster"),
        ({"eligible": True, "predicted_after": None}, "one run of it"),
    ],
)
def test_what_would_change_the_answer(said: dict[str, Any], part: str) -> None:
    """The rate from which `policy.min_gain` tells otherwise, and better evidence than there is."""
    assert part in (would_change(said, 0.05) or "")


def test_a_job_that_is_not_looked_at_has_no_other_answer() -> None:
    """Why it is not is said already."""
    assert would_change({"eligible": False}, 0.05) is None


def test_predict_names_the_run_behind_it(taught: Path, script: Path) -> None:
    """In JSON and in words."""
    said = predicted(taught, script)
    assert [run["job_id"] for run in said["past"]] == [1042]
    text = dlqueue("predict", str(script), folder=taught).stdout
    assert "job 1042: " in text
    assert "otherwise:" in text


def test_explain_names_only_runs_that_were_known_then(taught: Path) -> None:
    """The job's own run came after its decision: it is no evidence of it."""
    done = dlqueue("explain", TOKEN, "--json", folder=taught)
    assert json.loads(done.stdout)["past"] == []
