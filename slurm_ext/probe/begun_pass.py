"""A pass over a loader begins: what counts its batches, its waiting and the time before it."""

from __future__ import annotations

from typing import Any

from .counters.batches import BatchCounts
from .passes.gathering import Evaluations
from .passes.loader_meter import LoaderMeter
from .passes.one_pass import Pass
from .streams.watch import Watch
from .workers import gated


def begun_pass(session: Any, iterator: Any, meter: LoaderMeter) -> Pass:
    """The pass that torch's `iterator` is about to make, with all that counts it."""
    session.writer.note_group()
    iterator.__dict__.pop("_dlqueue_made_at", None)
    former = iterator.__dict__.get("_dlqueue")  # its last pass, of persistent workers
    current = Pass(iterator, meter)
    size = meter.facts["batch_size"] if iterator._auto_collation else None
    current.told = BatchCounts(size, whole=not iterator._auto_collation)
    # A worker's last batch of an iterable dataset may be short; others nobody else tells.
    current.counts_rows = not iterator._auto_collation or meter.facts["style"] == "iterable"
    meter.begin(current)
    _gather(session, current, iterator)
    current.unmarked = meter.unmarked() if session.writer.grouped else 0
    current.made.join(gated.pids(iterator), former and former.made)
    iterator.__dict__["_dlqueue"] = current
    fetcher = getattr(iterator, "_dataset_fetcher", None)
    if fetcher is not None:
        fetcher.__dict__["_dlqueue"] = current.home
    own = int(iterator._num_workers)
    current.workers_now = lambda: own
    watched = isinstance(iterator.__dict__.get("_dlqueue_guard"), Watch)
    current.undecided = watched and not session.directive.gates
    return current


def _gather(session: Any, current: Pass, iterator: Any) -> None:
    """Count the time before the pass that is the training's."""
    steps, meter = session.turns.steps, current.meter
    asked = None if steps.idle() else session.turns.latest_here()
    now = Evaluations(steps.aside_s, steps.evaluated_at)
    current.gathered_s = meter.gathering.before(
        current, iterator._dataset, meter.starts.latest_s, asked, now
    )
