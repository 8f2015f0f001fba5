"""Attacks by a program that took a service over, within the restrictions of its unit."""

import json
import subprocess
import sys
from pathlib import Path

from contrib.bench.borders.attack import VICTIM, Attack, Happened, as_user
from contrib.bench.borders.confinement.confine import command
from contrib.bench.borders.confinement.unit_file import (
    MOST_EXPOSED,
    MOST_EXPOSED_LOOP,
    UNITS,
    exposure,
)

TRY = """
import ctypes, json, os, socket, sys
from pathlib import Path
victim, closed = int(sys.argv[1]), sys.argv[2]
libc = ctypes.CDLL(None, use_errno=True)
def called(name, *words):
    if getattr(libc, name)(*words) < 0: raise OSError(ctypes.get_errno(), name)
tries = {
    "writes a shared folder": lambda: Path("/var/tmp/dlq-taken-over").touch(),
    "lists other users' processes": lambda: os.stat(f"/proc/{victim}") and None,
    "reads another user's file": lambda: open(closed).close(),
    "reads another process": lambda: open(f"/proc/{victim}/environ").close(),
    "sends a raw packet": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close(),
    "becomes root in a namespace": lambda: called("unshare", 0x10000000),
    "traces": lambda: called("ptrace", 0, 0, 0, 0),
    "mounts": lambda: called("mount", b"none", b"/mnt", b"tmpfs", 0, None),
    "becomes another user": lambda: os.setuid(victim and 7),
    "gives a file away": lambda: os.chown(".", 7, 7),
    "writes the kernel's settings": lambda: open("/proc/sys/kernel/hostname", "w").close(),
}
done = []
for name, act in tries.items():
    try:
        act(); done.append(name)
    except OSError: pass
print(json.dumps(done))
"""
ALLOWED = {
    "dlqueue-elastic.service": {"reads another user's file"},  # reports of jobs, wherever they are
    "dlqueue-control.service": {  # what jobs are, and their folders
        "lists other users' processes",
        "reads another user's file",
        "reads another process",
    },
}


def take_over(folder: Path) -> Happened:
    """Run the attacker's program in the place of each unit's own."""
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    (closed / "secret").write_text("secret")
    for path in (closed / "secret", closed):
        subprocess.run(["chown", VICTIM, str(path)], check=True)
    with subprocess.Popen(["sleep", "600"], **as_user(VICTIM)) as victim:
        try:
            units = sorted(path.name for path in UNITS.glob("*.service"))
            harm = {unit: _harm(unit, folder, victim.pid) for unit in units}
        finally:
            victim.kill()
    worst = {unit: sorted(harm[unit] - ALLOWED.get(unit, set())) for unit in units}
    what = {unit: words for unit, words in worst.items() if words}
    tried = f"none of {len(units)} services could do more than its work"
    return Happened(held=not what, what=json.dumps(what) if what else tried)


def _harm(unit: str, folder: Path, victim: int) -> set[str]:
    user = "root" if unit == "dlqueue-control.service" else "nobody"
    words = (str(victim), str(folder / "closed" / "secret"))
    python = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
    argv = command(unit, user, [folder], python, "-S", "-c", TRY, *words)
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return set(json.loads(done.stdout)) if done.stdout else {done.stderr[-200:]}


def measure(_folder: Path) -> Happened:
    """Ask systemd how exposed each unit is."""
    units = sorted(path.name for path in UNITS.glob("*.service"))
    found = {unit: exposure(unit) for unit in units}
    held = all(value <= MOST_EXPOSED.get(unit, MOST_EXPOSED_LOOP) for unit, value in found.items())
    return Happened(held=held, what=json.dumps(found))


ATTACKS = (
    Attack(
        name="take_a_service_over",
        row=11,
        tried="an attacker's program runs in the place of each unit's own, confined as it",
        before="the loops were root with every capability; nothing but /home was closed to them",
        act=take_over,
    ),
    Attack(
        name="exposure_of_units",
        row=11,
        tried="systemd-analyze security",
        before="advisor 8.7, loops 9.2 to 9.3",
        act=measure,
    ),
)
