"""Pure: a spool record (checked by its reader) as rows of history.db; what does not fit is refused.

Each column of `runs` stands in one line with where it comes from and what it must be.
"""

import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from slurm_ext.core.errors import RecordError
from slurm_ext.core.records import Level, LoaderRun
from slurm_ext.history.store.names import LOADER_COLUMNS

Record = Mapping[str, Any]
_Check = Callable[[Any], Any]
_MAX_INTEGER = 1 << 63
_MAX_JSON = 16 * 1024
_MAX_SHARED = 16  # GPUs that two jobs of a node have in common
_MAX_NAME = 80
_MAX_PLAIN_BYTES = 8 << 20  # what one deflated column may grow to when it is read


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is wanted")
    return value.encode("utf-8", "backslashreplace").decode()


def _whole(value: Any) -> int:
    if type(value) is not int or not -_MAX_INTEGER <= value < _MAX_INTEGER:
        raise TypeError("a 64-bit integer is wanted")
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not abs(value) < float("inf"):
        raise TypeError("a finite number is wanted")
    return float(value)


def _joined(value: Any) -> str:
    """A short list of names without commas, as one text."""
    if not isinstance(value, list) or len(value) > _MAX_SHARED:
        raise TypeError(f"a list of at most {_MAX_SHARED} is wanted")
    return ",".join(_text(name)[:_MAX_NAME].replace(",", "_") for name in value)


def _models(value: Any) -> str | None:
    """The node's kinds of GPU; None where only their number is told."""
    if not isinstance(value, list) or not value:
        return None
    return " + ".join(sorted({_text(name)[:_MAX_NAME] for name in value})[:_MAX_SHARED])


def _small_json(value: Any) -> str | None:
    """An object of the record as it is; None for one larger than any of ours: the run counts."""
    if not isinstance(value, dict):
        raise TypeError("an object is wanted")
    text = json.dumps(value)
    return text if len(text) <= _MAX_JSON else None


def _count(value: Any) -> int:
    return len(value) if isinstance(value, list) else _whole(value)


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of `runs`: the record's group and key, what it must be, whether it must be there."""

    name: str
    group: str
    key: str
    check: _Check
    needed: bool = False


_COLUMNS = (
    _Column("cluster", "identity", "cluster", _text, needed=True),
    _Column("job_id", "identity", "job_id", _whole, needed=True),
    _Column("restart", "identity", "restart", _whole, needed=True),
    _Column("node", "identity", "node", _text, needed=True),
    _Column("user", "identity", "user", _text),
    _Column("uid", "identity", "uid", _whole),
    _Column("account", "identity", "account", _text),
    _Column("partition", "identity", "partition", _text),
    _Column("job_name", "identity", "job_name", _text),
    _Column("work_dir", "identity", "work_dir", _text),
    _Column("array_job_id", "identity", "array_job_id", _whole),
    _Column("array_task_id", "identity", "array_task_id", _whole),
    _Column("cpus", "allocation", "cpus", _whole),
    _Column("cpus_per_task", "allocation", "cpus_per_task", _whole),
    _Column("num_tasks", "allocation", "num_tasks", _whole),
    _Column("num_nodes", "allocation", "num_nodes", _whole),
    _Column("mem_bytes", "allocation", "mem_bytes", _whole),
    _Column("gpus", "allocation", "gpus", _count),
    _Column("time_limit_s", "allocation", "time_limit_s", _number),
    _Column("submit_s", "times", "submit_s", _number),
    _Column("start_s", "times", "start_s", _number),
    _Column("end_s", "times", "end_s", _number),
    _Column("elapsed_s", "times", "elapsed_s", _number),
    _Column("state", "outcome", "state", _text, needed=True),
    _Column("exit_code", "outcome", "exit_code", _whole),
    _Column("signal", "outcome", "signal", _whole),
    _Column("source", "outcome", "source", _text, needed=True),
    _Column("node_cores", "host", "cores", _whole),
    _Column("node_mem_bytes", "host", "mem_bytes", _whole),
    _Column("node_gpus", "host", "gpus", _count),
    _Column("node_gpu_model", "host", "gpus", _models),
    _Column("boot_id", "host", "boot_id", _text),
    _Column("kernel", "host", "kernel", _text),
)
RUN_COLUMNS = ("record_id", *(column.name for column in _COLUMNS), "decision", "mps")


