"""Reasons of the probe to leave a training loader's workers as they were: codes and clauses.

The probe writes texts into the run record, and users can write any. The history holds codes, and
people read the clauses of this table alone.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Any

_Json = Mapping[str, Any]


class LoaderRefusal(IntEnum):
    """Fate of a loader's workers, or their likely one; histories hold the values."""

    NOTHING = 0  # nobody asked for others, and a look found nothing against them
    MOVED = 1  # they were set as asked for
    OTHER = 2
    ITERABLE = 3
    DATA_PIPE = 4
    SUBCLASS = 5
    OUT_OF_ORDER = 6
    FEW_BATCHES = 7
    NO_LENGTH = 8
    SEEDS = 9
    SAMPLER = 10
    DAEMON = 11
    NOT_FORKED = 12
    TORCH = 13
    ELSEWHERE = 14
    LIBRARY = 15
    HIDDEN = 16
    STATE = 17
    HOLDS = 18
    GPU_MEMORY = 19
    FAILED = 20
    THREAD = 21
    READS_ALONG = 22
    SHARED = 23
    WRITTEN = 24
    LOCKED = 25
    RESEEDS = 26
    ASKS = 27
    TOO_LARGE = 28
    SHORT = 29


_HOLDS = "the dataset holds "  # and what, in the words of the user's own classes
_CODES: Mapping[str, LoaderRefusal] = MappingProxyType(
    {
        "iterable dataset": LoaderRefusal.ITERABLE,
        "data pipe": LoaderRefusal.DATA_PIPE,
        "a DataLoader subclass of its own kind": LoaderRefusal.SUBCLASS,
        "delivers out of order": LoaderRefusal.OUT_OF_ORDER,
        "few batches": LoaderRefusal.FEW_BATCHES,
        "no length": LoaderRefusal.NO_LENGTH,
        "pinned seeds (DLQUEUE_SEEDED=allow lifts this)": LoaderRefusal.SEEDS,
        "fetching draws random numbers in a job with pinned seeds": LoaderRefusal.SEEDS,
        "a sampler of its own kind": LoaderRefusal.SAMPLER,
        "a daemonic process may not have workers": LoaderRefusal.DAEMON,
        "workers would not be forked": LoaderRefusal.NOT_FORKED,
        "this torch's DataLoader is not one the probe knows": LoaderRefusal.TORCH,
        "the workers are with another loader": LoaderRefusal.ELSEWHERE,
        "the loader is another library's": LoaderRefusal.LIBRARY,
        "the dataset cannot be looked through": LoaderRefusal.HIDDEN,
        "the dataset keeps state": LoaderRefusal.STATE,
        "the dataset holds GPU memory": LoaderRefusal.GPU_MEMORY,
        "it is read by a thread of its own": LoaderRefusal.THREAD,
        "fetching moves an open file's position": LoaderRefusal.READS_ALONG,
        "the training gets the dataset's own objects": LoaderRefusal.SHARED,
        "the program may write to the dataset's items": LoaderRefusal.WRITTEN,
        "the dataset takes a lock that another thread may hold": LoaderRefusal.LOCKED,
        "fetching seeds the training's random numbers": LoaderRefusal.RESEEDS,
        "the dataset asks in which process it is": LoaderRefusal.ASKS,
        "the dataset is too large to be watched": LoaderRefusal.TOO_LARGE,
        "its passes are too short for workers": LoaderRefusal.SHORT,
    }
)
"""By the probe's words: rules.py, gates.py, session.py, lazy_workers.py, streams/verdict.py, and
fetch_trial.py, dataset_inspection.py and guarding.py of inspection/, all in probe/."""

