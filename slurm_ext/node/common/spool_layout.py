"""The node's spool, by name: who writes which file when, and how a half-done job is recognised.

    run/<key>/            the job's own folder (DLQUEUE_RUN_DIR), owned by its user
    state/<key>.json      the sampler's counters so far; exists while the job is unfinished
    state/<key>.mps       notes on MPS for the record (see `mps.registry`)
    state/<key>.reserve   room kept free for this job's record on a disk that fills up
    state/<key>.end       the epilog's facts; the job has ended
    state/<key>.record    the finished record, not yet handed to transport
    state/<key>.done      this job has its record: never write a second one
    out/<record_id>.json  waiting for transport

`<key>` is `<job>.<restart>`. Steps only go downwards, each by one rename or unlink, so that
whoever finds the files after a crash knows what is left to do.
"""

from __future__ import annotations

import os
import stat

from slurm_ext.node.common.files import FOLDER

REFUSED = ".refused"  # ends the name of a record that the advisor will never take
_PUNCTUATION = "_.+-"  # in a record's name


class UnsafeFolderError(Exception):
    """A folder of the spool is not what dlqueue made."""


class Spool:
    """Paths of one node's spool folder."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.run, self.state, self.out = (
            os.path.join(root, name) for name in ("run", "state", "out")
        )

    def prepare(self) -> None:
        """Create the folders: users may pass through to their own run folder, and see no other."""
        before = os.umask(0o022)  # slurmd's may be narrower
        try:
            os.makedirs(self.root, mode=0o711, exist_ok=True)
        finally:
            os.umask(before)
        for path, mode in ((self.run, 0o711), (self.state, 0o700), (self.out, 0o700)):
            if not os.path.isdir(path):
                _make(path, mode)

    def run_dir(self, key: str) -> str:
        """The job's own folder."""
        return os.path.join(self.run, key)

    def state_file(self, key: str, kind: str) -> str:
        """The job's file of `kind`: json, reserve, end, record, done, lock or mps."""
        return os.path.join(self.state, f"{key}.{kind}")

    def out_file(self, record_id: str) -> str:
        """Path of a finished record that waits for transport."""
        return os.path.join(self.out, f"{record_id}.json")

    def keys(self, *kinds: str) -> list[str]:
        """Keys of the jobs that have a state file of one of `kinds`."""
        suffixes = tuple(f".{kind}" for kind in kinds)
        names = [name.rpartition(".") for name in _names(self.state) if name.endswith(suffixes)]
        return sorted({stem for stem, _, _ in names if is_key(stem)})

    def unfinished(self) -> list[str]:
        """Keys of the jobs whose record is not handed to transport yet."""
        return self.keys("json", "end", "record")


def key_of(job_id: int, restart: int) -> str:
    """The spool's name of one run of a job."""
    return f"{job_id}.{restart}"


def split_key(key: str) -> tuple[int, int]:
    """Job id and restart count of a key. Raises ValueError."""
    if not is_key(key):
        raise ValueError(f"{key!r} is not <job>.<restart>")
    job_id, _, restart = key.partition(".")
    return int(job_id), int(restart)


def is_key(name: str) -> bool:
    """True if `name` is `<job>.<restart>`."""
    job_id, _, restart = name.partition(".")
    digits = name.isascii() and job_id.isdigit() and restart.isdigit()
    return digits and len(job_id) <= 18 and len(restart) <= 9


def record_id(cluster: str, job_id: int, restart: int, node: str) -> str:
    """The record's name on every machine: a file name whatever cluster and node are called."""
    name = f"{cluster[:80]}-{job_id}-{restart}-{node[:80]}"
    return "".join(char if _in_a_name(char) else "_" for char in name)


def _in_a_name(char: str) -> bool:
    return char.isascii() and (char.isalnum() or char in _PUNCTUATION)


def make_run_dir(spool: Spool, key: str, uid: int) -> None:
    """Create the job's own folder. Raises UnsafeFolderError if something else is there."""
    parent = os.open(spool.run, FOLDER)
    try:
        try:
            os.mkdir(key, 0o700, dir_fd=parent)
        except FileExistsError:
            pass
        _give(parent, key, uid)
    except NotADirectoryError:
        raise UnsafeFolderError(f"run/{key} is not a folder") from None
    finally:
        os.close(parent)


def _give(parent: int, key: str, uid: int) -> None:
    folder = os.open(key, FOLDER, dir_fd=parent)
    try:
        status = os.fstat(folder)
        if status.st_uid not in (uid, os.geteuid()):
            raise UnsafeFolderError(f"run/{key} belongs to uid {status.st_uid}, not {uid}")
        if status.st_uid != uid:
            os.fchown(folder, uid, -1)
        if stat.S_IMODE(status.st_mode) != 0o700:
            os.fchmod(folder, 0o700)
    finally:
        os.close(folder)


def _make(path: str, mode: int) -> None:
    try:
        os.mkdir(path)
    except FileExistsError:
        return
    os.chmod(path, mode)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
