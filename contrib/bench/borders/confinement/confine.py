"""Runs a program under the restrictions of a systemd unit, where no systemd runs (root).

    python -m contrib.bench.borders.confinement.confine UNIT USER WRITABLE[:WRITABLE...] COMMAND...

WRITABLE stands for the unit's own paths (state, sockets). The folders of home and /tmp stay where
this interpreter and the WRITABLE folders lie in them.
"""

import ctypes
import os
import pwd
import sys
from contextlib import suppress
from pathlib import Path

from contrib.bench.borders.confinement.seccomp import load_filters
from contrib.bench.borders.confinement.unit_file import UNITS, Unit, read_unit

_LIBC = ctypes.CDLL(None, use_errno=True)
_NEW_MOUNTS = 0x00020000
_BIND, _REC, _PRIVATE = 0x1000, 0x4000, 1 << 18
_MOUNT_SETATTR, _RECURSIVE, _RDONLY = 442, 0x8000, 1
_NNP, _BOUNDING_DROP, _KEEP_CAPS, _AMBIENT, _MDWE = 38, 24, 8, 47, 65
CAPABILITIES = {
    "CAP_DAC_OVERRIDE": 1,
    "CAP_DAC_READ_SEARCH": 2,
    "CAP_SYS_NICE": 23,
    "CAP_SYS_PTRACE": 19,
}
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "shm")


def main(unit: Unit, user: str, writable: list[Path], argv: list[str]) -> None:
    """Become the confined program. Raises OSError."""
    _call("unshare", _NEW_MOUNTS)
    _mount(None, "/", None, _REC | _PRIVATE)
    _hide(unit, writable)
    _make_read_only(unit, writable)
    _drop_capabilities(unit)
    _become(user, [c for c in unit.last("AmbientCapabilities").split() if c])
    os.umask(0o022)  # as systemd's default
    _prctl(_NNP, 1)
    if unit.is_on("MemoryDenyWriteExecute"):
        _prctl(_MDWE, 1)
    load_filters(unit)
    os.execvp(argv[0], argv)


def _hide(unit: Unit, writable: list[Path]) -> None:
    """Cover /tmp, homes, devices and other users' processes, as far as the unit says so."""
    needed = [*_code(), *writable]
    if unit.is_on("PrivateTmp"):
        _cover(Path("/tmp"), _topmost([p for p in needed if p.is_relative_to("/tmp")]))
    if unit.is_on("ProtectHome"):
        for home in map(Path, ("/home", "/root", "/run/user")):
            if home.is_dir() and not any(path.is_relative_to(home) for path in needed):
                _mount("tmpfs", str(home), "tmpfs", 0)
    if unit.is_on("PrivateDevices"):
        _cover(Path("/dev"), [Path("/dev") / name for name in _DEVICES])
    if unit.last("ProtectProc") == "invisible":
        _mount("proc", "/proc", "proc", 0, b"hidepid=2")


def _code() -> list[Path]:
    """Folders that this interpreter reads its programs from."""
    return [Path(sys.base_prefix), Path(sys.prefix), *map(Path, sys.path)]


def _topmost(paths: list[Path]) -> list[Path]:
    """Leave out what lies in another one of the paths."""
    return [path for path in paths if not any(path.is_relative_to(p) for p in paths if p != path)]


def _cover(folder: Path, kept: list[Path]) -> None:
    """Lay an empty folder over `folder`, and let some paths in it show through."""
    kept = [path for path in dict.fromkeys(kept) if path.exists()]
    files = {path: os.open(path, os.O_PATH) for path in kept}
    kinds = {path: path.is_dir() for path in kept}
    _mount("tmpfs", str(folder), "tmpfs", 0, b"mode=1777")
    for path, file in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir() if kinds[path] else path.touch()
        _mount(f"/proc/self/fd/{file}", str(path), None, _BIND | _REC)
        os.close(file)


def _make_read_only(unit: Unit, writable: list[Path]) -> None:
    """Make everything read-only but interfaces of the kernel and the unit's own paths."""
    private = [Path("/tmp")] if unit.is_on("PrivateTmp") else []
    for path in writable:
        _mount(str(path), str(path), None, _BIND | _REC)
    _set_read_only("/", True)
    for path in private:
        _set_read_only(str(path), False)
        for code in _topmost([p for p in _code() if p.is_relative_to(path)]):
            _set_read_only(str(code), True)
    for path in (*writable, Path("/dev"), Path("/proc"), Path("/sys")):
        _set_read_only(str(path), False)
    if unit.is_on("ProtectKernelTunables"):
        _mount("/proc/sys", "/proc/sys", None, _BIND | _REC)
        _set_read_only("/proc/sys", True)
        _set_read_only("/sys", True)
    _set_read_only("/sys/fs/cgroup", unit.is_on("ProtectControlGroups"))


def _drop_capabilities(unit: Unit) -> None:
    kept = {CAPABILITIES[name] for name in unit.capabilities}
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    for number in set(range(last + 1)) - kept:
        _prctl(_BOUNDING_DROP, number)


def _become(user: str, ambient: list[str]) -> None:
    """Change to a user; its ambient capabilities survive."""
    entry = pwd.getpwnam(user)
    if entry.pw_uid == 0:
        return
    _prctl(_KEEP_CAPS, 1)
    os.setgroups([])
    os.setresgid(entry.pw_gid, entry.pw_gid, entry.pw_gid)
    os.setresuid(entry.pw_uid, entry.pw_uid, entry.pw_uid)
    bits = sum(1 << CAPABILITIES[name] for name in ambient)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # capset(2), version 3
    _call("capset", header, (ctypes.c_uint32 * 6)(bits, bits, bits, 0, 0, 0))
    for name in ambient:
        _prctl(_AMBIENT, 2, CAPABILITIES[name])


def _set_read_only(path: str, value: bool) -> None:
    """Change the mounts at and below a path (mount_setattr(2))."""
    attributes = (ctypes.c_uint64 * 4)(*((_RDONLY, 0) if value else (0, _RDONLY)), 0, 0)
    with suppress(FileNotFoundError):
        words = (-100, path.encode(), _RECURSIVE, attributes, ctypes.sizeof(attributes))
        _call("syscall", _MOUNT_SETATTR, *words)


def _mount(
    source: str | None, target: str, kind: str | None, flags: int, data: bytes | None = None
) -> None:
    names = [None if name is None else name.encode() for name in (source, target, kind)]
    _call("mount", *names, flags, data)


def _prctl(option: int, *values: int) -> None:
    _call("prctl", option, *(ctypes.c_ulong(value) for value in (*values, 0, 0, 0)[:4]))


def _call(name: str, *values: object) -> None:
    if getattr(_LIBC, name)(*values) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}{values}: {os.strerror(number)}")


def command(unit: str, user: str, writable: list[Path], *argv: object) -> list[str]:
    """Command line that runs `argv` as `unit` would, with those paths for the unit's own."""
    words = [unit, user, ":".join(map(str, writable)), *map(str, argv)]
    return [sys.executable, "-m", "contrib.bench.borders.confinement.confine", *words]


if __name__ == "__main__":
    name, user, paths, *words = sys.argv[1:]
    folder = Path(name).parent if "/" in name else UNITS
    main(read_unit(Path(name).name, folder), user, [Path(p) for p in paths.split(":") if p], words)
