"""What a caller of the port for questions cannot do: forge, flood, stall, ask for too much."""

import json
import socket
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest

from slurm_ext.core.errors import AdvisorError, RefusedError, WireError
from slurm_ext.questions import client
from slurm_ext.questions.question import encode
from slurm_ext.questions.rate import ASKS_AT_ONCE
from tests.munge import Munge
from tests.questions.port_rig import (
    USER,
    Rig,
    as_others,
    header,
    needs_munge,
)

pytestmark = needs_munge


def test_a_credential_counts_once_and_for_one_question(rig: Rig, munge: Munge) -> None:
    """Replayed, borrowed, forged or absent it gets no answer, and no byte of the question read."""
    raw = encode("jobs", {"limit": 1})
    line = header(raw, munge.sign(sha256(raw).hexdigest()))
    assert rig.told(line, raw)["kind"] == "answer"
    assert "Replayed credential" in rig.told(line)["error"]
    other = encode("jobs", {"limit": 1})  # the same but for its nonce
    borrowed = header(other, munge.sign(sha256(raw).hexdigest()))
    assert "for something else" in rig.told(borrowed)["error"]
    assert "munge" in rig.told(header(raw, "MUNGE:AAAA:"))["error"]
    assert "cannot be used" in rig.told(b'{"v":1,"kind":"question","bytes":3}\n')["error"]
    signed = header(raw, munge.sign(sha256(raw).hexdigest()))
    changed = raw.replace(b'"limit":1', b'"limit":9')
    assert "not the one that was signed" in rig.told(signed, changed)["error"]
    assert rig.counted == ["jobs"]


@pytest.mark.parametrize(
    "line",
    [b"\n", b"not json\n", b"[" * 9000 + b"\n", b"\xff\xfe\n", b"x" * 20_000, b"GET / HTTP/1.0\n"],
    ids=["empty", "text", "deep", "bytes", "endless", "http"],
)
def test_garbage_costs_one_connection(rig: Rig, line: bytes) -> None:
    """A line that is no header, of any length; the next caller is served."""
    assert "cannot be used" in rig.told(line)["error"]
    assert rig.ask("jobs", limit=1)["v"] == 1


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"[]", "not a question"),
        (b"[" * 9000, "not a question"),
        ({"v": 2}, "version 2"),
        ({"kind": "submit"}, "unknown kind 'submit'"),
        ({"fields": {"limit": 0}}, "jobs.limit is 0, expected a whole number from 1 to 1000"),
        ({"fields": {"limit": 10**9}}, "jobs.limit is 1000000000"),
        ({"fields": {"limit": True}}, "jobs.limit is True"),
        ({"fields": {"limit": 1, "sql": "x"}}, "jobs has no 'sql'"),
        ({"fields": {}}, "jobs needs limit"),
        ({"fields": {"limit": 1, "nodes": ["n"] * 20_000}}, "jobs.nodes is"),
        ({"kind": "ranks", "fields": {}}, "a submission or a name"),
        ({"kind": "predict", "fields": {"submission": {"num_tasks": "2"}}}, "job.num_tasks is str"),
    ],
    ids=str,
)
def test_a_question_is_data_with_types_and_ranges(
    rig: Rig, munge: Munge, body: bytes | dict[str, Any], why: str
) -> None:
    """Whoever signed it; the answer names the field, and is signed."""
    good = json.loads(encode("jobs", {"limit": 1}))
    raw = body if isinstance(body, bytes) else json.dumps({**good, **body}).encode()
    line = header(raw, munge.sign(sha256(raw).hexdigest()))
    with rig.connected() as caller:
        caller.sendall(line + raw)
        stream = caller.makefile("rb")
        announced = json.loads(stream.readline())
        answer = json.loads(stream.read(announced["bytes"]))
    assert why in answer["error"]
    assert rig.counted == ["refused"]


def test_a_question_has_a_bound(rig: Rig, munge: Munge) -> None:
    """Its size is announced and judged before munge is asked; the client says it first."""
    with pytest.raises(WireError, match="at most 262144 are answered"):
        encode("nodes", {"name": "x", "table": "x" * 300_000})
    line = header(b"x", "MUNGE:", bytes=300_000)
    assert "more than 262144 bytes" in rig.told(line)["error"]


def test_silent_callers_make_room(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as there are places, and some with half a header: a question is answered."""
    monkeypatch.setattr(rig.port.places, "_most", 64)
    monkeypatch.setattr(rig.port.places, "_of_peer", 64)
    callers = [rig.connected() for _ in range(64)]
    try:
        for caller in callers[::2]:
            caller.sendall(b'{"v":1,')
        assert rig.ask("jobs", limit=1)["v"] == 1
    finally:
        for caller in callers:
            caller.close()


def test_a_caller_who_drips_is_too_slow(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A header has one time for all of it, however it comes."""
    monkeypatch.setattr("slurm_ext.advisor.stream_server.HEADER_S", 0.05)
    with rig.connected() as caller:
        caller.sendall(b'{"v":')
        why = json.loads(caller.makefile("rb").readline())["error"]
        assert why in ("was too slow", "timed out")


@as_others
def test_a_user_who_asks_without_end_is_refused(rig: Rig, as_user: Callable[[int], None]) -> None:
    """By the same allowance as on the advisor's socket; another user is answered."""
    as_user(USER)
    while rig.answerer.rate.may_ask(USER):
        pass
    rig.answerer.rate._asks[USER] = (0.0, float("inf"))
    with pytest.raises(RefusedError, match="too many questions"):
        rig.ask("jobs", limit=1)
    as_user(1001)
    assert [job["job_id"] for job in rig.ask("jobs", limit=9)["jobs"]] == [4]
    assert ASKS_AT_ONCE < 100


def test_a_full_port_is_asked_again(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that is cut before a word came is tried three times."""
    monkeypatch.setattr(client, "PAUSE_S", 0.0)
    admit, refused = rig.port.places.admit, [1, 1]

    def crowded(connection: socket.socket, peer: str) -> bool:
        return not (refused and refused.pop()) and admit(connection, peer)

    monkeypatch.setattr(rig.port.places, "admit", crowded)
    assert rig.ask("jobs", limit=1)["v"] == 1
    assert refused == []
    refused += [1, 1, 1]
    with pytest.raises(AdvisorError, match="has no place for another question"):
        rig.ask("jobs", limit=1)


def test_a_fault_of_ours_costs_one_answer(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is said without its inside."""
    monkeypatch.setattr("slurm_ext.questions.answerer.document_for", lambda *_: {"job": object()})
    with pytest.raises(AdvisorError, match="the advisor has a fault; its log says which"):
        rig.ask("jobs", limit=1)


def test_an_answer_has_a_bound(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to ask instead."""
    monkeypatch.setattr("slurm_ext.questions.answerer.MOST_ANSWER_BYTES", 100)
    with pytest.raises(RefusedError, match="ask for fewer jobs"):
        rig.ask("jobs", limit=9, everybody=True)
    with pytest.raises(RefusedError, match=r"one task of its array \(dlqueue explain 1042_7\)"):
        rig.ask("explain", job="1")
