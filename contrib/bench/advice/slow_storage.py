"""A disk of 20 MB/s: a loop device whose reads this process's control group throttles (root)."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

GROUP = Path("/sys/fs/cgroup/blkio/dlqueue-bench")
BYTES_S = 20_000_000
FILES, FILE_BYTES = 400, 256 * 1024


def _said(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


@contextmanager
def slow_disk() -> Iterator[str]:
    """A folder of files on it. Raises OSError or CalledProcessError where it cannot be had."""
    with tempfile.TemporaryDirectory(prefix="dlqueue-bench-") as folder:
        image, mount = Path(folder, "image"), Path(folder, "mount")
        mount.mkdir()
        with image.open("wb") as file:
            file.truncate(2 * FILES * FILE_BYTES)
        _said("mkfs.ext4", "-q", str(image))
        device = _said("losetup", "--find", "--show", "--direct-io=on", str(image))
        try:
            _said("mount", device, str(mount))
            try:
                yield from _throttled(device, mount)
            finally:
                _said("umount", str(mount))
        finally:
            _said("losetup", "--detach", device)


def _throttled(device: str, mount: Path) -> Iterator[str]:
    files = mount / "files"
    files.mkdir()
    for number in range(FILES):
        (files / f"{number:04}").write_bytes(os.urandom(FILE_BYTES))
    os.sync()
    number = Path(device).stat().st_rdev
    GROUP.mkdir(exist_ok=True)
    limit = GROUP / "blkio.throttle.read_bps_device"
    limit.write_text(f"{os.major(number)}:{os.minor(number)} {BYTES_S}")
    (GROUP / "cgroup.procs").write_text(str(os.getpid()))
    try:
        yield str(files)
    finally:
        (GROUP.parent / "cgroup.procs").write_text(str(os.getpid()))
        GROUP.rmdir()
