"""The history writer in one process: headers, owners, reconciliation, tasks and trainings."""

import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slurm_ext.advisor.history_writer import owners, receive, writer
from slurm_ext.advisor.history_writer.owners import ForeignRecordError, JobOwners, signed_by
from slurm_ext.advisor.history_writer.receive import (
    MAX_RECORD_BYTES,
    MOST_CONNECTIONS,
    Header,
    Receiver,
    check,
    check_owner,
    header_of,
    put,
    record_id,
    start_receiver,
)
from slurm_ext.advisor.history_writer.reconcile import (
    UntiedDecision,
    candidates,
    certain,
    record_of,
)
from slurm_ext.advisor.history_writer.retrain import Retrainer
from slurm_ext.advisor.history_writer.writer import HistoryWriter, ParentPipe, PeriodicTask
from slurm_ext.core.errors import (
    DlqueueError,
    HistoryError,
    InputError,
    MissingError,
    RecordError,
    SlurmError,
)
from slurm_ext.core.settings.document import Settings
from slurm_ext.history.store.store import open_history
from slurm_ext.slurm import JobInfo, MemoryClient
from tests.advisor.history_writer.test_reconcile import ENDED, JOB, NOW_S, World

ANYTHING: Any = None

# -- headers and credentials ----------------------------------------------------------------------

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
    whole = Header(record_id="c-1-0-n", size_bytes=5, sha256="ab", credential="M")
    assert header_of(json.dumps(PLAIN).encode()) == whole
    for size in (1, MAX_RECORD_BYTES):
        line = json.dumps({**PLAIN, "bytes": size}).encode()
        assert header_of(line) == replace(whole, size_bytes=size)
    long = "x" * 220
    assert header_of(json.dumps({**PLAIN, "record_id": long}).encode()).record_id == long


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

    monkeypatch.setattr(owners, "_run", run)
    monkeypatch.setattr(owners, "_unmunge", lambda: "/x/unmunge")
    return calls


def test_munges_word_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The uid with or without a name, and the payload as it is."""
    calls = unmunged(monkeypatch, b"UID:      ada (1000)\n\npay\nload")
    assert signed_by("crédential", "/s") == (1000, b"pay\nload")
    assert calls == [(["/x/unmunge", "--keys=UID", "--socket=/s"], b"cr?dential")]
    calls = unmunged(monkeypatch, b"UID:  7\n\n")
    assert signed_by("x" * 99_999, "") == (7, b"")
    assert calls == [(["/x/unmunge", "--keys=UID"], b"x" * (16 * 1024))]


def test_what_munge_refuses_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its own words, two hundred characters of them."""
    unmunged(monkeypatch, b"UID: 7\n\n", 6, b" replayed\xff \n")
    with pytest.raises(RecordError, match=r"^munge: replayed\ufffd$"):
        signed_by("x", "")
    unmunged(monkeypatch, b"nothing", 0, b"y" * 300)
    with pytest.raises(RecordError) as caught:
        signed_by("x", "")
    assert str(caught.value) == f"munge: {'y' * 200}"

    def silent(command: Any, said: bytes) -> Any:
        raise subprocess.TimeoutExpired(command, 10.0, said)

    monkeypatch.setattr(owners, "_run", silent)
    with pytest.raises(RecordError, match=r"^munge: did not answer within 10 s$"):
        signed_by("x", "")


