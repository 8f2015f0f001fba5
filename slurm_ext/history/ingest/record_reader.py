"""A spool record from a file nobody vouches for; every fault is a RecordError with the reason."""

from pathlib import Path
from typing import Any

from slurm_ext.core.errors import RecordError
from slurm_ext.node.record import reader as record_reader


def read(path: Path) -> bytes:
    """Bytes of a record's file. Raises RecordError (no plain file, too big), OSError."""
    try:
        return record_reader.read_raw(path)
    except record_reader.UnusableRecordError as error:
        raise RecordError(str(path), str(error).removeprefix(f"{path}: ")) from None


def parse(raw: bytes) -> dict[str, Any]:
    """The record in `raw`, as the node's reader checked it. Raises RecordError."""
    try:
        return record_reader.validate(raw, "record")
    except record_reader.UnusableRecordError as error:
        raise RecordError("record", str(error).removeprefix("record: ")) from None
