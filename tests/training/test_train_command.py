"""`dlqueue train` as people and the advisor run it."""

import json
import random
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.cli import main
from slurm_ext.history.store.store import open_history
from slurm_ext.history.views.columns import TRAINING_COLUMNS


def fill(path: Path, count: int) -> None:
    """A history of so many runs whose costs follow user and program."""
    rng = random.Random(3)
    with open_history(path) as history:
        for number in range(count):
            insert(history.conn, number, rng)


def insert(conn: sqlite3.Connection, number: int, rng: random.Random) -> None:
    """One run with its loader's numbers, straight into the two tables."""
    user, kind = rng.randrange(4), rng.randrange(3)
    cost = 0.001 * 2**user * 5**kind * rng.lognormvariate(0, 0.1)
    run: dict[str, Any] = {
        "id": number + 1,
        "record_id": f"c-{number}-0-n1",
        "cluster": "c",
        "job_id": number,
        "restart": 0,
        "node": "n1",
        "user": f"u{user}",
        "partition": "gpu",
        "end_s": 1e9 + number,
        "elapsed_s": 9.0,
        "state": "COMPLETED",
        "source": "epilog",
        "ingested_s": 1e9,
    }
    loader: dict[str, Any] = {
        "run": number + 1,
        "samples_per_s": 0.9 / cost,
        "workers": 1,
        "cores": 4.0,
        "batch_size": 32.0,
        "accel_samples_per_s": 3 / cost,
        "fetch_wall_s": cost,
        "fetch_cpu_s": cost / 2,
        "emulated": 1,
        "gpus": 0,
        "key_user_name": user,
        "key_kind": kind,
    }
    for table, row in (("runs", run), ("loader_runs", loader)):
        marks = ", ".join("?" * len(row))
        conn.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", list(row.values()))


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A settings file whose state folder is the test's own."""
    path = tmp_path / "dlqueue.toml"
    path.write_text(f'[paths]\nstate_dir = "{tmp_path}"\n')
    return path


def test_a_history_becomes_a_serving_model(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One JSON object on stdout, progress on stderr, models/current in place."""
    fill(tmp_path / "history.db", 120)
    assert main(["train", "--json", "--config", str(config)]) == 0
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert report["runs"] == 120
    assert report["promoted"], report
    assert (tmp_path / "models" / "current" / "model.json").exists()
    assert "loss" in err
    assert main(["train", "--config", str(config)]) == 0
    assert capsys.readouterr().out.startswith("not promoted: its error")


def test_a_short_history_is_said_and_is_no_failure(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A new site trains by and by; nothing is red about that."""
    fill(tmp_path / "history.db", 3)
    assert main(["train", "--config", str(config)]) == 0
    out = capsys.readouterr().out
    assert "3 runs are too few" in out
    assert "run times: not promoted: 0 ended jobs are too few, 500 are needed" in out  # no submit_s


def test_without_a_history_the_command_says_so(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 1 and one line, no traceback."""
    assert main(["train", "--config", str(config)]) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "history.db" in err


def test_without_torch_the_command_says_how_to_get_it(config: Path) -> None:
    """Training is the only room that needs torch; its absence is explained."""
    code = (
        "import sys; sys.modules['torch'] = None; from slurm_ext.cli import main;"
        f"sys.exit(main(['train', '--config', {str(config)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install 'dlqueue[train]'" in done.stderr


def test_the_columns_that_training_reads_are_those_of_history() -> None:
    """What a split by time and features need is in TRAINING_COLUMNS."""
    assert {"end_s", "user", "partition", "key_kind", "fetch_cpu_s"} <= set(TRAINING_COLUMNS)