def test_without_unmunge_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searched on the path, then where it usually is."""
    places: list[str | None] = []

    def which(name: str, path: str | None = None) -> str | None:
        assert name == "unmunge"
        places.append(path)
        return "/usr/bin/unmunge" if path and len(places) == 2 else None

    monkeypatch.setattr("slurm_ext.advisor.history_writer.owners.shutil.which", which)
    assert owners._unmunge() == "/usr/bin/unmunge"
    assert places == [None, "/usr/bin:/usr/local/bin"]
    with pytest.raises(MissingError) as caught:
        owners._unmunge()
    assert str(caught.value) == (
        "unmunge is not installed; install munge, or use the folder transport"
    )


def test_a_command_of_munges_gets_its_input() -> None:
    """Both outputs come back, and a bad end is no error yet."""
    done = owners._run(["sh", "-c", "cat; echo no >&2; exit 3"], b"said")
    assert (done.returncode, done.stdout, done.stderr) == (3, b"said", b"no\n")


# -- owners ---------------------------------------------------------------------------------------


class CountingClient(MemoryClient):
    """Counts how often Slurm is asked."""

    __slots__ = ("count",)

    def jobs(self) -> tuple[JobInfo, ...]:
        """As the base class has it."""
        self.count = getattr(self, "count", 0) + 1
        return MemoryClient.jobs(self)


def test_an_owner_is_asked_for_once_in_two_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever sends records of unknown jobs does not have Slurm asked each time."""
    clock = [100.0]
    monkeypatch.setattr("slurm_ext.advisor.history_writer.owners.time.monotonic", lambda: clock[0])
    client = CountingClient(known_jobs=(JobInfo(job_id=5, user_id=7),))
    known = JobOwners(client, tmp_path / "history.db")
    known.check(5, 7, "r")
    with pytest.raises(ForeignRecordError) as caught:
        known.check(6, 7, "r")
    assert str(caught.value) == "r: neither Slurm nor the history knows job 6"
    assert client.count == 1
    clock[0] += 2.0
    with pytest.raises(ForeignRecordError):
        known.check(6, 7, "r")
    assert client.count == 1
    clock[0] += 0.1
    with pytest.raises(ForeignRecordError):
        known.check(6, 7, "r")
    assert client.count == 2
    with pytest.raises(ForeignRecordError, match=r"^r: job 5 is uid 7's, not uid 8's$"):
        known.check(5, 8, "r")
    for odd in (True, "5", None):
        with pytest.raises(ForeignRecordError, match=f"knows job {odd!r}$"):
            known.check(odd, 7, "r")


# -- records --------------------------------------------------------------------------------------


def a_record(**identity: Any) -> tuple[Header, bytes]:
    """A record of uid 7's job on our cluster, and its header."""
    own = {"cluster": "c", "job_id": 5, "restart": 0, "node": "n", "uid": 7, **identity}
    raw = json.dumps({"record_id": "c-5-0-n", "identity": own}).encode()
    digest = sha256(raw).hexdigest()
    return Header(record_id="c-5-0-n", size_bytes=len(raw), sha256=digest, credential="M"), raw


def test_a_credential_is_for_the_very_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The uid of who signed; else what does not match."""
    header, raw = a_record()
    calls: list[tuple[str, str]] = []
    payload = [header.sha256.encode() + b"\n"]

    def signed(credential: str, munge_socket: str) -> tuple[int, bytes]:
        calls.append((credential, munge_socket))
        return 7, payload[0]

    monkeypatch.setattr(receive, "signed_by", signed)
    assert check(header, raw, "/s") == 7
    assert calls == [("M", "/s")]
    with pytest.raises(RecordError, match=r"^c-5-0-n: does not match its sha256$"):
        check(header, raw + b" ", "/s")
    payload[0] = b"else"
    with pytest.raises(RecordError, match=r"^c-5-0-n: the credential is for something else$"):
        check(header, raw, "/s")


@pytest.mark.parametrize(
    ("identity", "uid", "why"),
    [
        ({}, 7, None),
        ({}, 8, "uid 8 may not send another user's record"),
        ({"node": "m"}, 7, "uid 7 may not send another user's record"),
        ({"restart": 1}, 7, "uid 7 may not send another user's record"),
        ({"job_id": 6}, 7, "uid 7 may not send another user's record"),
        ({"cluster": "d"}, 7, "uid 7 may not send another user's record"),
    ],
)
def test_a_user_sends_records_of_their_own_jobs(
    tmp_path: Path, identity: dict[str, Any], uid: int, why: str | None
) -> None:
    """Name, uid, cluster and job all have to fit."""
    known = JobOwners(MemoryClient(known_jobs=(JobInfo(job_id=5, user_id=7),)), tmp_path / "none")
    header, raw = a_record(**identity)
    if why is None:
        check_owner(header, raw, uid, "c", known)
        with pytest.raises(ForeignRecordError, match=r"^c-5-0-n: cluster 'c' is not ours$"):
            check_owner(header, raw, uid, "other", known)
        return
    with pytest.raises(ForeignRecordError) as caught:
        check_owner(header, raw, uid, "c", known)
    assert str(caught.value) == f"c-5-0-n: {why}"


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b'{"record_id":"c-5-0-n","identity":[]}', "ValueError('another name inside')"),
        (b'{"record_id":"other","identity":{}}', "ValueError('another name inside')"),
        (b'{"identity":{}}', "KeyError('record_id')"),
        (b"{}", "KeyError('identity')"),
    ],
)
def test_what_is_no_record_is_named(tmp_path: Path, raw: bytes, why: str) -> None:
    """Whoever sends it."""
    header, _ = a_record()
    with pytest.raises(RecordError) as caught:
        check_owner(header, raw, 7, "c", JobOwners(MemoryClient(), tmp_path))
    assert str(caught.value) == f"c-5-0-n: is not a record: {why}"


def test_names_of_records_are_safe() -> None:
    """Eighty characters of cluster and node; what a file's name may not have becomes _."""
    assert record_id(cluster="a/b", job_id="1", restart="2", node="n.x+y") == "a_b-1-2-n.x+y"
    long = record_id(cluster="c" * 99, job_id="1", restart="0", node="n" * 99)
    assert long == f"{'c' * 80}-1-0-{'n' * 80}"


