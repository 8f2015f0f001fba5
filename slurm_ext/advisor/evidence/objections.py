"""Objections of a job's own runs to a change: refused workers, and cores in use. Pure.

They are properties of the script: the runs of its nearest level say them, and the newest counts.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import ceil

from slurm_ext.core.records import POOLED_LEVELS, Level, LoaderRun

FULL = 0.9  # of its cores: a run that kept as many busy might have used more
GRAIN = 0.1  # of a core, of clocks and counters
_OF_THE_SCRIPT = (Level.SCRIPT_ARGS, Level.SCRIPT)


def nearest_runs(evidence: Mapping[Level, Sequence[LoaderRun]]) -> list[LoaderRun]:
    """Return the runs of the script itself, nearest and newest first; else of the next level."""
    own = [run for level in _OF_THE_SCRIPT for run in evidence.get(level, ())]
    others = (level for level in Level if level not in (*_OF_THE_SCRIPT, Level.CLUSTER))
    return own or next((list(evidence[level]) for level in others if evidence.get(level)), [])


def refusal(evidence: Mapping[Level, Sequence[LoaderRun]]) -> int | None:
    """Return the LoaderRefusal that holds for the job; None: its workers may be moved.

    A run that was only looked at lifts what a look would find again, and nothing else. What other
    users' programs refuse says nothing.
    """
    own = {level: runs for level, runs in evidence.items() if level not in POOLED_LEVELS}
    refused = [run for run in nearest_runs(own) if run.refused is not None]
    return _holding(refused) if refused else None


def _holding(refused: Sequence[LoaderRun]) -> int | None:
    """The first refusal that no newer run lifts."""
    from slurm_ext.core.findings.loader_refusal import LoaderRefusal  # `predict` waits for it

    looked_at = False
    for run in refused:
        if run.refused == LoaderRefusal.MOVED:
            return None
        if run.refused == LoaderRefusal.NOTHING:
            looked_at = True
        elif not (looked_at and _seen_by_a_look(run)):
            return run.refused
    return None


def _seen_by_a_look(run: LoaderRun) -> bool:
    """True if a run that nobody asked to move finds this reason as well."""
    from slurm_ext.core.findings.loader_refusal import ONLY_WHEN_TRIED, LoaderRefusal

    # Without workers, pinned seeds matter only to a dataset that draws random numbers.
    tried = run.refused == LoaderRefusal.SEEDS and not run.user_workers
    return run.refused not in ONLY_WHEN_TRIED and not tried


def busy_cores(runs: Iterable[LoaderRun]) -> int | None:
    """Return the cores that a task of these runs kept busy at most; None: not known.

    Runs that kept all of theirs busy do not tell how many they would have used.
    """
    counted = [(run.used_cores, run.cores) for run in runs if run.used_cores is not None]
    if not any(used < FULL * cores for used, cores in counted):
        return None
    return max(1, ceil(max(used for used, _ in counted) - GRAIN))
