"""Expected run time of a job beside the measured one, for people."""

from collections.abc import Mapping, Sequence
from typing import Any


def line(expected: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> str:
    """The expected run time, and the last run's."""
    from slurm_ext.cli.predict.text import duration, run_time

    took = runs[-1]["elapsed_s"] if runs else None
    ran = "" if took is None else f"; it ran {duration(took)}"
    return f"expected: {run_time(expected)}, as known when it was submitted{ran}"
