"""Folders of a node's MPS daemons, one for a GPU and a user.

    mps/card.<gpu>                  nvidia-smi's last description of a GPU
    mps/<gpu>-<uid>.lock            held while a daemon is started or ended
    mps/<gpu>-<uid>/daemon          the process: pid, start time, boot; its user
    mps/<gpu>-<uid>/jobs/<key>      one file for each job that uses it
    mps/<gpu>-<uid>/left/<key>      the same, renamed, when the job has ended
    mps/<gpu>-<uid>/<n>/{pipe,log}  the user's; a daemon that died gets a successor in another <n>
    state/<key>.mps                 notes for the job's record, a JSON line each

The folder with all in it goes when no job is left; the lock stays, for others may wait for it.
"""

from __future__ import annotations

import json
import os
import re
import time

from slurm_ext.node.common import state
from slurm_ext.node.common.files import read_bounded, unlink_quietly, write_whole
from slurm_ext.node.common.removal import remove_tree
from slurm_ext.node.common.spool_layout import is_key
from slurm_ext.node.mps.processes import is_alive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_ext.node.common.spool_layout import Spool

FOLDER = "mps"
MAX_BYTES = 64 * 1024
LOGS = ("control.log", "server.log")
_NAME = re.compile(r"[0-9A-Za-z]{1,12}-[0-9]{1,10}")


class MpsSlot:
    """One GPU and user."""

    def __init__(self, root: str, name: str) -> None:
        self.folder = os.path.join(root, name)
        self.lock = f"{self.folder}.lock"
        self.daemon, self.jobs, self.left = (
            os.path.join(self.folder, part) for part in ("daemon", "jobs", "left")
        )

    def pipe(self, number: int) -> str:
        """CUDA_MPS_PIPE_DIRECTORY of the folder's `number`th daemon."""
        return os.path.join(self.folder, str(number), "pipe")

    def log(self, number: int) -> str:
        """Its CUDA_MPS_LOG_DIRECTORY."""
        return os.path.join(self.folder, str(number), "log")

    def numbers(self) -> list[int]:
        """Daemons that this folder has seen, the newest last."""
        return sorted(int(name) for name in names(self.folder) if name.isdecimal())

    def users(self) -> list[str]:
        """Jobs that use it."""
        return sorted(filter(is_key, names(self.jobs)))


def mps_root(spool: Spool) -> str:
    """Parent of all the daemons' folders; users may pass through."""
    return os.path.join(spool.root, FOLDER)


def slot_of(spool: Spool, gpu: str, uid: int) -> MpsSlot:
    """The folder of a GPU (UUID, else index) and a user; a UUID is cut, for sockets' sake."""
    short = gpu.replace("GPU-", "", 1).replace("-", "")[:12]
    return MpsSlot(mps_root(spool), f"{short}-{uid}")


def slots(spool: Spool) -> list[MpsSlot]:
    """Every folder that there is."""
    root = mps_root(spool)
    return [MpsSlot(root, name) for name in sorted(names(root)) if _NAME.fullmatch(name)]


def names(folder: str) -> list[str]:
    """Entries of a folder; none if it is not there."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def make(spool: Spool, slot: MpsSlot) -> None:
    """The folder and those in it that are root's. Raises OSError."""
    for path in (mps_root(spool), slot.folder):
        _mkdir(path, 0o711)
    for path in (slot.jobs, slot.left):
        _mkdir(path, 0o700)


def make_numbered(slot: MpsSlot, number: int, uid: int, gid: int) -> None:
    """Pipe and log folder of a new daemon, the user's alone. Raises OSError."""
    _mkdir(os.path.join(slot.folder, str(number)), 0o711)
    for path in (slot.pipe(number), slot.log(number)):
        _mkdir(path, 0o700)
        if os.geteuid() == 0:
            os.chown(path, uid, gid, follow_symlinks=False)


def _mkdir(path: str, mode: int) -> None:
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    os.chmod(path, mode)


