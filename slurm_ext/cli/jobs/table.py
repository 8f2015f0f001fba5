"""Jobs as lines: a table with colours, or columns for programs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slurm_ext.cli.common.cells import ABSENT, shown
from slurm_ext.cli.common.columns import Cell, lines
from slurm_ext.core.units import format_minutes
from slurm_ext.questions.explain.named import name_of

Job = Mapping[str, Any]
_SHARES = ("time", "cpu", "mem", "gpu", "wait")
_NAMES = ("job", "name", "state", "elapsed", "cpus", "gpus", *_SHARES, "samples_per_s")
_HEADS = (*(name.upper() for name in _NAMES[:-1]), "SAMPLES/S")
_LEFT, _CUT = (0, 1, 2), 1  # columns: a name gives way first
_GOOD, _POOR = 0.7, 0.3
_MUCH_WAIT, _SOME_WAIT = 0.3, 0.1
_TIGHT = 0.9  # of the memory or the time limit: the next one may be killed
_STATES = {"COMPLETED": "green", "CANCELLED": "yellow", "REQUEUED": "yellow", "UNKNOWN": "dim"}


def show(jobs: Sequence[Job], nothing: str) -> None:
    """A table to standard output; the sentence `nothing` where there is no job."""
    if not jobs:
        print(nothing)
        return
    heads = [Cell(head, "bold") for head in _HEADS]
    for line in lines([heads, *map(_cells, jobs)], left=_LEFT, cut=_CUT):
        print(line)


def _cells(job: Job) -> list[Cell]:
    return [
        Cell(name_of(job)),
        Cell(shown(job["job_name"])),
        Cell(shown(job["state"]), _STATES.get(job["state"], "red")),
        Cell(shown(_elapsed(job))),
        Cell(shown(job["cpus"])),
        Cell(shown(job["gpus"])),
        *(_share(name, job[name]) for name in _SHARES),
        Cell(shown(job["samples_per_s"])),
    ]


def nothing(user: str | None) -> str:
    """The sentence where there is no job."""
    who = "anybody" if user is None else shown(user)
    return (
        f"no finished job of {who} that was asked for; a job is listed some seconds after its end"
    )


def parsable(jobs: Sequence[Job]) -> Iterator[str]:
    """A head and a line for each job; shares as fractions, empty where not measured."""
    yield "|".join(_NAMES)
    for job in jobs:
        values = [name_of(job), job["job_name"], job["state"], job["elapsed_s"]]
        values += [job[name] for name in ("cpus", "gpus", *_SHARES, "samples_per_s")]
        yield "|".join(map(_plain, values))


def _elapsed(job: Job) -> str | None:
    return None if job["elapsed_s"] is None else format_minutes(job["elapsed_s"] / 60)


def _share(name: str, value: float | None) -> Cell:
    return Cell(ABSENT) if value is None else Cell(f"{100 * value:.0f}%", _style(name, value))


def _style(name: str, value: float) -> str:
    """Red is waste or danger, green is well used."""
    if name == "wait":
        return "red" if value >= _MUCH_WAIT else "yellow" if value >= _SOME_WAIT else "green"
    if name in ("time", "mem") and value >= _TIGHT:
        return "red" if value >= 1 else "yellow"
    return "green" if value >= _GOOD else "red" if value < _POOR else "yellow"


def _plain(value: Any) -> str:
    """One field; text of users' stays within it."""
    if value is None:
        return ""
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return "".join(c if c.isprintable() and c != "|" else "?" for c in text)
