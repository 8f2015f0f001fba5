"""Make a sandbox with all of dlqueue ready to play: settings, example jobs, commands to try."""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_CLONE, _INSTALLED = Path(__file__).parents[3], Path(sys.prefix, "share", "dlqueue")
_SHARE = _CLONE if (_CLONE / "job_templates").exists() else _INSTALLED
EXAMPLES = _SHARE / "job_templates" / "examples"
SETTINGS = {
    "site.mode": "act",
    "policy.change_explicit": "any",
    "policy.holdout_share": 0.0,
    "advisor.reconcile_s": 1.0,
    "advisor.deadline_ms": 1000,  # on a machine that is busy with the training before
    "node.probe": True,
    "node.sample_s": 0.5,
}
"""It acts on everything at once; a live cluster starts in shadow mode (INSTALL.md)."""


def settings(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a sandbox that acts and measures from the first job on, as the demo does."""
    return {**SETTINGS, **overrides}


def put_examples(root: Path) -> Path | None:
    """Copy the example trainings to where their outputs may lie; None if there are none."""
    if not EXAMPLES.exists():
        return None
    return Path(shutil.copytree(EXAMPLES, root / "work", dirs_exist_ok=True))


def to_try(inside: str, work: Path | None) -> Iterator[str]:
    """Commands to copy; `inside` is what runs another command in the sandbox."""
    if work is None:
        yield f"{inside} sbatch --wait job.sh"
    else:
        yield f"cd {work}"
        yield f"{inside} sbatch --wait jpeg_train.sbatch  # again: the second one is right-sized"
    yield f"{inside} dlqueue jobs"
    yield f"{inside} dlqueue explain 2"


def with_our_commands(env: Mapping[str, str]) -> dict[str, str]:
    """The environment, with this interpreter's commands first where PATH finds no `dlqueue`."""
    path = env.get("PATH", os.defpath)
    if shutil.which("dlqueue", path=path):
        return dict(env)
    return {**env, "PATH": f"{Path(sys.executable).parent}:{path}"}
