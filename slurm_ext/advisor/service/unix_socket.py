"""The advisor's unix socket: made whole before it can be seen, refused where one is alive."""

import errno
import os
import select
import socket
import struct
from pathlib import Path

from slurm_ext.core.errors import AdvisorError

BACKLOG = 128
SUBMIT = ".submit"
"""Ends the name of the socket that only slurmctld may use: no crowd of users fills its queue."""
_MOST_PATH_BYTES = 107  # of a unix socket's address, on Linux
_PROBE_S = 1.0


def listener(path: Path, mode: int) -> socket.socket:
    """A listening, non-blocking socket at `path` with permission bits `mode`.

    A stale socket is replaced; AdvisorError where another advisor answers or `path` is something
    else or cannot be made.
    """
    if path.is_symlink() or (path.exists() and not path.is_socket()):
        raise AdvisorError(f"{path} is in the way and is not a socket; see paths.socket")
    if _alive(path):
        raise AdvisorError(f"an advisor already answers at {path}; stop it first")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return _bound(path, mode)
    except OSError as error:
        raise AdvisorError(f"{path} cannot be made: {error.strerror or error}") from None


def fits(path: Path) -> bool:
    """True if a socket can have this path."""
    return len(os.fsencode(path.with_name(f".{path.name}.{os.getpid()}"))) <= _MOST_PATH_BYTES


def remove(path: Path, made: os.stat_result) -> None:
    """Remove the socket file if it is still the one that was made."""
    try:
        if os.path.samestat(path.lstat(), made):
            path.unlink()
    except FileNotFoundError:
        pass


def peer_uid(client: socket.socket) -> int:
    """The uid that the kernel vouches for (SO_PEERCRED)."""
    raw = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", raw)
    return int(uid)


def hung_up(client: socket.socket) -> bool:
    """True if the peer has closed its end; one that only sends no more still reads."""
    poll = select.poll()
    poll.register(client, 0)  # the kernel tells of a hang-up unasked
    return bool(poll.poll(0))


def _bound(path: Path, mode: int) -> socket.socket:
    hidden = path.with_name(f".{path.name}.{os.getpid()}")
    hidden.unlink(missing_ok=True)
    server = socket.socket(socket.AF_UNIX)
    try:
        before = os.umask(0o177)
        try:
            server.bind(str(hidden))
        finally:
            os.umask(before)
        hidden.chmod(mode)
        server.listen(BACKLOG)
        server.setblocking(False)
        hidden.replace(path)
    except OSError:
        server.close()
        hidden.unlink(missing_ok=True)
        raise
    return server


def _alive(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(_PROBE_S)
        try:
            client.connect(str(path))
        except OSError as error:
            # A full backlog is an advisor too busy to accept, not a dead one.
            return error.errno == errno.EAGAIN or isinstance(error, TimeoutError)
    return True
