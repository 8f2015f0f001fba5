"""Names of jobs: numbers, tasks of arrays, tokens of submissions, as people give and read them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slurm_ext.core.errors import UsageError

_TOKEN = re.compile(r"d1-[0-9a-f]{16}")
_NUMBER = re.compile(r"([0-9]{1,18})(?:_([0-9]{1,18}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobName:
    """Either a token, or a job's id (an array's first id) with the task of an array, or without."""

    token: str | None = None
    job_id: int | None = None
    task: int | None = None


def parse(word: str) -> JobName:
    """The job of `1042`, `1042_7` or `d1-0123456789abcdef`. Raises UsageError."""
    if _TOKEN.fullmatch(word):
        return JobName(token=word)
    number = _NUMBER.fullmatch(word)
    if number is None:
        raise UsageError(
            f"{word!r} is neither a job id (1042, or 1042_7 in an array)"
            " nor a token (d1-0123456789abcdef)"
        )
    return JobName(job_id=int(number[1]), task=None if number[2] is None else int(number[2]))


def parse_jobs(words: Sequence[str]) -> list[tuple[int, int | None]]:
    """Number and task of each word, or of each part at a comma. Raises UsageError."""
    names = [parse(part) for word in words for part in word.split(",")]
    if any(name.job_id is None for name in names):
        raise UsageError("a token names a submission: jobs are listed by their ids")
    return [(name.job_id or 0, name.task) for name in names]


def name_of(job: Mapping[str, Any]) -> str:
    """Its number; a member of an array as Slurm names it."""
    if job["array_job_id"] is None or job["array_task_id"] is None:
        return str(job["job_id"])
    return f"{job['array_job_id']}_{job['array_task_id']}"
