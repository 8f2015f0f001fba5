"""One line of any trace in the words of the column dictionary, and how its numbers are read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import nan

from slurm_ext.simulate.trace import times as trace_times
from slurm_ext.simulate.trace.times import MOST, Clock

NO_GPU = "left out: without GPUs"
NEVER_RAN = "left out: never started"
STILL_RUNS = "left out: had not ended"
CENSORED = "ended by the trace's own end: replayed with the time seen so far"
PART_OF_GPU = "shared a GPU: replayed on a whole one"


@dataclass(slots=True, kw_only=True)
class TraceRow:
    """One job; units as in columns.py. `note`: what was repaired; it is counted."""

    job: str
    submit_s: float
    duration_s: float
    gpus: int
    cpus: int = 0
    user: str = ""
    vc: str = ""
    account: str = ""
    gpu_type: str = ""  # that it asks for; empty: any
    qos: str = ""
    limit_s: float = nan
    estimate_s: float = nan
    note: str | None = None


Fields = Mapping[str, str]
# A row; or in a word why the line is no job to replay; ValueError where it is wrong.
Read = Callable[[Fields, Clock], TraceRow | str]


def number(text: str, name: str) -> float:
    """A number within MOST. Raises ValueError, naming the column."""
    try:
        value = trace_times.number(text)
    except ValueError:
        value = nan
    if not abs(value) <= MOST:
        raise ValueError(f"{name} is {text[:40]!r}: expected a number up to {MOST:.0e}")
    return value


def count(text: str, name: str) -> int:
    """A whole number from 0 on. Raises ValueError."""
    value = number(text, name)
    if value < 0 or value != int(value):
        raise ValueError(f"{name} is {text!r}: expected a whole number from 0 on")
    return int(value)


def optional_s(text: str | None, name: str) -> float:
    """Seconds over 0; NaN where nothing, 0 or -1 stands. Raises ValueError."""
    if text is None or not text.strip():
        return nan
    value = number(text, name)
    if value in (0, -1):
        return nan
    if value < 0:
        raise ValueError(f"{name} is {text!r}: expected seconds over 0")
    return value
