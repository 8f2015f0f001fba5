"""The tiny scripts that slurm.conf names."""

import subprocess
import time
from pathlib import Path

import pytest

from slurm_ext.core.settings.document import Settings
from slurm_ext.core.settings.render import render_hook
from tests.node.by_hand import Node

HOOKS = ("prolog", "task_prolog", "epilog")


def _run(script: str, node: Node) -> "subprocess.CompletedProcess[bytes]":
    path = node.root / "launcher"
    path.write_text(script)
    path.chmod(0o755)
    return subprocess.run([path], env=node.env(1), capture_output=True, timeout=30)


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("python", ["/no/such/python3", "/bin/false", "/etc/passwd"])
def test_a_missing_interpreter_is_harmless(node: Node, hook: str, python: str) -> None:
    """No Python, a broken one, something else: exit 0 and nothing said to Slurm or the user."""
    settings = Settings("test", {"node.python": python})
    done = _run(render_hook(settings, hook, str(node.json)), node)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_that_hangs_is_ended(node: Node, hook: str) -> None:
    """The launcher's own limit holds even where Python ignores SIGTERM."""
    stuck = node.root / "stuck"
    stuck.write_text("#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 0.1; done\n")
    stuck.chmod(0o755)
    budget = {"node.prolog_budget_s": 0.5, "node.epilog_budget_s": 0.5}
    settings = Settings("test", {"node.python": str(stuck), **budget})
    before = time.monotonic()
    done = _run(render_hook(settings, hook, str(node.json)), node)
    assert done.returncode == 0
    assert time.monotonic() - before < 20


def test_a_launcher_names_absolute_paths_only(node: Node) -> None:
    """Hooks have no PATH."""
    script = render_hook(Settings(), "epilog", str(node.json))
    commands = [line.split()[0] for line in script.splitlines() if line and line[0] != "#"]
    assert [c for c in commands if not Path(c).is_absolute()] == ["exit"]


def test_a_part_of_a_gpu_is_not_asked_for_as_a_whole(node: Node) -> None:
    """Variables that the submission emptied are unset, whatever became of Python or kill file."""
    settings = Settings("test", {"node.python": "/no/such/python3"})
    path = node.root / "launcher"
    path.write_text(render_hook(settings, "task_prolog", str(node.json)))
    path.chmod(0o755)

    def said(**env: str) -> list[str]:
        given = {**node.env(1), **env}
        done = subprocess.run([path], env=given, capture_output=True, timeout=30, check=True)
        return done.stdout.decode().splitlines()

    assert said() == said(SLURM_GPUS="1", SLURM_TRES_BIND="gpu:closest") == []
    assert said(SLURM_GPUS="", SLURM_GPUS_PER_NODE="1") == ["unset SLURM_GPUS"]
    bound = said(DLQUEUE_SHARED="mps:50", SLURM_TRES_BIND="x", SLURM_GPUS_PER_TASK="")
    assert bound == ["unset SLURM_GPUS_PER_TASK", "unset SLURM_TRES_BIND"]
