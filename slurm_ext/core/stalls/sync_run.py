"""Evidence of how a run's gradients went to other ranks: `sync_run(record) -> SyncRun | None`.

Pure. Only runs that were asked for it have it (DLQUEUE_BUCKETS), from the rank 0 of the module's
process group.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from slurm_ext.core.findings.strands import total
from slurm_ext.core.loader_run import loader_run
from slurm_ext.core.records import SyncRun
from slurm_ext.core.stalls.bucket_caps import is_caps
from slurm_ext.core.stalls.step_split import step_split
from slurm_ext.core.trainings import Member, trainings

LEAST_PASSES = 5  # that torch timed
SLACK = 1.1  # the step and its passes are timed apart
_MOST_SECONDS, _MOST_SYNCS, _MOST_BYTES = 1e6, 1e4, 1e15
_SIGNATURE = re.compile("[0-9a-f]{12}")
_Json = Mapping[str, Any]


def sync_run(record: _Json) -> SyncRun | None:
    """The evidence; None where nobody asked for it, or its numbers are too few or cannot be."""
    summaries = (record.get("probe") or {}).get("summaries") or ()
    if not any(map(_is_told, summaries)):
        return None
    run, parts = loader_run(record), step_split(summaries)
    member = next((member for member in _members(summaries) if _is_told(member[0])), None)
    if member is None or run is None or parts is None:
        return None
    summary, loader = member
    communication, buckets = summary["communication"], summary["communication"]["buckets"]
    batches = total(loader, "batches")
    syncs = (
        (communication.get("per_step") or 0.0) * total(loader, "steps") / batches
        if batches
        else 0.0
    )
    measured = SyncRun(
        signature=buckets["signature"],
        ranks=buckets["ranks"],
        nodes=run.nodes or 1,
        backend=_text(communication.get("backend")),
        accelerator=_text(summary.get("accelerator")),
        takes_lists=bool(buckets.get("takes_lists")),
        caps=buckets.get("caps"),
        left_alone=_text(buckets.get("left_alone")),
        user_caps=bool(buckets.get("user_caps")),
        comm_hook=_text(communication.get("comm_hook")),
        batch_size=run.batch_size,
        data_key=run.data_key,
        step_s=run.batch_size / run.samples_per_s,
        waiting=parts.data_s / parts.step_s if parts.step_s > 0 else 0.0,
        syncs=syncs,
        exposed_s=parts.communicating_s / syncs if syncs > 0 else 0.0,
        bucket_bytes=tuple(communication.get("bucket_bytes") or ()),
        ready_bytes=tuple(buckets["ready_bytes"]),
        ready_s=tuple(buckets["ready_s"]),
    )
    return measured if _is_possible(measured) else None


def _members(summaries: Sequence[_Json]) -> Sequence[Member]:
    training = next(trainings(summaries), None)
    return training.members if training else ()


def _is_told(summary: _Json) -> bool:
    """True of the process that knows when its gradients were ready, by enough passes."""
    communication = summary.get("communication") or {}
    buckets = communication.get("buckets") or {}
    sizes, ready_s = buckets.get("ready_bytes") or (), buckets.get("ready_s") or ()
    return len(sizes) == len(ready_s) > 0 and (communication.get("steps") or 0) >= LEAST_PASSES


def _text(value: str | None) -> str | None:
    """A text that people may read; a user's process wrote it."""
    if value is None or value.isprintable():
        return value
    return value.encode("unicode_escape").decode()


def _is_possible(run: SyncRun) -> bool:
    """True if a training could have measured these numbers, and a submission have set its caps."""
    seconds = (run.step_s, run.exposed_s, *run.ready_s)
    sent, ready = sum(run.bucket_bytes), sum(run.ready_bytes)
    return (
        bool(_SIGNATURE.fullmatch(run.signature))
        and (run.caps is None or is_caps(run.caps))
        and all(0 <= value < _MOST_SECONDS for value in seconds)
        and run.step_s > 0
        and 0 < run.syncs < _MOST_SYNCS
        and run.exposed_s * run.syncs <= run.step_s * SLACK
        and list(run.ready_s) == sorted(run.ready_s, reverse=True)
        and 0 < ready < _MOST_BYTES
        and abs(sent - ready) <= 0.01 * ready
    )
