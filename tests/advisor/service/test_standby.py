"""Two advisors and one state folder: who waits, who claims, who makes room."""

import fcntl
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from slurm_ext.advisor.service import service, standby
from slurm_ext.advisor.service.standby import (
    CLAIM,
    ClaimWatch,
    other_cluster,
    owner_of,
    sign,
    wait_for_turn,
)
from slurm_ext.advisor.service.unix_socket import listener
from slurm_ext.core.errors import AdvisorError
from slurm_ext.core.files import try_lock
from slurm_ext.core.settings.document import Settings
from tests.whole import until

HERE = socket.gethostname()


def opened(folder: Path) -> int:
    """The lock's file, as an advisor opens it."""
    return os.open(folder / "advisor.lock", os.O_RDWR | os.O_CREAT, 0o640)


@pytest.fixture
def other(tmp_path: Path) -> Iterator[int]:
    """The lock as another host's advisor holds it."""
    lock = opened(tmp_path)
    assert try_lock(lock)
    os.pwrite(lock, b"other\n", 0)
    yield lock
    os.close(lock)


@contextmanager
def waiting(folder: Path, trusted: set[int]) -> Iterator[threading.Thread]:
    """An advisor of this host that waits for its turn until the lock is free."""
    lock = opened(folder)
    with listener(folder / "door", 0o600) as door:
        thread = threading.Thread(target=wait_for_turn, args=(lock, folder, door, trusted))
        thread.start()
        yield thread
        thread.join(60)
        assert not thread.is_alive()
    os.close(lock)


def ask(folder: Path, line: bytes) -> None:
    """A connection, and what comes through it; it is turned away."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(folder / "door"))
        with suppress(ConnectionResetError, BrokenPipeError):  # nobody read what was sent
            client.sendall(line)
            client.shutdown(socket.SHUT_WR)
            assert client.recv(1) == b""


def test_a_question_claims_the_folder(tmp_path: Path, other: int) -> None:
    """A connection alone, as doctor's, does not."""
    with waiting(tmp_path, {os.geteuid()}):
        ask(tmp_path, b"")
        assert not (tmp_path / CLAIM).exists()
        ask(tmp_path, b"{")
        until((tmp_path / CLAIM).exists, "no claim")
        assert (tmp_path / CLAIM).read_text() == HERE
        fcntl.flock(other, fcntl.LOCK_UN)


def test_a_user_claims_nothing(tmp_path: Path, other: int) -> None:
    """Only slurmctld's user, root and who is trusted are listened to."""
    with waiting(tmp_path, set()):
        ask(tmp_path, b"{")
        fcntl.flock(other, fcntl.LOCK_UN)
    assert not (tmp_path / CLAIM).exists()


def test_who_has_the_lock_signs_it_and_ends_all_claims(tmp_path: Path, other: int) -> None:
    """A longer name of before leaves nothing behind."""
    os.pwrite(other, b"a-much-longer-name-than-any-host-of-the-tests-has.example.org", 0)
    (tmp_path / CLAIM).write_text(HERE)
    sign(other, tmp_path, "alpha")
    assert owner_of(other) == (HERE, "alpha")
    assert (other_cluster(other, "alpha"), other_cluster(other, "beta")) == ("", "alpha")
    assert not (tmp_path / CLAIM).exists()


@pytest.mark.parametrize("cluster", ["", " two\nlines\t", 90 * "long ", 300 * "\N{SNOWMAN}"])
def test_a_cluster_knows_its_own_folder_again(tmp_path: Path, other: int, cluster: str) -> None:
    """Whatever site.cluster is: the setting takes any text."""
    sign(other, tmp_path, cluster)
    assert other_cluster(other, cluster) == ""


@pytest.mark.parametrize("host", [HERE, "other"])
def test_two_clusters_take_no_turns(tmp_path: Path, other: int, host: str) -> None:
    """An advisor of another cluster is refused in one line, on this host and on any other."""
    os.pwrite(other, f"{host}\nalpha".encode(), 0)
    values = {"paths.state_dir": str(tmp_path), "site.cluster": "beta"}
    with pytest.raises(AdvisorError) as caught, service._alone(Settings(values=values)):
        pass
    assert str(caught.value) == (
        f"{tmp_path} is the state folder of cluster alpha, whose advisor runs on {host};"
        " give cluster beta another paths.state_dir"
    )
    assert owner_of(other) == (host, "alpha")
    assert not (tmp_path / CLAIM).exists()


@pytest.mark.parametrize("claim", [None, HERE, "", "other"])
def test_an_advisor_ends_for_another_host_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, claim: str | None
) -> None:
    """Its own claim, and none, leave it in peace."""
    ended: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: ended.append(pid))
    monkeypatch.setattr(standby, "LOOK_S", 0.01)
    if claim is not None:
        (tmp_path / CLAIM).write_text(claim)
    watch = ClaimWatch(tmp_path)
    watch.start()
    if claim == "other":
        until(lambda: ended, "it goes on")
    watch.stop()
    watch.join(60)
    assert ended == ([os.getpid()] if claim == "other" else [])
