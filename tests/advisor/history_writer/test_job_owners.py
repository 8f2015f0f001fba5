"""Records that a job's own user sends: what was measured is the user's word, all else Slurm's."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.advisor.history_writer import owners
from slurm_ext.advisor.history_writer.owners import ForeignRecordError, JobOwners
from slurm_ext.advisor.history_writer.receive import Receiver
from slurm_ext.core.errors import RecordError, SlurmError
from slurm_ext.core.settings.document import Settings
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store.store import open_history
from slurm_ext.slurm import CommandClient, JobInfo, MemoryClient
from tests.advisor.history_writer.test_received_records import a_record, announced, sent
from tests.history.conftest import add_decision

JOB = JobInfo(
    job_id=5,
    user_id=7,
    user_name="ada",
    name="train",
    state="COMPLETED",
    partition="main",
    account="lab",
    work_dir="/home/ada",
    submit_time_s=100,
    start_time_s=110,
    end_time_s=170,
    restarts=1,
    nodes="n[1-2]",
    exit_code=0,
)
SAID: dict[str, Any] = {
    "record_id": "c-5-1-n2",
    "identity": {"cluster": "c", "job_id": 5, "restart": 1, "node": "n2"},
    "counters": [{"name": "cpu"}],
}


def said(**identity: Any) -> dict[str, Any]:
    """The record with another identity, named after the job that it is about."""
    return {**SAID, "identity": {**SAID["identity"], **identity}}


def known(tmp_path: Path, **changes: Any) -> JobOwners:
    """Slurm knows the one job."""
    return JobOwners(MemoryClient(known_jobs=(replace(JOB, **changes),)), tmp_path)


def test_everything_that_slurm_knows_is_its_word(tmp_path: Path) -> None:
    """Whatever the record says of user, names, ids, times, end, witness and decision."""
    lies = said(uid=0, user="root", account="x", partition="x", job_name="x", work_dir="/")
    lies["identity"] |= {"array_job_id": 9, "array_task_id": 9}
    lies |= {"times": {"submit_s": 1}, "decision": "d1-0123456789abcdef"}
    lies["outcome"] = {"state": "FAILED", "exit_code": 9, "signal": 9, "source": "epilog"}
    assert known(tmp_path).as_slurm_says(lies, 7, "c") == {
        "record_id": "c-5-1-n2",
        "identity": {
            "cluster": "c",
            "job_id": 5,
            "restart": 1,
            "node": "n2",
            "user": "ada",
            "uid": 7,
            "account": "lab",
            "partition": "main",
            "job_name": "train",
            "work_dir": "/home/ada",
            "array_job_id": None,
            "array_task_id": None,
        },
        "times": {"submit_s": 100, "start_s": 110, "end_s": 170, "elapsed_s": 60},
        "outcome": {"state": "COMPLETED", "exit_code": 0, "signal": None, "source": "node"},
        "counters": [{"name": "cpu"}],
        "decision": None,
    }


@pytest.mark.parametrize(
    ("record", "uid", "why"),
    [
        (said(), 8, "job 5 is uid 7's, not uid 8's"),
        (said(job_id=6), 7, "Slurm does not know job 6"),
        (said(job_id="5"), 7, "Slurm does not know job '5'"),
        (said(job_id=True), 7, "Slurm does not know job True"),
        (said(restart=0), 7, "Slurm does not know this run of the job"),
        (said(cluster="d"), 7, "Slurm does not know this run of the job"),
        (said(node="n3"), 7, "job 5 was not on node 'n3'"),
        (said(node="n1"), 7, "is not the name of this run's record"),
    ],
)
def test_no_other_run_can_be_claimed(
    tmp_path: Path, record: dict[str, Any], uid: int, why: str
) -> None:
    """Refused for good: no node tries again."""
    with pytest.raises(ForeignRecordError) as caught:
        known(tmp_path).as_slurm_says(record, uid, "c")
    assert str(caught.value) == f"c-5-1-n2: {why}"


def test_a_job_that_runs_has_no_record_yet(tmp_path: Path) -> None:
    """It may be sent again; while its epilog runs, its end is told by the record."""
    with pytest.raises(RecordError, match=r"job 5 has not ended$") as caught:
        known(tmp_path, state="RUNNING").as_slurm_says(SAID, 7, "c")
    assert not isinstance(caught.value, ForeignRecordError)
    for state, told in (("FAILED", "FAILED"), ("nonsense", "UNKNOWN"), ([1], "UNKNOWN")):
        ending = known(tmp_path, state="COMPLETING")
        record = {**SAID, "outcome": {"state": state, "exit_code": 9}}
        outcome = ending.as_slurm_says(record, 7, "c")["outcome"]
        assert outcome == {"state": told, "exit_code": None, "signal": None, "source": "node"}


@pytest.mark.parametrize(
    ("token", "columns", "claimed", "decision"),
    [
        ("d1-tied", {"state": "claimed", "job_id": 5, "uid": 7}, "d1-x", "d1-tied"),
        ("d1-tied", {"state": "claimed", "job_id": 5, "uid": 8}, "d1-tied", None),
        ("d1-own", {"uid": 7, "decided_s": 99.0}, "d1-own", "d1-own"),
        ("d1-own", {"uid": 7, "decided_s": 99.0}, ["d1-own"], None),
        ("d1-own", {"uid": 7, "decided_s": 90.0}, "d1-own", "d1-own"),  # it was requeued since
        ("d1-own", {"uid": 7, "decided_s": 102.0}, "d1-own", None),
        ("d1-own", {"uid": 7, "decided_s": 99.0, "job_name": "other"}, "d1-own", None),
        ("d1-eve", {"uid": 8, "decided_s": 99.0}, "d1-eve", None),
        ("d1-other", {"state": "claimed", "job_id": 4, "uid": 7}, "d1-other", None),
    ],
)
def test_the_decision_is_the_ledgers(
    tmp_path: Path, token: str, columns: dict[str, Any], claimed: Any, decision: str | None
) -> None:
    """Tied to the job, else one of its user, name and moment that the record names."""
    with open_history(tmp_path / "history.db") as history:
        add_decision(history.conn, token, **{"state": "proposed", "job_name": "train", **columns})
    found = known(tmp_path).as_slurm_says({**SAID, "decision": claimed}, 7, "c")
    assert found["decision"] == decision


class CountingClient(MemoryClient):
    """Counts how often Slurm is asked."""

    __slots__ = ("count",)

    def jobs(self) -> tuple[JobInfo, ...]:
        """As the base class has it."""
        self.count = getattr(self, "count", 0) + 1
        return MemoryClient.jobs(self)


def test_slurm_is_asked_once_in_two_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever sends records of unknown or running jobs does not have Slurm asked each time."""
    clock = [100.0]
    monkeypatch.setattr("slurm_ext.advisor.history_writer.owners.time.monotonic", lambda: clock[0])
    client = CountingClient(known_jobs=(JOB, replace(JOB, job_id=9, state="RUNNING")))
    asked = JobOwners(client, tmp_path)
    for now_s, count in ((100.0, 1), (102.0, 1), (102.1, 2)):
        clock[0] = now_s
        asked.as_slurm_says(SAID, 7, "c")
        for job_id in (6, 9):
            with pytest.raises(RecordError):
                asked.as_slurm_says(said(job_id=job_id), 7, "c")
        assert client.count == count


