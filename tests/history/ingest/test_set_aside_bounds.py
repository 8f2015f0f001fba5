"""What is set aside is bounded, by user and in all; the oldest go and are counted."""

import json
from pathlib import Path

import pytest

from slurm_ext.history.ingest import quarantine
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store.store import History


def unusable(history: History, name: str, uid: object, *, now_s: float, size: int = 100) -> None:
    """Put a record that no history takes into the spool, and look at the spool."""
    spool = history.path.parent / "spool"
    body = json.dumps({"identity": {"uid": uid}})
    (spool / f"{name}.json").write_text(body.ljust(size))
    ingest_folder(history, spool, now_s=now_s)


def rows(history: History) -> list[tuple[str, int | None]]:
    """First letter and user of each note, oldest first."""
    sql = "SELECT substr(name, 1, 1), uid FROM set_aside ORDER BY aside_s"
    return history.conn.execute(sql).fetchall()


def files(history: History) -> list[str]:
    """First letters of the files set aside."""
    return sorted(path.name[0] for path in (history.path.parent / "aside").iterdir())


def dropped(history: History) -> tuple[int, int]:
    """Records and bytes that went."""
    found: tuple[int, int] = history.conn.execute("SELECT * FROM set_aside_dropped").fetchone()
    return found


def test_one_users_files_make_way_for_that_users_alone(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File and note go together; nine tenths of the bound stay."""
    monkeypatch.setattr(quarantine, "MAX_BYTES_OF_USER", 300)
    unusable(history, "ada", 1000, now_s=0.0)
    for now_s, name in enumerate("bcd", 1):
        unusable(history, name, 666, now_s=float(now_s))
    assert dropped(history) == (0, 0)
    unusable(history, "e", 666, now_s=4.0)
    assert rows(history) == [("a", 1000), ("d", 666), ("e", 666)]
    assert files(history) == ["a", "d", "e"]
    assert dropped(history) == (2, 200)


def test_all_files_together_are_bounded(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """By bytes and by number, whoever sent them; a larger one stays till the next."""
    monkeypatch.setattr(quarantine, "MAX_BYTES", 250)
    for uid, name in enumerate("abc"):
        unusable(history, name, uid, now_s=float(uid))
    assert rows(history) == [("b", 1), ("c", 2)]
    monkeypatch.setattr(quarantine, "MAX_ROWS", 1)
    unusable(history, "d", "7", now_s=4.0, size=1000)
    assert rows(history) == [("d", None)]
    unusable(history, "e", -1, now_s=5.0)
    assert (rows(history), files(history)) == ([("e", None)], ["e"])
    assert dropped(history) == (4, 1300)


@pytest.mark.parametrize("uid", ["7", -1, 1 << 32, True, None, [1]])
def test_a_user_that_cannot_be_one_is_nobody(history: History, uid: object) -> None:
    """Such files share one bound."""
    unusable(history, "a", uid, now_s=0.0)
    assert rows(history) == [("a", None)]


def test_a_long_reason_is_cut(history: History, tmp_path: Path) -> None:
    """Notes are bounded as files are."""
    path = tmp_path / "spool" / "a.json"
    path.write_text("[" * 100_000)
    quarantine.quarantine(history, path, "x" * 9999, None, now_s=1.0)
    (reason,) = history.conn.execute("SELECT reason FROM set_aside").fetchone()
    assert (len(reason), rows(history)) == (500, [("a", None)])