def test_a_record_lies_in_the_spool(tmp_path: Path) -> None:
    """The folder is made where it is missing."""
    put(tmp_path / "a" / "spool", "x", b"raw")
    put(tmp_path / "a" / "spool", "y", b"more")
    assert (tmp_path / "a" / "spool" / "x.json").read_bytes() == b"raw"


# -- the stream -----------------------------------------------------------------------------------


@pytest.fixture
def receiver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """A receiver on a free port; the credential is the signer's uid."""

    def signed(credential: str, munge_socket: str) -> tuple[int, bytes]:
        assert munge_socket == "/s"
        uid, _, digest = credential.partition(":")
        return int(uid), digest.encode()

    monkeypatch.setattr(receive, "signed_by", signed)
    values = {
        "paths.state_dir": str(tmp_path),
        "advisor.listen": "127.0.0.1:0",
        "node.munge_socket": "/s",
        "site.cluster": "c",
        "advisor.trusted_uids": [9],
    }
    client = MemoryClient(known_jobs=(JobInfo(job_id=5, user_id=7),))
    made = start_receiver(Settings(values=values), client)
    assert made is not None
    yield made
    made.shutdown()
    made.server_close()


def sent(receiver: Receiver, *pieces: bytes) -> list[dict[str, Any]]:
    """The replies on one connection."""
    with socket.create_connection(("127.0.0.1", receiver.server_address[1]), timeout=10) as client:
        client.sendall(b"".join(pieces))
        client.shutdown(socket.SHUT_WR)
        return [json.loads(line) for line in client.makefile("rb")]


def announced(header: Header, uid: int) -> bytes:
    """The line of a header that `uid` signed."""
    body = {
        "v": 1,
        "kind": "record",
        "record_id": header.record_id,
        "bytes": header.size_bytes,
        "sha256": header.sha256,
        "credential": f"{uid}:{header.sha256}",
    }
    return json.dumps(body).encode() + b"\n"


def test_records_are_taken_from_root_trusted_users_and_owners(receiver: Receiver) -> None:
    """Each is acknowledged by its name, and lies in the spool."""
    header, raw = a_record()
    ack = {"v": 1, "ack": "c-5-0-n"}
    for uid in (0, 7, 9):
        assert sent(receiver, announced(header, uid), raw) == [ack]
        file = receiver.spool / "c-5-0-n.json"
        assert file.read_bytes() == raw
        file.unlink()
    both = announced(header, 0) + raw
    assert sent(receiver, both, both) == [ack, ack]
    receiver.take(Settings(values={"advisor.trusted_uids": [8], "site.cluster": "d"}))
    assert sent(receiver, announced(header, 8), raw) == [ack]
    foreign = {"v": 1, "error": "c-5-0-n: cluster 'c' is not ours", "final": True}
    assert sent(receiver, announced(header, 7), raw) == [foreign]