def remove(spool: Spool, slot: MpsSlot, deadline: float) -> None:
    """All but the lock, which the caller holds."""
    unlink_quietly(slot.daemon)  # first: the rest belongs to no daemon then
    remove_tree(os.path.basename(slot.folder), mps_root(spool), deadline)


def save_card(spool: Spool, gpu: str, fields: list[Any]) -> None:
    """Store nvidia-smi's description of a GPU, for when it does not answer. Raises OSError."""
    _mkdir(mps_root(spool), 0o711)
    content = {"told": fields, "boot_id": state.boot_id()}
    write_whole(os.path.join(mps_root(spool), f"card.{gpu}"), json.dumps(content).encode())


def load_card(spool: Spool, gpu: str) -> list[Any] | None:
    """Read nvidia-smi's description of a GPU from this boot; None if there is none yet."""
    stored = _load(os.path.join(mps_root(spool), f"card.{gpu}")) or {}
    return stored.get("told") if stored.get("boot_id") == state.boot_id() else None


# -- who uses it ------------------------------------------------------------------------------


def add(slot: MpsSlot, key: str, number: int) -> None:
    """Note that a job uses the folder's `number`th daemon, from its log's end on. OSError."""
    sizes = {name: size_of(os.path.join(slot.log(number), name)) for name in LOGS}
    content = {"number": number, "joined_s": round(time.time(), 3), "logs": sizes}
    write_whole(os.path.join(slot.jobs, key), json.dumps(content).encode(), durable=False)


def reference(slot: MpsSlot, key: str) -> dict[str, Any]:
    """Read the reference of a job; empty if it is lost."""
    return _load(os.path.join(slot.jobs, key)) or _load(os.path.join(slot.left, key)) or {}


def drop(slot: MpsSlot, key: str) -> None:
    """The job does not use it any more; kept for the records of jobs beside it."""
    path = os.path.join(slot.jobs, key)
    try:
        os.utime(path)  # when it left
        os.rename(path, os.path.join(slot.left, key))
    except OSError:
        unlink_quietly(path)  # a full disk: the count matters more than the memory


def forget(slot: MpsSlot, key: str) -> None:
    """The job never used it."""
    unlink_quietly(os.path.join(slot.jobs, key))


def other_users(slot: MpsSlot, key: str) -> list[str]:
    """Ids of the other jobs that used the same daemon while this one did."""
    own = reference(slot, key)
    users = set(slot.users())
    for other in names(slot.left):
        if is_key(other) and _changed_s(slot, other) > own.get("joined_s", 0.0):
            users.add(other)
    same = {user for user in users if reference(slot, user).get("number") == own.get("number")}
    return sorted(user.partition(".")[0] for user in same - {key})


def _changed_s(slot: MpsSlot, key: str) -> float:
    try:
        return os.stat(os.path.join(slot.left, key)).st_mtime
    except OSError:
        return 0.0


# -- which process it is ----------------------------------------------------------------------


def save_daemon(slot: MpsSlot, facts: dict[str, Any]) -> None:
    """Write which daemon it is, so that any hook of this boot finds it again. Raises OSError."""
    facts = {**facts, "boot_id": state.boot_id()}
    write_whole(slot.daemon, json.dumps(facts).encode(), durable=False)


def load_daemon(slot: MpsSlot) -> dict[str, Any] | None:
    """The daemon's facts, written in this boot; None if there are none."""
    facts = _load(slot.daemon)
    return facts if facts and facts.get("boot_id") == state.boot_id() else None


def living(spool: Spool) -> list[tuple[MpsSlot, dict[str, Any]]]:
    """Every slot whose daemon runs, with the daemon's facts: they are root's, not the process's."""
    daemons = [(slot, load_daemon(slot)) for slot in slots(spool)]
    return [(s, facts) for s, facts in daemons if facts and is_alive(facts["pid"], facts["start"])]


def _load(path: str) -> dict[str, Any] | None:
    try:
        content = json.loads(read_bounded(path, MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def size_of(path: str) -> int:
    """Bytes of a file that may not be there."""
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0
