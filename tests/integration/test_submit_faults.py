"""Whatever is wrong with advisor or Lua: the job runs as written and its user sees nothing."""

import contextlib
import itertools
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from slurm_ext.sandbox import Sandbox
from tests.conftest import MakeSandbox
from tests.fake_advisor import (
    Behaviour,
    FakeAdvisor,
    cpus,
    drips,
    floods,
    half,
    hangs,
    hangs_up,
    reply,
    says,
)
from tests.whole import until

pytestmark = pytest.mark.slurm

SCRIPT = """#!/bin/bash
echo "$SLURM_CPUS_PER_TASK $SRUN_CPUS_PER_TASK $DLQUEUE_DECISION"
srun echo ran
"""
CHANGE = reply(cpus(4, DLQUEUE_DECISION="d1-0"), "dlqueue: cpus-per-task 2 -> 4")
_later = itertools.count(1)


@pytest.fixture(scope="module")
def slurm(make_module_sandbox: MakeSandbox) -> Sandbox:
    """A Slurm with our Lua and settings as they ship, but for a short deadline."""
    return make_module_sandbox(cpus=4, lua=True, settings={"advisor.deadline_ms": 100})


def reload(slurm: Sandbox) -> None:
    """Makes slurmctld read the Lua again at the next submission, with a closed breaker."""
    when = time.time() + next(_later)
    os.utime(slurm.path("etc/job_submit.lua"), (when, when))


def runs_as_written(slurm: Sandbox) -> None:
    """A job goes through unchanged and silently, completes, and the node stays up."""
    job_id, said = slurm.sbatch("-c2", script=SCRIPT)
    assert said == ""
    assert slurm.wait(job_id) == "COMPLETED"
    assert slurm.output(job_id) == "2  \nran\n"
    assert slurm.job(job_id)["NumCPUs"] == "2"
    slurm.wait_for_nodes()


def goes_as_written(slurm: Sandbox) -> None:
    """The next submission, held so that it need not run, is unchanged and silent as well."""
    job_id, said = slurm.sbatch("-H", "-c2", script=SCRIPT)
    assert (said, slurm.job(job_id)["NumCPUs"]) == ("", "2")


FAULTS: dict[str, Behaviour] = {
    "hung": hangs,
    "hangs_up": hangs_up,
    "slow": drips(CHANGE),
    "garbage": says(b"\x1b[2J\xff\x00 garbage\n"),
    "half_a_line": half(CHANGE),
    "100_MB": floods,
    "wrong_types": says(CHANGE.replace(b'"cpus_per_task": 4', b'"cpus_per_task": "4"')),
    "other_version": says(CHANGE.replace(b'"v": 1', b'"v": 2')),
    "field_off_the_white_list": says(reply({**cpus(4), "extra": "crashes slurmctld"})),
}


@pytest.mark.parametrize("behaviour", FAULTS.values(), ids=FAULTS)
def test_a_faulty_advisor(slurm: Sandbox, behaviour: Behaviour) -> None:
    """It is asked once, then left alone; both jobs run as written."""
    reload(slurm)
    with FakeAdvisor(Path(slurm.settings["paths.socket"]), behaviour) as advisor:
        runs_as_written(slurm)
        goes_as_written(slurm)
        until(lambda: advisor.requests, "it was not asked")
        assert len(advisor.requests) == 1


@contextlib.contextmanager
def absent(_: Path) -> Iterator[None]:
    """No socket."""
    yield


@contextlib.contextmanager
def stale(path: Path) -> Iterator[None]:
    """A socket that a dead advisor left."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    yield
    path.unlink()


@contextlib.contextmanager
def foreign(path: Path) -> Iterator[None]:
    """Something else of that name."""
    path.write_text("not a socket")
    yield
    path.unlink()


@pytest.mark.parametrize("there", [absent, stale, foreign])
def test_no_advisor(slurm: Sandbox, there: Callable[[Path], AbstractContextManager[None]]) -> None:
    """Nobody listens: the job runs as written, and slurmctld's log says so in one line."""
    reload(slurm)
    before = slurm.log("slurmctld").count("dlqueue: no advice")
    with there(Path(slurm.settings["paths.socket"])):
        runs_as_written(slurm)
        goes_as_written(slurm)
    assert slurm.log("slurmctld").count("dlqueue: no advice") == before + 1