def test_a_refused_record_ends_the_connection(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    """Final only where it will be the same whenever it is sent again."""
    header, raw = a_record()
    foreign = "c-5-0-n: uid 8 may not send another user's record"
    line = announced(header, 8) + raw
    assert sent(receiver, line, line) == [{"v": 1, "error": foreign, "final": True}]
    assert sent(receiver, announced(header, 0), raw[:-1]) == [
        {"v": 1, "error": "c-5-0-n: ended early"}
    ]
    (first, second) = [one.getMessage() for one in caplog.records if "refused" in one.getMessage()]
    assert first.startswith("a record from ('127.0.0.1', ")
    assert first.endswith(f") was refused: {foreign}")
    assert second.endswith("was refused: c-5-0-n: ended early")
    assert not receiver.spool.exists()


def test_places_are_free_again(receiver: Receiver) -> None:
    """As many connections as there are places, one after the other, and once more."""
    header, raw = a_record()
    for _ in range(MOST_CONNECTIONS + 2):
        assert sent(receiver, announced(header, 0), raw)
    taken = [receiver.verify_request() for _ in range(MOST_CONNECTIONS)]
    assert taken[0]
    assert not receiver.verify_request()


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("host", "'host' is not host:port"),
        ("host:", "'host:' is not host:port"),
        (":80", "':80' is not host:port"),
        ("host:x", "'host:x' is not host:port"),
        ("127.0.0.1:99999", "'127.0.0.1:99999': bind(): port must be 0-65535."),
    ],
)
def test_an_address_that_cannot_be_is_named(tmp_path: Path, where: str, why: str) -> None:
    """With the settings' file."""
    values = {"advisor.listen": where, "paths.state_dir": str(tmp_path)}
    with pytest.raises(InputError) as caught:
        start_receiver(Settings(source="s.toml", values=values), MemoryClient())
    assert str(caught.value) == f"s.toml: advisor.listen = {why}"


def test_without_an_address_nothing_is_received() -> None:
    """As by default."""
    assert start_receiver(Settings()) is None


# -- reconciliation -------------------------------------------------------------------------------


def untied(token: str, decided_s: float, uid: int = 1000, name: str = "train.sh") -> UntiedDecision:
    """A ledger entry of ada's."""
    return UntiedDecision(token=token, uid=uid, job_name=name, decided_s=decided_s)


@pytest.mark.parametrize(
    ("late_s", "meant"), [(1.5, True), (1.6, False), (0.0, True), (-1.5, True), (-1.6, False)]
)
def test_a_job_is_meant_by_its_moment(late_s: float, meant: bool) -> None:
    """A second and a half on each side."""
    job = replace(JOB, submit_time_s=1000)
    assert candidates([untied("t", 1000 - late_s)], [job]) == {"t": [7] if meant else []}


def test_a_job_is_meant_by_its_owner_and_name() -> None:
    """Arrays and parts of heterogeneous jobs are never meant."""
    job = replace(JOB, submit_time_s=1000)
    waiting = [untied("a", 1000.0), untied("b", 1000.0, uid=1), untied("c", 1000.0, name="x")]
    others = [
        replace(job, job_id=8),
        replace(job, job_id=9, array_job_id=9),
        replace(job, job_id=10, het_job_id=10),
        replace(job, job_id=11, submit_time_s=None),
    ]
    assert candidates(waiting, [job, *others]) == {"a": [7, 8], "b": [], "c": []}


def test_only_what_can_mean_one_thing_is_certain() -> None:
    """One job for the token, and one token for the job."""
    assert certain({"a": [1], "b": [2, 3], "c": [4], "d": [4], "e": []}) == {"a": 1}
    assert certain({"a": [1], "b": [1, 2]}) == {}


