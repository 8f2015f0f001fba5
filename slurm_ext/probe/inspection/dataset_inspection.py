"""Decide if a dataset can move into forked workers: what it holds, and if it keeps state.

A bounded walk over the objects that the dataset is made of. `unfit` names what a forked copy
would share or lose; two equal `signature`s with a fetch between them say that fetching left the
dataset as it was.
"""

from __future__ import annotations

import collections
import gc
import io
import mmap
import socket
import sys
import threading
import types
from typing import Any, Iterator

MAX_OBJECTS = 5000
MAX_ITEMS = 64  # of one container: the items of a list of samples are alike
MOST_SUMMED = 1 << 20  # before each batch (looks.py): more of a mapped file is not seen
OPAQUE = (type, types.ModuleType, str, bytes, int, float, complex, types.CodeType)
_HANDLES = (io.IOBase, socket.socket, threading.Thread, types.GeneratorType)
# Connections, files and contexts of libraries, which must not be shared through fork.
_FOREIGN = frozenset(
    (
        "av",
        "boto3",
        "botocore",
        "cupy",
        "cv2",
        "decord",
        "fsspec",
        "gcsfs",
        "grpc",
        "h5py",
        "lmdb",
        "netCDF4",
        "psycopg2",
        "pymongo",
        "pynvml",
        "pyarrow",
        "redis",
        "requests",
        "s3fs",
        "sqlite3",
        "tables",
        "tensorflow",
        "urllib3",
        "zarr",
    )
)

# Of those, what is only read: the columns of Arrow's tables (Hugging Face's datasets), and what
# tells of them.
_ARROWS_OWN = frozenset(
    (
        "Array",
        "Buffer",
        "ChunkedArray",
        "DataType",
        "Field",
        "KeyValueMetadata",
        "Scalar",
        "Schema",
        "_Tabular",
    )
)


# Attributes that hold what a class computed before and would compute again alike.
_CACHES = {("torch_geometric.data.in_memory_dataset", "InMemoryDataset"): "_data_list"}

_TELLING = ("_version", "bit_generator", "getstate", "get_state")


class DatasetInspection:
    """Result of one walk. `unfit` says in a clause why it cannot move, None if it can."""

    def __init__(self, dataset: Any) -> None:
        self.unfit: str | None = None
        self.signature: list[Any] = []
        self.mapped: list[Any] = []  # arrays of files that can be written to
        seen: set[int] = set()
        waiting = collections.deque([dataset])  # nearest first, should the bound be met
        while waiting and len(seen) < MAX_OBJECTS:
            item = waiting.popleft()
            if id(item) in seen or isinstance(item, OPAQUE):
                continue
            seen.add(id(item))
            self.unfit = self.unfit or _unfit(item)
            self.mapped += [item] if mapped(item) else []
            cache = _cache(item)
            if cache is not None:
                seen.add(id(getattr(item, cache, None)))
            self.signature.append(_state(item, cache))
            waiting.extend(parts(item))


def _unfit(item: Any) -> str | None:
    kind = type(item)
    if isinstance(item, _HANDLES):
        return f"the dataset holds an open {kind.__name__}"
    if kind.__module__.partition(".")[0].lstrip("_") in _FOREIGN and not _of_arrow(kind):
        return f"the dataset holds a {kind.__module__}.{kind.__name__}"
    if kind.__module__.partition(".")[0] == "torch" and getattr(item, "is_cuda", False) is True:
        return "the dataset holds GPU memory"
    return _shared(item)


def _of_arrow(kind: type) -> bool:
    """True for columns and types of Arrow's, which nothing writes to; not for files and readers."""
    names = [base.__name__ for base in kind.__mro__ if base.__module__ == "pyarrow.lib"]
    return "ResizableBuffer" not in names and not _ARROWS_OWN.isdisjoint(names)


def _shared(item: Any) -> str | None:
    """The clause about memory or values that other processes can change at any time."""
    torch = sys.modules.get("torch")
    if type(item).__module__ in ("multiprocessing.managers", "multiprocessing.connection"):
        return f"the dataset holds a {type(item).__name__} of another process"
    if torch is not None and isinstance(item, torch.Tensor) and item.layout == torch.strided:
        shared = item.device.type == "cpu" and item.is_shared()
        return "the dataset holds memory that processes share" if shared else None
    return None


def mapped(item: Any) -> bool:
    """True for an array of a mapped file that can be written to, and for a large file itself."""
    if isinstance(item, mmap.mmap):
        with memoryview(item) as whole:
            return not whole.readonly and whole.nbytes > MOST_SUMMED
    numpy = sys.modules.get("numpy")
    while numpy is not None and isinstance(item, numpy.ndarray):
        if isinstance(item, numpy.memmap) and item.flags.writeable and item.mode != "c":
            return True
        item = item.base
    return False


def _cache(item: Any) -> str | None:
    """The attribute in which a known class keeps what it computed."""
    if isinstance(item, (dict, list, tuple)):
        return None
    homes = ((kind.__module__, kind.__name__) for kind in type(item).__mro__)
    return next((_CACHES[home] for home in homes if home in _CACHES), None)


def _state(item: Any, cache: str | None = None) -> Any:
    """All that changes when the item is written to: identities, sizes, versions, random states."""
    state: list[Any] = [id(item)]
    if isinstance(item, (dict, list, set, bytearray)):
        state.append(len(item))
    attributes = getattr(item, "__dict__", None)
    if type(attributes) is dict:
        state.extend((name, id(value)) for name, value in attributes.items() if name != cache)
    return [*state, *telling(item)]


def telling(item: Any) -> list[Any]:
    """A tensor's count of writes, a random generator's state; a None for each that it is not."""
    return [_random_or_version(item, name) for name in _TELLING]


def _random_or_version(item: Any, name: str) -> Any:
    """A tensor's write count, or a random generator's state as text."""
    kind = type(item)
    home = kind.__module__.partition(".")[0]
    if name == "_version":
        return getattr(item, name, None) if home == "torch" else None
    if name == "bit_generator":
        return str(item.bit_generator.state) if home == "numpy" and hasattr(item, name) else None
    if kind.__name__ not in ("Random", "RandomState", "Generator") or not hasattr(item, name):
        return None
    state = getattr(item, name)()
    return str(state.tolist() if hasattr(state, "tolist") else state)


def parts(item: Any) -> Iterator[Any]:
    """The objects an item is made of; a function's globals and a class are not its parts."""
    if isinstance(item, types.FunctionType):
        yield from (cell.cell_contents for cell in item.__closure__ or () if _filled(cell))
        yield from item.__defaults__ or ()
    elif isinstance(item, dict):
        yield from _first(item.values())
    elif isinstance(item, (list, tuple, set, frozenset)):
        yield from _first(item)
    elif _plain(item):
        yield from gc.get_referents(item)


def _plain(item: Any) -> bool:
    """True if the objects that an item refers to are its parts (not so for frames and loggers)."""
    logging = sys.modules.get("logging")
    return not isinstance(item, types.FrameType) and not (
        logging is not None and isinstance(item, (logging.Logger, logging.Handler))
    )


def _first(items: Any) -> Iterator[Any]:
    for count, item in enumerate(items):
        if count >= MAX_ITEMS:
            return
        yield item


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - an empty cell raises
    except ValueError:
        return False
    return True
