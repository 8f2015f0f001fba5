"""Read a spool record that nobody vouches for; its fields are those of `fields`.

A record comes over a network or a shared folder: it may be torn, doubled, giant or hostile.
Unknown keys do no harm, so that a newer node can talk to an older reader; those of summaries, which
users write, are dropped.

Counters are named in `counters.columns`: units there, source beside each value, null where it was
not counted. `perf_*` are hardware events, by control group or by process as the source says, and
estimates where `perf_running_share` is below 1. `gpu_*` come once for each GPU, whose UUID is in
the source `nvml/<UUID>`: the whole GPU's, whoever used it; `nvml/<UUID>/processes` is the job's
own part. `node_energy_*` and `perf_mem_bytes` are the whole node's.
"""

from __future__ import annotations

import re

from slurm_ext.node.common.files import UnusableFileError, read_bounded
from slurm_ext.node.record import bounds, fields
from slurm_ext.node.record.bounds import OutOfBoundsError
from slurm_ext.node.record.field_checks import check_fields, known_summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import PathLike
    from typing import Any

MAX_BYTES = 4 * 1024 * 1024
RECORD_ID = re.compile(r"[A-Za-z0-9_.+-]{1,220}")
_LISTS = (
    ("counters", fields.MAX_COUNTERS, fields.COUNTER),
    ("corunners", fields.MAX_CORUNNERS, fields.CORUNNER),
)


class UnusableRecordError(ValueError):
    """A record that cannot be taken in: `source` is its file, `why` the reason."""

    def __init__(self, source: str, why: str) -> None:
        self.source, self.why = source, why
        super().__init__(f"{source}: {why}")


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
        raise UnusableRecordError(str(path), str(error)) from None


def validate(raw: bytes, source: str) -> dict[str, Any]:
    """The record in `raw`, which came from `source`. Raises UnusableRecordError.

    Every section is there, each known field of its type and within its bounds, or null. Texts are
    data: they may hold quotes, newlines and terminal escapes.
    """
    try:
        if len(raw) > MAX_BYTES:
            raise OutOfBoundsError(f"has {len(raw)} bytes, at most {MAX_BYTES}")
        record = bounds.parse(raw)
        if record.get("v") != fields.VERSION or record.get("kind") != fields.KIND:
            raise OutOfBoundsError(
                f"is version {record.get('v')!r} of kind {str(record.get('kind'))[:40]!r}, "
                f"expected {fields.VERSION} of {fields.KIND!r}"
            )
        name = record.get("record_id")
        if not isinstance(name, str) or not RECORD_ID.fullmatch(name):
            raise OutOfBoundsError("has no usable record_id")
        check(record)
    except OutOfBoundsError as error:
        raise UnusableRecordError(source, str(error)) from None
    return record


def check(record: dict[str, Any]) -> None:
    """Compare a record with the table of fields. Raises OutOfBoundsError at the first fault.

    Summaries that no probe writes are taken out of it.
    """
    check_fields("record", record, fields.HEAD)
    for section, columns in fields.SECTIONS.items():
        check_fields(section, record.get(section), columns)
    if record["outcome"]["state"] not in fields.STATES:
        raise OutOfBoundsError("outcome.state is unknown")
    for name, most, columns in _LISTS:
        items = record.get(name)
        if type(items) is not list or len(items) > most:
            raise OutOfBoundsError(f"{name} is no list of at most {most}")
        for item in items:
            check_fields(name, item, columns)
            if item.get("shared") is not None:
                check_fields("corunners.shared", item["shared"], fields.SHARED)
    timeline = record.get("timeline")
    if timeline is not None:
        check_fields("timeline", timeline, fields.TIMELINE)
    if not set(map(type, record["probe"].get("summaries") or ())) <= {dict}:
        raise OutOfBoundsError("probe.summaries holds something else than objects")
    if record["probe"].get("summaries"):
        leave_out_faulty(record["probe"])


def leave_out_faulty(probe: dict[str, Any]) -> None:
    """Keep the summaries that a probe writes; a sentence says which of the others lack, and why.

    A user's own process writes them: a faulty one costs its own figures only.
    """
    sound, faults = [], []
    for number, summary in enumerate(probe["summaries"]):
        try:
            sound.append(known_summary(summary))
        except OutOfBoundsError as error:
            faults.append(f"summary {number} is left out: {error}")
    probe["summaries"] = sound
    if faults:
        probe["faults"] = [*(probe.get("faults") or ()), *faults]
