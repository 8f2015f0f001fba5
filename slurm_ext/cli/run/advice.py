"""Advice by a program's own runs: a clause for the end of a long one."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

LEAST_S = 20.0  # of a run: below, reading the history would cost more than a hundredth of it


def first_of(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Advice on the run by its record (core/advice/from_record.py); [] where none is due."""
    record = document["record"]
    if record["times"]["elapsed_s"] < LEAST_S:
        return []
    from slurm_ext.core.advice.from_record import advice_of

    return advice_of(record)


def advice(own: str, document: dict[str, Any], causes: Sequence[Mapping[str, Any]]) -> str | None:
    """The first of `found` as a clause; None where there is none.

    Where it is about workers, the history may know how many: `num_workers 0 -> 4 would give about
    110 samples/s`.
    """
    if not causes:
        return None
    counted = _counted(own, document) if "workers" in causes[0]["action"] else None
    if counted is not None:
        return counted
    from slurm_ext.cli.common.advice_text import clause

    return clause(causes[0])


def _counted(own: str, document: dict[str, Any]) -> str | None:
    """The worker count that the curve of the program's own runs asks for, with its rate."""
    from pathlib import Path

    from slurm_ext.advisor.own_runs.entering import submission
    from slurm_ext.advisor.own_runs.own_history import take_in
    from slurm_ext.advisor.pipeline.decide import decide
    from slurm_ext.advisor.service.from_history import context_from_history
    from slurm_ext.core.errors import DlqueueError
    from slurm_ext.core.settings.document import load
    from slurm_ext.core.settings.own import NAME

    record = document["record"]
    try:
        take_in(Path(own))
        job = submission(document["command"], record["identity"], record["allocation"]["cpus"])
        chosen = decide(job, context_from_history(load(Path(own, NAME)), job)).decision
    except (DlqueueError, OSError):
        return None  # a history that is damaged or read-only is what `dlqueue explain` tells of
    if chosen is None or chosen.action != "change" or chosen.predicted_after is None:
        return None
    before, after = chosen.before.num_workers, chosen.after.num_workers
    if after in (before, trained_workers(document)):
        return None
    rate = chosen.predicted_after.samples_per_s
    return f"num_workers {before} -> {after} would give about {rate:.3g} samples/s"


def trained_workers(document: dict[str, Any]) -> int | None:
    """Workers that its largest training had, tuned or not; None without one."""
    from slurm_ext.questions.explain.probe import probe_of

    probe = probe_of(document["record"])
    return probe["trainings"][0]["workers"] if probe and probe["trainings"] else None
