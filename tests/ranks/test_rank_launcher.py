"""The launcher of several ranks a GPU."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_ext.ranks.layout import rank_layout

LAUNCHER = [sys.executable, "-m", "slurm_ext.ranks", "--ranks-per-gpu"]
SAY = 'import os; os.write(1, f\'{os.environ["RANK"]} {os.environ["WORLD_SIZE"]}\\n\'.encode())\n'


def launched(tmp_path: Path, script: str, ranks: str = "3") -> subprocess.CompletedProcess[str]:
    """The launcher's run of a script."""
    path = tmp_path / "train.py"
    path.write_text(script)
    command = [*LAUNCHER, ranks, str(path), "--epochs", "1"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_every_rank_runs_and_knows_its_place(tmp_path: Path) -> None:
    """Ranks count from 0; arguments are the script's own."""
    done = launched(tmp_path, SAY + "import sys; assert sys.argv[1:] == ['--epochs', '1']\n")
    assert done.returncode == 0
    assert sorted(done.stdout.splitlines()) == ["0 3", "1 3", "2 3"]


def test_a_failed_rank_ends_the_others(tmp_path: Path) -> None:
    """Nobody waits for the dead; its exit status is the job's."""
    fails = "import os, sys, time\nif os.environ['RANK'] == '1': sys.exit(7)\ntime.sleep(600)\n"
    assert launched(tmp_path, fails).returncode == 7


def test_a_killed_rank_is_told_as_a_shell_does(tmp_path: Path) -> None:
    """128 and the signal's number."""
    dies = "import os\nif os.environ['RANK'] == '0': os.kill(os.getpid(), 9)\n"
    assert launched(tmp_path, dies).returncode == 128 + signal.SIGKILL


def test_wrong_usage_says_what_is_wanted(tmp_path: Path) -> None:
    """No traceback; exit status 2."""
    done = launched(tmp_path, SAY, ranks="0")
    assert done.returncode == 2
    assert "at least 1 is wanted" in done.stderr


def test_ranks_of_two_nodes_with_two_gpus_each() -> None:
    """Neighbours share a GPU and see only that; ranks go on counting on the next node."""
    env = {
        "SLURM_NNODES": "2",
        "SLURM_NODEID": "1",
        "SLURM_JOB_ID": "41",
        "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.1",
        "CUDA_VISIBLE_DEVICES": "0,3",
    }
    ranks = list(rank_layout(2, env, free_port=1).environments())
    told = [(rank["RANK"], rank["CUDA_VISIBLE_DEVICES"]) for rank in ranks]
    assert told == [("4", "0"), ("5", "0"), ("6", "3"), ("7", "3")]
    first = ranks[0]
    assert (first["WORLD_SIZE"], first["MASTER_ADDR"], first["MASTER_PORT"]) == (
        "8",
        "10.0.0.1",
        "20041",
    )


def test_ranks_meet_where_the_first_one_runs() -> None:
    """Not where srun was typed, which is a login node at times; by that where names say nothing."""
    env = {"SLURM_NNODES": "2", "SLURM_LAUNCH_NODE_IPADDR": "10.9.9.9"}
    for listed, address in (("localhost,n2", "localhost"), ("n[1-2].invalid", "10.9.9.9")):
        node = rank_layout(1, {**env, "SLURM_STEP_NODELIST": listed}, free_port=1)
        assert node.address == address


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"SLURM_NNODES": "two"}, "SLURM_NNODES is 'two'"),
        ({"SLURM_NNODES": "2"}, "srun --ntasks-per-node=1"),
    ],
)
def test_a_place_that_cannot_be_is_told(env: dict[str, str], said: str) -> None:
    """What is wrong, and what to do."""
    with pytest.raises(ValueError, match=said):
        rank_layout(1, env, free_port=1)
