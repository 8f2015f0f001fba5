"""The finding of one check of `doctor`, and calls of other programs."""

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from slurm_ext.core.settings.document import Settings

OK, WARN, FAIL = "ok", "warn", "fail"
COMMAND_TIMEOUT_S = 10


@dataclass(frozen=True, slots=True)
class Finding:
    """One answer: `status` is ok, warn (works with less) or fail (does not work)."""

    name: str
    status: str
    seen: str
    advice: str = ""


Check = Callable[[Settings], Iterator[Finding]]


def judged(name: str, good: bool, state: object, advice: str, bad: str = WARN) -> Finding:
    """OK where `good`, else `bad` with the advice."""
    return Finding(name, OK, str(state)) if good else Finding(name, bad, str(state), advice)


def present(name: str, value: object, advice: str, missing: str = WARN) -> Finding:
    """OK where something was found, else `missing` with the advice."""
    return judged(name, bool(value), value or "not found", advice, missing)


def output(command: list[str], env: dict[str, str]) -> str | None:
    """Return stdout of a command; None where it fails or hangs."""
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
