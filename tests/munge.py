"""A private munged, for tests of what munge vouches for."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.advisor.a_service import until


class Munge:
    """A munged with a key of its own."""

    def __init__(self, folder: Path) -> None:
        folder.chmod(0o755)
        self.socket = folder / "munge.socket"
        key = folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        options = {"key-file": key, "socket": self.socket, "pid-file": folder / "munge.pid"}
        options |= {"log-file": folder / "munge.log", "seed-file": folder / "munge.seed"}
        words = [f"--{name}={path}" for name, path in options.items()]
        command = ["munged", "--foreground", "--force", "--num-threads=2", *words]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        until(self.socket.exists, "munged")

    def sign(self, text: str, *, uid: int | None = None) -> str:
        """A credential, as another user where one is named."""
        become = ["setpriv", f"--reuid={uid}", "--clear-groups"] if uid is not None else []
        command = [*become, "munge", f"--string={text}", f"--socket={self.socket}"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait()


@pytest.fixture(scope="module")
def munge() -> Iterator[Munge]:
    """A munged of its own, in a folder that other users can pass."""
    with tempfile.TemporaryDirectory(prefix="munge-") as folder:
        made = Munge(Path(folder))
        yield made
        made.stop()
