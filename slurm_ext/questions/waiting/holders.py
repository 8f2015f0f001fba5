"""Jobs that hold what another one waits for."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from slurm_ext.slurm.records import JobInfo

MOST_HELD = 50  # the largest, in the document
MOST_SHOWN = 5  # in the text for people


def holders(
    jobs: Sequence[JobInfo], amount: Callable[[JobInfo], float | None]
) -> list[dict[str, Any]]:
    """Running jobs that hold an amount, largest first; `amount` is None for one that does not."""
    holding = [(amount(job), job) for job in jobs if job.nodes and not job.ended]
    rows = [_row(job, much) for much, job in holding if much]
    return sorted(rows, key=lambda row: (-row["amount"], row["job"]))[:MOST_HELD]


def _row(job: JobInfo, amount: float) -> dict[str, Any]:
    who = {"job": job.named, "user": job.user_name, "name": job.name}
    return {**who, "amount": amount, "end_s": job.end_time_s}


def lines(rows: Sequence[Mapping[str, Any]], text_of: Callable[[float], str]) -> Iterator[str]:
    """For people: who holds how much, and until when at most."""
    for row in rows[:MOST_SHOWN]:
        yield f"holds:    {named(row)}: {text_of(row['amount'])}{until(row['end_s'])}"
    if len(rows) > MOST_SHOWN:
        yield f"holds:    and {len(rows) - MOST_SHOWN} more jobs (--json lists them)"


def named(row: Mapping[str, Any]) -> str:
    """A job with its user's name for it."""
    from slurm_ext.report.formatting import name

    return f"job {row['job']} ({row['user']}'s {name(row['name'])})"


def until(end_s: float | None) -> str:
    """Time at which a running job's time is up."""
    from slurm_ext.questions.waiting.times import at

    return "" if end_s is None else f", until {at(end_s)} at most"
