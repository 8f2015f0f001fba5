"""dlqueue.lua in real interpreters against real sockets: what it asks and what it is told."""

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.core import records, wire
from slurm_ext.core.job_keys import MAX_SCRIPT_BYTES
from slurm_ext.core.records import Submission
from tests.fake_advisor import (
    DECISION,
    FakeAdvisor,
    reply,
    says,
)
from tests.lua.lua_controller import AS_WRITTEN, CHANGE, Controller, as_written, giant

# What is asked -----------------------------------------------------------------------------


def asked(controller: Controller, *args: Any, **kwargs: Any) -> Submission:
    """The submission that the advisor decodes when this job is submitted."""
    lines: list[bytes] = []

    def answer(connection: socket.socket, line: bytes) -> None:
        lines.append(line)
        connection.sendall(reply())

    with FakeAdvisor(controller.socket, answer):
        assert controller.submit(*args, **kwargs)[b"logged"] == {}
    kind, job = wire.decode_request(lines[0])
    assert kind == "submit"
    assert len(lines[0]) <= wire.MAX_LINE_BYTES
    assert wire.request_size(lines[0]) == len(lines[0])
    assert job is not None
    return job


def test_unset_fields_are_absent(controller: Controller) -> None:
    """Slurm's sentinels for "not set" never reach the advisor as numbers."""
    assert asked(controller) == Submission(
        name="train.sh",
        user_id=1000,
        user_name="ada",
        script="#!/bin/bash\ntrue\n",
        work_dir="/home/ada",
        min_cpus=1,
    )


def test_every_field_arrives(controller: Controller) -> None:
    """Each field of Submission is filled from Slurm's own, sizes in MiB and times in minutes."""
    env = dict.fromkeys(records.ENV_NAMES, "1")
    fields = {
        "partition": "gpu",
        "account": "vision",
        "qos": "high",
        "reservation": "class",
        "comment": "mine",
        "num_tasks": 2,
        "ntasks_per_node": 1,
        "min_nodes": 2,
        "max_nodes": 3,
        "cpus_per_task": 4,
        "min_cpus": 8,
        "pn_min_cpus": 4,
        "min_mem_per_cpu": 400,
        "min_mem_per_node": 0,
        "time_limit": 60,
        "shared": 0,
        "array_inx": "0-3",
        "het_job_offset": 0,
        "tres_per_job": "gres:gpu:2",
        "tres_per_node": "gres:gpu:1",
        "cpus_per_tres": "gres:gpu:4",
        "tres_per_task": "cpu=4",
        "tres_per_socket": "gres:gpu:3",
        "tres_bind": "gpu:closest",
        "tres_freq": "gpu:low",
        "mem_per_tres": "gres:gpu:100",
        "ntasks_per_tres": 1,
        "ntasks_per_core": 1,
        "ntasks_per_socket": 2,
        "sockets_per_node": 1,
        "cores_per_socket": 4,
        "threads_per_core": 1,
        "bitflags": 503316480 + 16,
        "features": "a|b",
        "prefer": "c",
        "argc": 3,
        "argv": {0: "train.sh", 1: "--lr", 2: ""},
    }
    assert asked(controller, fields, {**env, "SECRET": "x"}) == Submission(
        name="train.sh",
        user_id=1000,
        user_name="ada",
        partition="gpu",
        account="vision",
        qos="high",
        reservation="class",
        script="#!/bin/bash\ntrue\n",
        comment="mine",
        argv=("train.sh", "--lr", ""),
        work_dir="/home/ada",
        num_tasks=2,
        ntasks_per_node=1,
        min_nodes=2,
        max_nodes=3,
        cpus_per_task=4,
        min_cpus=8,
        pn_min_cpus=4,
        mem_per_cpu_mib=400,
        mem_per_node_mib=0,
        time_limit_minutes=60,
        shared=0,
        array="0-3",
        het_offset=0,
        cpus_per_tres="gres:gpu:4",
        tres_per_job="gres:gpu:2",
        tres_per_node="gres:gpu:1",
        tres_per_socket="gres:gpu:3",
        tres_per_task="cpu=4",
        tres_bind="gpu:closest",
        tres_freq="gpu:low",
        mem_per_tres="gres:gpu:100",
        ntasks_per_tres=1,
        ntasks_per_core=1,
        ntasks_per_socket=2,
        sockets_per_node=1,
        cores_per_socket=4,
        threads_per_core=1,
        binds_gres=1,
        features="a|b",
        prefer="c",
        env=env,
    )


