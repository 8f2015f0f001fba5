import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ext.core.actions import KINDS, MODES, Action, encode_action, parse_action
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
    at_s=st.floats(allow_nan=False, allow_infinity=False),
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
        encode_action(a_move()).replace('"v":1', '"v":1,"more":2').encode(),
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
