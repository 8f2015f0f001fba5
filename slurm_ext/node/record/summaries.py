"""Read the summaries in a job's run folder: files that any user may have written."""

from __future__ import annotations

import json
import os
import time

from slurm_ext.node.common.files import FOLDER, has_user_mounts, read_bounded
from slurm_ext.node.common.job import is_token
from slurm_ext.node.common.log import printable
from slurm_ext.node.record import bounds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_FILES = 64
MAX_BYTES = 256 * 1024
MAX_TOTAL_BYTES = 1024 * 1024  # as they stand in the record
MAX_PARTS = 2048  # lists and objects of a summary: a probe's 32 loaders need some 130
MAX_ENTRIES = 4096
MAX_FAULTS = 16
_SUMMARY = ("summary-", ".json")


class RunFolderContents:
    """Usable summaries, the submission's token, and what could not be used and why."""

    def __init__(self) -> None:
        self.summaries: list[dict[str, Any]] = []
        self.decision: str | None = None
        self.faults: list[str] = []

    def fault(self, name: str, why: object) -> None:
        """Note what was left out, without repeating a user's text unescaped."""
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(printable(f"{name}: {why}"))


def collect(run_dir: str, uid: int, deadline: float) -> RunFolderContents:
    """Everything usable in `run_dir`, the folder of `uid` or one that was closed; by `deadline`."""
    findings = RunFolderContents()
    if has_user_mounts(run_dir):
        findings.fault("run folder", "a user's file system is mounted there")
        return findings
    try:
        folder = os.open(run_dir, FOLDER)
    except OSError as error:
        findings.fault("run folder", error.strerror)
        return findings
    try:
        if os.fstat(folder).st_uid not in (uid, os.geteuid()):
            findings.fault("run folder", "belongs to somebody else")
            return findings
        findings.decision = _decision(folder, uid)
        _read_summaries(folder, uid, findings, deadline)
    finally:
        os.close(folder)
    return findings


def _read_summaries(folder: int, uid: int, findings: RunFolderContents, deadline: float) -> None:
    names = _summary_names(folder)
    if len(names) > MAX_FILES:
        findings.fault("summaries", f"{len(names)} files, {MAX_FILES} are read")
    total = 0
    for name in names[:MAX_FILES]:
        if time.monotonic() > deadline:
            findings.fault(name, "no time left")
            return
        try:
            summary = parse_summary(read_bounded(name, MAX_BYTES, owner=uid, dir_fd=folder))
        except (OSError, ValueError) as error:
            findings.fault(name, error)
            continue
        total += len(json.dumps(summary))  # a text of the file may be longer here: 6 bytes for an é
        if total > MAX_TOTAL_BYTES:
            findings.fault(name, f"no room left: a record takes {MAX_TOTAL_BYTES} bytes of them")
            return
        findings.summaries.append(summary)


def parse_summary(raw: bytes) -> dict[str, Any]:
    """The known part of a probe's summary, field by field. Raises OutOfBoundsError.

    Its lists and objects are counted first, for one of three bytes takes sixty when it is parsed.
    """
    parts = raw.count(b"[") + raw.count(b"{")
    if parts > MAX_PARTS:
        raise bounds.OutOfBoundsError(f"holds {parts} lists and objects, at most {MAX_PARTS}")
    summary = bounds.parse(raw, least=0)
    if summary.get("v") != 1 or not isinstance(summary.get("loaders"), list):
        raise bounds.OutOfBoundsError("is not a summary of version 1")
    from slurm_ext.node.record.field_checks import known_summary  # most jobs have no summary

    return known_summary(summary)


def _summary_names(folder: int) -> list[str]:
    names = []
    with os.scandir(folder) as entries:
        for count, entry in enumerate(entries):
            if count >= MAX_ENTRIES:
                break
            if is_summary(entry.name):
                names.append(entry.name)
    return sorted(names, key=lambda name: (len(name), name))


def is_summary(name: str) -> bool:
    """True if a probe calls its summary so."""
    before, after = _SUMMARY
    pid = name[len(before) : -len(after)]
    return name == f"{before}{pid}{after}" and pid.isascii() and pid.isdigit() and len(pid) <= 10


def _decision(folder: int, uid: int) -> str | None:
    try:
        token = read_bounded("decision", 64, owner=uid, dir_fd=folder).decode("ascii").strip()
    except (OSError, ValueError):
        return None
    return token if is_token(token) else None