def test_the_record_of_a_job_without_one() -> None:
    """Every field that squeue knows; all else is null or empty."""
    job = replace(
        ENDED,
        account="vision",
        partition="gpu",
        work_dir="/w",
        restarts=2,
        time_limit_minutes=3,
        array_job_id=5,
        nodes="n[3-4]",
    )
    assert record_of(job, "c", "d1-a") == {
        "v": 1,
        "kind": "run",
        "record_id": "c-7-2-n3",
        "identity": {
            "cluster": "c",
            "job_id": 7,
            "restart": 2,
            "node": "n3",
            "user": "ada",
            "uid": 1000,
            "account": "vision",
            "partition": "gpu",
            "job_name": "train.sh",
            "work_dir": "/w",
            "array_job_id": 5,
            "array_task_id": None,
        },
        "allocation": {"cpus": 2, "time_limit_s": 180},
        "times": {
            "submit_s": int(NOW_S),
            "start_s": int(NOW_S) + 1,
            "end_s": int(NOW_S) + 60,
            "elapsed_s": 59,
        },
        "outcome": {"state": "TIMEOUT", "exit_code": 0, "signal": 15, "source": "reconcile"},
        "host": {},
        "counters": [],
        "timeline": None,
        "corunners": [],
        "decision": "d1-a",
        "probe": {"summaries": [], "faults": []},
    }
    bare = record_of(replace(ENDED, start_time_s=None, end_time_s=5), "c", None)
    assert bare["identity"]["account"] is None
    assert bare["identity"]["partition"] is None
    assert bare["identity"]["work_dir"] is None
    assert bare["allocation"]["time_limit_s"] is None
    assert bare["times"]["elapsed_s"] is None
    assert record_of(replace(ENDED, end_time_s=None), "c", None)["times"]["elapsed_s"] is None
    before = replace(ENDED, end_time_s=int(NOW_S))
    assert record_of(before, "c", None)["times"]["elapsed_s"] == 0


@pytest.mark.parametrize(("reconcile_s", "patience_s"), [(1.0, 5), (4.0, 8)])
def test_an_end_without_a_record_has_patience(
    tmp_path: Path, reconcile_s: float, patience_s: int
) -> None:
    """Two rounds, and five seconds at least; once it is written it is not written again."""
    world = World(tmp_path, **{"advisor.reconcile_s": reconcile_s, "site.cluster": "c"})
    name = world.spool / "c-7-0-n1.reconcile.json"
    world.cluster.known_jobs = (ENDED,)
    world.reconciler.reconcile(world.history, NOW_S + 60 + patience_s - 0.1)
    assert not name.exists()
    world.reconciler.reconcile(world.history, NOW_S + 60 + patience_s)
    body = json.loads(name.read_text())
    assert body["decision"] is None
    name.unlink()
    world.reconciler.reconcile(world.history, NOW_S + 600)
    assert not name.exists()
    world.cluster.known_jobs = (replace(ENDED, restarts=1),)
    world.reconciler.reconcile(world.history, NOW_S + 600)
    assert (world.spool / "c-7-1-n1.reconcile.json").exists()
    world.cluster.known_jobs = (ENDED,)  # forgotten meanwhile: looked at again
    world.reconciler.reconcile(world.history, NOW_S + 600)
    assert name.exists()


@pytest.mark.parametrize(
    "job", [replace(ENDED, nodes=""), replace(ENDED, start_time_s=None), replace(JOB)]
)
def test_a_job_that_did_not_run_or_did_not_end_has_no_record(tmp_path: Path, job: JobInfo) -> None:
    """Whatever the time."""
    world = World(tmp_path)
    world.cluster.known_jobs = (job,)
    world.reconciler.reconcile(world.history, NOW_S + 6000)
    assert not world.spool.exists()


@pytest.mark.parametrize(
    ("age_s", "jobs", "state"),
    [
        (2.9, (JOB,), ("proposed", None)),
        (3.0, (JOB,), ("claimed", 7)),
        (9.9, (), ("proposed", None)),
        (10.1, (), None),
    ],
)
def test_the_ages_of_a_proposal(
    tmp_path: Path, age_s: float, jobs: tuple[JobInfo, ...], state: Any
) -> None:
    """Tied after three seconds, dropped after ten."""
    world = World(tmp_path)
    world.propose("d1-a", decided_s=NOW_S)
    world.look(*jobs, later_s=age_s)
    assert world.state("d1-a") == state


# -- tasks ----------------------------------------------------------------------------------------


def test_a_task_comes_again_after_its_pause(caplog: pytest.LogCaptureFixture) -> None:
    """A failure is said once until it changes or passes."""
    faults: list[Exception | None] = []
    calls: list[float] = []

    def act(history: Any, now_s: float) -> None:
        assert history is ANYTHING
        calls.append(now_s)
        if (fault := faults.pop(0)) is not None:
            raise fault

    task = PeriodicTask("spool", 5.0, act)
    slow = InputError("f", "slow")
    faults += [None, slow, slow, None, slow, OSError(5, "disk"), KeyError("x")]
    for clock_s in (0.0, 4.9, 5.0, 10.0, 14.9, 15.0, 20.0, 25.0, 30.0):
        task.do(ANYTHING, clock_s)
    assert len(calls) == 7
    assert min(calls) > 1e9
    warned = [(one.getMessage(), bool(one.exc_info)) for one in caplog.records]
    assert warned == [
        ("spool: f: slow", False),
        ("spool: f: slow", False),
        ("spool: [Errno 5] disk", False),
        ("spool: KeyError('x')", True),
    ]


