"""A proposal as the ledger's row."""

import json
from dataclasses import asdict
from typing import Any

from slurm_ext.core.records import Prediction
from slurm_ext.history.ingest.proposals import Proposal
from slurm_ext.history.store.names import KEY_COLUMNS, STORED_LEVELS

_COLUMNS = (
    "token",
    "state",
    "decided_s",
    "mode",
    "holdout",
    "action",
    "reason",
    "user",
    "uid",
    "job_name",
    "account",
    "partition",
    "before_cpus",
    "before_workers",
    "after_cpus",
    "after_workers",
    "before_samples_per_s",
    "before_low",
    "before_high",
    "before_bottleneck",
    "after_samples_per_s",
    "after_low",
    "after_high",
    "after_bottleneck",
    "interval_level",
    "level",
    "runs",
    "factor",
    "edits",
    "message",
    "model",
    "sharing",
    "elastic",
    "ranks",
    "buckets",
    "crowded",
    "factor_beside",
    "before_else_samples_per_s",
    "before_else_low",
    "before_else_high",
    "after_else_samples_per_s",
    "after_else_low",
    "after_else_high",
    *KEY_COLUMNS,
)
INSERT = (
    f"INSERT OR IGNORE INTO decisions ({', '.join(_COLUMNS)})"
    f" VALUES ({', '.join('?' * len(_COLUMNS))})"
)


def row_of(proposal: Proposal) -> tuple[Any, ...]:
    """The ledger's row; bytes that are not UTF-8 as escapes: SQLite takes no half characters."""
    return tuple(
        value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
        for value in _values(proposal)
    )


def _values(p: Proposal) -> tuple[Any, ...]:
    chosen, before, after = p.decision, p.decision.predicted_before, p.decision.predicted_after
    basis = after or before
    return (
        p.token,
        "proposed",
        p.decided_s,
        p.mode.value,
        p.holdout,
        chosen.action,
        chosen.reason,
        p.user,
        p.uid,
        p.job_name,
        p.account,
        p.partition,
        chosen.before.cpus_per_task,
        chosen.before.num_workers,
        chosen.after.cpus_per_task,
        chosen.after.num_workers,
        *_believed(before),
        *_believed(after),
        *((basis.interval.level, basis.level.value, basis.runs) if basis else (None, None, None)),
        p.factor,
        json.dumps(asdict(p.edits)),
        p.message,
        p.model,
        None if p.sharing is None else json.dumps(p.sharing),
        p.elastic,
        p.ranks,
        None if p.buckets is None else json.dumps(p.buckets),
        basis.crowded if basis and basis.elsewhere else None,
        p.factor_beside,
        *_elsewhere(before),
        *_elsewhere(after),
        *map(p.keys.get, STORED_LEVELS),
    )


def _believed(p: Prediction | None) -> tuple[Any, ...]:
    if p is None:
        return (None, None, None, None)
    return (p.samples_per_s, p.interval.low, p.interval.high, p.bottleneck)


def _elsewhere(p: Prediction | None) -> tuple[Any, ...]:
    other = p and p.elsewhere
    if other is None:
        return (None, None, None)
    return (other.samples_per_s, other.interval.low, other.interval.high)
