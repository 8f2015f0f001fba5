"""The spool record's reader, for whoever takes records in; the form is tests/golden/spool/.

A record comes over a network or a shared folder: it may be torn, doubled, giant or hostile.
Unknown keys are kept, so that a newer node can talk to an older reader.

Its counters are named in `columns`: units there, source beside each value, null where it was not
counted. `perf_*` are hardware events, by control group or by process as the source says, and
estimates where `perf_running_share` is below 1. `gpu_*` come once for each GPU, whose UUID is in
the source `nvml/<UUID>`: the whole GPU's, whoever worked on it; `nvml/<UUID>/processes` is the
job's own part. `node_energy_*` and `perf_mem_bytes` are the whole node's.

Later additions, absent in older records: `allocation.cpu_list` (CPUs it could use, as the kernel
lists them) and `allocation.gpu_uuids`; `corunners[].shared`, null where nobody looked:
`{cpus, sockets, gpus}`, how many CPUs and sockets both could use, and GPUs of both by UUID.
"""

from __future__ import annotations

import re

from slurm_ext.node.common.files import UnusableFileError, read_bounded
from slurm_ext.node.record import bounds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import PathLike
    from typing import Any

VERSION = 1
KIND = "run"
MAX_BYTES = 4 * 1024 * 1024
RECORD_ID = re.compile(r"[A-Za-z0-9_.+-]{1,220}")
STATES = (
    "COMPLETED", "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "CANCELLED", "NODE_FAIL", "REQUEUED",
    "UNKNOWN",
)  # fmt: skip
MAX_COUNTERS = 256
MAX_ROWS = 1000
MAX_CORUNNERS = 1024
MAX_SHARED_GPUS = 16
_NUMBER = (int, float)

_IDENTITY = {
    "cluster": str, "job_id": int, "restart": int, "node": str, "user": str, "uid": int,
    "account": str, "partition": str, "job_name": str, "work_dir": str, "array_job_id": int,
    "array_task_id": int,
}  # fmt: skip
_REQUIRED = {
    "identity": ("cluster", "job_id", "restart", "node"),
    "outcome": ("state", "source"),
    "counters": ("name", "unit"),
    "corunners": ("job_id", "overlap_s"),
}
_SECTIONS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "identity": dict(_IDENTITY),
    "allocation": {
        "cpus": int, "cpus_per_task": int, "num_tasks": int, "num_nodes": int, "mem_bytes": int,
        "gpus": list, "time_limit_s": _NUMBER, "cpu_list": str, "gpu_uuids": list,
    },
    "times": {"submit_s": _NUMBER, "start_s": _NUMBER, "end_s": _NUMBER, "elapsed_s": _NUMBER},
    "outcome": {"state": str, "exit_code": int, "signal": int, "source": str},
    "host": {"cores": int, "mem_bytes": int, "boot_id": str, "kernel": str, "gpus": list},
    "probe": {"summaries": list, "faults": list},
}  # fmt: skip


class UnusableRecordError(ValueError):
    """A record that cannot be taken in; the message says which and why."""


def read_record(path: str | PathLike[str]) -> dict[str, Any]:
    """The validated record in a file. Raises UnusableRecordError, or OSError where it is gone."""
    return validate(read_raw(path), str(path))


def read_raw(path: str | PathLike[str]) -> bytes:
    """A record file's bytes, unchecked. Raises UnusableRecordError, or OSError where it is gone.

    Links, FIFOs, devices and files over MAX_BYTES are refused without being followed or read.
    """
    try:
        return read_bounded(str(path), MAX_BYTES)
    except UnusableFileError as error:
        raise UnusableRecordError(f"{path}: {error}") from None


def validate(raw: bytes, source: str) -> dict[str, Any]:
    """The record in `raw`, which came from `source`. Raises UnusableRecordError.

    Every section is there, with its known keys of the right type or null. Texts are data: they may
    hold quotes, newlines and terminal escapes.
    """
    try:
        if len(raw) > MAX_BYTES:
            raise bounds.OutOfBoundsError(f"has {len(raw)} bytes, at most {MAX_BYTES}")
        record = bounds.parse(raw)
        _check_head(record)
        for section, keys in _SECTIONS.items():
            _check_section(section, record.get(section), keys)
        _check_lists(record)
    except bounds.OutOfBoundsError as error:
        raise UnusableRecordError(f"{source}: {error}") from None
    return record