def run_row(record: Record) -> tuple[Any, ...]:
    """Values of RUN_COLUMNS. Raises RecordError naming the field."""
    record_id = _checked(record, _Column("record_id", "", "record_id", _text, needed=True))
    decision = _checked(record, _Column("decision", "", "decision", _text))
    mps = _checked(record, _Column("mps", "", "mps", _small_json))
    return (record_id, *(_checked(_group(record, c.group), c) for c in _COLUMNS), decision, mps)


_COUNTER_NAME = tuple(
    _Column(f"counters.{key}", "", key, _text, needed=True) for key in ("name", "unit", "source")
)
_COUNTER_VALUE = _Column("counters.value", "", "value", _number)
_CORUNNER = (
    _Column("corunners.job_id", "", "job_id", _whole, needed=True),
    _Column("corunners.overlap_s", "", "overlap_s", _number),
)
_SHARED = (
    _Column("corunners.shared.cpus", "", "cpus", _whole),
    _Column("corunners.shared.sockets", "", "sockets", _whole),
    _Column("corunners.shared.gpus", "", "gpus", _joined),
)
CORUNNER_COLUMNS = ("job_id", "overlap_s", "shared_cpus", "shared_sockets", "shared_gpus")


def counter_rows(record: Record) -> list[tuple[tuple[str, str, str], float | None]]:
    """Each counter's (name, unit, source) with its value; of one named twice the last counts."""
    found = {}
    for counter in _items(record, "counters"):
        name, unit, source = (_checked(counter, column) for column in _COUNTER_NAME)
        found[name, unit, source] = _checked(counter, _COUNTER_VALUE)
    return list(found.items())


def corunner_rows(record: Record) -> list[tuple[Any, ...]]:
    """CORUNNER_COLUMNS of each job that was on the node: NULL for what nobody looked at."""
    return [
        (
            *(_checked(corunner, column) for column in _CORUNNER),
            *(_checked(_group(corunner, "shared"), column) for column in _SHARED),
        )
        for corunner in _items(record, "corunners")
    ]


def shared(cpus: int | None, sockets: int | None, gpus: str | None) -> dict[str, Any] | None:
    """What a record says of it again; None where nobody looked."""
    if cpus is None and sockets is None and gpus is None:
        return None
    listed = None if gpus is None else gpus.split(",") if gpus else []
    return {"cpus": cpus, "sockets": sockets, "gpus": listed}


def packed(value: Any) -> bytes | None:
    """Deflated JSON; None for what is empty."""
    if not value:
        return None
    return zlib.compress(json.dumps(value, separators=(",", ":")).encode(), 1)


def unpacked(blob: bytes | None) -> Any:
    """What `packed` was given."""
    if blob is None:
        return None
    return json.loads(zlib.decompressobj().decompress(blob, _MAX_PLAIN_BYTES))


def loader_row(run: LoaderRun) -> tuple[Any, ...]:
    """Values of LOADER_COLUMNS. Raises RecordError where one does not fit the database."""
    values = tuple(getattr(run, name) for name in LOADER_COLUMNS)
    for name, value in zip(LOADER_COLUMNS, values, strict=True):
        if isinstance(value, int | float) and not abs(value) < _MAX_INTEGER:
            raise RecordError("record", f"its measured {name} is {value}")
    return values


def key_values(keys: Mapping[Level, int]) -> tuple[int | None, ...]:
    """Values of KEY_COLUMNS."""
    return tuple(keys.get(level) for level in Level)


def _group(record: Record, name: str) -> Record:
    group = record.get(name) or {}
    if not isinstance(group, dict):
        raise RecordError("record", f"{name} is not an object")
    return group


def _items(record: Record, name: str) -> Iterator[Record]:
    items = record.get(name) or []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise RecordError("record", f"{name} is not a list of objects")
    return iter(items)


def _checked(group: Record, column: _Column) -> Any:
    value = group.get(column.key)
    if value is None and not column.needed:
        return None
    try:
        return column.check(value)
    except TypeError as error:
        raise RecordError("record", f"{column.name}: {error}") from None