def test_the_golden_request_is_what_lua_writes(controller: Controller) -> None:
    """The wire's golden request is what this job becomes, field by field."""
    golden = Path(__file__).parent.parent / "golden" / "wire" / "submit-v2.txt"
    job = wire.decode_request(golden.read_bytes())[1]
    fields = {
        "partition": "gpu",
        "account": "vision",
        "argc": 1,
        "argv": {0: "train.sh"},
        "script": "#!/bin/bash\n#SBATCH -c 1\npython3 train.py --workers 0\n",
        "min_nodes": 1,
        "num_tasks": 1,
        "cpus_per_task": 1,
        "min_cpus": 1,
        "pn_min_cpus": 1,
        "min_mem_per_cpu": 400,
        "time_limit": 60,
    }
    assert asked(controller, fields, {"SLURM_CPUS_PER_TASK": "1"}) == job


def test_infinite_numbers_are_absent(controller: Controller) -> None:
    """INFINITE, and memory's 64-bit "not set", are no numbers either."""
    job = asked(
        controller,
        {"time_limit": 4294967295, "cpus_per_task": 65535, "min_mem_per_node": 2.0**64},
    )
    found = (job.time_limit_minutes, job.cpus_per_task, job.mem_per_node_mib)
    assert found == (None, None, None)


def test_defaults_that_slurm_fills_in_later_are_told(controller: Controller) -> None:
    """A job that names neither is asked about with the default partition and account."""
    partitions = {"cpu": {"flag_default": 0}, "gpu": {"flag_default": 1}}
    job = asked(controller, {"default_account": "vision"}, partitions=partitions)
    assert (job.partition, job.account) == ("gpu", "vision")


HOSTILE = (
    b"'; DROP TABLE runs; --",
    b"<script>alert(1)</script>",
    b"\x1b]0;title\x07\x1b[2J",
    b"a\nb\r\n",
    b"\xff\xfe\x80",
    b'\\"}],"v":2',
    "ünï→😀".encode(),
)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_texts_arrive_as_they_are(controller: Controller, hostile: bytes) -> None:
    """Names, comments, scripts and arguments are data, whatever bytes they hold."""
    fields = {"name": hostile, "comment": hostile, "script": b"#!/bin/sh\n" + hostile}
    job = asked(controller, {**fields, "argc": 1, "argv": {0: hostile}}, {"DLQUEUE": hostile})
    text = hostile.decode("utf-8", "surrogateescape")
    assert (job.name, job.comment, job.argv) == (text, text, (text,))
    assert job.script == "#!/bin/sh\n" + text
    assert job.env == {"DLQUEUE": text}


@pytest.mark.parametrize("byte", [ord("x"), ord('"'), 1, 255])
def test_giant_texts_are_cut(controller: Controller, byte: int) -> None:
    """4 MB of script and of everything else still make a request that the advisor accepts."""
    names = ("name", "comment", "work_dir", "account", "tres_per_node", "script")
    fields = dict.fromkeys(names, giant(byte))
    argv = {i: bytes([byte]) * 600 for i in range(300)}
    job = asked(controller, {**fields, "argc": 300, "argv": argv})
    assert job.script_truncated
    assert job.script is not None
    assert len(job.script) == MAX_SCRIPT_BYTES
    assert (len(job.name), len(job.argv), len(job.argv[0])) == (1024, 64, 512)


@pytest.mark.parametrize(("size", "cut"), [(MAX_SCRIPT_BYTES, False), (MAX_SCRIPT_BYTES + 1, True)])
def test_a_script_is_seen_whole_up_to_its_bound(
    controller: Controller, size: int, cut: bool
) -> None:
    """One byte more, and the advisor knows that it does not see all of it; a busy machine aside."""
    controller.lua.run(
        "core = require('socket.core') gettime = core.gettime"
        " local now = gettime() core.gettime = function() return now end"
    )
    try:
        job = asked(controller, {"script": "x" * size})
    finally:
        controller.lua.run("core.gettime = gettime")
    assert (len(job.script or ""), job.script_truncated) == (MAX_SCRIPT_BYTES, cut)


