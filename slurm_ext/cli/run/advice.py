"""Advice by a program's own runs: a clause for the end of a long one."""

from pathlib import Path
from typing import Any

from slurm_ext.advisor.own_runs.settled import workers_of

LEAST_S = 20.0  # of a run: below, reading the history would cost more than a hundredth of it


def advice(own: Path, document: dict[str, Any]) -> str | None:
    """`num_workers 0 -> 4 would give about 110 samples/s`; None where nothing would gain."""
    record = document["record"]
    tuned = workers_of(record["probe"]["summaries"]) is not None
    if tuned or record["times"]["elapsed_s"] < LEAST_S:
        return None
    from slurm_ext.advisor.own_runs.entering import submission
    from slurm_ext.advisor.own_runs.own_history import take_in
    from slurm_ext.advisor.pipeline.decide import decide
    from slurm_ext.advisor.service.from_history import context_from_history
    from slurm_ext.core.errors import DlqueueError
    from slurm_ext.core.settings.document import load

    try:
        take_in(own)
        job = submission(document["command"], record["identity"], record["allocation"]["cpus"])
        chosen = decide(job, context_from_history(load(own / "dlqueue.toml"), job)).decision
    except DlqueueError:
        return None  # a damaged history is what `dlqueue explain` tells of
    if chosen is None or chosen.action != "change" or chosen.predicted_after is None:
        return None
    before, after = chosen.before.num_workers, chosen.after.num_workers
    if after in (before, trained_workers(document)):
        return None
    rate = chosen.predicted_after.samples_per_s
    return f"num_workers {before} -> {after} would give about {rate:.3g} samples/s"


def trained_workers(document: dict[str, Any]) -> int | None:
    """Workers that its largest training had, tuned or not; None without one."""
    from slurm_ext.cli.explain.probe import probe_of

    probe = probe_of(document["record"])
    return probe["trainings"][0]["workers"] if probe and probe["trainings"] else None
