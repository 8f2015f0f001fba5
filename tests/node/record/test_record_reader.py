"""The spool record's reader: golden records pass, everything else is refused with the reason."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.node.record.bounds import OutOfBoundsError, parse
from slurm_ext.node.record.reader import MAX_BYTES, UnusableRecordError, read_record, validate

GOLDEN = Path(__file__).parents[2] / "golden" / "spool"
V1 = (GOLDEN / "v1.json").read_bytes()
BAD = sorted((Path(__file__).parents[2] / "bad_input" / "spool").glob("*.json"))

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.name)
def test_every_version_ever_shipped_is_read(path: Path) -> None:
    """A golden record comes back as it is in the file."""
    assert read_record(path) == json.loads(path.read_text())


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_bad_records_are_refused_with_the_reason(path: Path) -> None:
    """Each file's name states its fault; the error names the file."""
    with pytest.raises(UnusableRecordError, match=path.name):
        read_record(path)


def test_unknown_keys_are_kept() -> None:
    """A newer node may say more."""
    record = {**json.loads(V1), "later": {"more": [1, 2]}}
    assert validate(json.dumps(record).encode(), "x")["later"] == {"more": [1, 2]}


def test_counters_that_no_node_writes_any_more_are_read() -> None:
    """Such as those of the memory probe that earlier versions had."""
    record = json.loads(V1)
    for name, unit in (("contention_pressure", "1"), ("contention_cost", "s")):
        row = {"name": name, "unit": unit, "source": "contention/passive", "value": 0.25}
        record["counters"].append(row)
    assert validate(json.dumps(record).encode(), "x") == record


def test_control_characters_are_data() -> None:
    """Names with escapes, NUL and markup survive the reader unchanged."""
    record = json.loads(V1)
    record["identity"]["job_name"] = "\x1b[2J\0'; DROP TABLE runs; --<b>\n"
    assert validate(json.dumps(record).encode(), "x") == record


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_or_read_without_a_crash(raw: bytes) -> None:
    """No bytes raise anything but the reader's own error."""
    with pytest.raises(UnusableRecordError):
        validate(raw, "x")


@given(st.data())
def test_any_change_of_a_section_is_refused_or_read(data: st.DataObject) -> None:
    """A record with one key replaced by any JSON gives a record or the reader's own error."""
    record: dict[str, Any] = json.loads(V1)
    record[data.draw(st.sampled_from(sorted(record)))] = data.draw(JSON)
    with suppress(UnusableRecordError):
        assert validate(json.dumps(record).encode(), "x")["v"] == 1


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e400", "1" + "0" * 400, "1e18"])
def test_numbers_without_meaning_are_refused(number: str) -> None:
    """NaN, infinities and numbers beyond 1e18 never reach the history."""
    with pytest.raises(OutOfBoundsError):
        parse(f'{{"x": [{number}]}}'.encode())


def test_links_fifos_devices_and_giants_are_refused(tmp_path: Path) -> None:
    """None is followed, waited for or read."""
    (tmp_path / "link").symlink_to(GOLDEN / "v1.json")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    with (tmp_path / "giant").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    for name in ("link", "fifo", "folder", "giant"):
        with pytest.raises(UnusableRecordError, match=name):
            read_record(tmp_path / name)
    with pytest.raises(UnusableRecordError):
        read_record("/dev/zero")


def test_a_record_that_is_gone_is_told_apart(tmp_path: Path) -> None:
    """A missing file is an OSError, not a bad record."""
    with pytest.raises(FileNotFoundError):
        read_record(tmp_path / "none.json")