def test_an_environment_that_takes_long_is_not_looked_through(controller: Controller) -> None:
    """Slurm compares every variable with each name; such a job is left as written."""
    controller.lua.run(
        "core = require('socket.core') gettime, later = core.gettime, 0"
        " core.gettime = function() later = later + 0.0002 return gettime() + later end"
    )
    try:
        job = asked(controller, {}, {"DLQUEUE": "on", "DLQUEUE_ELASTIC": "1"})
    finally:
        controller.lua.run("core.gettime = gettime")
    assert job.env == {"DLQUEUE": "on"}
    assert job.script_truncated


def test_a_text_ends_at_nul(controller: Controller) -> None:
    """Slurm's own texts do, and nothing behind it becomes another field."""
    job = asked(controller, {"name": b"nul\0user_name=root", "script": b"#!/bin/sh\n\0name=x"})
    assert (job.name, job.user_name, job.script) == ("nul", "ada", "#!/bin/sh\n")


# Who is asked, and when --------------------------------------------------------------------


def test_an_answer_changes_the_job_and_tells_the_user(controller: Controller) -> None:
    """The plain case: fields, environment and one line for the user."""
    with FakeAdvisor(controller.socket, says(CHANGE)):
        result = controller.submit()
    assert {result[b"job"][name] for name in AS_WRITTEN} == {4}
    assert result[b"env"][b"DLQUEUE_DECISION"] == DECISION.encode()
    assert result[b"said"] == [b"dlqueue: cpus-per-task 1 -> 4"]


def test_one_connection_serves_all(controller: Controller) -> None:
    """The connection is kept from one submission to the next."""
    with FakeAdvisor(controller.socket, says(CHANGE)) as advisor:
        assert [len(controller.submit()[b"said"]) for _ in range(20)] == [1] * 20
        assert (len(advisor.connections), len(advisor.requests)) == (1, 20)


def test_a_restarted_advisor_costs_one_reconnect(controller: Controller) -> None:
    """The first submission after a restart is answered as if nothing had happened."""
    for _ in range(3):
        with FakeAdvisor(controller.socket, says(CHANGE)) as advisor:
            assert controller.submit()[b"said"]
            assert controller.submit()[b"said"]
        assert (len(advisor.connections), len(advisor.requests)) == (1, 2)


def test_a_late_answer_is_never_taken_for_the_next_job(controller: Controller) -> None:
    """What an advisor says after its answer is thrown away with the connection."""

    def answers_twice(connection: socket.socket, _: bytes) -> None:
        connection.sendall(reply())
        time.sleep(0.1)
        connection.sendall(CHANGE)

    with FakeAdvisor(controller.socket, answers_twice) as advisor:
        assert as_written(controller.submit())
        time.sleep(0.3)
        assert as_written(controller.submit())
        assert len(advisor.connections) == 2


@pytest.mark.parametrize(
    "make", [Path.touch, Path.mkdir, os.mkfifo], ids=["file", "folder", "pipe"]
)
def test_the_kill_file_stops_everything(
    controller: Controller, make: Callable[[Path], None]
) -> None:
    """While anything of that name exists, nobody is asked; afterwards work goes on at once."""
    with FakeAdvisor(controller.socket, says(CHANGE)) as advisor:
        make(controller.kill_file)
        assert as_written(controller.submit())
        assert advisor.connections == []
        controller.kill_file.rename(controller.kill_file.with_name("on"))
        assert not as_written(controller.submit())


def test_jobs_without_a_script_are_not_even_asked_about(controller: Controller) -> None:
    """salloc, srun and the later parts of heterogeneous jobs are left alone."""
    with FakeAdvisor(controller.socket, says(CHANGE)) as advisor:
        assert as_written(controller.submit({"script": False}))  # the mock's way to say nil
        assert advisor.connections == []
