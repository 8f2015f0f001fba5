import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ext.core.actions import (
    KINDS,
    MAX_LINE_BYTES,
    MODES,
    Action,
    encode_action,
    new_action_id,
    parse_action,
)
from slurm_ext.core.errors import RecordError

GOLDEN = Path(__file__).parent.parent / "golden" / "moves" / "v1.json"


def a_move(**changes: Any) -> Action:
    """A job that waits is put behind another."""
    values: dict[str, Any] = {
        "at_s": 1000.0,
        "kind": "queue",
        "mode": "act",
        "subject": "1042",
        "job_id": 1042,
        "done": "nice=120",
        "why": "a shorter job goes first",
    }
    return Action(**{**values, **changes})


@settings(deadline=None)  # a busy machine is no failure
@given(
    text=st.text(min_size=1),
    at_s=st.floats(-1e17, 1e17),
    kind=st.sampled_from(KINDS),
    mode=st.sampled_from(MODES),
    job_id=st.none() | st.integers(0, (1 << 63) - 1),
    before=st.dictionaries(st.text(), st.none() | st.text() | st.integers() | st.booleans()),
)
def test_a_move_survives_its_line(
    text: str, at_s: float, kind: str, mode: str, job_id: int | None, before: dict[str, Any]
) -> None:
    """What a loop writes the keeper reads, on one line, for any text."""
    wanted = a_move(
        at_s=at_s, kind=kind, mode=mode, job_id=job_id, before=before, why=text, outcome=text
    )
    line = encode_action(wanted)
    assert line.count("\n") == 1
    assert parse_action(line.encode()) == wanted


def test_the_golden_move_is_read() -> None:
    """Every line of the first version ever shipped stays readable."""
    move = parse_action(GOLDEN.read_bytes())
    assert (move.kind, move.mode, move.job_id) == ("elastic", "act", 1042)
    assert move.after == {"gpus": 4}
    assert json.loads(encode_action(move)) == json.loads(GOLDEN.read_text())


def test_each_move_has_a_name_of_its_own() -> None:
    """Two moves that are alike are two."""
    assert a_move().move_id != a_move().move_id


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kind": "magic"}, "kind is one of pair, queue, elastic, energy"),
        ({"mode": "maybe"}, "mode is one of shadow, act"),
        ({"at_s": float("nan")}, "is not JSON"),
        ({"at_s": True}, "at_s is a number"),
        ({"subject": ""}, "texts, not empty"),
        ({"why": None}, "texts, not empty"),
        ({"job_id": "1042"}, "job_id is a whole number"),
        ({"job_id": 1 << 63}, "job_id is a whole number"),
        ({"before": [1]}, "JSON objects"),
        ({"after": {"x": object}}, "is not JSON"),
        ({"why": "x" * 70_000}, "a line of"),
    ],
)
def test_a_move_that_nobody_could_read_is_not_written(changes: dict[str, Any], said: str) -> None:
    """The mistake is told where it is made, by field."""
    with pytest.raises(RecordError, match=said):
        encode_action(a_move(**changes))


@pytest.mark.parametrize(
    "bad",
    [
        b"\n",
        b"{}\n",
        b"null\n",
        b"[" * 60_000 + b"\n",
        b"\xff\xfe\n",
        encode_action(a_move()).encode()[:40],
        encode_action(a_move()).replace('"v":1', '"v":2').encode(),
        encode_action(a_move()).replace('"before":{}', '"before":{"x":NaN}').encode(),
        encode_action(a_move()).replace("1000.0", "9" * 400).encode(),
        encode_action(a_move()).replace('"move_id"', '"named"').encode(),
    ],
    ids=lambda line: f"{len(line)} bytes",  # a move's id is new each time: no name for a test
)
def test_what_is_no_move_is_refused(bad: bytes) -> None:
    """Torn, foreign, hostile or of another version."""
    with pytest.raises(RecordError):
        parse_action(bad)


def test_a_field_of_a_later_version_does_no_harm() -> None:
    """The rest is read: a site may go back to the version before."""
    move = a_move()
    line = encode_action(move).replace('"v":1', '"v":1,"more":2').encode()
    assert parse_action(line) == move


def test_an_id_is_a_mark_and_sixteen_digits() -> None:
    """History and people know it by these."""
    assert re.fullmatch(r"m1-[0-9a-f]{16}", new_action_id())


def test_a_line_has_every_field_without_spaces() -> None:
    """The version comes first; text of any script stays ASCII."""
    line = encode_action(a_move(move_id="m1-0", why="ä", after={"nice": 2}))
    assert line == (
        '{"v":1,"move_id":"m1-0","at_s":1000.0,"kind":"queue","mode":"act","subject":"1042",'
        '"job_id":1042,"done":"nice=120","why":"\\u00e4","before":{},"after":{"nice":2},'
        '"outcome":null}\n'
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"move_id": ""}, "move_id, subject, done and why are texts, not empty"),
        ({"done": 7}, "move_id, subject, done and why are texts, not empty"),
        ({"outcome": ""}, "outcome is a text or null"),
        ({"outcome": 1}, "outcome is a text or null"),
        ({"at_s": "now"}, "at_s is a number of seconds"),
        ({"at_s": 1 << 63}, "at_s is a number of seconds"),
        ({"at_s": -(1 << 63) - 1}, "at_s is a number of seconds"),
        ({"job_id": True}, "job_id is a whole number or null"),
        ({"job_id": 1.0}, "job_id is a whole number or null"),
        ({"job_id": -(1 << 63) - 1}, "job_id is a whole number or null"),
        ({"before": None}, "before and after are JSON objects"),
        ({"after": "x"}, "before and after are JSON objects"),
    ],
)
def test_each_field_has_its_rule(changes: dict[str, Any], said: str) -> None:
    """One sentence for each; the journal is named before it."""
    with pytest.raises(RecordError) as caught:
        encode_action(a_move(**changes))
    assert str(caught.value) == f"moves: is not an action: {said}"


@pytest.mark.parametrize(
    "changes",
    [
        {"at_s": 0},
        {"at_s": (1 << 63) - 1},
        {"at_s": -(1 << 63)},
        {"job_id": None},
        {"job_id": -(1 << 63)},
        {"outcome": "it ended"},
        {"mode": "shadow"},
    ],
)
def test_bounds_belong_to_an_action(changes: dict[str, Any]) -> None:
    """Whole seconds, the largest ids, none at all."""
    wanted = a_move(**changes)
    assert parse_action(encode_action(wanted).encode()) == wanted


def test_a_line_of_the_largest_size_is_read() -> None:
    """And one byte more is refused, by its size."""
    room = MAX_LINE_BYTES - len(encode_action(a_move(why="x")))
    line = encode_action(a_move(why="x" * (1 + room)))
    assert len(line) == MAX_LINE_BYTES
    with pytest.raises(RecordError) as caught:
        parse_action(line.encode() + b" ")
    assert (
        str(caught.value)
        == f"moves: a line of {MAX_LINE_BYTES + 1} bytes, at most {MAX_LINE_BYTES}"
    )
