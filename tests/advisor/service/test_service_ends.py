"""`dlqueue serve` ended, killed, started twice, over any history: nothing is lost or doubled."""

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slurm_ext.advisor.service.unix_socket import listener
from slurm_ext.core.errors import AdvisorError
from tests.advisor.a_service import PING, Service, deliver, ledger, runs, until


def test_it_ends_cleanly_and_takes_its_socket_and_history_writer_along(service: Service) -> None:
    """SIGTERM: status 0, no socket, no process left."""
    writer = service.writer()
    assert service.stop() == 0
    assert not service.socket.exists()
    assert not Path(f"/proc/{writer}").exists()


def test_nobody_waits_for_an_advisor_that_is_ending(service: Service) -> None:
    """While its history writer ends slowly, there is no socket that accepts and says nothing."""
    writer = service.writer()
    os.kill(writer, signal.SIGSTOP)
    try:
        with service.connect() as client:
            assert service.process is not None
            service.process.terminate()
            assert client.recv(1) == b""
        until(lambda: not service.socket.exists(), "the socket gone")
        assert service.process.poll() is None
    finally:
        os.kill(writer, signal.SIGCONT)
    assert service.process.wait(100) == 0


def test_a_killed_service_takes_its_history_writer_along_and_starts_again(service: Service) -> None:
    """After kill -9 the stale socket is replaced, and what was proposed is not lost."""
    token = service.submit()["decision"]
    writer = service.writer()
    service.stop(signal.SIGKILL)
    until(lambda: not Path(f"/proc/{writer}").exists(), "the history writer's end")
    assert service.socket.exists()
    service.start()
    until(lambda: token in [found for found, _ in ledger(service)], "the entry")
    assert service.submit()["decision"] is not None


def test_a_living_advisor_is_not_replaced(service: Service) -> None:
    """A second start is refused with what to do, and the first goes on."""
    command = [sys.executable, "-m", "slurm_ext.cli", "serve", "--config", str(service.config)]
    second = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert second.returncode == 1
    assert "another advisor uses" in second.stderr
    assert service.say(PING)["v"] == 1


def test_a_socket_in_use_a_file_and_a_link_in_its_place_are_refused(tmp_path: Path) -> None:
    """Only a stale socket is ever replaced; the permission bits are the setting's."""
    path = tmp_path / "a.sock"
    with listener(path, 0o600):
        assert path.stat().st_mode & 0o777 == 0o600
        with pytest.raises(AdvisorError, match="already answers"):
            listener(path, 0o600)
    listener(path, 0o660).close()
    path.unlink()
    path.write_text("mine")
    with pytest.raises(AdvisorError, match="in the way"):
        listener(path, 0o600)
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AdvisorError, match="in the way"):
        listener(path, 0o600)


@pytest.mark.parametrize("damage", ["absent", "corrupt", "locked", "newer"])
def test_submissions_are_answered_whatever_the_history_is_like(tmp_path: Path, damage: str) -> None:
    """The database is not on the submit path: it may be gone, damaged, locked or too new."""
    service = Service(tmp_path)
    state = tmp_path / "state"
    state.mkdir()
    path = state / "history.db"
    lock = None
    if damage == "corrupt":
        path.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    elif damage != "absent":
        service.start()
        until(lambda: runs(service) == 0 and path.exists() and ledger(service) == [], "a history")
        service.stop()
        lock = sqlite3.connect(path, isolation_level=None)
        if damage == "newer":
            lock.execute("INSERT INTO migrations VALUES ('from_the_future', 0)")
        else:
            lock.execute("BEGIN EXCLUSIVE")
    try:
        service.start()
        tokens = {service.submit()["decision"] for _ in range(3)}
        assert len(tokens) == 3
        assert None not in tokens
    finally:
        if lock is not None:
            lock.close()
        service.stop()


@pytest.mark.parametrize("wait_s", [0.0, 0.05, 0.2, 0.5])
def test_a_history_writer_killed_at_any_time_loses_and_doubles_nothing(
    service: Service, wait_s: float
) -> None:
    """Every proposal and every record is in exactly once after any number of kill -9."""
    tokens = []
    for job_id in range(30):
        tokens.append(service.submit()["decision"])
        deliver(service, job_id, decision=tokens[-1])
        if job_id % 10 == 9:
            time.sleep(wait_s)
            os.kill(service.writer(), signal.SIGKILL)
    until(lambda: ledger(service) == [(token, "claimed") for token in tokens], "the ledger")
    assert runs(service) == 30


def test_left_behind_journals_are_read_and_removed(service: Service) -> None:
    """A new start begins a new journal; the old one goes once all of it is in the ledger."""
    token = service.submit()["decision"]
    until(lambda: ledger(service) == [(token, "proposed")], "an entry")
    service.stop()
    service.start()
    journal = service.folder / "state" / "journal"
    until(lambda: len(list(journal.iterdir())) == 1, "one journal")
    assert ledger(service) == [(token, "proposed")]


def test_the_socket_is_never_seen_with_other_permission_bits(tmp_path: Path) -> None:
    """It appears under its name only when it is ready, with its mode, and listening."""
    path = tmp_path / "a.sock"
    with listener(path, 0o666), socket.socket(socket.AF_UNIX) as client:
        assert path.stat().st_mode & 0o777 == 0o666
        client.connect(str(path))
    assert [p.name for p in tmp_path.iterdir()] == ["a.sock"]
