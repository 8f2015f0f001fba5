"""The worker's duties: records come first, and no job's leavings end any of them."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_ext.node.common import log
from slurm_ext.node.record.reader import MAX_BYTES, read_record
from slurm_ext.node.transport import deliver, housekeeping
from slurm_ext.node.transport import worker as transport_worker
from tests.node.by_hand import Node

V1 = Path(__file__).parents[2] / "golden" / "spool" / "v1.json"
GOLDEN = Path(__file__).parents[2] / "golden" / "probe" / "v1.json"


@pytest.fixture
def logged(node: Node, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """What the hooks have reported."""
    node.spool.prepare()
    monkeypatch.setattr(log, "folder", node.spool.root)
    return lambda: Path(node.spool.root, "hooks.log").read_text()


def _put(node: Node, *names: str) -> None:
    node.spool.prepare()
    for age, name in enumerate(reversed(names)):
        Path(node.spool.out_file(name)).write_text(V1.read_text())
        os.utime(node.spool.out_file(name), (1000 - age, 1000 - age))


def _ended(node: Node, key: str, depth: int) -> Path:
    """The run folder of a job that has its record, with folders one inside the other."""
    node.spool.prepare()
    run = Path(node.spool.run_dir(key))
    run.mkdir()
    Path(node.spool.state_file(key, "done")).touch()
    here = Path.cwd()
    try:
        os.chdir(run)
        for _ in range(depth):
            Path("d").mkdir()
            os.chdir("d")
    finally:
        os.chdir(here)
    os.utime(run, (4e9, 4e9))  # its user says that it is young
    return run


def test_nested_folders_end_no_delivery(node: Node) -> None:
    """1,500 levels, and a time in the future: records go, and so does the folder."""
    run = _ended(node, "5.0", 1500)
    _put(node, "a")
    node.ship()
    assert [path.name for path in node.arrived()] == ["a.json"]
    assert not run.exists()


def test_what_is_left_when_time_ends_goes_in_later_rounds(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker stays for it, and delivers in between."""
    monkeypatch.setattr(housekeeping, "CLEAR_S", 0.001)
    monkeypatch.setattr(transport_worker, "LONGEST_PAUSE_S", 0.001)
    monkeypatch.setattr(transport_worker, "FIRST_PAUSE_S", 0.001)
    run = _ended(node, "5.0", 1500)
    transport_worker.deliver_records(node.config)
    assert not run.exists()


@pytest.mark.parametrize(
    "broken", ["_finish", "_end_mps", "_clear_run_folders", "_sweep", "keep_within"]
)
def test_each_duty_fails_alone(
    node: Node, logged: Callable[[], str], monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """Whichever raises, it is reported, the others are done and the records are delivered."""

    def fail(*_: object) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr(housekeeping, broken, fail)
    run = _ended(node, "5.0", 1)
    _put(node, "a")
    transport_worker.deliver_records(node.config, life_s=1.0)
    assert [path.name for path in node.arrived()] == ["a.json"]
    assert "RecursionError: too deep" in logged()
    assert run.exists() == (broken == "_clear_run_folders")


def test_a_transport_that_fails_leaves_the_house_kept(
    node: Node, logged: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault nobody foresaw in the sending: the run folders go all the same."""

    def fail(*_: object) -> None:
        raise MemoryError("of the transport")

    monkeypatch.setattr(deliver, "open_channel", fail)
    run = _ended(node, "5.0", 1)
    _put(node, "a")
    transport_worker.deliver_records(node.config, life_s=0.1)
    assert not run.exists()
    assert "MemoryError" in logged()


def test_a_record_that_no_reader_takes_holds_up_no_other(
    node: Node, logged: Callable[[], str]
) -> None:
    """Larger than a record may be, or no file at all: it is put aside, the next ones go."""
    _put(node, "a", "b", "c")
    os.truncate(node.spool.out_file("a"), MAX_BYTES + 1)
    os.utime(node.spool.out_file("a"), (1, 1))
    Path(node.spool.out_file("b")).unlink()
    Path(node.spool.out_file("b")).mkdir()
    transport_worker.deliver_records(node.config, life_s=1.0)
    assert [path.name for path in node.arrived()] == ["c.json"]
    names = sorted(path.name for path in Path(node.spool.out).iterdir())
    assert names == ["a.json.refused", "b.json.refused"]
    assert "has 4194305 bytes" in logged()


def test_a_record_that_cannot_be_written_there_holds_up_no_other(node: Node) -> None:
    """Something in its place at the advisor's: it waits, and those behind it are delivered."""
    _put(node, *"abcdefgh")
    for taken in "abcde":  # more than may fail in a row
        (node.folder / f"{taken}.json").mkdir()
    transport_worker.deliver_records(node.config, life_s=3.0)
    assert [path.name for path in node.arrived() if path.is_file()] == [
        f"{name}.json" for name in "fgh"
    ]
    assert len(node.waiting()) == 5


def test_summaries_that_grow_in_the_record_leave_it_readable(node: Node) -> None:
    """Texts that JSON writes longer than the user did: the record stays within its bounds."""
    summary = json.loads(GOLDEN.read_text())
    summary["faults"] = ["é" * 4096] * 24
    raw = json.dumps(summary, ensure_ascii=False)
    node.prolog(57)
    for number in range(1, 60):
        (node.root / f"spool/run/57.0/summary-{number}.json").write_text(raw)
    node.epilog(57)
    (record,) = node.delivered()
    assert read_record(node.arrived()[0])["probe"] == record["probe"]
    assert record["probe"]["summaries"][0]["faults"] == summary["faults"]
    assert "no room left" in record["probe"]["faults"][-1]


def test_large_records_take_no_room_from_small_ones(node: Node) -> None:
    """Where the spool is full, a user's large records go before the older ones of the others."""
    _put(node, "old", "older")
    large = json.loads(V1.read_text())
    large["timeline"] = None
    large["probe"]["summaries"] = [{"x": "y" * 100_000}]
    for number in range(8):
        Path(node.spool.out_file(f"large{number}")).write_text(json.dumps(large))
    housekeeping.keep_within(node.spool, 300_000)
    assert {"old.json", "older.json"} <= set(node.waiting())
    assert len(node.waiting()) == 4
