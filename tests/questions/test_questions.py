"""People's questions: about their senders, not too often, in a process of their own."""

import json
import os
import pwd
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import replace

import pytest

from slurm_ext.advisor.limits.partition_limits import ClusterRules
from slurm_ext.advisor.service.advisor import Advisor
from slurm_ext.advisor.service.question_process import QuestionProcess
from slurm_ext.advisor.service.refresh import Refresher
from slurm_ext.advisor.service.server import Client
from slurm_ext.core.errors import WireError
from slurm_ext.core.records import Submission
from slurm_ext.core.wire import decode_request, encode_request
from slurm_ext.questions import sender
from slurm_ext.questions.answerer import Answerer
from slurm_ext.questions.process import QuestionServer, counting
from slurm_ext.questions.question import MOST_BYTES
from slurm_ext.questions.sender import SenderRules
from slurm_ext.slurm import Accounting, Association
from slurm_ext.slurm.allowances import Allowances
from tests.advisor.a_service import PING

ME = os.getuid()
MY_NAME = pwd.getpwuid(ME).pw_name


def own(job: Submission, accounts: set[str] | None = None) -> Submission | None:
    """The job of a question as its sender, this user, may ask it."""
    rules = SenderRules(lambda name: accounts if name == MY_NAME else None)
    return decode_request(rules.own(encode_request("what_if", job), ME))[1]


@pytest.mark.parametrize(
    "job",
    [
        Submission(),
        Submission(user_id=ME),
        Submission(user_name=MY_NAME),
        Submission(user_id=ME, user_name="as-the-container-calls-me"),
    ],
)
def test_a_question_is_about_its_sender(job: Submission) -> None:
    """Whoever says no more than who asks gets the machine's own name, whatever it was called."""
    job = replace(job, script="#!/bin/sh\n\udcff\n", argv=("a", "b"), num_tasks=2)
    assert own(job) == replace(job, user_id=ME, user_name=MY_NAME)


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (Submission(user_id=ME + 1), f"job.user_id is {ME + 1}, and yours is {ME}"),
        (
            Submission(user_id=ME + 1, user_name=MY_NAME),
            f"job.user_id is {ME + 1}, and yours is {ME}",
        ),
        (Submission(user_name="ada"), f"job.user_name is 'ada', and yours is {MY_NAME}"),
        (Submission(account="Other"), "job.account is 'Other', and yours is lab or vision"),
    ],
)
def test_a_question_about_somebody_else_is_refused(job: Submission, why: str) -> None:
    """With the field that says so."""
    with pytest.raises(WireError) as caught:
        own(job, {"vision", "lab"})
    assert str(caught.value) == f"{why}: ask about your own jobs"


def test_an_account_is_the_senders_where_slurm_knows_accounts() -> None:
    """In any case of letters, as Slurm compares them; without accounting a job may name any."""
    for accounts in ({"vision"}, None):
        asked = own(Submission(account="Vision"), accounts)
        assert asked is not None
        assert asked.account == "Vision"
    with pytest.raises(WireError, match="and yours is none"):
        own(Submission(account="vision"), set())


def test_a_question_about_nobody_goes_through() -> None:
    """A ping has no job."""
    assert SenderRules(lambda _: None).own(PING, ME) == PING


