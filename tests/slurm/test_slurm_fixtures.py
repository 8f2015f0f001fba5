"""What real Slurm releases printed becomes the right records (contrib/fixtures captures it)."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_ext.slurm import JobInfo, MemoryClient, NodeInfo, PartitionInfo, SlurmClient
from slurm_ext.slurm.job_json import read_jobs
from slurm_ext.slurm.listing import read_gres, read_nodes, read_partitions

DATA = Path(__file__).parent / "data"
RELEASES = sorted(path.name for path in DATA.iterdir())

# squeue --json of 25.11, as shared by its documentation: numbers wrapped, states in lists.
WRAPPED = {
    "job_id": 29,
    "user_id": 1000,
    "user_name": "ada",
    "name": "train",
    "job_state": ["FAILED"],
    "partition": "gpu",
    "current_working_directory": "/home/ada",
    "submit_time": {"set": True, "infinite": False, "number": 1795250000},
    "start_time": {"set": True, "infinite": False, "number": 1795250010},
    "end_time": {"set": False, "infinite": False, "number": 0},
    "time_limit": {"set": True, "infinite": True, "number": 0},
    "restart_cnt": 2,
    "nodes": "n[1-2]",
    "cpus": {"set": True, "infinite": False, "number": 8},
    "exit_code": {
        "status": ["ERROR"],
        "return_code": {"set": True, "infinite": False, "number": 3},
        "signal": {"id": {"set": False, "infinite": False, "number": 0}, "name": ""},
    },
    "comment": "",
    "array_job_id": {"set": True, "infinite": False, "number": 0},
}


@pytest.mark.parametrize("release", RELEASES)
def test_jobs_of_every_state_are_read(release: str) -> None:
    """Failed, killed, running and held jobs keep their state, times, exit and comment."""
    text = (DATA / release / "squeue.json").read_text()
    failed, killed, running, held = read_jobs(text)
    assert [job.name for job in (failed, killed, running, held)] == [
        "fails",
        "killed",
        "runs",
        "held",
    ]
    assert (failed.state, failed.exit_code, failed.exit_signal, failed.ended) == (
        "FAILED",
        3,
        None,
        True,
    )
    assert (killed.exit_code, killed.exit_signal) == (0, 9)
    assert (running.state, running.nodes, running.comment) == ("RUNNING", "n1", "a b=c|d")
    assert not running.ended
    assert running.start_time_s is not None
    assert running.submit_time_s is not None
    assert 0 <= running.start_time_s - running.submit_time_s < 60
    assert (held.state, held.start_time_s, held.array_job_id) == ("PENDING", None, held.job_id)
    assert held.time_limit_minutes == 5


@pytest.mark.parametrize("status", [0xFFFFFFFE, 0xFFFFFFFF])
def test_an_allocation_that_was_revoked_has_no_exit_status(status: int) -> None:
    """A cancelled `salloc` that never ran: 22.05 says NO_VAL, and all other jobs are read."""
    jobs = [{**WRAPPED, "exit_code": status}, {**WRAPPED, "exit_code": 768}]
    revoked, failed = read_jobs(json.dumps({"jobs": jobs}))
    assert (revoked.exit_code, revoked.exit_signal) == (None, None)
    assert failed.exit_code == 3


@pytest.mark.parametrize("release", RELEASES)
def test_partitions_have_their_own_limits_and_else_the_sites(release: str) -> None:
    """A limit per node replaces the site's per CPU; no limit is None."""
    folder = DATA / release
    main, small = read_partitions(
        (folder / "partitions.txt").read_text(), (folder / "config.txt").read_text()
    )
    assert main == PartitionInfo(
        name="main", default=True, nodes="n[1-2]", def_mem_per_cpu_mib=2048
    )
    assert small == PartitionInfo(
        name="small",
        nodes="n1",
        max_time_minutes=1440,
        max_cpus_per_node=2,
        max_mem_per_cpu_mib=512,
        def_mem_per_node_mib=1024,
    )


def test_a_partitions_default_time_is_read() -> None:
    """It is what a job has that names no limit."""
    listed = (DATA / "22.05" / "partitions.txt").read_text()
    listed = listed.replace("DefaultTime=NONE", "DefaultTime=01:30:00")
    assert {one.default_time_minutes for one in read_partitions(listed, "")} == {90}


@pytest.mark.parametrize("release", RELEASES)
def test_nodes_have_cpus_memory_and_gres(release: str) -> None:
    """What a node has is read with its state and partitions."""
    first, second = read_nodes((DATA / release / "nodes.txt").read_text())
    gres = {"gpu": 2, "mps": 200}
    assert first.release.startswith(release)
    assert replace(first, release="") == NodeInfo(
        name="n1", cpus=4, mem_mib=8192, gres=gres, state="MIXED", partitions=("main", "small")
    )
    assert (second.state, second.partitions) == ("IDLE", ("main",))


