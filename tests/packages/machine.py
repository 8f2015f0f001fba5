"""This machine again, to install packages on: its files seen through an overlay that goes away.

Nothing outside of the overlay changes, /run is empty (so that no systemd is found), and network and
processes are the machine's own. What runs in it ends with it: a record's transport would try on for
a day.
"""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MOUNTS = """
mount -t tmpfs none "$1"
mkdir "$1/above" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/above,workdir=$1/work" "$1/root"
for path in /proc /sys /dev; do mount --rbind "$path" "$1/root$path"; done
for path in /run /tmp; do mount -t tmpfs -o mode=1777 none "$1/root$path"; done
shift_from=$1
shift
for path; do
    mkdir -p "$shift_from/root$path"
    mount --rbind "$path" "$shift_from/root$path"
done
echo up
read -r _
"""


class Machine:
    """Commands run as root in the overlay."""

    def __init__(self, holder: "subprocess.Popen[str]", root: Path) -> None:
        self.enter = ["nsenter", f"--mount=/proc/{holder.pid}/ns/mnt", "chroot", str(root)]

    def run(self, command: str, env: Mapping[str, str] | None = None, *, status: int = 0) -> str:
        """What a line of shell prints on both streams; its exit status has to be `status`."""
        words = [*self.enter, "env", "-i", f"PATH={PATH}", "LC_ALL=C.UTF-8", "HOME=/root"]
        words += [f"{name}={value}" for name, value in (env or {}).items()]
        done = subprocess.run(
            [*words, "sh", "-c", command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )
        assert done.returncode == status, f"{command}: {done.returncode}\n{done.stdout}"
        return done.stdout

    def has(self, path: str) -> bool:
        """True if there is such a file or folder."""
        return self.run(f"[ -e {path} ] && echo yes || true") == "yes\n"

    def write(self, path: str, text: str, mode: str = "644") -> None:
        """Put a file."""
        self.run(
            f'mkdir -p "$(dirname {path})"; printf %s "$TEXT" >{path}; chmod {mode} {path}',
            {"TEXT": text},
        )


@contextmanager
def private_machine(folder: Path, *seen: Path) -> Iterator[Machine]:
    """A machine whose overlay lies in `folder`; `seen` are folders that it has, too."""
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-euc", _MOUNTS, "sh"]
    with subprocess.Popen(
        [*command, str(folder), *map(str, seen)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stderr is not None
        try:
            if holder.stdout.readline() != "up\n":
                pytest.skip(f"no overlay file system can be made here: {holder.stderr.read()}")
            yield Machine(holder, folder / "root")
        finally:
            _end_all_beside(holder.pid)
            holder.stdin.close()


def _end_all_beside(holder: int) -> None:
    """Kill the processes that see the holder's files, all but itself."""
    files = Path(f"/proc/{holder}/ns/mnt").readlink()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            if (process / "ns/mnt").readlink() == files and int(process.name) != holder:
                os.kill(int(process.name), signal.SIGKILL)
