"""`dlqueue` as another Unix user, with an interpreter that this user can run."""

import os
import pwd
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

import slurm_ext

MODULES = "import tomllib, numpy, rich, sqlite_utils, slurm_ext"


@cache
def python_for_all() -> tuple[str, Mapping[str, str]]:
    """An interpreter that others can run, and its environment. Skips where there is none."""
    paths = [str(Path(slurm_ext.__file__).parent.parent), *filter(None, sys.path)]
    env = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "PYTHONPATH": os.pathsep.join(
            dict.fromkeys(p for p in paths if "site-packages" in p or p == paths[0])
        ),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": "/nonexistent",
    }
    pythons = [sys.executable, "/usr/bin/python3"]
    for python in pythons:
        command = [*become("nobody"), python, "-c", MODULES]
        if not subprocess.call(command, env=env, cwd="/", stderr=subprocess.DEVNULL):
            return python, env
    pytest.skip(f"none of {pythons} (3.11) can be run by other users")


def become(user: str) -> list[str]:
    """The words that make a command this user's; `env` starts it without root's capabilities."""
    group = pwd.getpwnam(user).pw_gid
    return ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", "env"]
