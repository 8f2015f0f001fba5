"""The hooks import little; the names that they give to jobs and records are safe ones."""

import subprocess
import sys
from pathlib import Path

import pytest

from slurm_ext.node.common.job import is_token
from slurm_ext.node.common.spool_layout import is_key, record_id
from tests.node.by_hand import MAIN, TOKEN, Node

HOOKS = {
    "prolog": "prolog_slurmd",
    "task_prolog": "prolog_task",
    "epilog": "epilog_slurmd",
    "sampler": "prolog_slurmd",  # an epilog waits for it
}
SLOW = {"contextlib", "dataclasses", "logging", "pathlib", "socket", "subprocess", "typing"}


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_imports_nothing_slow(node: Node, hook: str) -> None:
    """Most of a hook's time is importing: none of what takes milliseconds."""
    node.prolog(7)
    node.sampler("7.0")  # one that comes first would stay with the job
    argv = [sys.executable, "-I", "-S", "-X", "importtime", str(MAIN), hook, str(node.json), "7.0"]
    more = {"SLURM_JOB_EXIT_CODE": "0", "DLQUEUE_DECISION": TOKEN}
    done = subprocess.run(argv, env=node.env(7, HOOKS[hook], **more), capture_output=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines()}
    assert any(
        name.startswith("slurm_ext.node.") and name.endswith(f".{hook}") for name in imported
    )
    assert imported & SLOW == set()
    assert hook != "task_prolog" or Path(node.spool.run_dir("7.0"), "decision").exists()


@pytest.mark.parametrize(
    ("name", "right"),
    [
        *[(name, True) for name in ("7.0", "1" * 18 + ".0", "0.123456789")],
        *[(name, False) for name in ("1" * 19 + ".0", "7.1234567890", "7", "7.", ".0")],
        *[(name, False) for name in ("7.0.1", "\u0667.0", "7.0\n", "-7.0", "")],
    ],
)
def test_keys(name: str, right: bool) -> None:
    """A job's id and its restarts, in digits, of bounded length."""
    assert is_key(name) is right


@pytest.mark.parametrize(
    "name", ["", "d1-", "d1-0123456789ABCDEF", "d1-0123456789abcde", f"{TOKEN}\n", f"{TOKEN}0"]
)
def test_tokens(name: str) -> None:
    """Sixteen hexadecimal digits in lower case, and nothing else."""
    assert is_token(TOKEN)
    assert not is_token(name)


def test_a_records_name_is_a_file_name() -> None:
    """Whatever cluster and node are called."""
    assert record_id("a/b c", 7, 0, "n.é-1") == "a_b_c-7-0-n._-1"