def settings(folder: Path, **values: Any) -> Settings:
    """Settings of a state folder; dots are written as __."""
    named = {name.replace("__", "."): value for name, value in values.items()}
    return Settings(values={"paths.state_dir": str(folder), **named})


def test_a_writer_has_six_tasks_in_order(tmp_path: Path) -> None:
    """Journal before spool, so that runs find their proposals."""
    made = HistoryWriter(settings(tmp_path, advisor__reconcile_s=7.0), None)
    assert [(task.name, task.every_s) for task in made._tasks] == [
        ("journal", 0.0),
        ("spool", 0.0),
        ("moves", 0.0),
        ("reconcile", 7.0),
        ("retention", 21600.0),
        ("retraining", 0.0),
    ]


def test_a_writer_goes_on_with_new_settings(tmp_path: Path) -> None:
    """As the file has them now."""
    config = tmp_path / "dlqueue.toml"
    text = f'paths.state_dir = "{tmp_path}"\n'
    config.write_text(text)
    made = HistoryWriter(settings(tmp_path), config)
    config.write_text(f"{text}advisor.retrain_after = 77\nadvisor.reconcile_s = 9.0\n")
    changed = made.reload_settings()
    assert changed["advisor.reconcile_s"] == 9.0
    assert made._retrainer.after == 77
    assert [task.every_s for task in made._tasks if task.name == "reconcile"] == [9.0]


def test_records_count_as_outcomes_and_bad_ones_are_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken and replaced ones; what cannot be read is set aside."""
    made = HistoryWriter(settings(tmp_path), None)
    calls: list[Any] = []

    def ingest(history: Any, folder: Path, *, now_s: float) -> Any:
        calls.append((history, folder, now_s))
        return SimpleNamespace(taken=3, replaced=2, quarantined=len(calls) - 1)

    monkeypatch.setattr(writer, "ingest_folder", ingest)
    made.take_spool(ANYTHING, 5.0)
    assert caplog.messages == []
    made.take_spool(ANYTHING, 6.0)
    assert made._retrainer.outcomes == 10
    assert calls[0] == (ANYTHING, tmp_path / "spool", 5.0)
    assert caplog.messages == ["1 records cannot be read and were set aside"]


def test_old_runs_are_dropped_by_days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as the settings say."""
    calls: list[Any] = []
    monkeypatch.setattr(writer, "forget", lambda *arguments: calls.append(arguments))
    made = HistoryWriter(settings(tmp_path, history__retention_days=2), None)
    made.forget_old(ANYTHING, 1_000_000.0)
    assert calls == [(ANYTHING, 1_000_000.0 - 2 * 86400.0)]


def test_all_journals_are_read_and_old_ones_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for the newest, which may still grow."""
    folder = tmp_path / "journal"
    folder.mkdir()
    for name in ("2.jsonl", "1.jsonl", "3.jsonl", "x.txt"):
        (folder / name).touch()
    calls: list[Any] = []
    monkeypatch.setattr(
        writer, "record_journal", lambda _h, path, *, now_s: calls.append((path.name, now_s))
    )
    monkeypatch.setattr(writer, "delete_if_recorded", lambda _h, path: calls.append(path.name))
    HistoryWriter(settings(tmp_path), None).take_journals(ANYTHING, 5.0)
    journals = [("1.jsonl", 5.0), ("2.jsonl", 5.0), ("3.jsonl", 5.0)]
    assert calls == [*journals, "1.jsonl", "2.jsonl"]


def test_every_file_of_moves_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One that cannot be read hides no other, and is said at the end."""
    files = [tmp_path / name for name in "abc"]
    folders: list[Path] = []

    def listed(folder: Path) -> list[Path]:
        folders.append(folder)
        return files

    def recorded(_: Any, path: Path, *, now_s: float) -> Any:
        assert now_s == 5.0
        if path.name == "a":
            raise OSError(13, "denied")
        return SimpleNamespace(bad_lines=2 if path.name == "b" else 0)

    monkeypatch.setattr(writer, "action_files", listed)
    monkeypatch.setattr(writer, "record_actions", recorded)
    made = HistoryWriter(settings(tmp_path), None)
    with pytest.raises(OSError, match="denied"):
        made.take_moves(ANYTHING, 5.0)
    assert folders == [tmp_path / "moves"]
    assert caplog.messages == [f"{files[1]}: 2 lines are no moves; noted"]


