"""State of the probe in this process, and its session, made when something is there to measure."""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import threading
import time
from typing import Any

from .counters import steps
from .counters.turns import Turns
from .directive import Directive
from .step_session import StepSession

_DUE_S = 0.2  # between looks at the summary


class Following(threading.local):
    """False while workers start that no meter follows: the thread's forks keep no totals."""

    by_a_meter = True


class ProbeState:
    """State of this process; a forked child starts without it."""

    dataloader: Any = None  # torch's module, once it is there
    session: Any = None
    worker: Any = None
    directive: Directive | None = None
    turns = Turns(steps.StepClock())
    following = Following()
    imported_s = 0.0  # of the first framework
    founding = threading.RLock()  # held while the session is made
    starting = threading.Lock()  # held while a pass begins


def note(_framework: Any) -> None:
    """A framework was imported: should none of its steps be known, the summary says so."""
    if not ProbeState.imported_s:
        ProbeState.imported_s = time.time()
        ProbeState.directive = Directive()
        os.register_at_fork(after_in_child=_forget)
        atexit.register(_tell_of_no_step)


def begin_anew(dataloader: Any) -> None:
    """From here on there are loaders: steps that another framework made so far stay counted."""
    ProbeState.dataloader = dataloader
    if ProbeState.session:
        ProbeState.session.leave()
        ProbeState.session = None


def session_of(dataloader: Any) -> Any:
    """This process's session; False if it could not be made, and is not tried again."""
    if ProbeState.session is None:
        with ProbeState.founding:
            if ProbeState.session is None:
                ProbeState.session = _new_session(dataloader)
    return ProbeState.session


def _new_session(dataloader: Any) -> Any:
    """A session with loaders; without torch's module one that has steps alone."""
    if dataloader is None:
        return StepSession(ProbeState.directive or Directive(), ProbeState.turns)
    try:
        from . import lazy_workers, session
        from .streams.dealing import seeded_kind
        from .workers.gated import gated_kind

        if lazy_workers.Gated.kind is None:
            lazy_workers.Gated.module = dataloader
            kind = gated_kind(dataloader._MultiProcessingDataLoaderIter)
            lazy_workers.Gated.kind = kind
            lazy_workers.Gated.seeded = seeded_kind(kind)
        directive = ProbeState.directive or Directive()
        return session.Session(dataloader, directive, ProbeState.turns)
    except Exception:  # an unknown torch: the loader stays as it is
        return False


def write_if_due(now: float) -> None:
    """Write the summary if enough time has passed since the last look at it."""
    clock = ProbeState.turns.steps
    if now >= clock.due:
        clock.due = now + _DUE_S
        session = session_of(ProbeState.dataloader)
        if session:
            session.safely(session.writer.write_if_due, now)


def _tell_of_no_step() -> None:
    """At Python's end: a job with a framework and no step that is known has a summary, too.

    One is enough: where another process of the job wrote its own, this one adds nothing.
    """
    with contextlib.suppress(Exception):
        directive = ProbeState.directive or Directive()
        if ProbeState.session is not None or multiprocessing.parent_process() is not None:
            return
        if any(name.startswith("summary-") for name in os.listdir(directive.run_dir)):
            return
        session = session_of(ProbeState.dataloader)
        session.writer.started(ProbeState.imported_s)
        session.finish()


def _forget() -> None:
    ProbeState.session = None
    ProbeState.worker = None
    ProbeState.turns = Turns(steps.StepClock())
    ProbeState.founding = threading.RLock()  # another thread may have held it, or the other one
    ProbeState.starting = threading.Lock()
