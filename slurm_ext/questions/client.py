"""Asks the advisor over the network, and believes only what it signed for this very question."""

import json
import socket
import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from slurm_ext.advisor.stream_header import (
    ANSWER,
    MAX_HEADER_BYTES,
    QUESTION,
    Header,
    header_of,
    signer,
)
from slurm_ext.core.errors import (
    AdvisorError,
    HistoryError,
    MissingError,
    NoAdvisorError,
    RecordError,
    RefusedError,
    UsageError,
    WireError,
)
from slurm_ext.node.transport.deliver import UndeliveredError, credential
from slurm_ext.questions.addresses import Address, AdvisorAddresses
from slurm_ext.questions.question import MOST_ANSWER_BYTES, answer_digest, encode

CONNECT_S, ANSWER_S = 3.0, 30.0
GUESS_S = 1.0  # to connect where Slurm's controller need not have an advisor
TRIES = 3  # of one address: a crowd may have taken its places
PAUSE_S = 0.3
_ERRORS = {kind.__name__: kind for kind in (RefusedError, HistoryError, UsageError, WireError)}
_CURES = {  # of munge's words
    "Expired": "the clocks of this node and the advisor's differ: run an NTP service on both",
    "Rewound": "the clocks of this node and the advisor's differ: run an NTP service on both",
    "Invalid": "this node and the advisor's have different munge keys",
    "Replayed": "somebody else has used this node's credential",
}


def ask(addresses: AdvisorAddresses, kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The document that answers. Raises AdvisorError, RefusedError and what the document raises."""
    question = encode(kind, fields)
    failed: list[str] = []
    for address in addresses.all:
        try:
            return _document(*_asked(addresses, address, question))
        except OSError as error:
            why = error.strerror or str(error) or type(error).__name__
            failed.append(f"{named(address)} ({why})")
    raise NoAdvisorError(f"no advisor answers at {', '.join(failed)}{_hint(addresses)}")


def named(address: Address) -> str:
    """`host:port`."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _hint(addresses: AdvisorAddresses) -> str:
    if addresses.configured:
        return "; is `dlqueue serve` running there, and the port open to this node?"
    return "; a site turns it on with advisor.listen_questions (INSTALL.md, Login and web nodes)"


def _asked(
    addresses: AdvisorAddresses, address: Address, question: bytes
) -> tuple[Address, dict[str, Any]]:
    """The answer of one address. Raises OSError where nobody is there, AdvisorError."""
    for attempt in range(TRIES):
        try:
            return address, _exchange(addresses, address, question)
        except (ConnectionResetError, BrokenPipeError, EOFError):
            time.sleep(PAUSE_S * (attempt + 1))
    raise AdvisorError(f"{named(address)} has no place for another question; ask again")


def _exchange(addresses: AdvisorAddresses, address: Address, question: bytes) -> dict[str, Any]:
    munge_socket = addresses.settings["node.munge_socket"]
    header = _signed(question, munge_socket)
    connect_s = CONNECT_S if addresses.configured else GUESS_S
    with socket.create_connection(_quick(address), connect_s) as connection:  # type: ignore[arg-type]  # typeshed has no bytes there, getaddrinfo takes them
        connection.settimeout(ANSWER_S)
        connection.sendall(header + question)
        with connection.makefile("rb") as stream:
            line = stream.readline(MAX_HEADER_BYTES)
            if not line:
                raise EOFError
            announced = _announced(address, line)
            answer = stream.read(announced.size_bytes)
    _believe(addresses, address, announced, answer_digest(sha256(question).hexdigest(), answer))
    response: dict[str, Any] = json.loads(answer)
    return response


def _quick(address: Address) -> tuple[bytes | str, int]:
    """Name the host in bytes: of a text, Python makes an international name, after long imports."""
    host, port = address
    return host.encode() if host.isascii() else host, port


def _signed(question: bytes, munge_socket: str) -> bytes:
    """The line before a question. Raises AdvisorError where munge is down."""
    digest = sha256(question).hexdigest()
    try:
        signature = credential(digest, munge_socket)
    except UndeliveredError as error:
        raise AdvisorError(f"{error} The advisor wants munge's word for who asks") from None
    header = {"v": 1, "kind": QUESTION, "bytes": len(question), "sha256": digest}
    return json.dumps({**header, "credential": signature}).encode() + b"\n"


def _announced(address: Address, line: bytes) -> Header:
    """The answer's header. Raises AdvisorError with a refusal's reason, which nobody signed."""
    try:
        return header_of(line, ANSWER, MOST_ANSWER_BYTES)
    except RecordError:
        pass
    try:
        why = str(json.loads(line)["error"])[:500]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise AdvisorError(f"{named(address)} is no advisor's port for questions") from None
    raise AdvisorError(f"{named(address)} refuses the question: {why}{_cure(why)}")


def _believe(addresses: AdvisorAddresses, address: Address, header: Header, digest: str) -> None:
    """Raise AdvisorError unless the advisor signed this answer to this question."""
    try:
        uid = signer(header, addresses.settings["node.munge_socket"])
    except (RecordError, MissingError) as error:
        why = f"{named(address)}: its answer cannot be believed: {error}"
        raise AdvisorError(f"{why}{_cure(str(error))}") from None
    if header.sha256 != digest:
        raise AdvisorError(f"{named(address)}: its answer is not to this question, or was changed")
    if not addresses.trusted(uid):
        raise AdvisorError(
            f"{named(address)}: uid {uid} answers, who is neither root nor SlurmUser nor in"
            " advisor.trusted_uids: nothing of it is believed"
        )


def _document(address: Address, answer: Mapping[str, Any]) -> dict[str, Any]:
    """The document of a signed answer, or its error."""
    if isinstance(answer.get("document"), dict):
        document: dict[str, Any] = answer["document"]
        return document
    kind = _ERRORS.get(str(answer.get("kind")), AdvisorError)
    raise kind(f"{named(address)}: {answer.get('error')}")


def _cure(why: str) -> str:
    return next((f"; {cure}" for word, cure in _CURES.items() if word in why), "")
