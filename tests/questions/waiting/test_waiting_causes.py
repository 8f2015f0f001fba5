"""Each reason for which a real Slurm's job waits is told with its numbers.

tests/slurm/data/<version>/waits/ is what a real Slurm printed (contrib/fixtures/capture_waits.py).
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.questions.waiting.cause import cause_of, lines, without_others
from slurm_ext.questions.waiting.partition import lines as partition_lines
from slurm_ext.questions.waiting.partition import partition_of
from slurm_ext.slurm import MemoryClient
from slurm_ext.slurm.enforced import read_limits
from slurm_ext.slurm.job_json import read_jobs
from slurm_ext.slurm.listing import read_nodes, read_partitions, read_reservations
from slurm_ext.slurm.records import JobInfo, NodeInfo, PartitionInfo

DATA = Path(__file__).parents[2] / "slurm" / "data"
RELEASES = sorted(path.parent.name for path in DATA.glob("*/waits"))
EXPECTED = {
    "few": "root's jobs of QOS few together: at most 1 job, 1 job in use, it asks for 1 job",
    "cpus": "root's jobs of QOS cpus together: at most 2 CPUs, 2 CPUs in use, it asks for 1 CPU",
    "gpus": "root's jobs of QOS gpus together: at most 1 GPU, 1 GPU in use, it asks for 1 GPU",
    "mem": "at most 100 MiB, 80 MiB in use, it asks for 80 MiB",
    "nodes": "at most 1 node, 1 node in use, it asks for 2 nodes: it never starts so",
    "group": "all jobs of QOS group together: at most 1 CPU, 1 CPU in use",
    "grpjobs": "all jobs of QOS grpjobs together: at most 1 job, 1 job in use",
    "peraccount": "all jobs of account root of QOS peraccount together: at most 1 CPU",
    "perjob": "one job of QOS perjob: at most 1 CPU, it asks for 2 CPUs: it never starts so",
    "wall": "one job of QOS wall: at most 00:01:00, it asks for 00:05:00: it never starts so",
    "least": "one job of QOS least: at least 4 CPUs, it asks for 1 CPU: it never starts so",
    "runmins": "at most 10 CPU-minutes left to run, 0 CPU-minutes in use, it asks for 20",
    "tight": "all jobs of account tight together: at most 1 CPU, 1 CPU in use",
    "above": "all jobs of account above together: at most 3 CPUs, 3 CPUs in use, it asks for 2",
    "busy": "root's jobs of account busy together: at most 1 job, 1 job in use",
    "quick": "root's jobs of QOS quick together: at most 1 CPU, 1 CPU in use",
    "prep": "(root's prep) has to end: one job of this name",
    "dependency": "(root's prep) has to end well: it is RUNNING, until ",
    "any": "one of these is enough",
    "never": "has to end well: it is FAILED, so that this will never be",
    "begin": "begin:    not before ",
    "parttime": "partition small: at most 00:10:00, it asks for 01:00:00",
    "partnodes": "partition small: at most 1 node, it asks for 2 nodes",
    "partcpus": "partition small: at most 2 CPUs a node, it asks for 4 CPUs a node",
    "closed": "partition closed is DOWN",
    "array": "array:    at most 1 of its tasks at once",
    "reservation": "(reservation later)",
    "maintenance": "it asks for 01:30:00; with a --time below 00:29:00",
    "larger": "reserved: n2 for maintenance from ",
}


def cluster(release: str) -> MemoryClient:
    """The captured one."""
    folder = DATA / release / "waits"
    texts = {path.stem: path.read_text() for path in folder.iterdir()}
    return MemoryClient(
        known_jobs=read_jobs(texts["squeue"]),
        known_nodes=read_nodes(texts["nodes"]),
        known_partitions=read_partitions(texts["partitions"], ""),
        known_reservations=read_reservations(texts["reservations"]),
        known_limits=read_limits(texts["limits"]),
    )


def told(release: str, name: str) -> str:
    """The lines on the waiting job of a name."""
    client = cluster(release)
    (job,) = (one for one in client.jobs() if (one.name, one.state) == (name, "PENDING"))
    captured_s = client.known_reservations[0].start_s - 30 * 60 + 10
    cause = cause_of(client, client.jobs(), job, captured_s)
    return "" if cause is None else "\n".join(lines(cause))


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("release", RELEASES)
def test_the_cause_is_told_with_its_numbers(release: str, name: str) -> None:
    """What was asked, what the limit is, what is in use of it."""
    assert EXPECTED[name] in told(release, name)


@pytest.mark.parametrize("name", ["cpus", "gpus", "group", "peraccount", "tight", "busy"])
def test_who_holds_the_limit_is_named(name: str) -> None:
    """By number and name, with the time when it ends at the latest."""
    assert f"(root's has_{name}): " in told(RELEASES[0], name)


def test_accounts_below_hold_the_limit_of_the_one_above() -> None:
    """Two CPUs of the account beside, one of the tight one."""
    said = told(RELEASES[0], "above")
    assert "has_beside): 2 CPUs, until " in said
    assert "has_tight): 1 CPU, until " in said


def test_another_partition_is_named_where_one_would_take_it() -> None:
    """An hour on four CPUs is nothing to the main one; a closed one is not offered."""
    assert "instead:  main, quick would take it as it is" in told(RELEASES[0], "parttime")


def test_a_held_job_has_no_cause_beside_its_word() -> None:
    """Its user holds it: there is no number."""
    assert told(RELEASES[0], "held") == ""


def test_what_others_use_is_left_out_where_slurm_hides_them() -> None:
    """Of a limit of all: its number and what the job asks for; of one's own also what is in use."""
    client = cluster(RELEASES[0])
    for name, used in (("group", None), ("cpus", 2.0)):
        (job,) = (one for one in client.jobs() if one.name == name)
        shown = without_others(cause_of(client, [], job, 0.0))
        assert shown is not None
        assert (shown["holders"], shown["used"]) == ([], used)
        assert f"at most {shown['limit']:.0f} CPU" in "".join(lines(shown))