def test_an_advisor_that_comes_back_is_asked_again(make_sandbox: MakeSandbox) -> None:
    """After the breaker's time, and after its restart, the advisor's edits take again."""
    slurm = make_sandbox(lua=True, cpus=4, settings={"advisor.breaker_s": 1})
    runs_as_written(slurm)
    time.sleep(1.5)
    for _restart in range(2):
        with FakeAdvisor(Path(slurm.settings["paths.socket"]), says(CHANGE)) as advisor:
            said = [slurm.sbatch("-H", "-c2", script=SCRIPT)[1] for _ in range(2)]
            assert said == ["sbatch: dlqueue: cpus-per-task 2 -> 4\n"] * 2
            assert len(advisor.connections) == 1


def test_the_kill_file(slurm: Sandbox) -> None:
    """While it exists nobody is asked; no restart is needed, either way."""
    reload(slurm)
    kill_file = Path(slurm.settings["paths.kill_file"])
    with FakeAdvisor(Path(slurm.settings["paths.socket"]), says(CHANGE)) as advisor:
        kill_file.touch()
        runs_as_written(slurm)
        assert advisor.connections == []
        kill_file.unlink()
        until(partial(heard, slurm), "nobody is asked")


def heard(slurm: Sandbox) -> bool:
    """Whether a submission, with a closed breaker, is told what the advisor says."""
    reload(slurm)
    return bool(slurm.sbatch("-H", "-c2", script=SCRIPT)[1])


def missing(lua: Path) -> None:
    """dlqueue.lua is not there."""
    (lua / "dlqueue.lua").unlink()


def syntax_error(lua: Path) -> None:
    """dlqueue.lua is not Lua."""
    (lua / "dlqueue.lua").write_text("function (")


def empty(lua: Path) -> None:
    """dlqueue.lua was cut to nothing."""
    (lua / "dlqueue.lua").write_text("")


def raises(lua: Path) -> None:
    """dlqueue.lua raises while it is loaded."""
    (lua / "dlqueue.lua").write_text("error('boom')")


def raises_later(lua: Path) -> None:
    """dlqueue.lua raises when it is called."""
    (lua / "dlqueue.lua").write_text("return { submit = function() error('boom') end }")


def no_settings(lua: Path) -> None:
    """The rendered settings are not there."""
    (lua / "dlqueue_settings.lua").unlink()


def broken_part(lua: Path) -> None:
    """A part of it is half written."""
    (lua / "edits.lua").write_text("local edits = {")


BREAK = [missing, syntax_error, empty, raises, raises_later, no_settings, broken_part]


@pytest.mark.parametrize("broken", BREAK)
def test_broken_lua_at_run_time(slurm: Sandbox, broken: Callable[[Path], None]) -> None:
    """The shim survives whatever is wrong with the files behind it."""
    lua = slurm.path("etc/lua")
    kept = {path: path.read_bytes() for path in lua.iterdir()}
    try:
        with FakeAdvisor(Path(slurm.settings["paths.socket"]), says(CHANGE)):
            broken(lua)
            reload(slurm)
            runs_as_written(slurm)
    finally:
        for path, content in kept.items():
            path.write_bytes(content)


@pytest.mark.parametrize("broken", [missing, syntax_error])
def test_broken_lua_when_slurmctld_starts(
    make_sandbox: MakeSandbox, broken: Callable[[Path], None]
) -> None:
    """The controller comes up, and jobs run, without a usable dlqueue.lua."""
    slurm = make_sandbox(lua=True)
    broken(slurm.path("etc/lua"))
    slurm.restart("slurmctld")
    runs_as_written(slurm)
