"""What an advisor that is broken, slow or absent costs dlqueue.lua, in real interpreters."""

import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurm_ext.advisor.service.unix_socket import SUBMIT
from slurm_ext.core import wire
from slurm_ext.core.records import Submission
from tests.fake_advisor import (
    Behaviour,
    FakeAdvisor,
    drips,
    floods,
    half,
    hangs,
    hangs_up,
    reply,
    says,
)
from tests.lua.lua_controller import CHANGE, Controller, as_written, giant
from tests.lua.lua_process import Lua

FAULTS: dict[str, Behaviour] = {
    "hangs": hangs,
    "hangs_up": hangs_up,
    "drips": drips(CHANGE),
    "floods": floods,
    "half_a_line": half(CHANGE),
    "no_newline": says(CHANGE[:-1]),
    "garbage": says(b"\xff\x00\x1b[2J garbage\n"),
    "two_lines": says(CHANGE + CHANGE),
    "other_version": says(CHANGE.replace(b'"v": 1', b'"v": 2')),
    "wrong_types": says(CHANGE.replace(b'"cpus_per_task": 4', b'"cpus_per_task": "4"')),
    "off_the_white_list": says(reply({"extra": "boom"})),
    "long_line": says(reply(message="x" * 70_000)),
}


@pytest.mark.parametrize("behaviour", FAULTS.values(), ids=FAULTS)
def test_a_faulty_advisor_costs_one_try(lua: Lua, tmp_path: Path, behaviour: Behaviour) -> None:
    """The job goes as written, one line is logged, and the next jobs do not even ask."""
    controller = Controller(lua, tmp_path, deadline_ms=100)
    with FakeAdvisor(controller.socket, behaviour) as advisor:
        first = controller.submit()
        assert as_written(first)
        assert len(first[b"logged"]) == 1
        assert first[b"logged"][0].startswith(b"dlqueue: no advice (")
        for _ in range(3):
            following = controller.submit()
            assert as_written(following)
            assert following[b"logged"] == {}
        assert len(advisor.requests) == 1


def test_slurmctld_has_a_socket_of_its_own(controller: Controller) -> None:
    """A crowd in the queue of everybody's keeps nobody's job from an answer."""
    own = controller.socket.with_name(f"{controller.socket.name}{SUBMIT}")
    with a_full_backlog(controller.socket), FakeAdvisor(own, says(CHANGE)) as advisor:
        assert not as_written(controller.submit())
        assert len(advisor.requests) == 1


def wrong_for(*users: int) -> Behaviour:
    """Changes jobs of all users but these, whose questions have no answer that can be used."""

    def behaviour(connection: socket.socket, request: bytes) -> None:
        user = (wire.decode_request(request)[1] or Submission()).user_id
        connection.sendall(b"garbage\n" if user in users else CHANGE)

    return behaviour


def test_a_question_that_goes_wrong_costs_its_own_user_a_rest(controller: Controller) -> None:
    """Nobody else's jobs go as written for it, however many users there are before and after."""
    with FakeAdvisor(controller.socket, wrong_for(5)) as advisor:
        for user in (6, 5, 7, 5, 8, 5):
            assert as_written(controller.submit({"user_id": user})) == (user == 5)
        assert [job["user_id"] for job in advisor.jobs] == [6, 5, 7, 8]


def test_two_users_in_a_row_have_all_rest(controller: Controller) -> None:
    """An advisor that takes questions and answers none is left alone by everybody."""
    with FakeAdvisor(controller.socket, wrong_for(5, 6)) as advisor:
        results = [controller.submit({"user_id": user}) for user in (5, 6, 7)]
        assert [len(result[b"logged"]) for result in results] == [1, 1, 0]
        assert b"; jobs of user 5 go as written for 30 s" in results[0][b"logged"][0]
        assert b"; jobs go as written for 30 s" in results[1][b"logged"][0]
        assert len(advisor.requests) == 2


def test_two_users_with_an_answer_between_them_rest_alone(controller: Controller) -> None:
    """An advisor that answers others does well: two slow users are no reason to leave it alone."""
    with FakeAdvisor(controller.socket, wrong_for(5, 6)):
        assert [as_written(controller.submit({"user_id": u})) for u in (5, 7, 6, 7, 5, 6)] == [
            *(True, False),
            *(True, False),
            *(True, True),
        ]


def test_users_that_rest_are_bounded(controller: Controller) -> None:
    """64 may rest at a time; with one more, everybody does, and they are forgotten."""
    slow = range(1, 66)
    with FakeAdvisor(controller.socket, wrong_for(*slow)) as advisor:
        for user in slow:
            assert not as_written(controller.submit({"user_id": 1000}))
            assert controller.submit({"user_id": user})[b"logged"]
        assert as_written(controller.submit({"user_id": 1000}))
        assert len(advisor.requests) == 2 * 65


