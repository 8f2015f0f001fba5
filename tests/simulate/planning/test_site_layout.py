"""A site's own nodes and partitions: GPU models, limits, and who may be where."""

from pathlib import Path

import pytest

from slurm_ext.cli import main
from slurm_ext.core.errors import InputError
from slurm_ext.simulate.planning.layout import Layout, PartitionNodes
from slurm_ext.simulate.planning.layout_conf import read_layout
from slurm_ext.simulate.planning.levels import Need

CONF = """
NodeName=DEFAULT Sockets=2 CoresPerSocket=8
NodeName=login1 CPUs=4
NodeName=a[1-2] Gres=gpu:a100:4
NodeName=v1 Gres=gpu:v100:8,mps:400 CPUs=40
PartitionName=DEFAULT MaxTime=1-0
PartitionName=big Nodes=ALL MaxNodes=1
PartitionName=a Nodes=a[1-2] Default=YES MaxTime=UNLIMITED
PartitionName=old Nodes=v1 State=DOWN
SchedulerParameters=bf_interval=5
"""
HEAD = "job,submit_s,duration_s,gpus,vc,gpu_type,limit_s\n"


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """A site's slurm.conf."""
    path = tmp_path / "slurm.conf"
    path.write_text(CONF)
    return path


def test_nodes_and_partitions_are_read(conf: Path) -> None:
    """Nodes without GPUs are left out; DEFAULT lines give values to those after them."""
    assert read_layout(conf) == Layout(
        sizes=[4, 4, 8],
        types=["a100", "a100", "v100"],
        partitions={
            "big": PartitionNodes(nodes=0b111, most_s=86400, usual_s=86400, most_nodes=1),
            "a": PartitionNodes(nodes=0b011),
            "old": PartitionNodes(nodes=0, most_s=86400, usual_s=86400),
        },
        usual="a",
    )
    assert read_layout(conf, cpus=True).sizes == [4, 16, 16, 40]


@pytest.mark.parametrize(
    ("job", "room"),
    [
        ((6, "", "", 0.0), (Need(1, 4, 2), 0b011, 0b011)),
        ((6, "big", "", 0.0), (Need(0, 8, 6), 0b111, 0b111)),
        ((4, "big", "a100", 0.0), (Need(1, 4, 0), 0b011, 0b111)),
        ((6, "big", "a100", 0.0), None),  # two nodes: one is allowed
        ((1, "big", "h100", 0.0), None),
        ((1, "big", "", 86401.0), None),
        ((9, "", "", 0.0), None),
        ((1, "old", "", 0.0), None),
        ((1, "none", "", 0.0), None),
    ],
)
def test_the_room_of_a_job(conf: Path, job: tuple[int, str, str, float], room: object) -> None:
    """Its partition's nodes of the model that it asks for, within the partition's limits."""
    assert read_layout(conf).room(*job) == room


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("NodeName=n1 CPUs=4", "no NodeName has Gres=gpu:N"),
        ("NodeName=n[1 Gres=gpu:1", "is no list of hosts"),
        ("NodeName=n Gres=gpu:1\nPartitionName=p MaxNodes=all", "maxnodes is 'all'"),
        ("NodeName=n Gres=gpu:1\nPartitionName=p MaxTime=long", "maxtime is 'long'"),
        ("NodeName=n Gres=gpu:1\nPartitionName=p DefaultTime=soon", "defaulttime is 'soon'"),
    ],
)
def test_a_wrong_layout_is_told(tmp_path: Path, lines: str, told: str) -> None:
    """The file is named, and what is wrong in it."""
    path = tmp_path / "slurm.conf"
    path.write_text(lines)
    with pytest.raises(InputError, match=told):
        read_layout(path)


def starts(conf: Path, rows: str, policy: str) -> list[float]:
    """When each job starts on the site's nodes."""
    trace, jobs = conf.with_name("trace.csv"), conf.with_name("jobs.csv")
    trace.write_text(HEAD + rows)
    words = ["simulate", str(trace), "--slurm-conf", str(conf), "--policy", policy]
    assert main([*words, "--jobs", str(jobs)]) == 0
    return [float(line.split(",")[7]) for line in jobs.read_text().splitlines()[1:]]


@pytest.mark.parametrize("policy", ["fifo+backfill", "multifactor+backfill"])
def test_who_asks_for_a_model_waits_for_it(conf: Path, policy: str) -> None:
    """Any job takes what is free; the third waits for an a100, the fourth passes it on the v100."""
    rows = "1,0,100,4,big,a100,\n2,0,100,4,big,a100,\n3,5,50,1,big,a100,\n4,5,20,8,big,,\n"
    assert starts(conf, rows, policy) == [0, 0, 100, 5]


def test_a_job_waits_in_its_own_partition(conf: Path) -> None:
    """In order: whoever waits in one partition keeps nobody of another from its own nodes."""
    rows = "1,0,100,8,a,,\n2,1,10,4,a,,\n3,2,10,8,big,v100,\n"
    assert starts(conf, rows, "fifo") == [0, 100, 2]


def test_a_job_without_room_is_told(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It names the job and its partition; on request it is left out, and counted."""
    trace = conf.with_name("trace.csv")
    trace.write_text(HEAD + "1,0,1,1,a,,\n2,0,1,1,a,h100,\n")
    words = ["simulate", str(trace), "--slurm-conf", str(conf), "--policy", "fifo"]
    assert main(words) == 1
    assert "job 2 asks for 1 GPUs h100 in 'a'" in capsys.readouterr().err
    assert main([*words, "--leave-out-larger"]) == 0
    assert main([*words[:-1], "srtf"]) == 2
    assert "it preempts on equal nodes only" in capsys.readouterr().err
