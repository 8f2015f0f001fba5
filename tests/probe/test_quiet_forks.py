"""Forks that the program as written would not have made: no library warns of them."""

import os
import subprocess
import sys
import types

import pytest

from slurm_ext.probe.workers.quiet_forks import quiet_forks

NAME = "TOKENIZERS_PARALLELISM"


def told() -> str:
    """The variable as C code and a new process see it; empty: there is none."""
    done = subprocess.run(["printenv", NAME], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def test_tokenizers_are_told_for_the_fork_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """They see their variable within the block, the program sees nothing at any time."""
    monkeypatch.setitem(sys.modules, "tokenizers", types.ModuleType("tokenizers"))
    monkeypatch.delenv(NAME, raising=False)
    with quiet_forks():
        assert (told(), NAME in os.environ) == ("false", False)
    assert told() == ""


@pytest.mark.parametrize("said", ["true", "false"])
def test_what_the_program_says_stays(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    """A variable that is set has been set on purpose."""
    monkeypatch.setitem(sys.modules, "tokenizers", types.ModuleType("tokenizers"))
    monkeypatch.setenv(NAME, said)
    with quiet_forks():
        assert told() == said
    assert told() == said


def test_a_program_without_them_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable for libraries that are not there."""
    monkeypatch.delitem(sys.modules, "tokenizers", raising=False)
    monkeypatch.delenv(NAME, raising=False)
    with quiet_forks():
        assert told() == ""