def test_while_slurm_is_silent_nothing_is_decided(tmp_path: Path) -> None:
    """The error is no refusal for good: the node keeps the record and sends it again."""
    silent = JobOwners(CommandClient(bin_dir=str(tmp_path)), tmp_path)
    with pytest.raises(SlurmError):
        silent.as_slurm_says(SAID, 7, "c")


def test_a_users_waiting_records_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By bytes, each user's apart; what the history took or what was sent again counts no more."""
    monkeypatch.setattr(owners, "MAX_WAITING_BYTES", 10)
    waiting = known(tmp_path)
    files = [tmp_path / name for name in ("a.json", "b.json", "c.json")]
    for file in files[:2]:
        waiting.make_room(7, file, 5)
        file.touch()
    waiting.make_room(7, files[0], 5)
    with pytest.raises(RecordError, match=r"^c: uid 7 has too many records waiting$"):
        waiting.make_room(7, files[2], 1)
    waiting.make_room(8, files[2], 10)
    files[1].unlink()
    waiting.make_room(7, files[2], 1)


def test_an_owners_record_reaches_the_history_in_slurms_words(
    receiver: Receiver, tmp_path: Path
) -> None:
    """Over the wire, where the site lets job owners send: the user in the history is Slurm's."""
    receiver.take(Settings(values={"site.cluster": "c", "advisor.accept_job_owners": True}))
    golden = json.loads((Path(__file__).parents[2] / "golden" / "spool" / "v1.json").read_bytes())
    golden["record_id"] = "c-5-0-n"
    golden["identity"] |= {"cluster": "c", "job_id": 5, "node": "n", "uid": 0, "user": "root"}
    header, nodes_own = a_record()
    assert sent(receiver, announced(header, 0), nodes_own)
    raw = json.dumps(golden).encode()
    assert sent(receiver, announced(*signed(header, raw)), raw) == [{"v": 1, "ack": "c-5-0-n"}]
    assert (receiver.spool / "c-5-0-n.json").read_bytes() == nodes_own  # it still counts
    with open_history(tmp_path / "history.db") as history:
        assert ingest_folder(history, receiver.spool, now_s=1.0).taken == 1
        rows = history.conn.execute("SELECT user, uid, job_name, decision FROM runs").fetchall()
    assert rows == [("ada", 7, "", None)]


def signed(header: Any, raw: bytes) -> tuple[Any, int]:
    """The header of other bytes, signed by uid 7."""
    from hashlib import sha256

    digest = sha256(raw).hexdigest()
    return replace(header, size_bytes=len(raw), sha256=digest), 7
