"""A job that fills its run folder: it is emptied and closed, and no other file is touched."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_ext.node.sampling import run_folder
from slurm_ext.node.sampling.run_folder import RunFolder
from tests.node.by_hand import Node, wait_for

GOLDEN = Path(__file__).parents[2] / "golden" / "probe" / "v1.json"
USER = 65534


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A user's run folder with an honest summary."""
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    (folder / "summary-1.json").write_text(GOLDEN.read_text())
    (folder / "decision").write_text("d1-0123456789abcdef")
    for path in (folder, *folder.iterdir()):
        os.chown(path, USER, USER)
    return folder


def _look(run: Path) -> list[str]:
    watched = RunFolder(str(run), USER)
    for _ in range(200):
        watched.look()
        if not watched.faults or len(list(run.iterdir())) <= 2:
            break
    return watched.faults


def _write(path: Path, size: int) -> None:
    path.write_bytes(b"x" * size)
    os.chown(path, USER, USER)


def _many(run: Path, name: str, count: int, size: int) -> None:
    for number in range(2, count + 2):
        _write(run / name.format(number), size)


def _folders(run: Path, count: int) -> Path:
    for number in range(count):
        (run / f"d{number}").mkdir()
    return run / "d0"


_FILL: dict[str, Callable[[Path], object]] = {
    "bytes": lambda run: _write(run / "big", 3_000_000),
    "files": lambda run: _many(run, "f{}", 300, 0),
    "folders": lambda run: _folders(run, 300),
    "depth": lambda run: (run / "/".join("d" * 50)).mkdir(parents=True),
    "below": lambda run: _many(_folders(run, 1), "f{}", 1, 3_000_000),
    "summaries": lambda run: _many(run, "summary-{}.json", 10, 300_000),
    "empty summaries": lambda run: _many(run, "summary-{}.json", 300, 0),
}

pytestmark = pytest.mark.root


def test_an_honest_folder_stays_as_it_is(run: Path) -> None:
    """Its user's, with everything in it."""
    (run / "own").mkdir()
    _write(run / "own" / "file", 1_000_000)
    _write(run / "scratch", 1_000_000)
    assert _look(run) == []
    assert run.stat().st_uid == USER
    assert (run / "own" / "file").stat().st_size == 1_000_000


@pytest.mark.parametrize("how", _FILL)
def test_a_filled_folder_is_emptied_and_closed(
    run: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """By bytes, entries or depth; what the record needs stays, its user puts nothing more in."""
    monkeypatch.setattr(run_folder, "MAX_BYTES", 2_000_000)
    monkeypatch.setattr(run_folder, "MAX_ENTRIES", 200)
    _FILL[how](run)
    assert _look(run) == [run_folder.CLOSED]
    assert {path.name for path in run.iterdir()} == {"summary-1.json", "decision"}
    assert (run.stat().st_uid, run.stat().st_mode & 0o777) == (0, 0o700)
    assert (run / "summary-1.json").read_text() == GOLDEN.read_text()


def test_a_file_held_open_gives_its_room_back(run: Path) -> None:
    """Also through a name in the folder alone; one that has a name elsewhere keeps its content."""
    _write(run / "big", run_folder.MAX_BYTES + 1)
    _write(run.parent / "mine", 1000)
    (run / "link").hardlink_to(run.parent / "mine")
    (run / "away").symlink_to(run.parent / "mine")
    os.mkfifo(run / "fifo")
    with (run / "big").open("rb") as held:
        assert _look(run) == [run_folder.CLOSED]
        assert os.fstat(held.fileno()).st_size == 0
    assert (run.parent / "mine").stat().st_size == 1000


@pytest.mark.parametrize("name", ["held", "d0/held"])
def test_a_file_that_is_written_on_is_cut_again_and_again(run: Path, name: str) -> None:
    """Without a name, an open file would grow unseen until the job's end."""
    _folders(run, 1)
    _write(run / name, run_folder.MAX_BYTES + 1)
    with (run / name).open("ab") as held:
        for _ in range(3):
            held.write(bytes(1000))
            held.flush()
            assert _look(run) == [run_folder.CLOSED]
            assert os.fstat(held.fileno()).st_size == 0
            assert os.fstat(held.fileno()).st_nlink == 1
    assert _look(run) == [run_folder.CLOSED]
    assert {path.name for path in run.iterdir()} == {"summary-1.json", "decision"}


def test_a_file_counts_with_its_whole_length(run: Path) -> None:
    """Its pages may be filled through memory, which no look and no signal would tell."""
    (run / "sparse").touch()
    os.truncate(run / "sparse", run_folder.MAX_BYTES + 1)
    assert _look(run) == [run_folder.CLOSED]


def test_somebody_elses_file_is_not_cut(run: Path) -> None:
    """One that a root process wrote there, or a link to a stranger's: its content stays."""
    _write(run / "big", run_folder.MAX_BYTES + 1)
    os.chown(run / "big", 0, 0)
    with (run / "big").open("rb") as held:
        assert _look(run) == [run_folder.CLOSED]
        assert os.fstat(held.fileno()).st_size == run_folder.MAX_BYTES + 1


def test_a_folder_that_vanished_is_no_fault(run: Path) -> None:
    """Its user may remove it."""
    watched = RunFolder(str(run / "none"), USER)
    watched.look()
    assert watched.faults == []


def test_a_filling_job_ends_as_every_other(node: Node) -> None:
    """Its processes go on, its record says what happened and has the summary of before."""
    node.prolog(5, SLURM_JOB_UID=str(USER))
    run = node.root / "spool/run/5.0"
    code = f"""
import os, time
open({str(run / "summary-7.json")!r}, "w").write({GOLDEN.read_text()!r})
for n in range(5000):
    try: open({str(run)!r} + f"/f{{n}}", "w").close()
    except OSError: pass
while os.access({str(run)!r}, os.W_OK): time.sleep(0.01)
try: open({str(run / "more")!r}, "w")
except PermissionError: print("closed")
"""
    env = {"SLURM_JOB_ID": "5", "SLURMD_NODENAME": "n1"}
    argv = ["/usr/bin/python3", "-I", "-S", "-c", code]
    done = subprocess.run(argv, env=env, user=USER, group=USER, cwd="/", capture_output=True)
    assert done.stdout == b"closed\n"
    wait_for(lambda: len(list(run.iterdir())) == 1)
    node.epilog(5, SLURM_JOB_UID=str(USER))
    (record,) = node.delivered()
    assert record["probe"]["summaries"] == [json.loads(GOLDEN.read_text())]
    assert run_folder.CLOSED in record["probe"]["faults"]
