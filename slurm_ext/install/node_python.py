"""The interpreter of the hooks, node.python: said to be too old before a job finds out."""

import re
import subprocess
from collections.abc import Iterator

from slurm_ext.core.settings.document import Settings

OLDEST = (3, 9)  # slurm_ext/node/__main__.py checks the same, as node's package does
ADVICE = f"install Python {OLDEST[0]}.{OLDEST[1]} or newer, or set node.python"
_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"
_TIMEOUT_S = 10


def version_of(python: str) -> tuple[int, int] | None:
    """Major and minor version of an interpreter; None if it does not run."""
    argv = [python, "-I", "-S", "-c", _VERSION]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    match = re.fullmatch(r"(\d+)\.(\d+)\n", done.stdout)
    return (int(match[1]), int(match[2])) if match and done.returncode == 0 else None


def warnings(settings: Settings) -> Iterator[str]:
    """Say if hooks would not run with this machine's interpreter."""
    python = settings["node.python"]
    version = version_of(python)
    if version is None:
        yield f"node.python: {python} does not run here, and no hook would: {ADVICE}"
    elif version < OLDEST:
        text = f"{python} is Python {version[0]}.{version[1]} here"
        yield f"node.python: {text}, too old for the hooks, which would do nothing: {ADVICE}"
