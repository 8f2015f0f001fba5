"""The way in: a profile run begins when the job imports torch, and ends the process by itself."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import sys
import threading
import time
from typing import Any, Callable, Mapping

from .. import summary
from ..counters import batches, steps
from . import saving, writing
from .driver import Surroundings, WindowDriver, WindowLimits
from .ranks import RankAgreement, SyncSwitch
from .tracer import StepTracer

VERSION = 1
VARIABLE = "DLQUEUE_PROFILE"
_LOADER, _OPTIMISER = "torch.utils.data.dataloader", "torch.optim.optimizer"
_MOST_LEAVES = 3  # a training that takes no notice of its end is ended


class _Profile:
    """The profile of this process; a forked child has none."""

    driver: WindowDriver | None = None
    folder: writing.OwnFolder | None = None
    leaves = 0


def limits_of(text: str) -> WindowLimits:
    """`steps=400,seconds=180,seed=7` as the command wrote it. Raises ValueError, KeyError."""
    words: Mapping[str, str] = dict(one.split("=", 1) for one in text.split(","))
    return WindowLimits(int(words["steps"]), float(words["seconds"]), int(words["seed"]))


def enter(module: Any) -> None:
    """Take part in a module of torch's that was just imported: its DataLoader, its optimisers."""
    if module.__name__ not in (_LOADER, _OPTIMISER):
        return
    try:
        if _Profile.driver is None:
            _begin()
        saving.replace_known()
    except Exception as error:  # without its guards the run could write what is the user's
        sys.stderr.write(f"dlqueue profile: cannot guard this process: {error}\n")
        os._exit(1)
    if module.__name__ == _LOADER:
        base = module._BaseDataLoaderIter
        base.__next__ = _windowed(base.__next__)
    else:
        steps.hook(module, _count)


def _begin() -> None:
    run_dir = os.path.abspath(os.environ["DLQUEUE_RUN_DIR"])
    if not os.path.isdir(run_dir):  # a job that the profiled one submitted has its environment
        raise FileNotFoundError(f"{run_dir} is not there: the profile is over")
    around = Surroundings(
        clock=time.perf_counter,
        synchronise=_synchronise,
        agreement=RankAgreement.of_process,
        gradient_sync=SyncSwitch,
        tracer=StepTracer(run_dir),
        bytes_of=batches.tensor_bytes,
        changed=_write,
        leave=_leave,
    )
    driver = WindowDriver(limits_of(os.environ[VARIABLE]), around)
    _Profile.folder = writing.OwnFolder(run_dir)
    saving.Left.stand_in = _Profile.folder.stand_in
    writing.guard(_Profile.folder)
    sys.meta_path.insert(0, saving.Awaiting)
    os.register_at_fork(after_in_child=_forget)
    atexit.register(_finish)
    _Profile.driver = driver


def _forget() -> None:
    _Profile.driver = None


def _count(optimiser: Any, now: float) -> None:
    del optimiser, now
    if _Profile.driver is not None:
        _Profile.driver.steps += 1


def _windowed(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(original)
    def __next__(self: Any) -> Any:  # noqa: N807 - it takes that method's place
        driver = _Profile.driver
        return original(self) if driver is None else driver.next(self, original)

    return __next__


def _synchronise() -> None:
    """Wait for what the accelerator was asked to do."""
    cuda = getattr(sys.modules["torch"], "cuda", None)
    if cuda is not None and cuda.is_initialized():
        cuda.synchronize()


def _leave() -> None:
    """End the process: its own clean-up runs, and what it saves is only counted."""
    _Profile.leaves += 1
    if _Profile.leaves <= _MOST_LEAVES and threading.current_thread() is threading.main_thread():
        raise SystemExit(0)
    _finish()
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(0)


def _finish() -> None:
    with contextlib.suppress(Exception):
        _write()
        if _Profile.folder is not None:
            _Profile.folder.tidy()


def _write() -> None:
    """Write what is known: `$DLQUEUE_RUN_DIR/windows-<pid>.json`; a full disk is no end."""
    driver, folder = _Profile.driver, _Profile.folder
    if driver is None or folder is None:
        return
    path = os.path.join(os.path.dirname(folder.root), f"windows-{os.getpid()}.json")
    with contextlib.suppress(OSError):
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(document(driver, folder), file)
        os.replace(path + ".new", path)


def document(driver: WindowDriver, folder: writing.OwnFolder) -> dict[str, Any]:
    """The run so far: windows with their steps (seconds), and what was not written.

    `ended`: precise, steps, seconds, fault, or null where the training ended first, or runs.
    `why_not`: why there are no windows; `no_sync`: why none is without gradient synchronisation;
    `no_trace`: why the profiler traced none. A traced window has `sent`, a step's seconds of
    communication by kind of collective, less what is `hidden` behind computing.
    `began`: the clock (Unix) at its first step; `elapsed_s`: seconds since then.
    """
    rank, world = summary.place()
    elapsed_s = driver.elapsed_s()
    return {
        "v": VERSION,
        "pid": os.getpid(),
        "rank": rank,
        "world": world,
        "workers": driver.workers,
        "drop": driver.plan.drop if driver.plan else None,
        "ended": driver.ended,
        "why_not": driver.why_not or _why_not(driver),
        "no_sync": driver.no_sync,
        "no_trace": driver.around.tracer.fault,
        "began": time.time() - elapsed_s,
        "elapsed_s": elapsed_s,
        "windows": [window.row() for window in driver.windows],
        "requests": driver.places.requests,
        "saves": dict(saving.counts),
        "files": dict(folder.counts),
        "faults": driver.faults,
    }


def _why_not(driver: WindowDriver) -> str | None:
    if driver.windows:
        return None
    if not driver.places.requests:
        return "no batch came from a DataLoader of torch's"
    if driver.places.lead is None:
        return "no step of an optimiser of torch's was seen between two batches"
    return "the training ended before the first window did"
