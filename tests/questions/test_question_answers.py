"""Which answer a client believes, and what it says of a port that does not answer."""

import socket
import threading
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from slurm_ext.core.errors import AdvisorError
from slurm_ext.core.settings.document import Settings
from slurm_ext.questions import client, port
from slurm_ext.questions.answers import document_of
from slurm_ext.questions.port import QuestionPort
from tests.munge import Munge
from tests.questions.port_rig import (
    Rig,
    as_others,
    needs_munge,
)

pytestmark = needs_munge


def test_an_answer_that_is_not_the_advisors_is_not_believed(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changed on its way, or an earlier one: the digest is of this question and these bytes."""
    signed = QuestionPort.signed

    def of_another(self: QuestionPort, question: str, answer: bytes) -> dict[str, object]:
        return signed(self, sha256(b"another").hexdigest(), answer)

    def changed(self: QuestionPort, question: str, answer: bytes) -> dict[str, object]:
        return signed(self, question, answer + b" ")

    for lie in (of_another, changed):
        monkeypatch.setattr(QuestionPort, "signed", lie)
        with pytest.raises(AdvisorError, match=r"not to this question, or was changed"):
            rig.ask("explain", job="2")
    monkeypatch.setattr(
        QuestionPort, "signed", lambda *_: {**signed(rig.port, "", b"x"), "credential": "MUNGE:x:"}
    )
    with pytest.raises(AdvisorError, match="cannot be believed"):
        rig.ask("explain", job="2")


@as_others
def test_an_answer_of_another_user_is_not_believed(
    rig: Rig, munge: Munge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody on a node can listen on a port and sign as who it is: only root and SlurmUser may."""
    monkeypatch.setattr(port, "credential", lambda digest, _: munge.sign(digest, uid=1001))
    with pytest.raises(AdvisorError, match="uid 1001 answers, who is neither root nor SlurmUser"):
        rig.ask("explain", job="2")
    trusting = {**rig.there.values, "advisor.trusted_uids": [1001]}
    assert document_of(Settings("d.toml", trusting), "explain", job="2")["job_id"] == 2


def test_something_else_on_the_port_is_no_advisor(rig: Rig) -> None:
    """A web server, an ssh daemon, a record's port."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        where = f"127.0.0.1:{other.getsockname()[1]}"

        def serve() -> None:
            caller, _ = other.accept()
            with caller:
                caller.recv(1)
                caller.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(AdvisorError, match=f"{where} is no advisor's port for questions"):
            document_of(settings(rig.there, address=where), "explain", job="2")
        thread.join()


def settings(known: Settings, **advisor: str) -> Settings:
    """Settings with other keys of [advisor]."""
    more = {f"advisor.{name}": value for name, value in advisor.items()}
    return replace(known, values={**known.values, **more})


def test_a_closed_port_and_a_dead_munge_are_said(rig: Rig, tmp_path: Path) -> None:
    """Each by its name, with what to look at."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = f"127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(AdvisorError, match=rf"no advisor answers at {free} \(Connection refused\)"):
        document_of(settings(rig.there, address=free), "explain", job="2")
    # The second of two controllers answers.
    assert document_of(
        settings(rig.there, address=f"{free},{rig.there['advisor.address']}"), "jobs", limit=1
    )
    nobody = {**rig.there.values, "node.munge_socket": str(tmp_path / "none")}
    with pytest.raises(AdvisorError, match="munge gives no credential: is munged running"):
        document_of(Settings("d.toml", nobody), "explain", job="2")
    rig.port.munge_socket = str(tmp_path / "none")
    with pytest.raises(AdvisorError, match=r"refuses the question: .*[Ff]ailed to access"):
        rig.ask("explain", job="2")


@pytest.mark.parametrize(
    ("word", "cure"),
    [
        ("Expired credential", "clocks of this node and the advisor's differ"),
        ("Rewound credential", "clocks of this node and the advisor's differ"),
        ("Invalid credential", "different munge keys"),
    ],
)
def test_munges_words_come_with_their_cure(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, word: str, cure: str
) -> None:
    """A clock that is off, another key: on the advisor's side or on this one."""

    def refuses(*_: object) -> int:
        from slurm_ext.core.errors import RecordError

        raise RecordError("munge", f"unmunge: Error: {word}")

    with monkeypatch.context() as there:
        there.setattr(port, "signer", refuses)
        with pytest.raises(AdvisorError, match=f"refuses the question: munge: .*{cure}"):
            rig.ask("explain", job="2")
    monkeypatch.setattr(client, "signer", refuses)
    with pytest.raises(AdvisorError, match=f"cannot be believed: munge: .*{cure}"):
        rig.ask("explain", job="2")
