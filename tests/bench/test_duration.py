"""The duration benchmark on small tables: runs, names what it leaves out, judges every period."""

import gzip
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.bench.program import run_bench

pytest.importorskip("lightgbm")


def table(folder: Path, first: int, jobs: int, last_line: str = "") -> Path:
    """NASA's table, made up: two users of two lengths, a job a minute."""
    random = np.random.default_rng(first)
    lines = ["job,submit_s,duration_s,procs,user,group,exe,queue,censored"]
    for job in range(first, first + jobs):
        user = int(random.integers(2))
        duration_s = int((20, 2000)[user] * random.lognormal(sigma=0.5))
        lines.append(f"{job},{job * 60},{duration_s},8,{user},1,3,-1,0")
    folder.mkdir()
    with gzip.open(folder / "nasa_ipsc.csv.gz", "wt") as file:
        file.write("\n".join([*lines, last_line]))
    return folder


def bench(train: Path, test: Path) -> subprocess.CompletedProcess[str]:
    """One quick run."""
    args = ("--train", str(train), "--test", str(test), "--quick", "--json")
    return run_bench("duration", *args)


def test_a_later_folder_is_foretold(tmp_path: Path) -> None:
    """Users are told apart, bad rows and absent traces are named, targets are listed."""
    bad = "9999,999999,-5,8,1,1,3,-1,0\n"
    train = table(tmp_path / "train", 0, 1200, bad)
    done = bench(train, table(tmp_path / "test", 1200, 600))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    nasa = told["figures"]["nasa"]
    assert nasa["n"] == 600
    assert nasa["ours"]["log_r2"] > 0.8 > nasa["baselines"]["median"]["log_r2"]
    assert 0.8 < nasa["ours"]["coverage90"] < 1
    said = " ".join(told["figures"]["skipped"])
    assert "nasa_ipsc.csv.gz:1202: left out: duration_s = '-5'" in said
    assert "philly_jobs.csv.gz" in said
    assert [row["what"].split(":")[0] for row in told["wanted"]] == ["nasa", "nasa"]


def test_a_folder_without_traces_is_an_error(tmp_path: Path) -> None:
    """No traceback: the files that are looked for are named."""
    done = bench(tmp_path, tmp_path)
    assert done.returncode == 1
    assert "nasa_ipsc.csv.gz" in done.stderr
    assert "Traceback" not in done.stderr
