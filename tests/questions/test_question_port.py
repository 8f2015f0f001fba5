"""Questions over the network: a real munged, a real TCP connection, who may see what."""

import copy
import json
import os
import pwd
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.advisor.limits.partition_limits import ClusterRules
from slurm_ext.advisor.pipeline.journal import NoJournal
from slurm_ext.advisor.service.advisor import Advisor
from slurm_ext.core.errors import AdvisorError, HistoryError, RefusedError, WireError
from slurm_ext.core.records import Submission
from slurm_ext.core.settings.document import Settings
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store.store import open_history
from slurm_ext.questions import client, port
from slurm_ext.questions.addresses import AdvisorAddresses
from slurm_ext.questions.answerer import Answerer
from slurm_ext.questions.answers import document_of
from slurm_ext.questions.client import ask
from slurm_ext.questions.port import QuestionPort
from slurm_ext.questions.question import encode
from slurm_ext.questions.rate import ASKS_AT_ONCE
from slurm_ext.slurm import JobInfo, MemoryClient
from tests.munge import Munge, munge

__all__ = ["munge"]
GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "spool" / "v1.json").read_text())
USER = 1000  # who asks, unless root does
pytestmark = pytest.mark.skipif(not shutil.which("munged"), reason="needs munge installed")
as_others = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root, setpriv"
)


