"""`dlqueue control --pairs`, as people call it."""

import json
from pathlib import Path

import pytest

from slurm_ext.cli import main
from slurm_ext.control.coscheduling.pair_memory import pair_state
from slurm_ext.control.coscheduling.status import status


@pytest.fixture
def config(tmp_path: Path) -> str:
    """Settings with their own state, pairing off."""
    path = tmp_path / "dlqueue.toml"
    path.write_text(f'[paths]\nstate_dir = "{tmp_path}"\n')
    return str(path)


def test_it_does_not_run_unless_the_site_turned_it_on(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Off is off; the message says which setting."""
    assert main(["control", "--pairs", "--config", config]) == 2
    assert "sharing.pairing is off" in capsys.readouterr().err


def test_without_one_there_is_no_status(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """And it says how to have one."""
    assert main(["control", "--pairs", "status", "--config", config]) == 1
    assert "no `dlqueue control --pairs` runs here" in capsys.readouterr().err


def test_the_status_is_told(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who waits, who runs how fast, who is left alone; the same as JSON."""
    folder = pair_state(tmp_path)
    folder.path.mkdir()
    running = [{"job": "7.0", "node": "n1", "speed": 0.93}]
    told = status(1.0, "act", [], running, {"8.0": "is an array"}, set())
    folder.write_status(told)
    assert main(["control", "--pairs", "status", "--config", config]) == 0
    said = capsys.readouterr().out
    assert "93% of its speed alone" in said
    assert "is an array" in said
    assert main(["control", "--pairs", "status", "--json", "--config", config]) == 0
    assert json.loads(capsys.readouterr().out) == told
