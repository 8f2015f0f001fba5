"""Read the summaries in a job's run folder: files that any user may have written."""

from __future__ import annotations

import os
import time

from slurm_ext.node.common.files import FOLDER, read_bounded
from slurm_ext.node.common.job import is_token
from slurm_ext.node.common.log import printable
from slurm_ext.node.record import bounds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_FILES = 64
MAX_BYTES = 256 * 1024
MAX_TOTAL_BYTES = 2 * 1024 * 1024
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
    """Everything usable in `run_dir`, a folder that belongs to `uid`; stops at `deadline`."""
    findings = RunFolderContents()
    try:
        folder = os.open(run_dir, FOLDER)
    except OSError as error:
        findings.fault("run folder", error.strerror)
        return findings
    try:
        if os.fstat(folder).st_uid != uid:
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
        if time.monotonic() > deadline or total > MAX_TOTAL_BYTES:
            findings.fault(name, "no time or room left")
            return
        try:
            raw = read_bounded(name, MAX_BYTES, owner=uid, dir_fd=folder)
            findings.summaries.append(parse_summary(raw))
            total += len(raw)
        except (OSError, ValueError) as error:
            findings.fault(name, error)


def parse_summary(raw: bytes) -> dict[str, Any]:
    """A probe's summary whose figures can be figures. Raises OutOfBoundsError."""
    summary = bounds.parse(raw, least=0)
    if summary.get("v") != 1 or not isinstance(summary.get("loaders"), list):
        raise bounds.OutOfBoundsError("is not a summary of version 1")
    return summary


def _summary_names(folder: int) -> list[str]:
    names = []
    with os.scandir(folder) as entries:
        for count, entry in enumerate(entries):
            if count >= MAX_ENTRIES:
                break
            if _is_summary(entry.name):
                names.append(entry.name)
    return sorted(names, key=lambda name: (len(name), name))


def _is_summary(name: str) -> bool:
    before, after = _SUMMARY
    pid = name[len(before) : -len(after)]
    return name == f"{before}{pid}{after}" and pid.isascii() and pid.isdigit() and len(pid) <= 10


def _decision(folder: int, uid: int) -> str | None:
    try:
        token = read_bounded("decision", 64, owner=uid, dir_fd=folder).decode("ascii").strip()
    except (OSError, ValueError):
        return None
    return token if is_token(token) else None
