"""Verdict on a loader with pinned seeds, once its workers' first fetches were watched."""

from __future__ import annotations

import functools
import threading
import time
from typing import Any

from ..counters.turns import READ_ELSEWHERE
from ..passes.one_pass import NEVER
from .watch import CLEAN, DRAWS, KEEPS_STATE, NOT_YET

REASONS = {
    DRAWS: "pinned seeds (DLQUEUE_SEEDED=allow lifts this)",
    KEEPS_STATE: "the dataset keeps state",
}


def settle(session: Any, iterator: Any, current: Any) -> None:
    """Decides for a pass of a `Seeded` iterator, now or once its workers' trial is over."""
    thread = threading.get_ident()
    streams, gate = iterator._dlqueue_streams, iterator._dlqueue_open.gate
    streams.asks_again_at = 0

    def elsewhere() -> str | None:
        same = threading.get_ident() == thread
        return None if same and not current.elsewhere else READ_ELSEWHERE

    def decide() -> None:
        reason = _against(current.made.findings()) or elsewhere()
        if reason is None:
            streams.release()
            if not streams.draws_matter:  # later passes need no trial while its parts stay so
                current.meter.trust()
            _start(session, streams, gate, current)
        else:
            streams.stay()
            current.knob, current.tune_at = None, NEVER
            meter = current.meter
            meter.left_alone = meter.kept = reason
            meter.gated = meter.gate_open = meter.most_workers = None

    def fell(reason: str) -> None:
        current.look(time.perf_counter())
        current.workers_now = lambda: streams.workers
        current.knob, current.tune_at = None, NEVER
        meter = current.meter
        meter.fallback, meter.gate_open, meter.most_workers = reason, streams.workers, None

    streams.decide = functools.partial(session.safely, decide)
    streams.on_fall = functools.partial(session.safely, fell)
    if streams.free:
        _start(session, streams, gate, current)


def _start(session: Any, streams: Any, gate: Any, current: Any) -> None:
    """Start what is missing; where forks are slow, others after a round of those that work."""
    missing = min(gate.planned - gate.limit, session.left(gate.first))
    if missing <= 0 or current.over or not streams.free:
        return
    if 0 < session.grow(current, missing) < missing:
        again = functools.partial(_start, session, streams, gate, current)
        streams.decide = functools.partial(session.safely, again)
        streams.asks_again_at = streams.delivered + gate.limit


def tell(current: Any) -> None:
    """Note what would leave workers alone where nobody asks for others, once it is seen."""
    found = sorted(current.made.findings(), reverse=True)  # one worker's finding is enough
    if NOT_YET not in found or found[0] > CLEAN:
        current.undecided = False
        current.meter.left_alone = current.meter.left_alone or _against(found)


def _against(findings: list[float]) -> str | None:
    """The reason to go on as written; None: all workers' trials went well."""
    for found in findings:
        if found != CLEAN:
            return REASONS.get(found, "the dataset cannot be looked through")
    return None
