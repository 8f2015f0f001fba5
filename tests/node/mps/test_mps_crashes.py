"""Hooks that run at once and hooks that are killed anywhere: one daemon, and none in the end."""

import os
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from slurm_ext.node.mps import acquire, release
from slurm_ext.node.mps import notes as mps_notes
from slurm_ext.node.mps import registry as mps_registry
from slurm_ext.node.mps.daemon import MpsDaemon
from slurm_ext.node.mps.rules import PIPE
from tests.mps_standin import Client
from tests.node.by_mps import MpsNode

MakeMps = Callable[..., MpsNode]
JOBS = 6
PROLOG = [
    (mps_registry, "make"),
    (mps_registry, "make_numbered"),
    (mps_registry, "add"),
    (MpsDaemon, "start"),
    (mps_registry, "save_daemon"),
    (mps_notes, "write_for_task"),
]
EPILOG = [
    (release, "_befell"),
    (mps_registry, "drop"),
    (release, "_end"),
    (MpsDaemon, "end"),
    (mps_registry, "remove"),
]


def _apart(work: Callable[[], object]) -> int:
    """The work in a process of its own; its pid."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        work()
        status = 0
    except BaseException:
        traceback.print_exc(file=sys.stderr)
    os._exit(status)


def _all_well(pids: list[int]) -> bool:
    return [os.waitpid(pid, 0)[1] for pid in pids] == [0] * len(pids)


def test_jobs_that_come_and_go_at_once(make_mps: MakeMps) -> None:
    """Each has a daemon that serves it from its prolog to its epilog; none is left, nor two."""
    node = make_mps(**{"mps.drain_s": 5.0})

    def live(job: int) -> None:
        client = Client(node.start(job)[PIPE])
        assert client.answer == "ok"
        assert len(node.daemons()) == 1
        client.close()
        assert node.end(job) == []

    assert _all_well([_apart(partial(live, job)) for job in range(1, 1 + JOBS)])
    assert (node.ours(), node.remains()) == ([], [])


def _killed(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _killed_after(owner: Any, name: str) -> Callable[..., None]:
    real = getattr(owner, name)

    def deadly(*args: Any, **named: Any) -> None:
        real(*args, **named)
        _killed()

    return deadly


@pytest.mark.parametrize(("owner", "name"), PROLOG, ids=[name for _, name in PROLOG])
def test_a_prolog_killed_anywhere(make_mps: MakeMps, owner: Any, name: str) -> None:
    """Another job gets its daemon, and after both no process and no folder is left."""
    node = make_mps(**{"mps.drain_s": 5.0})

    def die() -> None:
        setattr(owner, name, _killed)
        node.start(1)

    assert os.waitpid(_apart(die), 0)[1] == signal.SIGKILL
    told = node.start(2)
    assert len(node.daemons()) == 1
    node.end(1)
    client = Client(told[PIPE])
    assert client.answer == "ok"
    client.close()
    assert node.end(2) == []
    assert (node.ours(), node.remains()) == ([], [])


@pytest.mark.parametrize(("owner", "name"), EPILOG, ids=[name for _, name in EPILOG])
def test_an_epilog_killed_anywhere(make_mps: MakeMps, owner: Any, name: str) -> None:
    """Whoever comes next, another job's hook or the housekeeping, ends what it left."""
    node = make_mps(**{"mps.drain_s": 5.0})
    node.start(1)

    def die() -> None:
        setattr(owner, name, _killed)
        node.end(1)

    assert os.waitpid(_apart(die), 0)[1] == signal.SIGKILL
    (node.root / "spool/state/1.0.done").touch()  # its record was written by a later hook
    assert node.start(2) != {}
    assert node.end(2) == []
    assert (node.ours(), node.remains()) == ([], [])


def test_a_prolog_killed_just_after_the_start(make_mps: MakeMps) -> None:
    """A daemon of which nothing is written down is found by its pipe folder, and used."""
    node = make_mps(**{"mps.drain_s": 5.0})

    def die() -> None:
        MpsDaemon.start = _killed_after(MpsDaemon, "start")  # type: ignore[method-assign]
        node.start(1)

    assert os.waitpid(_apart(die), 0)[1] == signal.SIGKILL
    before = node.daemons()
    assert node.start(2) != {}
    assert node.daemons() == before
    node.end(1)
    assert node.end(2) == []
    assert (node.ours(), node.remains()) == ([], [])


def test_a_daemon_killed_in_mid_start(make_mps: MakeMps) -> None:
    """It is there by its pipe folder, and does not answer: the start is not taken for done."""
    node = make_mps()
    node.misbehave(deaf=["get_server_list"])
    node.hurry(0.8)
    assert node.start(1) == {}
    node.hurry(20.0)
    node.misbehave(deaf=[])
    assert "did not start in time" in node.end(1)[0]
    assert (node.ours(), node.remains()) == ([], [])


def test_the_doors_never_raise(make_mps: MakeMps, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever fails inside, the hook goes on, and the record says so."""
    node = make_mps()

    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(acquire, "_have_daemon", broken)
    assert node.start(1) == {}
    monkeypatch.setattr(release, "_befell", broken)
    monkeypatch.setattr(release, "_sweep", broken)
    assert node.end(1) == ["MPS: none on GPU 0: RuntimeError: broken; plain time slicing"]
