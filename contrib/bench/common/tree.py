"""The source tree that is measured, and its commit."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]


def commit() -> str:
    """The commit of the tree, with a + where it was changed since."""
    head = git("rev-parse", "--short", "HEAD")
    return head + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")


def git(*words: str) -> str:
    """Output of a git command in the tree; empty if it fails."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()