def test_the_systems_own_cpus_and_memory_are_no_jobs() -> None:
    """CoreSpecCount and MemSpecLimit: a job that asks for them is refused by Slurm."""
    line = (DATA / "22.05" / "nodes.txt").read_text().splitlines()[0]
    line = line.replace("CPUEfctv=4", "CPUEfctv=3").replace(
        "AllocMem=", "MemSpecLimit=192 AllocMem="
    )
    (node,) = read_nodes(line)
    assert (node.cpus, node.mem_mib) == (3, 8000)
    (older,) = read_nodes(line.replace("CPUEfctv=3 ", ""))
    assert older.cpus == 4


@pytest.mark.parametrize(
    ("word", "exclusive"), [("NO", False), ("EXCLUSIVE", True), ("YES:4", False)]
)
def test_a_partition_of_whole_nodes_is_known(word: str, *, exclusive: bool) -> None:
    """OverSubscribe=EXCLUSIVE of slurm.conf(5)."""
    text = (DATA / "22.05" / "partitions.txt").read_text()
    text = text.replace("OverSubscribe=NO", f"OverSubscribe={word}")
    assert {one.exclusive for one in read_partitions(text, "")} == {exclusive}


def test_the_wrapped_json_of_later_releases_is_read() -> None:
    """Numbers in objects and states in lists give the same record as plain ones."""
    (job,) = read_jobs(json.dumps({"jobs": [WRAPPED]}))
    assert job == JobInfo(
        job_id=29,
        user_id=1000,
        user_name="ada",
        name="train",
        state="FAILED",
        partition="gpu",
        work_dir="/home/ada",
        submit_time_s=1795250000,
        start_time_s=1795250010,
        restarts=2,
        nodes="n[1-2]",
        cpus=8,
        exit_code=3,
    )


@pytest.mark.parametrize(
    ("said", "state", "ended"),
    [
        (["PENDING", "COMPLETING"], "COMPLETING", False),
        (["CANCELLED", "COMPLETING"], "COMPLETING", False),
        (["RUNNING", "CONFIGURING"], "CONFIGURING", False),
        (["RUNNING", "POWER_UP_NODE"], "RUNNING", False),
        (["CANCELLED"], "CANCELLED", True),
    ],
)
def test_a_state_is_the_same_word_in_every_release(
    said: list[str], state: str, ended: bool
) -> None:
    """A job that was requeued does not wait before its processes are gone: nobody resizes it."""
    (job,) = read_jobs(json.dumps({"jobs": [WRAPPED | {"job_state": said}]}))
    assert (job.state, job.ended) == (state, ended)


def test_cpus_of_a_task_are_no_generic_resource() -> None:
    """From 23.11 on --cpus-per-task is told among them: such a job asks for nothing but CPUs."""
    told = {"tres_per_task": "cpu=2,gres/gpu=1", "tres_per_node": "gres/shard:1"}
    (job,) = read_jobs(json.dumps({"jobs": [WRAPPED | told]}))
    assert job.gres == "gres/shard:1,gres/gpu=1"
    (job,) = read_jobs(json.dumps({"jobs": [WRAPPED | {"tres_per_task": "cpu=2"}]}))
    assert (job.gres, job.gpus) == ("", None)


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("(null)", {}),
        ("gpu:2", {"gpu": 2}),
        ("gpu:a100:2(S:0-1),mps:200", {"gpu": 2, "gpu:a100": 2, "mps": 200}),
        ("gpu:a100:2(S:0,1),gpu:h100:1", {"gpu": 3, "gpu:a100": 2, "gpu:h100": 1}),
        ("bandwidth:4K", {"bandwidth": 4096}),
    ],
)
def test_gres_are_counted_by_kind_and_type(text: str, counts: dict[str, int]) -> None:
    """Types, socket lists and suffixes do not confuse the count."""
    assert read_gres(text) == counts


def test_a_reason_cannot_pretend_to_be_a_state() -> None:
    """Free text at a line's end does not override what Slurm says."""
    line = "NodeName=n1 CPUTot=4 Gres=(null) RealMemory=100 State=DOWN* Reason=x State=IDLE [a@b]\n"
    assert read_nodes(line)[0].state == "DOWN"


def test_a_cluster_in_memory_answers_what_it_holds() -> None:
    """Tests and replay stand on the same protocol as Slurm."""
    client: SlurmClient = MemoryClient(known_jobs=(JobInfo(job_id=1),))
    assert client.jobs() == (JobInfo(job_id=1),)
    assert client.partitions() == ()
    assert client.nodes() == ()
