"""The two ways of a record to the advisor: a shared folder, or a stream that munge vouches for.

A record counts as delivered when the other side has it safe: renamed into the folder and synced, or
acknowledged. Only then does the caller remove its own copy; a copy that comes twice has one name.
"""

from __future__ import annotations

import json
import os

from slurm_ext.node.common.daemonize import output_of
from slurm_ext.node.common.files import read_bounded, write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from slurm_ext.node.common.config import NodeConfig

TIMEOUT_S = 10.0
MAX_REPLY_BYTES = 4096
_MUNGE = ("/usr/bin/munge", "/usr/local/bin/munge", "/opt/munge/bin/munge")


class UndeliveredError(Exception):
    """The other side is not there or has not confirmed: keep the record and try again."""


class RecordRefusedError(UndeliveredError):
    """The other side does not want this one record; others may pass."""


class RecordRejectedError(RecordRefusedError):
    """The other side will never take this record: it is not a valid one."""


def open_channel(config: NodeConfig) -> AbstractContextManager[Callable[[str], None]]:
    """The configured way, as a context that yields `send(path)`. `send` raises UndeliveredError."""
    return _Stream(config) if config.transport == "stream" else _Folder(config)


class _Folder:
    """Into `node.folder`, which must exist: a shared folder that is not mounted is not filled."""

    def __init__(self, config: NodeConfig) -> None:
        self.folder = config.folder

    def __enter__(self) -> Callable[[str], None]:
        return self.send

    def __exit__(self, *_: object) -> None:
        pass

    def send(self, path: str) -> None:
        target = os.path.join(self.folder, os.path.basename(path))
        record = _record(path)
        try:
            write_whole(target, record, mode=0o640)
        except OSError as error:
            raise UndeliveredError(f"{target}: {error}") from None


class _Stream:
    """Over TCP to `node.address`: a header line, the record, and one line that confirms it."""

    def __init__(self, config: NodeConfig) -> None:
        self.address, self.munge_socket = config.address, config.munge_socket
        self.socket: socket.socket | None = None

    def __enter__(self) -> Callable[[str], None]:
        return self.send

    def __exit__(self, *_: object) -> None:
        if self.socket is not None:
            self.socket.close()

    def send(self, path: str) -> None:
        record = _record(path)
        name = os.path.basename(path)[: -len(".json")]
        try:
            # Signed first: the advisor cuts connections that say nothing when it needs their place.
            reply = self._exchange(self._header(name, record) + record)
        except (OSError, ValueError) as error:
            raise UndeliveredError(f"{path}: {error}") from None
        answer = _answer(reply)
        if "error" in answer:
            fate = RecordRejectedError if answer.get("final") is True else RecordRefusedError
            raise fate(f"{name} was refused: {answer['error']!s:.200}")
        if answer.get("v") != 1 or answer.get("ack") != name:
            raise UndeliveredError(f"{name} was not confirmed: {reply[:200]!r}")

    def _exchange(self, announced: bytes) -> bytes:
        """The advisor's reply, which may come before all was sent: a header can be enough."""
        connection = self.socket = self.socket or self._connected()
        try:
            connection.sendall(announced)
        except OSError:  # the reason was sent before the end
            pass
        with connection.makefile("rb") as replies:
            return replies.readline(MAX_REPLY_BYTES)

    def _connected(self) -> socket.socket:
        import socket

        host, _, port = self.address.rpartition(":")
        try:
            return socket.create_connection((host.strip("[]"), int(port)), timeout=TIMEOUT_S)
        except (OSError, ValueError, OverflowError) as error:
            raise UndeliveredError(f"{self.address!r}: {error}") from None

    def _header(self, name: str, record: bytes) -> bytes:
        from hashlib import sha256

        digest = sha256(record).hexdigest()
        header = {
            "v": 1,
            "kind": "record",
            "record_id": name,
            "bytes": len(record),
            "sha256": digest,
            "credential": credential(digest, self.munge_socket),
        }
        return json.dumps(header, separators=(",", ":")).encode() + b"\n"


def _record(path: str) -> bytes:
    """Our own copy. Raises RecordRefusedError, for good where no reader would take it."""
    from slurm_ext.node.record.reader import MAX_BYTES  # who signs a question needs no reader

    try:
        return read_bounded(path, MAX_BYTES)
    except OSError as error:
        raise RecordRefusedError(f"{path}: {error}") from None
    except ValueError as error:
        raise RecordRejectedError(f"{path}: {error}") from None


def credential(text: str, munge_socket: str) -> str:
    """A munge credential of this process's user for `text`. Raises UndeliveredError."""
    command = next((path for path in _MUNGE if os.access(path, os.X_OK)), None)
    if command is None:
        raise UndeliveredError(f"there is no munge command at {', '.join(_MUNGE)}")
    socket = [f"--socket={munge_socket}"] if munge_socket else []
    credential_bytes = output_of(
        [command, f"--string={text}", *socket], {"PATH": "/usr/bin:/bin"}, TIMEOUT_S
    )
    if not credential_bytes:
        raise UndeliveredError("munge gives no credential: is munged running?")
    return credential_bytes.decode("ascii", "replace").strip()


def _answer(reply: bytes) -> dict[str, object]:
    try:
        answer = json.loads(reply)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}
