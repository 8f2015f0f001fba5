"""Workers that hang in a fetch do not hold the end of a program that handles SIGTERM."""

from pathlib import Path

import pytest

from tests.probe.conftest import Environment, Python


@pytest.mark.parametrize("ended_by", ["pass_left_early", "end_of_python"])
def test_workers_that_hang_are_ended_with_their_program(
    environment: Environment, python: Python, tmp_path: Path, ended_by: str
) -> None:
    """They sleep for days, and ignore the SIGTERM that is the program's: none is left behind."""
    pids = tmp_path / "pids"
    env = environment(tmp_path / "run", DLQUEUE_NUM_WORKERS="2")
    done = python(["-m", "tests.probe.workers_hanging", ended_by, str(pids)], env)
    assert (done.returncode, done.stderr) == (0, "")
    workers = pids.read_text().split()
    assert len(workers) == 2
    assert not any(Path("/proc", worker, "exe").exists() for worker in workers)
