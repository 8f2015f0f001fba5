"""`dlqueue history import` says what came of every line, and never leaves half a history."""

import gzip
import io
import json
import os
from pathlib import Path

import pytest

from slurm_ext.cli import main
from slurm_ext.history.store.store import open_history

HEADER = "JobIDRaw|State|Submit|Start|End|NodeList"
JOB = "{}|COMPLETED|2026-10-01T10:00:00|2026-10-01T10:05:00|2026-10-01T11:05:00|n1"
LINES = "\n".join([HEADER, JOB.format(1), JOB.format("1.batch"), JOB.format(2), "3|x"]) + "\n"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Settings of a state folder that holds nothing yet."""
    (tmp_path / "dlqueue.toml").write_text(f'[paths]\nstate_dir = "{tmp_path}"\n')
    return tmp_path / "dlqueue.toml"


def imported(config: Path, *words: str) -> int:
    """The exit status."""
    return main(["history", "import", *words, "--config", str(config)])


@pytest.mark.parametrize("name", ["jobs.txt", "jobs.txt.gz"])
def test_every_line_is_accounted_for(
    config: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Plain or packed: counts for people, the same as one object for programs."""
    file = config.parent / name
    file.write_bytes(gzip.compress(LINES.encode()) if name.endswith("gz") else LINES.encode())
    assert imported(config, str(file)) == 0
    said = capsys.readouterr()
    assert "2 jobs taken" in said.out
    assert "1 skipped: steps of jobs" in said.out
    assert "line 5: 2 fields where the header has 6" in said.out
    assert said.err == ""
    assert imported(config, str(file), "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["jobs"], document["known"]) == (0, 2)


def test_a_byte_order_mark_is_no_part_of_the_header(config: Path) -> None:
    """Editors and spreadsheets of Windows begin a file by one."""
    (config.parent / "jobs").write_text(LINES, encoding="utf-8-sig")
    assert imported(config, str(config.parent / "jobs")) == 0


def test_times_are_of_the_zone_that_is_told(config: Path) -> None:
    """A file may come from elsewhere, and sacct prints the cluster's own time."""
    (config.parent / "jobs").write_text(LINES)
    assert imported(config, str(config.parent / "jobs"), "--timezone", "Asia/Tokyo") == 0
    with open_history(config.parent / "history.db") as history:
        (start_s,) = history.conn.execute("SELECT start_s FROM runs").fetchone()
    assert start_s == 1790816700.0  # 01:05 UTC


def test_standard_input_is_a_file_too(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`sacct ... | dlqueue history import -`."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(LINES.encode())))
    assert imported(config, "-") == 0


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        (b"", (), "has no column JobIDRaw"),
        (b"\xff\xfe\x00", (), "has no column JobIDRaw"),
        (LINES.encode(), ("--delimiter", ","), "has no column JobIDRaw"),
        (LINES.encode(), ("--delimiter", ""), "expected at least one character"),
        (LINES.encode(), ("--timezone", "Mars/North"), "expected a name such as"),
    ],
)
def test_what_is_no_sacct_file_is_one_clear_line(
    config: Path, text: bytes, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is taken."""
    (config.parent / "jobs").write_bytes(text)
    assert imported(config, str(config.parent / "jobs"), *words) in (1, 2)
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("name", ["missing", ".", "cut.gz"])
def test_a_file_that_cannot_be_read_is_named(
    config: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not there, a folder, cut off half-way."""
    (config.parent / "cut.gz").write_bytes(gzip.compress(LINES.encode())[:-20])
    file = str(config.parent / name)
    assert imported(config, file) == 1
    assert f"{file}: cannot be read" in capsys.readouterr().err


def test_a_file_of_nothing_but_bad_lines_fails(config: Path) -> None:
    """So that a script notices; a file in which some are bad does not."""
    (config.parent / "jobs").write_text(f"{HEADER}\nnonsense\n")
    assert imported(config, str(config.parent / "jobs")) == 1


def test_without_slurm_it_says_so(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No file and no sacct."""
    monkeypatch.setitem(os.environ, "PATH", str(config.parent))
    assert imported(config) == 1
    assert "name a FILE that it wrote where Slurm is: sacct -aXP -o" in capsys.readouterr().err


def test_a_state_folder_that_is_not_there_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The advisor owns the history: an import makes none where dlqueue is not installed."""
    config = tmp_path / "dlqueue.toml"
    config.write_text(f'[paths]\nstate_dir = "{tmp_path / "none"}"\n')
    assert imported(config, "x") == 1
    assert "is not there" in capsys.readouterr().err
