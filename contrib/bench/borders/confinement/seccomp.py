"""System call filters of a unit, by libseccomp, as systemd sets them (systemd.exec(5))."""

import ctypes
import errno
import os
import socket

from contrib.bench.borders.confinement.unit_file import Unit

_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NOT_EQUAL, _EQUAL, _MASKED = 1, 4, 7  # how an argument is compared
_NEW_NAMESPACES = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
_FAMILIES = range(1, 46)
_SUID, _SGID = 0o4000, 0o2000


class _Compared(ctypes.Structure):
    _fields_ = (
        ("arg", ctypes.c_uint),
        ("how", ctypes.c_int),
        ("a", ctypes.c_uint64),
        ("b", ctypes.c_uint64),
    )


class _Filter:
    """One filter; the kernel takes the strictest answer of all that are loaded."""

    def __init__(self, default: int) -> None:
        self._lib = ctypes.CDLL("libseccomp.so.2")
        self._lib.seccomp_init.restype = ctypes.c_void_p
        self._context = ctypes.c_void_p(self._lib.seccomp_init(ctypes.c_uint32(default)))

    def add(self, action: int, call: str, *compared: tuple[int, int, int, int]) -> None:
        """Answer a system call with `action` where its arguments are (number, how, a, b)."""
        number = self._lib.seccomp_syscall_resolve_name(call.encode())
        if number < 0:
            return  # of another machine
        rows = (_Compared * len(compared))(*(_Compared(*row) for row in compared))
        self._check(
            self._lib.seccomp_rule_add_array(
                self._context, ctypes.c_uint32(action), number, len(compared), rows
            )
        )

    def load(self) -> None:
        """Apply it to this process for good. Raises OSError."""
        self._check(self._lib.seccomp_load(self._context))

    def _check(self, result: int) -> None:
        if result < 0:
            raise OSError(-result, f"libseccomp: {os.strerror(-result)}")


def load_filters(unit: Unit) -> None:
    """Apply SystemCallFilter and the switches that are filters. Raises OSError."""
    refused = _refused(unit)
    allowed = _Filter(_ERRNO | errno.EPERM)
    for call in unit.calls:
        allowed.add(_ALLOW, call)
    refused.load()
    allowed.load()


def _refused(unit: Unit) -> _Filter:
    refused = _Filter(_ALLOW)
    no = _ERRNO | errno.EPERM
    if unit.is_on("RestrictNamespaces"):
        refused.add(no, "unshare")
        refused.add(no, "setns")
        refused.add(_ERRNO | errno.ENOSYS, "clone3")
        for flag in _NEW_NAMESPACES:
            refused.add(no, "clone", (0, _MASKED, flag, flag))
    families = {int(getattr(socket, f)) for f in unit.last("RestrictAddressFamilies").split()}
    for family in set(_FAMILIES) - families if families else ():
        refused.add(_ERRNO | errno.EAFNOSUPPORT, "socket", (0, _EQUAL, family, 0))
    if unit.is_on("RestrictRealtime"):
        for policy in (1, 2, 6):
            refused.add(no, "sched_setscheduler", (1, _EQUAL, policy, 0))
    if unit.is_on("RestrictSUIDSGID"):
        for call, arg in (("chmod", 1), ("fchmod", 1), ("fchmodat", 2)):
            for bit in (_SUID, _SGID):
                refused.add(no, call, (arg, _MASKED, bit, bit))
    if unit.is_on("LockPersonality"):
        refused.add(no, "personality", (0, _NOT_EQUAL, 0xFFFFFFFF, 0))
    return refused