@pytest.mark.parametrize(
    ("asked", "others"),
    [
        ({"gpus": 4, "gres": "gres:gpu:4"}, ["a100", "v100"]),
        ({"gpus": 4, "gres": "gres/gpu:a100:4"}, ["a100"]),
        ({"gpus": 16, "gres": "gpu:8", "node_count": 2}, ["a100"]),
        ({"gpus": 4, "gres": "gres:gpu:4", "cpus": 64}, ["a100"]),
        ({"mem_mib": 200_000}, ["a100"]),
        ({"gpus": 4, "gres": "gres:gpu:4", "reason": "BadConstraints"}, []),
    ],
)
def test_a_partition_is_offered_where_its_nodes_have_what_the_job_asks_for(
    asked: dict[str, Any], others: list[str]
) -> None:
    """No partition without its GPUs would take it, and none where the constraints are bad."""
    shapes = {"short": ("a100", 8, 96), "cpu": ("", 0, 96), "a100": ("a100", 8, 96)}
    shapes |= {"v100": ("v100", 4, 32)}
    nodes = [
        NodeInfo(
            name=f"{name}{number}",
            cpus=cpus,
            mem_mib=cpus * 4000 if gpus else 96_000,
            gres={"gpu": gpus, f"gpu:{model}": gpus} if gpus else {},
            partitions=(name,),
        )
        for name, (model, gpus, cpus) in shapes.items()
        for number in (1, 2)
    ]
    partitions = [PartitionInfo(name=name, nodes=f"{name}[1-2]") for name in shapes]
    partitions[0] = replace(partitions[0], max_time_minutes=60)
    job = {"job_id": 1, "partition": "short", "reason": "PartitionTimeLimit"}
    found = partition_of(JobInfo(**{**job, "time_limit_minutes": 600, **asked}), partitions, nodes)
    assert found is not None
    assert sorted(found["others"]) == others
    assert any("instead:" in line for line in partition_lines(found)) == bool(others)