CLAUSES: Mapping[int, str] = MappingProxyType(
    {
        LoaderRefusal.OTHER: "its last run left them as they were",
        LoaderRefusal.ITERABLE: "its dataset is iterable",
        LoaderRefusal.DATA_PIPE: "its dataset is a data pipe",
        LoaderRefusal.SUBCLASS: "its DataLoader is of its own kind",
        LoaderRefusal.OUT_OF_ORDER: "its loader delivers out of order",
        LoaderRefusal.FEW_BATCHES: "its loader has few batches",
        LoaderRefusal.NO_LENGTH: "its loader has no length",
        LoaderRefusal.SEEDS: "its seeds are pinned",
        LoaderRefusal.SAMPLER: "its sampler is of its own kind",
        LoaderRefusal.DAEMON: "it loads in a daemonic process",
        LoaderRefusal.NOT_FORKED: "it does not fork its workers",
        LoaderRefusal.TORCH: "its torch has a DataLoader that I do not know",
        LoaderRefusal.ELSEWHERE: "another loader of it has the workers",
        LoaderRefusal.LIBRARY: "its loader is another library's",
        LoaderRefusal.HIDDEN: "its dataset cannot be looked through",
        LoaderRefusal.STATE: "its dataset keeps state",
        LoaderRefusal.HOLDS: "its dataset holds what cannot move into a worker",
        LoaderRefusal.GPU_MEMORY: "its dataset holds GPU memory",
        LoaderRefusal.THREAD: "a thread of its own reads its loader",
        LoaderRefusal.READS_ALONG: "its dataset reads on in a file that is open",
        LoaderRefusal.SHARED: "its loop gets its dataset's own objects",
        LoaderRefusal.WRITTEN: "it may write to its dataset's items",
        LoaderRefusal.LOCKED: "its dataset takes a lock beside other threads",
        LoaderRefusal.RESEEDS: "its dataset seeds its random numbers",
        LoaderRefusal.ASKS: "its dataset asks in which process it is",
        LoaderRefusal.TOO_LARGE: "its dataset in memory is too large to be watched",
        LoaderRefusal.SHORT: "its passes are too short for workers",
        LoaderRefusal.FAILED: "the workers that it was given failed",
    }
)
_LIFTED: Mapping[int, str] = {LoaderRefusal.SEEDS: " (DLQUEUE_SEEDED=allow lifts this)"}

ONLY_WHEN_TRIED = frozenset(
    (
        LoaderRefusal.OTHER,
        LoaderRefusal.SAMPLER,
        LoaderRefusal.THREAD,
        LoaderRefusal.ELSEWHERE,
        LoaderRefusal.HIDDEN,
        LoaderRefusal.STATE,
        LoaderRefusal.HOLDS,
        LoaderRefusal.GPU_MEMORY,
        LoaderRefusal.READS_ALONG,
        LoaderRefusal.SHARED,
        LoaderRefusal.WRITTEN,
        LoaderRefusal.LOCKED,
        LoaderRefusal.RESEEDS,
        LoaderRefusal.ASKS,
        LoaderRefusal.TOO_LARGE,
        LoaderRefusal.SHORT,
        LoaderRefusal.FAILED,
    )
)
"""Reasons that a run which nobody asked to move cannot find: its silence lifts none of them."""


def why_workers_stay(code: int) -> str:
    """Return the reason as a user reads it: `its seeds are pinned, so its workers stay (...)`."""
    clause = CLAUSES.get(code, CLAUSES[LoaderRefusal.OTHER])
    return f"{clause}, so its workers stay{_LIFTED.get(code, '')}"


def refusal_of(loaders: Sequence[_Json]) -> int:
    """Return the LoaderRefusal of a job's training loaders: one that was refused decides."""
    stopped = [loader for loader in loaders if loader.get("left_alone") or loader.get("fallback")]
    codes = [int(code) for loader in stopped if (code := _code(loader)) != LoaderRefusal.MOVED]
    if codes:
        return codes[0]
    moved = any(loader.get("method") == "gated" for loader in loaders)
    return int(LoaderRefusal.MOVED if moved else LoaderRefusal.NOTHING)


def read_by_a_thread(loader: _Json) -> bool:
    """Return True if a thread reads ahead for the one that trains: its waits are its own."""
    return _code(loader) is LoaderRefusal.THREAD


def _code(loader: _Json) -> LoaderRefusal:
    fallback, text = loader.get("fallback"), loader.get("left_alone") or ""
    if fallback:
        return _CODES.get(fallback, LoaderRefusal.FAILED)
    code = _CODES.get(text)
    if code is None:
        return LoaderRefusal.HOLDS if text.startswith(_HOLDS) else LoaderRefusal.OTHER
    # In one of its passes a validation had the workers: it was moved in the others.
    moved = loader.get("method") == "gated"
    return LoaderRefusal.MOVED if moved and code is LoaderRefusal.ELSEWHERE else code
