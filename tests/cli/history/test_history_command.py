import csv
import io
import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contrib.bench.common import synthetic_history
from slurm_ext.cli import main
from slurm_ext.core.csv_cells import csv_cell
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store.store import open_history

GOLDEN = Path(__file__).parents[2] / "golden" / "spool" / "v1.json"
HOSTILE = "\x1b]0;owned\x07\x1b[2J\n[red]bold[/red] <b>'); DROP TABLE runs;--\0ü"
Dlqueue = Callable[..., str]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder with thirty synthetic runs and the golden one, under a hostile name."""
    spool = tmp_path / "spool"
    synthetic_history.write_records(spool, 1, 30)
    golden = json.loads(GOLDEN.read_text())
    golden["identity"]["job_name"] = HOSTILE
    (spool / "golden.json").write_text(json.dumps(golden))
    with open_history(tmp_path / "history.db") as history:
        ingest_folder(history, spool, now_s=2e9)
    return tmp_path


@pytest.fixture
def dlqueue(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Dlqueue:
    """Runs `dlqueue history` in this process; returns its output (failing: stderr too)."""
    config = tmp_path / "dlqueue.toml"
    config.write_text(f'[paths]\nstate_dir = "{state}"\n')
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: str, status: int = 0) -> str:
        assert main(["history", *words, "--config", str(config)]) == status
        out, err = capsys.readouterr()
        return out if status == 0 else out + err

    return run


def listed(out: str) -> list[dict[str, Any]]:
    """The runs of `ls --json`."""
    runs: list[dict[str, Any]] = json.loads(out)["runs"]
    return runs


def test_ls_lists_the_newest_first(dlqueue: Dlqueue) -> None:
    """Twenty by default; the order is that of the ends."""
    runs = listed(dlqueue("ls", "--json"))
    ends = [run["end_s"] for run in runs]
    assert len(runs) == 20
    assert ends == sorted(ends, reverse=True)
    assert runs[0]["job_id"] == 1042
    assert runs[0]["loader_workers"] == 4


def test_figures_stay_whole_in_a_narrow_terminal(
    dlqueue: Dlqueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names give way first: a head and a date are on one line at 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    out = dlqueue("ls")
    assert "samples/s" in out
    assert re.search(r"20\d\d-\d\d-\d\d \d\d:\d\d", out)


def test_json_may_stand_before_the_verb(dlqueue: Dlqueue, capsys: Any) -> None:
    """`dlqueue history --json ls` is the same as `dlqueue history ls --json`."""
    assert listed(dlqueue("--json", "ls", "--limit", "1"))[0]["job_id"] == 1042


def test_filters_are_conditions_that_all_hold(dlqueue: Dlqueue) -> None:
    """User, partition, time and number."""
    everything = listed(dlqueue("ls", "--json", "--limit", "1000"))
    assert len(everything) == 31
    user = everything[3]["user"]
    mine = listed(dlqueue("ls", "--json", "--user", user, "--partition", "gpu"))
    assert mine == [run for run in everything if run["user"] == user]
    assert listed(dlqueue("ls", "--json", "--partition", "nowhere")) == []
    middle = everything[10]["end_s"]
    later = listed(dlqueue("ls", "--json", "--since", "2025-09-01"))
    assert [run["job_id"] for run in later] == [1042]
    assert middle < 1_756_000_000
    assert listed(dlqueue("ls", "--json", "--since", "1m")) == []
    assert len(listed(dlqueue("ls", "--json", "--limit", "3"))) == 3


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--since", "yesterday"), "--since 'yesterday' is not a time: try 7d"),
        (("--since", "9999999d"), "is not a time"),
        (("--limit", "0"), "--limit 0: a number from 1 to 1000000000 is wanted"),
        (("--limit", "9" * 20), "a number from 1 to 1000000000 is wanted"),
        (("--limit", "-5"), "--limit -5"),
    ],
)
def test_wrong_options_say_what_is_valid(
    dlqueue: Dlqueue, words: tuple[str, ...], says: str
) -> None:
    """Exit 2 and one line."""
    said = dlqueue("ls", *words, status=2)
    assert says in said
    assert said.count("\n") == 1


def test_hostile_names_are_shown_and_not_obeyed(dlqueue: Dlqueue) -> None:
    """No terminal escape, no new line, no markup of a job's name reaches the terminal."""
    for out in (dlqueue("ls"), dlqueue("show", "1042")):
        assert "\x1b" not in out
        assert "\x07" not in out
        assert r"\x1b]0;owned\x07\x1b[2J\n[red]bold[/red]" in out.replace("\n", "")
    assert listed(dlqueue("ls", "--json"))[0]["job_name"] == HOSTILE


def test_a_rate_without_an_accelerator_is_labelled(dlqueue: Dlqueue) -> None:
    """Nobody takes an emulated step's figure for an accelerator's."""
    assert "129.1 emulated" in dlqueue("ls", "--limit", "1")


def test_show_tells_counters_figures_and_decision(dlqueue: Dlqueue) -> None:
    """For people and as JSON, where also the probe's own summaries and the time line are."""
    out = dlqueue("show", "1042")
    for word in ("cpu_throttled", "cgroup/v1", "vision", "COMPLETED", "loader workers", "1041"):
        assert word in out
    known = json.loads(dlqueue("show", "1042", "--json"))
    golden = json.loads(GOLDEN.read_text())
    assert known["runs"][0]["probe"] == golden["probe"]
    assert known["runs"][0]["timeline"] == golden["timeline"]
    assert known["decision"] is None


