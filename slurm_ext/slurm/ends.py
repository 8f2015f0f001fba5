"""Ends of jobs in the word of slurmdbd, which outlasts that of squeue: each start by sacct.

Columns and states: sacct(1).
"""

from collections.abc import Iterable, Sequence

from slurm_ext.slurm.records import AccountedEnd
from slurm_ext.slurm.sacct import DELIMITER, moment

_COLUMNS = ("JobIDRaw", "UID", "State", "Start", "End")
_SACCT = ("sacct", "--allusers", "--allocations", "--duplicates", "--parsable2", "--noheader")
_NEVER = frozenset({"", "Unknown", "None"})


def words(job_ids: Sequence[int], since_s: float) -> tuple[str, ...]:
    """The command that asks for every start of these jobs since then."""
    which = ("--jobs", ",".join(map(str, job_ids)), "--starttime", moment(since_s))
    return (*_SACCT, "--delimiter", DELIMITER, "--format", ",".join(_COLUMNS), *which)


def read(text: str) -> tuple[AccountedEnd, ...]:
    """Starts in the command's answer. Raises ValueError."""
    rows = (line.split(DELIMITER) for line in text.splitlines())
    return tuple(_ends(rows))


def _ends(rows: Iterable[list[str]]) -> Iterable[AccountedEnd]:
    for number, uid, state, start, end in rows:
        if number.isdecimal() and start not in _NEVER:
            yield AccountedEnd(
                job_id=int(number),
                user_id=int(uid),
                state=state.split(" ", 1)[0],  # CANCELLED by 1000
                start_time_s=int(start),
                end_time_s=None if end in _NEVER else int(end),
            )
