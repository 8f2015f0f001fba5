"""A flat file of rows: exact text, whole or not at all, with errors that say what to do."""

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.core.errors import InputError, MissingError
from slurm_ext.history.views import export

NAMES = ["id", "rate", "name"]
KINDS = {"id": "INTEGER", "rate": "REAL", "name": "TEXT"}
ROWS: list[dict[str, Any]] = [
    {"id": 1, "rate": 2.5, "name": 'a,"b"'},
    {"id": 2, "rate": None, "name": "深"},
]
CSV = 'id,rate,name\n1,2.5,"a,""b"""\n2,,深\n'
JSONL = '{"id":1,"rate":2.5,"name":"a,\\"b\\""}\n{"id":2,"rate":null,"name":"\\u6df1"}\n'


@pytest.mark.parametrize(("form", "text"), [("csv", CSV), ("jsonl", JSONL)])
def test_a_file_is_written_whole(tmp_path: Path, form: str, text: str) -> None:
    """In UTF-8 with plain line ends, for its owner and group; one that was there is replaced."""
    output = tmp_path / "runs"
    for _ in range(2):
        output.unlink(missing_ok=True)
        umask = os.umask(0)
        export.write(ROWS, NAMES, KINDS, form, output)
        os.umask(umask)
        assert output.read_bytes() == text.encode()
        assert stat.S_IMODE(output.stat().st_mode) == 0o640
    output.write_text("old")
    export.write([], NAMES, KINDS, form, output)
    assert output.read_text() == ("id,rate,name\n" if form == "csv" else "")
    assert list(tmp_path.iterdir()) == [output]


@pytest.mark.parametrize(("form", "text"), [("csv", CSV), ("jsonl", JSONL)])
def test_without_a_file_it_goes_to_standard_output(
    capsys: pytest.CaptureFixture[str], form: str, text: str
) -> None:
    """The same text."""
    export.write(ROWS, NAMES, KINDS, form, None)
    assert capsys.readouterr().out == text


def test_parquet_goes_to_no_terminal() -> None:
    """It is binary; the message names the option."""
    with pytest.raises(InputError) as error:
        export.write(ROWS, NAMES, KINDS, "parquet", None)
    assert str(error.value) == "--output: Parquet is binary: name a file"


def test_parquet_keeps_the_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole numbers, floats and texts, what is not known as text; rows of every group are there."""
    parquet = pytest.importorskip("pyarrow.parquet")
    assert export._GROUP == 10_000
    monkeypatch.setattr(export, "_GROUP", 1)
    rows = [{**row, "more": "x"} for row in ROWS]
    export.write(rows, [*NAMES, "more"], KINDS, "parquet", tmp_path / "runs")
    table = parquet.read_table(tmp_path / "runs")
    assert [str(field.type) for field in table.schema] == ["int64", "double", "string", "string"]
    assert table.to_pylist() == rows
    assert parquet.ParquetFile(tmp_path / "runs").num_row_groups == len(rows)


def test_parquet_without_pyarrow_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Install it, or take CSV; nothing is left behind."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingError) as error:
        export.write(ROWS, NAMES, KINDS, "parquet", tmp_path / "runs")
    assert str(error.value) == (
        "Parquet needs pyarrow, which is not installed; `pip install pyarrow`, or export --format"
        " csv"
    )
    assert list(tmp_path.iterdir()) == []


def torn() -> Iterator[dict[str, Any]]:
    """A row, and then an error of the history."""
    yield ROWS[0]
    raise KeyError("torn")


def test_an_error_leaves_the_old_file(tmp_path: Path) -> None:
    """And no half of the new one."""
    output = tmp_path / "runs"
    output.write_text("old")
    with pytest.raises(KeyError):
        export.write(torn(), NAMES, KINDS, "csv", output)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


@pytest.mark.parametrize(
    ("name", "why"),
    [("absent/runs", "No such file or directory"), (".", "Is a directory")],
)
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, name: str, why: str) -> None:
    """With the system's reason."""
    output = tmp_path / name
    with pytest.raises(InputError) as error:
        export.write(ROWS, NAMES, KINDS, "csv", output)
    assert str(error.value) == f"{output}: cannot be written: {why}"


def test_a_device_is_written_to_itself(tmp_path: Path) -> None:
    """A link to one stays a link."""
    output = tmp_path / "null"
    output.symlink_to("/dev/null")
    export.write(ROWS, NAMES, KINDS, "jsonl", output)
    assert output.is_symlink()
    assert list(tmp_path.iterdir()) == [output]


def test_the_formats_that_are_offered() -> None:
    """Their names on the command line."""
    assert export.FORMATS == ("csv", "jsonl", "parquet")


def test_a_file_is_utf_8_whatever_the_locale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its encoding is named, not left to the machine."""
    how: list[dict[str, Any]] = []
    opened = Path.open

    def recording(self: Path, mode: str = "r", **options: Any) -> Any:
        how.append({"mode": mode, **options})
        return opened(self, mode, **options)

    monkeypatch.setattr(Path, "open", recording)
    export.write(ROWS, NAMES, KINDS, "csv", tmp_path / "runs")
    assert how == [{"mode": "w", "encoding": "utf-8", "newline": ""}]