def test_the_parents_pipe_tells_bytes_from_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte asks for the settings; the end is the server's."""
    read, write = os.pipe()
    calls: list[int] = []
    with os.fdopen(read) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        pipe = ParentPipe(lambda: calls.append(1))
        assert pipe.ended(0.0) is False
        assert calls == []
        os.write(write, b"\n")
        assert pipe.ended(5.0) is False
        assert calls == [1]
        os.close(write)
        assert pipe.ended(5.0) is True
        assert calls == [1]


def test_settings_that_are_wrong_leave_the_old_ones(caplog: pytest.LogCaptureFixture) -> None:
    """Sound ones reach the stream, too."""
    caplog.set_level(logging.INFO)
    taken: list[Settings] = []
    receiver: Any = SimpleNamespace(take=taken.append)
    sound = Settings(source="s.toml")

    class Good:
        def reload_settings(self) -> Settings:
            return sound

    class Bad:
        def reload_settings(self) -> Settings:
            raise InputError("s.toml", "bad")

    good, bad = Good(), Bad()
    writer._reload(bad, receiver)  # type: ignore[arg-type] # a stand-in
    assert taken == []
    writer._reload(good, receiver)  # type: ignore[arg-type] # a stand-in
    writer._reload(good, None)  # type: ignore[arg-type] # a stand-in
    assert taken == [sound]
    assert caplog.messages == [
        "settings stay as they were: s.toml: bad",
        "settings read again from s.toml",
        "settings read again from s.toml",
    ]


class Parent:
    """A pipe that ends after so many looks."""

    def __init__(self, looks: int, then: Callable[[], object] = lambda: None) -> None:
        self.looks, self.then, self.waits = looks, then, list[float]()

    def ended(self, wait_s: float) -> bool:
        """As the class says."""
        self.waits.append(wait_s)
        self.then()
        return len(self.waits) > self.looks


def test_rounds_go_on_until_the_server_ends(tmp_path: Path) -> None:
    """Or until another file takes the history's place."""
    rounds: list[Any] = []
    made: Any = SimpleNamespace(round=rounds.append)
    parent: Any = Parent(2)
    assert writer._serves(made, settings(tmp_path), parent) is False
    assert len(rounds) == 2
    assert parent.waits == [0.5, 0.5, 0.5]
    other = tmp_path / "other.db"
    open_history(other).close()
    parent = Parent(9, lambda: other.exists() and other.replace(tmp_path / "history.db"))
    assert writer._serves(made, settings(tmp_path), parent) is True
    assert len(rounds) == 2


def test_a_history_that_cannot_be_had_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Said once for each reason; given up when the server ends."""
    calls: list[Any] = []
    reasons = ["locked", "locked", "corrupt"]

    def opened(path: Path, *, busy_timeout_ms: int) -> Any:
        calls.append((path, busy_timeout_ms))
        if len(calls) <= len(reasons):
            raise HistoryError(reasons[len(calls) - 1])
        return "history"

    monkeypatch.setattr(writer, "open_history", opened)
    chosen = settings(tmp_path, history__busy_timeout_ms=77)
    parent: Any = Parent(9)
    history: Any = writer._history(chosen, parent)
    assert history == "history"
    assert parent.waits == [5.0] * 3
    assert set(calls) == {(tmp_path / "history.db", 77)}
    assert caplog.messages == [
        "locked; records wait in the spool meanwhile",
        "corrupt; records wait in the spool meanwhile",
    ]
    calls.clear()
    with pytest.raises(DlqueueError, match="locked"):
        writer._history(chosen, Parent(0))  # type: ignore[arg-type] # a stand-in


def test_the_writer_stops_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A replaced history is opened again; the stream and a training end with it."""
    calls: list[str] = []
    again = [True, False]
    receiver = SimpleNamespace(shutdown=lambda: calls.append("shutdown"))
    monkeypatch.setattr(writer, "start_receiver", lambda _: receiver)
    monkeypatch.setattr(HistoryWriter, "stop", lambda _: calls.append("stop"))
    monkeypatch.setattr(writer, "_serves", lambda *_: again.pop(0))
    writer.keep(settings(tmp_path), None)
    assert calls == ["stop", "shutdown"]
    assert caplog.messages == ["the history was replaced and is opened anew"]


