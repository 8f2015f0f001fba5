"""A worker's file of totals: whatever becomes of its disk or its name, the worker lives."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.probe.counters.fetching import WorkerMeter
from slurm_ext.probe.stalls import fetch_file
from slurm_ext.probe.stalls.fetch_times import FetchTimes

ROOT = Path(__file__).parents[2]
FULL = """
mount -t tmpfs -o size=16k none "$1"
head -c 16384 /dev/zero > "$1/other"
cd "$2"; python=$3; folder=$1; shift 3
exec "$python" -c "$1" "$folder"
"""
FETCH = """
import os, sys
from slurm_ext.probe.counters.fetching import WorkerMeter
from slurm_ext.probe.stalls import fetch_file
fetcher = type("Fetcher", (), {"auto_collation": True})()
meter = WorkerMeter(sys.argv[1], None)
fetched = lambda: meter.fetch(lambda _, index: index, fetcher, [0] * 3)
known = lambda: fetch_file.read_totals(fetch_file.path_of(sys.argv[1], os.getpid()))[:2]
fetched()
print(known())
os.unlink(os.path.join(sys.argv[1], "other"))
fetched()
print(known())
"""


class Fetcher:
    """Stands for torch's fetcher of batches."""

    auto_collation = True


def _fetched(meter: WorkerMeter) -> Any:
    return meter.fetch(lambda _fetcher, index: index, Fetcher(), [0] * 3)


@pytest.mark.root
def test_a_full_disk_ends_no_worker(tmp_path: Path) -> None:
    """Its fetches go by unmeasured, and are all told once there is room again."""
    words = ["sh", "-euc", FULL, "sh", str(tmp_path), str(ROOT), sys.executable, FETCH]
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", *words], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "(0.0, 0.0)\n(6.0, 2.0)\n"


def test_a_file_that_somebody_cuts_ends_no_worker(tmp_path: Path) -> None:
    """The node cuts what lies in a run folder that its user filled; the next fetch tells all."""
    child = os.fork()
    if child == 0:
        meter = WorkerMeter(str(tmp_path), None)
        _fetched(meter)
        os.truncate(fetch_file.path_of(str(tmp_path), os.getpid()), 0)
        _fetched(meter)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert fetch_file.read_totals(fetch_file.path_of(str(tmp_path), child))[:2] == (6.0, 2.0)


def test_a_descriptor_that_the_job_took_over_is_not_written(tmp_path: Path) -> None:
    """A program that closes all files and opens its own may be given the number of ours."""
    os.close(number := os.open(os.devnull, os.O_RDONLY))  # the next file's number
    ours = fetch_file.FetchFile(fetch_file.path_of(str(tmp_path), 7))
    (tmp_path / "theirs").write_bytes(b"weights")
    theirs = os.open(tmp_path / "theirs", os.O_RDWR)
    os.dup2(theirs, number)
    ours.publish((1.0,) * 8, FetchTimes(), 0)
    assert (tmp_path / "theirs").read_bytes() == b"weights"
    os.close(theirs)
    os.close(number)
