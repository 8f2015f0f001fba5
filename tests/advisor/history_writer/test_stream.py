"""Records that nodes stream: a real munged, a real TCP connection, and what is refused."""

import json
import os
import shutil
import socket
import socketserver
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.advisor.history_writer.receive import (
    MOST_CONNECTIONS,
    Receiver,
    start_receiver,
)
from slurm_ext.advisor.stream_header import MAX_RECORD_BYTES
from slurm_ext.core.errors import InputError
from slurm_ext.core.settings.document import Settings
from slurm_ext.slurm import MemoryClient
from tests.munge import Munge, munge

__all__ = ["munge"]

GOLDEN = (Path(__file__).parents[2] / "golden" / "spool" / "v1.json").read_bytes()
NAME = "cluster-1042-0-n1"
pytestmark = pytest.mark.skipif(not shutil.which("munged"), reason="needs munge installed")


@pytest.fixture
def receiver(munge: Munge, tmp_path: Path) -> Iterator[Receiver]:
    """A receiver on a free port."""
    values = {
        "paths.state_dir": str(tmp_path),
        "advisor.listen": "127.0.0.1:0",
        "node.munge_socket": str(munge.socket),
    }
    receiver = start_receiver(Settings(values=values), MemoryClient())
    assert receiver is not None
    yield receiver
    receiver.shutdown()
    receiver.server_close()


def header(raw: bytes, credential: str, **changes: Any) -> bytes:
    """The announcement of a record."""
    said = {
        "v": 1,
        "kind": "record",
        "record_id": NAME,
        "bytes": len(raw),
        "sha256": sha256(raw).hexdigest(),
        "credential": credential,
    }
    return json.dumps({**said, **changes}).encode() + b"\n"


def connected(receiver: Receiver) -> socket.socket:
    """A node's connection."""
    return socket.create_connection(("127.0.0.1", receiver.server_address[1]), timeout=10)


def deliver(receiver: Receiver, *pieces: bytes) -> dict[str, Any]:
    """The reply to what is sent on one connection; an error where it was cut off."""
    with connected(receiver) as client:
        try:
            for piece in pieces:
                client.sendall(piece)
            client.shutdown(socket.SHUT_WR)
            reply: dict[str, Any] = json.loads(client.makefile("rb").readline())
        except (OSError, ValueError):  # the refusal was quicker than our sending
            return {"error": "cut off"}
        return reply


def spooled(receiver: Receiver) -> list[str]:
    """File names in the spool."""
    return sorted(path.name for path in receiver.spool.glob("*")) if receiver.spool.exists() else []


def test_a_signed_record_is_safe_before_it_is_acknowledged(
    receiver: Receiver, munge: Munge
) -> None:
    """The acknowledgement names the record, which then lies whole in the spool."""
    signed = munge.sign(sha256(GOLDEN).hexdigest())
    assert deliver(receiver, header(GOLDEN, signed), GOLDEN) == {"v": 1, "ack": NAME}
    assert spooled(receiver) == [f"{NAME}.json"]
    assert (receiver.spool / f"{NAME}.json").read_bytes() == GOLDEN


def test_several_records_share_a_connection(receiver: Receiver, munge: Munge) -> None:
    """Each is acknowledged in turn."""
    with connected(receiver) as client:
        replies = client.makefile("rb")
        for _ in range(3):
            client.sendall(header(GOLDEN, munge.sign(sha256(GOLDEN).hexdigest())) + GOLDEN)
            assert json.loads(replies.readline()) == {"v": 1, "ack": NAME}


def test_a_replayed_a_forged_and_a_borrowed_credential_are_refused(
    receiver: Receiver, munge: Munge
) -> None:
    """A word of munge counts once, and only for the very bytes that were signed."""
    signed = munge.sign(sha256(GOLDEN).hexdigest())
    assert "ack" in deliver(receiver, header(GOLDEN, signed), GOLDEN)
    (receiver.spool / f"{NAME}.json").unlink()
    assert "error" in deliver(receiver, header(GOLDEN, signed), GOLDEN)
    assert "error" in deliver(receiver, header(GOLDEN, "MUNGE:AAAA:"), GOLDEN)
    other = munge.sign(sha256(b"something else").hexdigest())
    assert "something else" in deliver(receiver, header(GOLDEN, other), GOLDEN)["error"]
    assert spooled(receiver) == []


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root, setpriv")
def test_a_users_credential_is_refused_before_the_record_is_read(
    receiver: Receiver, munge: Munge
) -> None:
    """The golden record is of uid 1000, whose word does not count: the header is answered."""
    signed = munge.sign(sha256(GOLDEN).hexdigest(), uid=1000)
    with connected(receiver) as client:
        client.sendall(header(GOLDEN, signed))
        reply = json.loads(client.makefile("rb").readline())
    assert reply["error"] == f"{NAME}: uid 1000 is not in advisor.trusted_uids"
    assert spooled(receiver) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"v": 2},
        {"kind": "order"},
        {"bytes": MAX_RECORD_BYTES + 1},
        {"bytes": 0},
        {"bytes": "many"},
        {"record_id": "../../etc/passwd"},
        {"record_id": ".hidden"},
        {"record_id": ""},
        {"record_id": 7},
        {"sha256": "0" * 64},
        {"record_id": "another-name"},
    ],
    ids=str,
)
def test_an_unusable_announcement_is_refused_by_name(
    receiver: Receiver, munge: Munge, changes: dict[str, Any]
) -> None:
    """Nothing of it reaches the spool, and the next node is served."""
    signed = munge.sign(sha256(GOLDEN).hexdigest())
    assert "error" in deliver(receiver, header(GOLDEN, signed, **changes), GOLDEN)
    assert spooled(receiver) == []
    signed = munge.sign(sha256(GOLDEN).hexdigest())
    assert "ack" in deliver(receiver, header(GOLDEN, signed), GOLDEN)


@pytest.mark.parametrize(
    "line",
    [b"\n", b"not json\n", b"[" * 9000 + b"\n", b"\xff\xfe\n", b"x" * 100_000],
    ids=["empty", "text", "deep", "bytes", "endless"],
)
def test_garbage_is_refused(receiver: Receiver, line: bytes) -> None:
    """A line that announces nothing costs one connection."""
    assert "error" in deliver(receiver, line)


def test_a_record_that_ends_early_is_not_kept(receiver: Receiver, munge: Munge) -> None:
    """A node that dies half-way delivers again later."""
    signed = munge.sign(sha256(GOLDEN).hexdigest())
    assert "ended early" in deliver(receiver, header(GOLDEN, signed), GOLDEN[:100])["error"]
    assert spooled(receiver) == []


def test_an_address_that_is_none_is_named(tmp_path: Path) -> None:
    """The setting's file, key and value are in the error."""
    for wrong in ("here", "127.0.0.1:http", ":6000", "127.0.0.1:99999"):
        settings = Settings("d.toml", {"paths.state_dir": str(tmp_path), "advisor.listen": wrong})
        with pytest.raises(InputError, match=r"d\.toml: advisor\.listen = "):
            start_receiver(settings)
    assert start_receiver(Settings()) is None


def test_a_thread_that_cannot_be_started_costs_no_place(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a moment without room for threads, nodes deliver as before."""
    with monkeypatch.context() as short:
        short.setattr(socketserver.ThreadingMixIn, "process_request", _no_room)
        for _ in range(MOST_CONNECTIONS + 1):
            assert deliver(receiver, b"x\n") == {"error": "cut off"}
    assert "cannot be used" in deliver(receiver, b"x\n")["error"]


def _no_room(*_: object) -> None:
    raise RuntimeError("can't start new thread")
