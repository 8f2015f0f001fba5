"""`dlqueue predict sbatch OPTIONS SCRIPT ARGS`: sbatch's own command line as a submission.

As in sbatch, options end at the first word that is none; what follows is the script's. sbatch(1).
"""

from collections.abc import Sequence
from typing import NamedTuple

from slurm_ext.advisor.pipeline.sbatch_options import FLAGS

WORD = "sbatch"  # in place of the script; a file of that name is ./sbatch
WRAPPED = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n"
# Options without a value, or whose value is never a word apart.
_NODES = ("contiguous", "exclusive", "overcommit", "oversubscribe", "spread-job", "use-min-nodes")
_COURSE = ("hold", "no-kill", "no-requeue", "requeue", "reboot", "nice", "test-only", "wait")
_LATER = ("consolidate-segments", "oom-kill-step", "spread-segments", "stepmgr")  # than 23.11
_SHELL = ("get-user-env", "ignore-pbs", "propagate")
_SAYING = ("help", "parsable", "quiet", "usage", "verbose", "version")
_ALONE = frozenset((*_NODES, *_COURSE, *_LATER, *_SHELL, *_SAYING))
_WRAP = ("--wr", "--wra", "--wrap")


class SbatchLine(NamedTuple):
    """Options as typed, without --wrap; the script (None: `wrap` is its command); its arguments."""

    options: tuple[str, ...]
    script: str | None
    wrap: str | None
    args: tuple[str, ...]


def read_line(words: Sequence[str]) -> SbatchLine:
    """The parts of `sbatch WORDS`. Raises UsageError where no job is named."""
    place = _first_of_job(words)
    options, wrap = _without_wrap(words[:place])
    if words[place : place + 1] == ["--"]:
        place += 1
    job = tuple(words[place:])
    if (wrap is None) == (not job):
        from slurm_ext.core.errors import UsageError

        raise UsageError("sbatch takes a script, or --wrap COMMAND: dlqueue predict sbatch job.sh")
    return SbatchLine(options, job[0] if job else None, wrap, job[1:])


def _first_of_job(words: Sequence[str]) -> int:
    """The index of the script, or the number of words."""
    place = 0
    while place < len(words) and words[place].startswith("-") and words[place] not in ("-", "--"):
        place += 2 if _takes_next(words[place]) else 1
    return min(place, len(words))


def _takes_next(word: str) -> bool:
    """True if an option's value is the word behind it. Names may be cut, as sbatch takes them."""
    if word.startswith("--"):
        return "=" not in word and not any(name.startswith(word[2:]) for name in _ALONE)
    return len(word[1:].lstrip(FLAGS)) == 1


def _without_wrap(options: Sequence[str]) -> tuple[tuple[str, ...], str | None]:
    kept, wrap, rest = list[str](), None, iter(options)
    for word in rest:
        name, equals, value = word.partition("=")
        if name in _WRAP:
            wrap = value if equals else next(rest, "")
        else:
            kept += [word, *([next(rest, "")] if _takes_next(word) else [])]
    return tuple(kept), wrap