def test_a_user_is_asked_about_again_after_the_rest(controller: Controller) -> None:
    """As long as everybody's; a clock that steps back ends it at once."""
    controller.lua.run("real_time, now = os.time, 1000 os.time = function() return now end")
    try:
        with FakeAdvisor(controller.socket, wrong_for(5)):
            for seconds, tried in ((1000, 1), (1029, 0), (1030, 1), (1059, 0), (5, 1), (34, 0)):
                controller.lua.run(f"now = {seconds}")
                assert len(controller.submit({"user_id": 5})[b"logged"]) == tried
    finally:
        controller.lua.run("os.time = real_time")


@contextlib.contextmanager
def a_full_backlog(path: Path) -> Iterator[None]:
    """A listener whose queue is full and that never accepts (a stopped advisor)."""
    with socket.socket(socket.AF_UNIX) as listener, contextlib.ExitStack() as waiting:
        listener.bind(str(path))
        listener.listen(0)
        waiting.enter_context(socket.socket(socket.AF_UNIX)).connect(str(path))
        yield


@contextlib.contextmanager
def never_read(path: Path) -> Iterator[None]:
    """A listener that accepts nobody: the connection works, a large request fills its buffer."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(8)
        yield


@contextlib.contextmanager
def stale(path: Path) -> Iterator[None]:
    """A socket file that nobody listens on."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    yield


@contextlib.contextmanager
def a_plain_file(path: Path) -> Iterator[None]:
    """Not a socket at all."""
    path.write_text("not a socket")
    yield


@contextlib.contextmanager
def nothing(_: Path) -> Iterator[None]:
    """No such file."""
    yield


@pytest.mark.parametrize("there", [nothing, stale, a_plain_file, a_full_backlog, never_read])
def test_an_advisor_that_is_not_there_costs_one_try(
    lua: Lua, tmp_path: Path, there: Callable[[Path], contextlib.AbstractContextManager[None]]
) -> None:
    """Whatever stands at the socket's path, the job goes as written and one line says why."""
    controller = Controller(lua, tmp_path, deadline_ms=100)
    with there(controller.socket):
        results = [controller.submit({"script": giant(ord("x"))}) for _ in range(3)]
    assert all(map(as_written, results))
    assert [len(result[b"logged"]) for result in results] == [1, 0, 0]


def test_rests_are_told_when_they_are_over(controller: Controller) -> None:
    """How often the breaker rested goes with every request, so that the advisor can tell others."""
    controller.lua.run("real_time, now = os.time, 1000 os.time = function() return now end")
    told: list[int | None] = []

    def answer(connection: socket.socket, line: bytes) -> None:
        told.append(wire.rests_of(line))
        connection.sendall(reply())

    try:
        controller.submit()
        controller.lua.run("now = 2000")
        with FakeAdvisor(controller.socket, answer):
            assert as_written(controller.submit())
            assert as_written(controller.submit())
    finally:
        controller.lua.run("os.time = real_time")
    assert told == [1, 1]


def test_a_clock_that_steps_back_does_not_prolong_the_rest(controller: Controller) -> None:
    """The advisor is tried again after breaker_s, or as soon as the clock jumps either way."""
    controller.lua.run("real_time, now = os.time, 1000 os.time = function() return now end")
    try:
        assert controller.submit()[b"logged"]
        for seconds, tried in ((1029, False), (1030, True), (1059, False), (5, True), (34, False)):
            controller.lua.run(f"now = {seconds}")
            assert bool(controller.submit()[b"logged"]) == tried
    finally:
        controller.lua.run("os.time = real_time")


def test_the_deadline_holds_when_the_clock_steps_back(lua: Lua, tmp_path: Path) -> None:
    """A step while waiting for a dripping advisor does not make the wait longer than it was."""
    controller = Controller(lua, tmp_path, deadline_ms=100)
    controller.lua.run(
        "core = require('socket.core') gettime, back = core.gettime, 0"
        " core.gettime = function() back = back + 0.001 return gettime() - back end"
    )
    try:
        with FakeAdvisor(controller.socket, hangs):
            assert as_written(controller.submit())
    finally:
        controller.lua.run("core.gettime = gettime")


def test_without_luasocket_jobs_go_as_written(controller: Controller) -> None:
    """A controller without the library logs it and leaves every job alone."""
    controller.lua.run(
        "kept = { package.loaded['socket.core'], package.path, package.cpath }"
        " package.loaded['socket.core'], package.path, package.cpath = nil, '', ''"
    )
    try:
        result = controller.submit()
    finally:
        controller.lua.run(
            "package.loaded['socket.core'], package.path, package.cpath = kept[1], kept[2], kept[3]"
        )
    assert as_written(result)
    assert b"socket.core" in result[b"logged"][0]


@pytest.mark.root
def test_a_socket_of_another_owner_is_no_advisor(
    interpreter: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Where SlurmUser may not write to the socket, the job goes as written."""
    folder = Path(f"/tmp/dlq-{os.getpid()}-{interpreter}")
    folder.mkdir(mode=0o755)
    nobody = Lua(interpreter, user=65534)
    try:
        controller = Controller(nobody, folder)
        with FakeAdvisor(controller.socket, says(CHANGE)) as advisor:
            controller.socket.chmod(0o600)
            result = controller.submit()
            assert as_written(result)
            assert b"ermission denied" in result[b"logged"][0]
            assert advisor.connections == []
    finally:
        nobody.close()
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
