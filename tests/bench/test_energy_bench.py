"""The energy benchmark on a small table: runs, tells repairs, lists targets, refuses bad input."""

import gzip
import json
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.bench.program import run_bench

pytest.importorskip("lightgbm")

START = datetime(2017, 10, 3, tzinfo=UTC)


def table(folder: Path, first: int, slots: int, *more: str, without: int = -1) -> Path:
    """Philly's table, made up: a day of ten hours' work, a row a slot."""
    lines = ["time,active_nodes,total_nodes"]
    for slot in range(first, first + slots):
        active = 80 if 48 <= slot % 144 < 108 else 30
        when = START + timedelta(minutes=10 * slot)
        if slot != without:
            lines.append(f"{when:%Y-%m-%d %H:%M:%S},{active},100")
    folder.mkdir()
    with gzip.open(folder / "philly_active_nodes_1min.csv.gz", "wt") as file:
        file.write("\n".join([*lines, *more]) + "\n")
    return folder


def bench(train: Path, test: Path) -> subprocess.CompletedProcess[str]:
    """One quick run."""
    args = ("--train", str(train), "--test", str(test), "--quick", "--json")
    return run_bench("energy", *args)


def test_later_weeks_are_replayed_beside_the_baselines(tmp_path: Path) -> None:
    """A daily rhythm is foretold and slept through; the gap is told, the targets are listed."""
    train = table(tmp_path / "train", 0, 3500, without=77)
    done = bench(train, table(tmp_path / "test", 3500, 432))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    philly = told["figures"]["philly"]
    assert (philly["slots"], philly["serves"]) == (432, "learned")
    assert philly["told"] == ["philly: 1 slots without a row are as before"]
    ours = philly["policy"]["ours"]
    assert ours["utilisation"] > ours["utilisation_before"]
    three = philly["forecast"]["3h"]
    assert three["ours"]["smape"] < three["persistence"]["smape"]
    assert {"CES, persistence", "ours, no bound"} < set(philly["policy"])
    assert len(told["wanted"]) == 4


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("yesterday,1,2", ":12: expected a time and numbers in active_nodes, total_nodes"),
        ("2017-12-01 00:00:00,-1,2", ":12: expected 0 or above"),
        ("2017-12-01 00:00:00,nan,2", ":12: expected 0 or above"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, line: str, said: str) -> None:
    """Nothing is dropped in silence: the file, the line and what is expected."""
    folder = table(tmp_path / "one", 0, 10, line)
    done = bench(folder, folder)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_test_that_is_not_later_is_refused(tmp_path: Path) -> None:
    """A split by time."""
    done = bench(table(tmp_path / "a", 0, 20), table(tmp_path / "b", 10, 20))
    assert done.returncode == 1
    assert "begins before" in done.stderr