def _check_head(record: dict[str, Any]) -> None:
    if record.get("v") != VERSION or record.get("kind") != KIND:
        raise bounds.OutOfBoundsError(
            f"is version {record.get('v')!r} of kind {str(record.get('kind'))[:40]!r}, "
            f"expected {VERSION} of {KIND!r}"
        )
    name = record.get("record_id")
    if not isinstance(name, str) or not RECORD_ID.fullmatch(name):
        raise bounds.OutOfBoundsError("has no usable record_id")
    if not isinstance(record.get("mps"), (dict, type(None))):
        raise bounds.OutOfBoundsError("mps is not an object")
    token = record.get("decision")
    if token is not None and not isinstance(token, str):
        raise bounds.OutOfBoundsError("decision is not a text")


def _check_section(section: str, found: object, keys: dict[str, Any]) -> None:
    if not isinstance(found, dict):
        raise bounds.OutOfBoundsError(f"has no section {section!r}")
    for name, kind in keys.items():
        value = found.get(name)
        if value is None:
            if name in _REQUIRED.get(section, ()):
                raise bounds.OutOfBoundsError(f"has no {section}.{name}")
        elif not isinstance(value, kind) or isinstance(value, bool):
            raise bounds.OutOfBoundsError(f"{section}.{name} is {type(value).__name__}")
        elif isinstance(value, _NUMBER) and value < 0:
            raise bounds.OutOfBoundsError(f"{section}.{name} is negative")
    if section == "outcome" and found.get("state") not in STATES:
        raise bounds.OutOfBoundsError("outcome.state is unknown")


def _check_lists(record: dict[str, Any]) -> None:
    timeline = record.get("timeline")
    rows = timeline.get("rows") if isinstance(timeline, dict) else None
    if timeline is not None and (not isinstance(rows, list) or len(rows) > MAX_ROWS):
        raise bounds.OutOfBoundsError("timeline.rows is no list of bearable length")
    _each(record, "counters", MAX_COUNTERS, {"name": str, "unit": str, "value": _NUMBER})
    _each(record, "corunners", MAX_CORUNNERS, {"job_id": int, "overlap_s": _NUMBER})
    for corunner in record["corunners"]:
        _check_shared(corunner.get("shared"))
    if not all(isinstance(each, dict) for each in record["probe"].get("summaries") or []):
        raise bounds.OutOfBoundsError("probe.summaries holds something else")


def _check_shared(shared: object) -> None:
    if shared is None:
        return
    if not isinstance(shared, dict):
        raise bounds.OutOfBoundsError("corunners.shared is no object")
    for name in ("cpus", "sockets"):
        count = shared.get(name)
        if count is not None and (type(count) is not int or count < 0):
            raise bounds.OutOfBoundsError(f"corunners.shared.{name} is no count")
    gpus = shared.get("gpus")
    usable = isinstance(gpus, list) and all(isinstance(gpu, str) for gpu in gpus)
    if gpus is not None and not (usable and len(gpus) <= MAX_SHARED_GPUS):
        raise bounds.OutOfBoundsError("corunners.shared.gpus is no short list of names")


def _each(record: dict[str, Any], name: str, most: int, keys: dict[str, Any]) -> None:
    items = record.get(name)
    if not isinstance(items, list) or len(items) > most:
        raise bounds.OutOfBoundsError(f"{name} is no list of at most {most}")
    for item in items:
        if not isinstance(item, dict):
            raise bounds.OutOfBoundsError(f"{name} holds something else")
        for key, kind in keys.items():
            value = item.get(key)
            optional = value is None and key not in _REQUIRED[name]
            if isinstance(value, bool) or not (optional or isinstance(value, kind)):
                raise bounds.OutOfBoundsError(f"{name}.{key} is {type(value).__name__}")
