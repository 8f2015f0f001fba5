"""`dlqueue serve` over real sockets: what a client may do, and what no client can do to it."""

import json
import os
import pwd
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.advisor.service.server import MOST_CLIENTS
from slurm_ext.core.wire import MAX_LINE_BYTES, encode_request
from slurm_ext.questions.rate import ASKS_AT_ONCE
from tests.advisor.a_service import PING, Service, a_job, deliver, ledger, runs, until


def test_a_submission_gets_its_token_and_a_place_in_the_ledger(service: Service) -> None:
    """The reply's token is the one that the ledger keeps."""
    reply = service.submit()
    assert reply["decision"].startswith("d1-")
    assert reply["edits"] == {"env": {"DLQUEUE_DECISION": reply["decision"]}}
    until(lambda: ledger(service) == [(reply["decision"], "proposed")], "an entry")


def test_what_a_run_taught_changes_the_next_submission(service: Service) -> None:
    """The loop closes: submission, record, and the same script is answered from it."""
    first = service.submit()
    deliver(service, 1042, decision=first["decision"])
    until(lambda: ledger(service) == [(first["decision"], "claimed")], "a claim")
    until(lambda: service.say(PING)["runs"] == 1, "the run in memory")
    asked = service.say(encode_request("predict", a_job()))
    assert (asked["level"], asked["runs"]) == ("same script and arguments", 1)
    assert asked["predicted_after"]["samples_per_s"] > 0
    assert len(asked["curve"]) > 1


def test_asking_records_nothing(service: Service) -> None:
    """`predict` leaves no trace, in the journal or in the ledger."""
    service.say(encode_request("predict", a_job()))
    token = service.submit()["decision"]
    until(lambda: ledger(service), "the submission that came after it")
    assert [found for found, _ in ledger(service)] == [token]


def test_many_requests_share_one_connection(shared_service: Service) -> None:
    """Connections stay, and replies come in order, also to lines sent at once."""
    with shared_service.connect() as client, client.makefile("rb") as replies:
        client.sendall(PING * 50 + encode_request("submit", a_job()))
        answers = [json.loads(replies.readline()) for _ in range(51)]
    assert all(answer["decision"] is None for answer in answers[:50])
    assert answers[50]["decision"] is not None


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"not json\n",
        b"\x00\xff\xfe\n",
        b"[]\n",
        b"{}\n",
        b'{"v":2,"kind":"ping"}\n',
        b'{"v":1,"kind":"reboot"}\n',
        b'{"v":1,"kind":"submit"}\n',
        b'{"v":1,"kind":"submit","job":{"num_tasks":"many"}}\n',
        b'{"v":1,"kind":"submit","job":{"script":7}}\n',
        b"[" * 100_000 + b"\n",
        b'{"v":1,"kind":"submit","job":{"num_tasks":' + b"9" * 5000 + b"}}\n",
        b'{"v":1,"kind":"submit","job":{"cpus_per_task":-4}}\n',
        b'{"v":1,"kind":"submit","job":{"num_tasks":-1,"script":"#!/bin/sh\\n"}}\n',
        b'{"v":1,"kind":"submit","job":{"mem_per_cpu_mib":true}}\n',
    ],
    ids=lambda line: line[:40].decode("latin-1").strip(),
)
def test_a_bad_line_is_answered_and_never_ends_the_service(
    shared_service: Service, line: bytes
) -> None:
    """The plugin reads "leave the job alone"; everyone else goes on being served."""
    reply = shared_service.say(line)
    assert (reply["v"], reply["message"]) == (1, None)
    assert set(reply["edits"]) <= {"env"}
    assert shared_service.say(PING)["v"] == 1
    assert shared_service.alive()


def test_a_line_of_a_hundred_megabytes_is_cut_off(shared_service: Service) -> None:
    """Its sender is refused after the bound, and memory does not follow it."""
    before = _resident_mib(shared_service)
    with shared_service.connect() as client, client.makefile("rb") as replies:
        with suppress(OSError):
            for _ in range(100):
                client.sendall(b"x" * (1 << 20))
        with suppress(OSError):
            reply = json.loads(replies.readline() or b'{"error": "at most"}')
            assert "at most" in reply["error"]
    assert shared_service.say(PING)["v"] == 1
    assert _resident_mib(shared_service) - before < 3 * MAX_LINE_BYTES / 2**20 + 16


