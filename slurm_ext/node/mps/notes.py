"""Notes on MPS for the job's record and its task prolog; the reader of MPS's logs."""

from __future__ import annotations

import json
import os

from slurm_ext.node.common import log
from slurm_ext.node.common.files import read_bounded
from slurm_ext.node.common.log import printable
from slurm_ext.node.mps.registry import LOGS, MAX_BYTES, size_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_ext.node.common.spool_layout import Spool
    from slurm_ext.node.mps.registry import MpsSlot

TASK_FILE = "mps"  # the file in the job's run folder, for its task prolog
LOG_BYTES = 256 * 1024
MAX_SAID = 16
DAEMON_GONE = "MPS: the daemon of GPU {} was gone before the job ended"
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


def log_since(slot: MpsSlot, reference: dict[str, Any], owner: int) -> str:
    """Text of both logs since a job joined; they are the user's files, so bounded and checked."""
    texts = []
    for name in LOGS:
        path = os.path.join(slot.log(reference.get("number", 0)), name)
        try:
            raw = _tail(path, int((reference.get("logs") or {}).get(name, 0)), owner)
        except (OSError, ValueError):
            continue
        texts.append(raw.decode("utf-8", "replace"))
    return "\n".join(texts)


def _tail(path: str, start: int, owner: int) -> bytes:
    size = size_of(path)
    if size <= LOG_BYTES:
        return read_bounded(path, LOG_BYTES, owner=owner)[start if start <= size else 0 :]
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(fd)
        if status.st_uid != owner:
            raise ValueError("belongs to somebody else")
        return os.pread(fd, LOG_BYTES, max(start, size - LOG_BYTES))
    finally:
        os.close(fd)


def report(spool: Spool, key: str, text: str) -> None:
    """To the log, and to the job's record."""
    log.report(f"{key}: {text}")
    append_note(spool, key, "said", text)


def append_note(spool: Spool, key: str, kind: str, content: object) -> None:
    """A line for the job's record, if there is room: `said`, a text, or `given`, its daemon."""
    try:
        fd = os.open(spool.state_file(key, "mps"), _APPEND, 0o600)
        try:
            os.write(fd, json.dumps({kind: content}).encode() + b"\n")
        finally:
            os.close(fd)
    except OSError as error:
        log.report(f"{key}: MPS: {error}")


def read_notes(spool: Spool, key: str) -> tuple[dict[str, Any] | None, list[str]]:
    """The daemon that the job was given, and all texts once; what is torn is left out."""
    daemon: dict[str, Any] | None = None
    texts: list[str] = []
    try:
        lines = read_bounded(spool.state_file(key, "mps"), MAX_BYTES).splitlines()
    except (OSError, ValueError):
        lines = []
    for line in lines:
        try:
            content = json.loads(line)
        except ValueError:
            continue
        daemon = content.get("given", daemon)
        texts += [printable(content["said"])] if "said" in content else []
    return daemon, list(dict.fromkeys(texts))[:MAX_SAID]


def write_for_task(spool: Spool, key: str, daemon: dict[str, Any]) -> None:
    """Put into the job's own folder what its task prolog, the user's, is to read. OSError."""
    folder = os.open(spool.run_dir(key), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    temporary = f".{TASK_FILE}.{os.getpid()}"
    try:
        fd = os.open(temporary, flags, 0o600, dir_fd=folder)
        try:
            os.write(fd, json.dumps(daemon).encode())
            os.fchmod(fd, 0o644)  # the folder is closed to others
        finally:
            os.close(fd)
        os.rename(temporary, TASK_FILE, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.close(folder)
