"""A record's header and munge's credential: accepted or refused, with the reason."""

import json
import subprocess
from dataclasses import replace
from typing import Any

import pytest

from slurm_ext.advisor import stream_header as header
from slurm_ext.advisor.stream_header import (
    MAX_RECORD_BYTES,
    Header,
    header_of,
    signed_by,
    signer,
)
from slurm_ext.core.errors import (
    MissingError,
    RecordError,
)

PLAIN = {
    "v": 1,
    "kind": "record",
    "record_id": "c-1-0-n",
    "bytes": 5,
    "sha256": "ab",
    "credential": "M",
}


def test_a_header_is_read_with_its_edges() -> None:
    """One byte, and as many as a record may have; names of 220 characters."""
    whole = Header(name="c-1-0-n", size_bytes=5, sha256="ab", credential="M")
    assert header_of(json.dumps(PLAIN).encode()) == whole
    for size in (1, MAX_RECORD_BYTES):
        line = json.dumps({**PLAIN, "bytes": size}).encode()
        assert header_of(line) == replace(whole, size_bytes=size)
    long = "x" * 220
    assert header_of(json.dumps({**PLAIN, "record_id": long}).encode()).name == long


NOT_OURS = "ValueError('is not a record of version 1')"


UNUSABLE = f"ValueError('has no usable name, or more than {MAX_RECORD_BYTES} bytes')"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"v": 2}, NOT_OURS),
        ({"kind": "other"}, NOT_OURS),
        ({"bytes": 0}, UNUSABLE),
        ({"bytes": MAX_RECORD_BYTES + 1}, UNUSABLE),
        ({"record_id": ""}, UNUSABLE),
        ({"record_id": ".x"}, UNUSABLE),
        ({"record_id": "x/y"}, UNUSABLE),
        ({"record_id": "x" * 221}, UNUSABLE),
    ],
)
def test_a_header_that_cannot_be_used_is_named(changes: dict[str, Any], why: str) -> None:
    """What is wrong with it, in at most two hundred characters."""
    with pytest.raises(RecordError) as caught:
        header_of(json.dumps({**PLAIN, **changes}).encode())
    assert str(caught.value) == f"header: cannot be used: {why}"
    with pytest.raises(RecordError) as caught:
        header_of(json.dumps({name: PLAIN[name] for name in ("v", "kind")}).encode())
    assert str(caught.value) == "header: cannot be used: KeyError('record_id')"


def unmunged(
    monkeypatch: pytest.MonkeyPatch, stdout: bytes, status: int = 0, stderr: bytes = b""
) -> list[Any]:
    """Have munge answer this; the commands that were run, with their input."""
    calls: list[Any] = []

    def run(command: Any, said: bytes) -> Any:
        calls.append((command, said))
        return subprocess.CompletedProcess(command, status, stdout, stderr)

    monkeypatch.setattr(header, "_run", run)
    monkeypatch.setattr(header, "_unmunge", lambda: "/x/unmunge")
    return calls


def test_munges_word_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The uid with or without a name, and the payload as it is."""
    calls = unmunged(monkeypatch, b"STATUS:   Success (0)\nUID:      ada (1000)\n\npay\nload")
    assert signed_by("crédential", "/s") == (1000, b"pay\nload")
    assert calls == [(["/x/unmunge", "--keys=STATUS,UID", "--socket=/s"], b"cr?dential")]
    calls = unmunged(monkeypatch, b"STATUS: Success (0)\nUID:  7\n\n")
    assert signed_by("x" * 99_999, "") == (7, b"")
    assert calls == [(["/x/unmunge", "--keys=STATUS,UID"], b"x" * (16 * 1024))]


def test_what_munge_refuses_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its own words, two hundred characters of them."""
    unmunged(monkeypatch, b"STATUS: Replayed credential (17)\nUID: 7\n\n", 17)
    with pytest.raises(RecordError, match=r"^munge: Replayed credential$"):
        signed_by("x", "")
    unmunged(monkeypatch, b"", 6, b" replayed\xff \n")
    with pytest.raises(RecordError, match=r"^munge: replayed\ufffd$"):
        signed_by("x", "")
    unmunged(monkeypatch, b"nothing", 0)
    with pytest.raises(RecordError, match=r"^munge: does not say why$"):
        signed_by("x", "")
    unmunged(monkeypatch, b"nothing", 0, b"y" * 300)
    with pytest.raises(RecordError) as caught:
        signed_by("x", "")
    assert str(caught.value) == f"munge: {'y' * 200}"

    def silent(command: Any, said: bytes) -> Any:
        raise subprocess.TimeoutExpired(command, 10.0, said)

    monkeypatch.setattr(header, "_run", silent)
    with pytest.raises(RecordError, match=r"^munge: did not answer within 10 s$"):
        signed_by("x", "")


def test_without_unmunge_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searched on the path, then where it usually is."""
    places: list[str | None] = []

    def which(name: str, path: str | None = None) -> str | None:
        assert name == "unmunge"
        places.append(path)
        return "/usr/bin/unmunge" if path and len(places) == 2 else None

    monkeypatch.setattr("slurm_ext.advisor.stream_header.shutil.which", which)
    assert header._unmunge() == "/usr/bin/unmunge"
    assert places == [None, "/usr/bin:/usr/local/bin"]
    with pytest.raises(MissingError) as caught:
        header._unmunge()
    assert str(caught.value) == (
        "unmunge is not installed; install munge, or use the folder transport"
    )


def test_a_command_of_munges_gets_its_input() -> None:
    """Both outputs come back, and a bad end is no error yet."""
    done = header._run(["sh", "-c", "cat; echo no >&2; exit 3"], b"said")
    assert (done.returncode, done.stdout, done.stderr) == (3, b"said", b"no\n")


def test_a_credential_is_for_the_very_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The uid of who signed it; a credential for anything else counts for nothing."""
    announced = Header(name="c-1-0-n", size_bytes=5, sha256="ab", credential="M")
    calls: list[tuple[str, str]] = []
    payload = [b"ab\n"]

    def signed(credential: str, munge_socket: str) -> tuple[int, bytes]:
        calls.append((credential, munge_socket))
        return 7, payload[0]

    monkeypatch.setattr(header, "signed_by", signed)
    assert signer(announced, "/s") == 7
    assert calls == [("M", "/s")]
    payload[0] = b"else"
    with pytest.raises(RecordError, match=r"^c-1-0-n: the credential is for something else$"):
        signer(replace(announced, sha256="\ud800"), "/s")
