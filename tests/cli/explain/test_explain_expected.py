"""`dlqueue explain` says what was predicted, each shape once."""

from typing import Any

from slurm_ext.cli.explain.text import _expected


def ledger(workers: int) -> dict[str, Any]:
    """A decision that chose so many workers for a job without any."""
    shapes = {"before": 0, "after": workers}
    return {
        "runs": 1,
        "level": "same script",
        "model": None,
        **{f"{when}_cpus": 2 for when in shapes},
        **{f"{when}_workers": count for when, count in shapes.items()},
        **{f"{when}_low": 9.0 for when in shapes},
        **{f"{when}_samples_per_s": 10.0 for when in shapes},
        **{f"{when}_high": 11.0 for when in shapes},
        **{f"{when}_bottleneck": "data" for when in shapes},
    }


def test_both_shapes_of_a_changed_job() -> None:
    """As written, and as it was to run."""
    lines = list(_expected(ledger(4), ranks=2))
    assert [line for line in lines if line.startswith("expected")] == [
        "expected: 2 CPUs, 0 workers: 20 samples/s (18 to 22), limited by data",
        "expected: 2 CPUs, 4 workers: 20 samples/s (18 to 22), limited by data",
    ]


def test_a_job_that_stays_is_predicted_once() -> None:
    """The same line twice would look like two shapes."""
    lines = list(_expected(ledger(0), ranks=1))
    assert len([line for line in lines if line.startswith("expected")]) == 1
