"""Files of actions: one a day, read once, kept for a day."""

import time
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from slurm_ext.core.actions import encode_action
from slurm_ext.history.ingest import actions
from slurm_ext.history.ingest.actions import action_files, actions_of, record_actions
from slurm_ext.history.store.store import History
from tests.history.ingest.ingest_examples import action

DAY_S = 86400.0


def test_files_of_actions_by_day(ledger: Path) -> None:
    """Oldest first, whichever loop wrote them; other names, folders and links are not looked at."""
    folder = ledger.parent
    for name in ("energy-19700103.jsonl", "zebra-19691231.jsonl", "pair-197001011.jsonl"):
        (folder / name).touch()
    for name in ("Pair-19700101.jsonl", "pair-19700101.json", "-19700101.jsonl"):
        (folder / name).touch()
    (folder / "elastic-19700101.jsonl").mkdir()
    (folder / "pair-19700105.jsonl").symlink_to(ledger)
    found = [path.name for path in action_files(folder)]
    assert found == ["zebra-19691231.jsonl", "queue-19700101.jsonl", "energy-19700103.jsonl"]
    assert action_files(folder / "absent") == []
    assert action_files(ledger) == []


@pytest.mark.parametrize(("now_s", "stays"), [(2 * DAY_S - 1, True), (2 * DAY_S, False)])
def test_a_days_file_stays_until_a_day_has_passed(
    history: History, ledger: Path, now_s: float, stays: bool
) -> None:
    """By the clock of Greenwich, whatever the zone; how far it was read goes with it."""
    assert actions.DAY_S == DAY_S
    time.tzset()
    report = record_actions(history, ledger, now_s=now_s)
    assert (report.new, report.bad_lines, ledger.exists()) == (1, 0, stays)
    read = [("moves/queue-19700101.jsonl", ledger.stat().st_size)] if stays else []
    assert history.conn.execute("SELECT * FROM journals").fetchall() == read


def test_a_file_as_long_as_before_is_not_read_again(history: History, ledger: Path) -> None:
    """A shorter one is another; a bad line of it is noted with its reason."""
    assert record_actions(history, ledger, now_s=0.0).new == 1
    ledger.write_bytes(b"x" * (ledger.stat().st_size - 1) + b"\n")
    assert record_actions(history, ledger, now_s=0.0).bad_lines == 0
    ledger.write_bytes(b"x\n")
    assert record_actions(history, ledger, now_s=4.0).bad_lines == 1
    ((name, source, reason, size, at_s),) = history.conn.execute(
        "SELECT name, source, reason, size_bytes, aside_s FROM set_aside"
    )
    assert name == f"{ledger.name}-line-{sha256(b'x' + bytes([10])).hexdigest()[:16]}"
    assert (source, size, at_s) == (str(ledger), 2, 4.0)
    assert reason.startswith("moves: is not an action: ")


def test_actions_in_order_with_all_their_columns(history: History, ledger: Path) -> None:
    """By time, then as they came in; an outcome that comes later is added, null takes none away."""
    full = action("b", before={"a": 1}, after={"c": None}, outcome="o", at_s=0.5)
    later = [full, action("a", at_s=9.0, outcome="late"), replace(full, outcome=None), action("d")]
    with ledger.open("a") as stream:
        stream.writelines(map(encode_action, later))
    assert record_actions(history, ledger, now_s=0.0).new == 3
    found = actions_of(history, 7)
    assert [one["move_id"] for one in found] == ["b", "a", "d"]
    assert found[0] == {
        "move_id": "b",
        "at_s": 0.5,
        "kind": "queue",
        "mode": "act",
        "subject": "7",
        "job_id": 7,
        "done": "hold",
        "why": "w",
        "before": {"a": 1},
        "after": {"c": None},
        "outcome": "o",
    }
    assert (found[1]["at_s"], found[1]["outcome"]) == (1.0, "late")
    assert actions_of(history, 8) == []