def test_an_unknown_job_is_told(dlqueue: Dlqueue) -> None:
    """Exit 1, and why it may not be there yet."""
    assert "knows nothing of job 77" in dlqueue("show", "77", status=1)


@pytest.mark.parametrize(
    ("word", "says"),
    [("104_2", "is not a job's own number"), ("9" * 20, "is neither a job id"), ("✓", "neither")],
)
def test_a_word_that_is_no_number_shows_no_job(dlqueue: Dlqueue, word: str, says: str) -> None:
    """Job 1042 is not shown for task 2 of array 104."""
    assert says in dlqueue("show", word, status=2)


def test_no_history_is_told(dlqueue: Dlqueue, state: Path) -> None:
    """Exit 1, one line, and none is created."""
    (state / "history.db").unlink()
    said = dlqueue("ls", status=1)
    assert "does not exist yet; `dlqueue serve` creates it" in said
    assert not (state / "history.db").exists()


def test_csv_and_json_lines_hold_the_same_runs(dlqueue: Dlqueue, state: Path) -> None:
    """To standard output or to a file; any text survives both, in CSV as one that obeys nothing."""
    as_csv = dlqueue("export")
    as_lines = dlqueue("export", "--format", "jsonl")
    rows = list(csv.DictReader(io.StringIO(as_csv)))
    objects = [json.loads(line) for line in as_lines.splitlines()]
    assert len(rows) == len(objects) == 31
    assert list(rows[0]) == list(objects[0])
    for row, thing in zip(rows, objects, strict=True):
        assert row == {k: "" if v is None else str(csv_cell(v)) for k, v in thing.items()}
    assert rows[0]["job_name"] == csv_cell(HOSTILE)
    assert objects[0]["job_name"] == HOSTILE
    for form, wanted in (("csv", as_csv), ("jsonl", as_lines)):
        file = state / f"runs.{form}"
        told = json.loads(dlqueue("export", "--json", "--format", form, "--output", str(file)))
        assert told == {"runs": 31, "format": form, "output": str(file)}
        assert file.read_text(encoding="utf-8") == wanted


def test_an_empty_export_has_its_head(dlqueue: Dlqueue) -> None:
    """The columns are there also where no run is."""
    assert dlqueue("export", "--user", "nobody").startswith("id,record_id,cluster,job_id,")


def test_parquet_or_what_is_missing(dlqueue: Dlqueue, state: Path) -> None:
    """With pyarrow the file reads back; without, one line says how to get it; no half file."""
    file = state / "runs.parquet"
    words = ("export", "--format", "parquet", "--output", str(file))
    try:
        import pyarrow.parquet as pq
    except ImportError:
        assert "pip install pyarrow" in dlqueue(*words, status=1)
        assert not file.exists()
    else:
        dlqueue(*words)
        table = pq.read_table(file)
        assert table.num_rows == 31
        assert table.column("job_name")[0].as_py() == HOSTILE
    assert [path.name for path in state.glob(".runs*")] == []


def test_parquet_needs_a_file(dlqueue: Dlqueue) -> None:
    """Binary is not thrown at a terminal."""
    assert "name a file" in dlqueue("export", "--format", "parquet", status=1)


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_device_is_written_to_and_stays_one(dlqueue: Dlqueue, state: Path, form: str) -> None:
    """As /dev/null does: root's export there must not leave a plain file in its place."""
    if form == "parquet":
        pytest.importorskip("pyarrow")
    null = state / "null"
    try:
        os.mknod(null, stat.S_IFCHR | 0o666, Path("/dev/null").stat().st_rdev)
        null.write_bytes(b"")
    except PermissionError:
        pytest.skip("no devices can be made here")
    dlqueue("export", "--format", form, "--output", str(null))
    assert stat.S_ISCHR(null.stat().st_mode)


def test_an_export_to_standard_output_is_no_document(dlqueue: Dlqueue) -> None:
    """--json prints one document or says what to do: rows are in a form of their own."""
    assert "--format jsonl" in dlqueue("export", "--json", status=2)


def test_an_export_is_not_for_everybody(dlqueue: Dlqueue, state: Path) -> None:
    """It holds other users' job names, as the history does."""
    dlqueue("export", "--output", str(state / "runs.csv"))
    assert (state / "runs.csv").stat().st_mode & 0o007 == 0
    assert not list(state.glob(".*.part"))


def test_an_export_that_cannot_be_written_leaves_nothing(dlqueue: Dlqueue, state: Path) -> None:
    """The error names the file."""
    said = dlqueue("export", "--output", str(state / "absent" / "runs.csv"), status=1)
    assert "cannot be written: No such file or directory" in said


def test_a_reader_that_leaves_early_sees_no_traceback(state: Path) -> None:
    """`dlqueue history export | head -1`."""
    config = state / "dlqueue.toml"
    config.write_text(f'[paths]\nstate_dir = "{state}"\n')
    words = [sys.executable, "-m", "slurm_ext.cli", "history", "export", "--config", str(config)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()