def name_of(uid: int) -> str:
    """The machine's name of a user, or the number."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def record(job_id: int, uid: int) -> dict[str, Any]:
    """The golden record as a job of this user."""
    made: dict[str, Any] = copy.deepcopy(GOLDEN)
    made["record_id"], made["decision"] = f"cluster-{job_id}-0-n1", None
    made["identity"] |= {"job_id": job_id, "uid": uid, "user": name_of(uid)}
    made["corunners"] = []
    return made


@dataclass
class Rig:
    """An advisor with jobs 1 (root's), 2 and 3 (uid 1000's) and 4 (uid 1001's), and its port."""

    state_dir: Path
    munge: Munge
    counted: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        spool = self.state_dir / "spool"
        spool.mkdir()
        for job_id, uid in ((1, 0), (2, USER), (3, USER), (4, 1001)):
            (spool / f"{job_id}.json").write_text(json.dumps(record(job_id, uid)))
        with open_history(self.state_dir / "history.db") as history:
            ingest_folder(history, spool, now_s=2e9)
        munge_socket = str(self.munge.socket)
        values = {"paths.state_dir": str(self.state_dir), "node.munge_socket": munge_socket}
        self.here = Settings(values={**values, "paths.socket": "/nonexistent"})
        self.advisor = Advisor(self.here, NoJournal())
        self.advisor.rules = ClusterRules(hides_others=False)
        self.answerer = Answerer(self.advisor, lambda kind, _: self.counted.append(kind))
        self.port = QuestionPort(("127.0.0.1", 0), self.answerer, munge_socket)
        where = f"127.0.0.1:{self.port.server_address[1]}"
        # A node that has no history, and nothing but the address.
        there = {"paths.state_dir": "/nonexistent", "advisor.address": where}
        self.there = Settings("d.toml", {**self.here.values, **there})
        self.thread = threading.Thread(target=self.port.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def ask(self, kind: str, **fields: Any) -> dict[str, Any]:
        """A question from a node without a history."""
        return document_of(self.there, kind, **fields)

    def connected(self) -> socket.socket:
        """A caller who has not said anything."""
        return socket.create_connection(("127.0.0.1", self.port.server_address[1]), 10)

    def told(self, *pieces: bytes) -> dict[str, Any]:
        """The first line that comes back."""
        with self.connected() as caller:
            for piece in pieces:
                caller.sendall(piece)
            reply: dict[str, Any] = json.loads(caller.makefile("rb").readline())
            return reply

    def close(self) -> None:
        """End it."""
        self.port.shutdown()
        self.port.server_close()
        self.thread.join()


@pytest.fixture
def rig(munge: Munge, tmp_path: Path) -> Iterator[Rig]:
    """An advisor's port on a free port; this process, which is root, answers and asks."""
    made = Rig(tmp_path, munge)
    yield made
    made.close()


@pytest.fixture
def as_user(monkeypatch: pytest.MonkeyPatch, munge: Munge) -> Callable[[int], None]:
    """Has questions signed by another user."""

    def become(uid: int) -> None:
        monkeypatch.setattr(client, "credential", lambda digest, _: munge.sign(digest, uid=uid))

    return become


def header(raw: bytes, credential: str, **changes: Any) -> bytes:
    """The line before a question."""
    digest = sha256(raw).hexdigest()
    line = {"v": 1, "kind": "question", "bytes": len(raw), "sha256": digest}
    return json.dumps({**line, "credential": credential, **changes}).encode() + b"\n"


QUESTIONS: dict[str, dict[str, Any]] = {
    "explain": {"job": "2"},
    "jobs": {"limit": 20, "everybody": True},
    "history_runs": {"limit": 20},
    "history_job": {"job_id": 2},
    "ranks": {"name": GOLDEN["identity"]["job_name"], "gpu_mem_mib": 40960},
}


@pytest.mark.parametrize("kind", QUESTIONS)
def test_the_answer_is_what_the_history_says_where_it_lies(rig: Rig, kind: str) -> None:
    """To the last figure, for who may see all of it."""
    here = json.loads(json.dumps(document_of(rig.here, kind, **QUESTIONS[kind])))
    assert rig.ask(kind, **QUESTIONS[kind]) == here
    assert rig.counted == [kind]


def test_a_prediction_comes_with_its_runs_and_the_policy_there(rig: Rig) -> None:
    """So that a node without a history says the same."""
    rig.advisor.settings = replace(rig.here, values={**rig.here.values, "policy.min_gain": 0.5})
    job = Submission(script="#!/bin/sh\n", user_id=os.getuid())
    reply = ask(AdvisorAddresses(rig.there), "predict", {"submission": job})
    assert (reply["action"], reply["past"]) == ("leave", [])
    assert reply["policy"]["policy.min_gain"] == 0.5
    assert "known" in ask(AdvisorAddresses(rig.there), "what_if", {"submission": job})


@as_others
def test_a_user_sees_own_jobs(rig: Rig, as_user: Callable[[int], None]) -> None:
    """And is told that another's are not."""
    as_user(USER)
    assert {job["job_id"] for job in rig.ask("jobs", limit=9)["jobs"]} == {2, 3}
    assert {run["job_id"] for run in rig.ask("history_runs", limit=9)["runs"]} == {2, 3}
    assert rig.ask("explain", job="2")["runs"][0]["state"] == "COMPLETED"
    for kind, fields in (("explain", {"job": "4"}), ("history_job", {"job_id": 4})):
        with pytest.raises(RefusedError, match=f"4 is not {name_of(USER)}'s job: operators"):
            rig.ask(kind, **fields)
    for wanted in ({"user": "root"}, {"everybody": True}):
        with pytest.raises(RefusedError, match="operators alone see others'"):
            rig.ask("jobs", limit=9, **wanted)
    with pytest.raises(RefusedError, match="--user root"):
        rig.ask("ranks", name="train.sh", user="root")


@as_others
def test_a_job_that_slurm_hides_is_unknown(rig: Rig, as_user: Callable[[int], None]) -> None:
    """PrivateData: no word on whether there is one; as long as nobody has looked, too."""
    as_user(USER)
    rig.advisor.rules = ClusterRules()
    for job_id in (4, 77):
        with pytest.raises(HistoryError, match=f"knows nothing of {job_id};"):
            rig.ask("explain", job=str(job_id))


@as_others
def test_a_dependency_tells_nothing_of_the_job_it_is_on(
    rig: Rig, as_user: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PrivateData: anybody may depend on any number; the answer is as if no job had it."""
    as_user(USER)
    rig.advisor.rules = ClusterRules()
    waits = JobInfo(job_id=90, user_id=USER, state="PENDING", reason="Dependency")
    waits = replace(waits, dependency="afterok:70_*(unfulfilled),afterany:80(unfulfilled)")
    secret = JobInfo(job_id=80, user_id=0, user_name="root", name="secret", state="RUNNING")
    tasks = (replace(secret, job_id=70 + n, array_job_id=70, array_task_id=n) for n in (0, 1))
    answers = []
    for others in ((secret, *tasks), ()):
        slurm = MemoryClient(known_jobs=(waits, *others))
        monkeypatch.setattr("slurm_ext.slurm.CommandClient", lambda slurm=slurm, **_: slurm)
        answers.append(rig.ask("explain", job="90")["queue"]["cause"])
    assert answers[0] == answers[1]
    assert [row["job"] for row in answers[0]["jobs"]] == ["70", "80"]
    rig.advisor.rules = ClusterRules(hides_others=False)
    monkeypatch.setattr(
        "slurm_ext.slurm.CommandClient", lambda **_: MemoryClient(known_jobs=(waits, secret))
    )
    shown = rig.ask("explain", job="90")["queue"]["cause"]["jobs"]
    assert [row["name"] for row in shown] == [None, "secret"]


@as_others
@pytest.mark.parametrize("by", ["operator", "trusted"])
def test_operators_see_everybodys(rig: Rig, as_user: Callable[[int], None], by: str) -> None:
    """By Slurm's AdminLevel, or by the settings; PrivateData hides nothing from them."""
    as_user(USER)
    if by == "operator":
        rig.advisor.rules = ClusterRules(operators=frozenset({name_of(USER)}))
    else:
        values = {**rig.here.values, "advisor.trusted_uids": [0, USER]}
        rig.advisor.settings = replace(rig.here, values=values)
    assert len(rig.ask("jobs", limit=9, everybody=True)["jobs"]) == 4
    assert rig.ask("explain", job="4")["job_id"] == 4


@as_others
def test_a_prediction_is_of_the_signers_job(rig: Rig, as_user: Callable[[int], None]) -> None:
    """Whatever the question says."""
    as_user(USER)
    for job in (Submission(user_id=0), Submission(user_name="root")):
        with pytest.raises(WireError, match="ask about your own jobs"):
            ask(AdvisorAddresses(rig.there), "predict", {"submission": job})


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
