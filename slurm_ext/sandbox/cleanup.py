"""Removes all that a sandbox leaves: its processes, then what it made outside its folder."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from slurm_ext.sandbox.processes import descendants, send


def sweep(manifest: Mapping[str, Any]) -> None:
    """Kill all descendants of this process, then undo what lies outside the folder."""
    while living := descendants(os.getpid()):
        for pid in living:
            send(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.005)
    clean(manifest)


def clean(manifest: Mapping[str, Any]) -> None:
    """Undo what lies outside the folder (links, namespaces, cgroups); remove a temporary one."""
    for argv in manifest["undo"]:
        subprocess.run(argv, check=False, capture_output=True)
    for path in manifest["remove"]:
        shutil.rmtree(path, ignore_errors=True)
    for path in manifest["cgroups"]:
        _remove_cgroup(Path(path))
    Path(manifest["control"]).unlink(missing_ok=True)
    if manifest["temporary"]:
        shutil.rmtree(manifest["root"], ignore_errors=True)


def _remove_cgroup(folder: Path) -> None:
    for sub_folder in sorted(folder.rglob("*/"), key=lambda path: -len(path.parts)):
        with suppress(OSError):
            sub_folder.rmdir()
    with suppress(OSError):
        folder.rmdir()