def test_a_user_without_a_name_is_called_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `dlqueue predict` calls it; names are looked up once, and few are kept."""
    looked: list[int] = []

    def lookup(uid: int) -> pwd.struct_passwd:
        looked.append(uid)
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", lookup)
    monkeypatch.setattr(sender, "MOST_NAMES", 2)
    rules = SenderRules(lambda _: None)
    for uid in (4000, 4000, 4001, 4000, 4002, 4000):
        job = decode_request(rules.own(encode_request("predict", Submission()), uid))[1]
        assert job is not None
        assert (job.user_id, job.user_name) == (uid, str(uid))
    assert looked == [4000, 4001, 4002, 4000]


class Rig:
    """A server of questions with our end of its channel."""

    def __init__(self, advisor: Advisor) -> None:
        self.ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.advisor = advisor
        self.refresher = Refresher(advisor, None)
        self.theirs = theirs
        self.answerer = Answerer(advisor, counting(theirs))
        self.server = QuestionServer(theirs, self.answerer, self.refresher)

    def client(self) -> socket.socket:
        """A connection that was handed over; our end of it."""
        one, other = socket.socketpair()
        with other:
            socket.send_fds(self.ours, [b"c"], [other.fileno()])
        assert self.server._accept(self.theirs)
        one.settimeout(5.0)
        return one

    def close(self) -> None:
        """Both ends."""
        self.server._close_all()
        for end in (self.ours, self.theirs):
            end.close()


@pytest.fixture
def rig(advisor: Advisor) -> Iterator[Rig]:
    """A server that answers nobody by itself."""
    made = Rig(advisor)
    yield made
    made.close()


def test_a_connection_that_is_handed_over_is_answered(rig: Rig) -> None:
    """And the parent is told the kind and the seconds of each answer."""
    with rig.client() as client:
        (served,) = rig.server._clients
        assert served.uid == ME
        client.sendall(encode_request("predict", Submission(script="#!/bin/sh\n")) + PING)
        rig.server._serve(served)
        replies = client.recv(1 << 20).splitlines()
        assert "action" in json.loads(replies[0])
        assert json.loads(replies[1])["runs"] == 3
    counted = [json.loads(rig.ours.recv(999)) for _ in replies]
    assert [kind for kind, _ in counted] == ["predict", "ping"]
    assert all(0 < seconds < 60 for _, seconds in counted)


def test_a_question_for_another_user_is_refused_and_ends_the_connection(rig: Rig) -> None:
    """Not answered, whatever is known about that user; nor is a submission."""
    for kind, job, why in (
        ("predict", Submission(user_name="ada", user_id=ME + 1), "job.user_id is"),
        ("submit", Submission(), "only slurmctld submits"),
    ):
        with rig.client() as client:
            (served,) = rig.server._clients
            client.sendall(encode_request(kind, job))
            rig.server._serve(served)
            assert why in json.loads(client.recv(9999))["error"]
            assert rig.server._clients == set()


def test_accounts_are_those_that_slurm_has_for_the_user(rig: Rig) -> None:
    """None are known before the rules were read, or where Slurm enforces none."""
    assert rig.answerer._accounts("ada") is None
    own_one = Association(account="Vision", user="ada")
    allowances = Allowances(Accounting(associations=(own_one, Association(account="lab")), qos={}))
    rig.advisor.rules = ClusterRules(allowances=allowances)
    assert rig.answerer._accounts("ada") == {"vision"}
    assert rig.answerer._accounts("bob") == set()


def test_the_channels_end_is_the_servers(rig: Rig) -> None:
    """A byte has the settings read again; when the parent has gone, nobody asks any more."""
    rig.ours.send(b"\n")
    assert rig.server._accept(rig.theirs)
    assert rig.refresher._reload_asked.is_set()
    rig.ours.shutdown(socket.SHUT_RDWR)
    assert not rig.server._accept(rig.theirs)


def test_a_user_asks_twenty_times_at_once(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """And ten times a second from then on; each user has an allowance of its own."""
    clock = [100.0]
    monkeypatch.setattr("slurm_ext.questions.rate.time.monotonic", lambda: clock[0])
    one, other = (Client(rig.ours, uid, 0.0) for uid in (ME, ME + 1))
    answers = [rig.server._reply(one, PING) for _ in range(21)]
    assert [stays for _, stays in answers] == [True] * 20 + [False]
    assert json.loads(answers[-1][0])["error"] == "too many questions; ask again in a second"
    clock[0] += 0.05
    assert not rig.server._reply(one, PING)[1]
    clock[0] += 0.06
    assert rig.server._reply(one, PING)[1]
    assert not rig.server._reply(one, PING)[1]
    clock[0] += 1000.0
    assert sum(rig.server._reply(one, PING)[1] for _ in range(30)) == 20
    assert rig.server._reply(other, PING)[1]


def test_a_question_is_shorter_than_a_submission(rig: Rig) -> None:
    """Nobody fills the memory with what one connection holds."""
    with rig.client() as client:
        (served,) = rig.server._clients
        assert not rig.server._take(served, b"x" * (MOST_BYTES + 1))
        why = f"a line is at most {MOST_BYTES} bytes"
        assert json.loads(client.recv(9999))["error"] == why


def test_a_process_is_started_by_the_first_connection() -> None:
    """Or at once where the site lets everybody ask; it gets the connection and the settings."""
    made = QuestionProcess(None, lambda _kind, _seconds: None)
    one, other = socket.socketpair()
    with one, other:
        assert not made._wanted.is_set()
        assert made.hand_over(other)
        assert made._wanted.is_set()
        made.reload_settings()
        message, (number,), _, _ = socket.recv_fds(made._theirs, 9, 1)
        assert (message, made._theirs.recv(9)) == (b"c", b"\n")
        with socket.socket(fileno=number) as handed:
            handed.sendall(b"hello")
        assert one.recv(9) == b"hello"
    made.stop()
    made = QuestionProcess(None, lambda _kind, _seconds: None, at_once=True)
    assert made._wanted.is_set()
    made.stop()


def test_nothing_is_handed_to_a_process_that_has_ended() -> None:
    """Its answers were counted; whoever comes before the next one is turned away at once."""
    counted: list[tuple[str, float]] = []
    made = QuestionProcess(None, lambda kind, seconds: counted.append((kind, seconds)))
    says = "import os; os.write(0, b'[\"predict\", 0.5]'); os._exit(3)"
    one, other = socket.socketpair()
    with one, other:
        for _ in range(2):
            made._command = ["python3", "-c", says]
            assert made._lived() == "ended with status 3"
            assert not made.hand_over(other)
    assert counted == [("predict", 0.5)] * 2
    made._command = ["/nonexistent/program"]
    assert made._lived() == "could not be started (No such file or directory)"
    made.stop()


def test_a_full_channel_keeps_nobody_waiting() -> None:
    """A process that takes nothing more costs its users the answer, and submissions no time."""
    made = QuestionProcess(None, lambda _kind, _seconds: None)
    one, other = socket.socketpair()
    with one, other:
        taken = [made.hand_over(other) for _ in range(5000)]
    assert taken[0]
    assert not taken[-1]
    made.stop()


def test_a_process_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its parent, however busy it is."""
    monkeypatch.setattr("slurm_ext.advisor.service.child_process.END_WAIT_S", 0.1)
    made = QuestionProcess(None, lambda _kind, _seconds: None)
    made._command = ["sleep", "1000"]
    with made._spawn() as child:
        made._child = child
        made.stop()
        assert child.wait(100) == -9
    assert isinstance(child, subprocess.Popen)
