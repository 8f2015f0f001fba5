"""A journal is read by whole lines and goes when all of it is in."""

from pathlib import Path

import pytest

from slurm_ext.history.ingest import journal
from slurm_ext.history.store.store import History
from tests.history.conftest import insert


@pytest.mark.parametrize(
    ("text", "start", "rest", "chunk"),
    [
        (b"ab\ncd\n", 0, False, b"ab\ncd\n"),
        (b"ab\ncd\n", 3, False, b"cd\n"),
        (b"ab\ncd", 0, False, b"ab\n"),
        (b"ab\ncd", 3, False, b""),
        (b"ab\ncd", 3, True, b"cd"),
        (b"ab\ncd\nef\ngh", 0, False, b"ab\ncd\n"),
        (b"ab\ncd\nef\ngh", 0, True, b"ab\ncd\n"),
        (b"abcdefghij", 0, False, b"abcdefgh"),
        (b"abcdefg", 0, False, b""),
        (b"abcdefg", 0, True, b"abcdefg"),
        (b"abcdefgh", 0, False, b"abcdefgh"),
        (b"", 0, True, b""),
    ],
)
def test_whole_lines_of_a_chunk(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: bytes,
    start: int,
    rest: bool,
    chunk: bytes,
) -> None:
    """Here chunks are of eight bytes. One without a line's end is passed as it is, never stuck."""
    assert journal._CHUNK_BYTES == 4 << 20
    monkeypatch.setattr(journal, "_CHUNK_BYTES", 8)
    path = tmp_path / "j"
    path.write_bytes(text)
    assert journal.whole_lines(path, start, rest=rest) == chunk


def test_a_journal_goes_when_all_of_it_is_in(history: History) -> None:
    """Not a byte before; what was read of it is forgotten with it, another's is not."""
    path = history.path.with_name("journal-1")
    path.write_bytes(b"12345")
    for name, offset in ((path.name, 4), ("other", 3)):
        insert(history.conn, "journals", name=name, offset=offset)
    assert not journal.delete_if_recorded(history, path)
    assert path.exists()
    history.conn.execute("UPDATE journals SET offset = 5 WHERE name = ?", (path.name,))
    assert journal.delete_if_recorded(history, path)
    assert not path.exists()
    assert history.conn.execute("SELECT * FROM journals").fetchall() == [("other", 3)]