def test_the_programs_exit_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An error of ours is one line and status 1; it goes behind the answering process."""
    calls: list[Any] = []
    monkeypatch.setattr("slurm_ext.advisor.history_writer.writer.os.nice", calls.append)
    monkeypatch.setattr(
        "slurm_ext.advisor.history_writer.writer.signal.signal", lambda *words: calls.append(words)
    )
    monkeypatch.setattr(writer, "set_up", calls.append)
    monkeypatch.setattr(
        writer, "keep", lambda chosen, config: calls.append((chosen.source, config))
    )
    config = tmp_path / "dlqueue.toml"
    config.write_text("")
    assert writer.main([str(config)]) == 0
    ignored = (signal.SIGINT, signal.SIG_IGN)
    assert calls == [5, ignored, "text", (str(config), config)]

    def failing(*_: Any) -> None:
        raise SlurmError("squeue", 1, "down")

    monkeypatch.setattr(writer, "keep", failing)
    assert writer.main([str(config)]) == 1
    assert caplog.messages == ["squeue (exit 1): down"]


# -- trainings ------------------------------------------------------------------------------------


class Training:
    """A child that ends when it is told to."""

    made: list["Training"] = []  # noqa: RUF012 (the test empties it)

    def __init__(self, command: list[str], **files: Any) -> None:
        self.command, self.files, self.pid = command, files, 4242
        self.returncode: int | None = None
        self.made.append(self)

    def poll(self) -> int | None:
        """Its status."""
        return self.returncode


def test_a_training_starts_with_enough_outcomes_and_a_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One at a time, a minute apart, as a patient child with a log."""
    caplog.set_level(logging.INFO)
    clock, nice = [0.0], list[Any]()
    Training.made.clear()
    monkeypatch.setattr("slurm_ext.advisor.history_writer.retrain.time.monotonic", lambda: clock[0])
    monkeypatch.setattr("slurm_ext.advisor.history_writer.retrain.subprocess.Popen", Training)
    monkeypatch.setattr(
        "slurm_ext.advisor.history_writer.retrain.os.setpriority", lambda *words: nice.append(words)
    )
    made = Retrainer(settings(tmp_path, advisor__retrain_after=3), tmp_path / "x.toml")
    made.outcomes = 2
    made.look(ANYTHING, 0.0)
    assert Training.made == []
    made.outcomes = 3
    made.look(ANYTHING, 0.0)
    (child,) = Training.made
    assert child.command == [
        sys.executable,
        "-P",
        "-m",
        "slurm_ext.cli",
        "train",
        "--config",
        str(tmp_path / "x.toml"),
    ]
    log = child.files["stdout"]
    assert child.files == {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
    assert log.name == str(tmp_path / "train.log")
    assert (nice, made.outcomes) == ([(os.PRIO_PROCESS, 4242, 10)], 0)
    made.outcomes = 5
    clock[0] = 100.0
    made.look(ANYTHING, 0.0)
    assert len(Training.made) == 1  # the first one still works
    child.returncode = 3
    clock[0] = 59.9
    made.look(ANYTHING, 0.0)
    assert len(Training.made) == 1
    assert caplog.messages == ["training ended with status 3; see train.log"]
    clock[0] = 60.0
    made.look(ANYTHING, 0.0)
    assert len(Training.made) == 2
    plain = Retrainer(settings(tmp_path), None)
    assert plain._command == [sys.executable, "-P", "-m", "slurm_ext.cli", "train"]


def test_a_training_ends_with_the_writer(tmp_path: Path) -> None:
    """None, one that has ended, and one that works."""
    made = Retrainer(settings(tmp_path), None)
    made.stop()
    with subprocess.Popen(["sleep", "60"]) as child:
        made._child = child
        made.stop()
        assert child.returncode == -signal.SIGTERM
        made.stop()