def _resident_mib(service: Service) -> float:
    assert service.process is not None
    pages = int(Path(f"/proc/{service.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def test_a_client_that_hangs_keeps_nobody_waiting(shared_service: Service) -> None:
    """Half a line, or no reading of replies, costs only that client."""
    with shared_service.connect() as half, shared_service.connect() as deaf:
        half.sendall(b'{"v":1,"kind":')
        deaf.setblocking(False)
        with suppress(BlockingIOError, BrokenPipeError):
            while True:
                deaf.send(PING * 1000)
        for _ in range(3):
            assert shared_service.submit()["decision"] is not None
        half.sendall(b'"ping"}\n')
        assert half.recv(4096).endswith(b"\n")


def test_the_longest_silent_client_makes_room(shared_service: Service) -> None:
    """Any number of connections is survived; the newest are served."""
    clients = [shared_service.connect() for _ in range(MOST_CLIENTS + 10)]
    try:
        clients[-1].sendall(PING)
        assert clients[-1].recv(4096).endswith(b"\n")
        assert shared_service.submit()["decision"] is not None
    finally:
        for client in clients:
            client.close()


OTHER_USER = """
import json, socket, sys
client = socket.socket(socket.AF_UNIX)
client.connect(sys.argv[1])
replies = client.makefile("rb")
said = []
for line in sys.stdin.buffer:
    client.sendall(line)
    said.append(json.loads(replies.readline() or b"null"))
    if said[-1] is None or "error" in said[-1]:
        break
print(json.dumps(said))
"""


def _as_nobody(service: Service, lines: bytes) -> list[dict[str, Any]]:
    """Replies to another user, who may reach the socket."""
    for folder in [service.socket.parent, *service.socket.parents]:
        if folder.stat().st_uid == os.getuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    service.socket.chmod(0o666)
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    done = subprocess.run(
        [*command, "/usr/bin/python3", "-I", "-c", OTHER_USER, str(service.socket)],
        input=lines,
        capture_output=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    replies: list[dict[str, Any]] = json.loads(done.stdout)
    return replies


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root, setpriv")
def test_another_user_may_ask_and_not_submit(shared_service: Service) -> None:
    """Whose submissions count is the kernel's word on the peer, not the request's."""
    mine = a_job(user_name="", user_id=65534)
    (asked,) = _as_nobody(shared_service, encode_request("predict", mine))
    assert asked["action"] == "leave"
    (refused,) = _as_nobody(shared_service, encode_request("submit", mine))
    assert refused["decision"] is None
    assert "only slurmctld submits" in refused["error"]


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root, setpriv")
def test_another_user_asks_about_its_own_jobs(shared_service: Service) -> None:
    """Whoever asks about somebody else's is told which field says so; root may ask about all."""
    name = pwd.getpwuid(65534).pw_name
    for job, why in (
        (a_job(user_name=name, user_id=1000), "job.user_id is 1000, and yours is 65534: "),
        (a_job(user_name="ada", user_id=-1), f"job.user_name is 'ada', and yours is {name}: "),
    ):
        (refused,) = _as_nobody(shared_service, encode_request("what_if", job))
        assert refused["error"] == f"{why}ask about your own jobs"
    assert shared_service.say(encode_request("predict", a_job()))["action"] == "leave"


def test_slurmctlds_own_socket_is_closed_to_users(tmp_path: Path) -> None:
    """Whatever everybody's is; both go when the advisor does."""
    service = Service(tmp_path, advisor__socket_mode=0o666).start()
    own = service.socket.with_name(f"{service.socket.name}.submit")
    assert own.stat().st_mode & 0o777 == 0o660
    assert service.socket.stat().st_mode & 0o777 == 0o666
    service.socket, everybodys = own, service.socket
    assert service.submit()["decision"] is not None
    assert service.stop() == 0
    assert not own.exists()
    assert not everybodys.exists()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root, setpriv")
def test_questions_are_answered_by_another_process(service: Service) -> None:
    """While it is stopped or dead, submissions are answered; a new one takes its place."""
    assert _as_nobody(service, PING)[0]["v"] == 1
    answering = until(lambda: service.child("questions"), "the process that answers questions")
    os.kill(answering, signal.SIGSTOP)
    with service.connect() as waiting:
        waiting.sendall(PING)
        assert all(service.submit()["decision"] is not None for _ in range(5))
    os.kill(answering, signal.SIGKILL)
    assert service.submit()["decision"] is not None
    until(lambda: service.child("questions") not in (answering, None), "another one")
    until(lambda: _as_nobody(service, PING)[0] is not None, "an answer")


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root, setpriv")
def test_another_user_may_not_ask_without_end(service: Service) -> None:
    """A loop of questions is refused, and slurmctld is answered meanwhile."""
    replies = _as_nobody(service, PING * (5 * int(ASKS_AT_ONCE)))
    assert "too many questions" in replies[-1]["error"]
    assert len(replies) < 5 * ASKS_AT_ONCE
    assert service.submit()["decision"] is not None


def test_the_kill_file_stops_everything_at_once(shared_service: Service) -> None:
    """No token and no entry while it is there; as before when it is gone."""
    shared_service.kill_file.touch()
    assert shared_service.submit()["decision"] is None
    shared_service.kill_file.unlink()
    assert shared_service.submit()["decision"] is not None


def test_settings_are_read_again_on_request_and_kept_where_they_are_wrong(service: Service) -> None:
    """SIGHUP takes a new mode; a faulty file is logged with its key and changes nothing."""
    service.write(site__mode="off")
    assert service.process is not None
    service.process.send_signal(signal.SIGHUP)
    until(lambda: service.submit()["decision"] is None, "the mode off")
    service.config.write_text('site.mode = "perhaps"\n')
    service.process.send_signal(signal.SIGHUP)
    until(lambda: "site.mode = 'perhaps' is not valid" in service.said(), "a word in the log")
    assert service.submit()["decision"] is None


def test_the_history_writer_takes_new_settings_too(service: Service) -> None:
    """SIGHUP reaches retention and the rest; what needs a restart is named and stays as it is."""
    deliver(service, 7)
    until(lambda: runs(service) == 1, "a run")
    writer = service.writer()
    service.write(advisor__listen="127.0.0.1:1", history__retention_days=1)
    assert service.process is not None
    service.process.send_signal(signal.SIGHUP)
    until(lambda: runs(service) == 0, "the run of long ago forgotten")
    until(lambda: "advisor.listen changed and will be used after a restart" in service.said(), "")
    service.config.write_text("history.retention_days = 0\n")
    service.process.send_signal(signal.SIGHUP)
    said = "dlqueue.history_writer: settings stay as they were"
    until(lambda: said in service.said(), "a word of the history writer")
    assert service.writer() == writer


def test_a_submission_that_cannot_be_recorded_is_left_as_written(tmp_path: Path) -> None:
    """No entry, no edit: its outcome could never be explained."""
    from slurm_ext.advisor.pipeline.journal import Journal
    from slurm_ext.advisor.service.advisor import Advisor
    from slurm_ext.core.settings.document import Settings

    class FullDisk(Journal):
        def append(self, line: str) -> None:
            raise OSError(28, "No space left on device")

    values = {"site.mode": "act", "paths.kill_file": str(tmp_path / "off")}
    advisor = Advisor(Settings(values=values), FullDisk(tmp_path))
    reply = json.loads(advisor.reply(encode_request("submit", a_job()), True)[0])
    assert (reply["decision"], reply["edits"]) == (None, {})
    assert "not recorded" in reply["error"]


def test_hostile_texts_pass_through_to_the_ledger_as_data(service: Service) -> None:
    """Quotes, newlines, escapes, SQL, NUL and half characters in a name are only text."""
    names = ["'; DROP TABLE decisions; --", '"\n\x1b[31m', "a\0b", "\udcff", "é" * 400]
    tokens = [service.submit(name=name)["decision"] for name in names]
    until(lambda: len(ledger(service)) == len(names), "entries")
    assert [token for token, _ in ledger(service)] == tokens
