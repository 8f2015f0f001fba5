"""Two files that the probe reads: how many of its started workers a job's loader may use, and lent.

`workers` (probe/workers/gate.py): a count. `lent` (probe/workers/lent.py): a count of more workers,
and the cores that they are lent. The folder is the user's: nothing in it is followed, and only a
whole new file takes a name there.
"""

import os
from secrets import token_hex

from slurm_ext.control.allocator.cgroup.cores import format_cores
from slurm_ext.control.allocator.cgroup.job_location import JobGoneError, UntrustedJobDirError
from slurm_ext.node.common.files import FOLDER

NAME, LENT = "workers", "lent"
MAX_WORKERS = 1024
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


def set_gate(run_dir: str, workers: int, *, uid: int | None = None) -> None:
    """Let `workers` (1 to 1024) of each process's loader workers work; felt within a batch.

    `uid`: the folder's owner. Raises JobGoneError, UntrustedJobDirError or OSError (a full disk).
    """
    _set(run_dir, NAME, f"{_checked(workers)}\n", uid)


def remove_gate(run_dir: str, *, uid: int | None = None) -> None:
    """Take the gate file away: the loader goes back to what script and submission asked for.

    Raises JobGoneError or UntrustedJobDirError.
    """
    _remove(run_dir, NAME, uid)


def set_lent(run_dir: str, workers: int, cores: frozenset[int], *, uid: int) -> None:
    """Have each process start `workers` lent workers, and use them once they may run on `cores`.

    Raises as `set_gate` does.
    """
    _set(run_dir, LENT, f"{_checked(workers)} {format_cores(cores)}\n", uid)


def remove_lent(run_dir: str, *, uid: int | None = None) -> None:
    """Give the lent workers nothing to do any more. Raises as `remove_gate` does."""
    _remove(run_dir, LENT, uid)


def _checked(workers: int) -> int:
    if not 1 <= workers <= MAX_WORKERS:
        raise ValueError(f"workers = {workers}: expected 1 to {MAX_WORKERS}")
    return workers


def _set(run_dir: str, name: str, text: str, uid: int | None) -> None:
    folder = _folder(run_dir, uid)
    try:
        _replace(folder, name, text.encode())
    finally:
        os.close(folder)


def _remove(run_dir: str, name: str, uid: int | None) -> None:
    folder = _folder(run_dir, uid)
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise UntrustedJobDirError(f"{name} cannot be removed: {error.strerror}") from None
    finally:
        os.close(folder)


def _folder(run_dir: str, uid: int | None) -> int:
    try:
        folder = os.open(run_dir, FOLDER)
    except FileNotFoundError:
        raise JobGoneError(f"{run_dir} is gone") from None
    except OSError as error:
        raise UntrustedJobDirError(f"{run_dir}: {error.strerror}") from None
    owner = os.fstat(folder).st_uid
    if uid is not None and owner != uid:
        os.close(folder)
        raise UntrustedJobDirError(f"{run_dir} belongs to uid {owner}, not {uid}")
    return folder


def _replace(folder: int, name: str, content: bytes) -> None:
    temporary = f".{name}.{token_hex(8)}"
    try:
        fd = os.open(temporary, _NEW, 0o644, dir_fd=folder)
    except FileNotFoundError:
        raise JobGoneError("the run folder is being removed") from None
    try:
        os.fchmod(fd, 0o644)  # whatever the umask: the job's user has to read it
        os.write(fd, content)
    finally:
        os.close(fd)
    try:
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError as error:
        _forget(temporary, folder)
        raise UntrustedJobDirError(f"{name} cannot be replaced: {error.strerror}") from None


def _forget(temporary: str, folder: int) -> None:
    try:
        os.unlink(temporary, dir_fd=folder)
    except OSError:
        return
