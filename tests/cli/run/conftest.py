"""A user without a site, who has `dlqueue run`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


class Home:
    """A user's home without a site."""

    def __init__(self, path: Path) -> None:
        self.state, self.tmp = path / "state", path / "tmp"
        self.tmp.mkdir()
        kept = {name: value for name, value in os.environ.items() if "DLQUEUE" not in name}
        self.env = {**kept, "XDG_STATE_HOME": str(self.state), "TMPDIR": str(self.tmp)}

    def dlqueue(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a command of dlqueue in the tree."""
        return subprocess.run(
            [sys.executable, "-m", "slurm_ext.cli", *words],
            cwd=ROOT,
            env={**self.env, **env},
            capture_output=True,
            text=True,
            check=False,
        )

    def document(self, *words: str) -> dict[str, object]:
        """What a command prints as JSON."""
        done = self.dlqueue(*words, "--json")
        assert done.returncode == 0, done.stderr
        body: dict[str, object] = json.loads(done.stdout)
        return body


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home of its own."""
    return Home(tmp_path)
