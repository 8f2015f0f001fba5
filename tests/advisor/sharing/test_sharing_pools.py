"""What Slurm says of shares of GPUs, and the queue of those that have one."""

from dataclasses import replace
from pathlib import Path

import pytest

from slurm_ext.advisor.limits.gpu_pools import GpuPool, joined, pool_of
from slurm_ext.advisor.sharing.gpu_sharers import SharedGpuQueue, read, shared_gpu_jobs, write
from slurm_ext.core.errors import InputError
from slurm_ext.slurm import JobInfo, NodeInfo, PartitionInfo

NOW = 1_795_262_400.0
POOL = GpuPool(nodes=frozenset({"n1"}), gpu_types=frozenset({""}), shares={"mps": 100})
GPU = PartitionInfo(name="gpu", default=True)
NODE = NodeInfo(name="n1", cpus=8, mem_mib=1, gres={"gpu": 2, "mps": 200}, partitions=("gpu",))


@pytest.mark.parametrize(
    ("partition", "nodes", "config", "words"),
    [
        (GPU, [NODE], {}, ""),
        (GPU, [NODE, NodeInfo(name="n2", cpus=8, mem_mib=1)], {}, ""),
        (GPU, [], {}, "no GPUs"),
        (GPU, [NODE, replace(NODE, name="n2", gres={"gpu": 2})], {}, "not every GPU"),
        (GPU, [NODE, replace(NODE, gres={"gpu": 2, "mps": 100})], {}, "not every GPU"),
        (GPU, [NODE], {"GresTypes": "gpu,mps,shard"}, "both mps and shard"),
        (replace(GPU, billing="CPU=1.0,GRES/gpu=2.0"), [NODE], {}, "TRESBillingWeights"),
        (replace(GPU, billing="GRES/gpu=2.0,GRES/mps=0.02"), [NODE], {}, ""),
        (replace(GPU, job_defaults="DefCpuPerGPU=4"), [NODE], {}, "JobDefaults"),
        (GPU, [NODE], {"JobDefaults": "DefMemPerGPU=100"}, "JobDefaults"),
    ],
)
def test_a_partition_offers_shares_where_all_its_gpus_do(
    partition: PartitionInfo, nodes: list[NodeInfo], config: dict[str, str], words: str
) -> None:
    """Anything by which a part of a GPU would be treated otherwise than a GPU rules it out."""
    pool = pool_of(partition, nodes, config)
    assert words in pool.refused.get("mps", "")
    assert pool.shares.get("mps") == (None if words else 100)


def test_several_partitions_offer_what_all_of_them_do() -> None:
    """A job that may go to either must fit both."""
    same = replace(POOL, nodes=frozenset({"n2"}))
    assert joined([POOL, same]).nodes == {"n1", "n2"}
    other = joined([POOL, replace(same, shares={"mps": 200})])
    assert "differently" in other.refused["mps"]


def test_the_queue_is_written_and_read_back(tmp_path: Path) -> None:
    """What the history writer saw is what the answering process knows; ended jobs are not in it."""
    jobs = [
        JobInfo(job_id=1, user_name="ada", state="RUNNING", partition="gpu", gres="gres:mps:50"),
        JobInfo(job_id=2, user_name="bob", state="PENDING", gres="gres/shard=2"),
        JobInfo(job_id=3, user_name="bob", state="COMPLETED", gres="gres:mps:50"),
        JobInfo(job_id=4, user_name="bob", state="RUNNING", gres="gres:gpu:1"),
    ]
    queue = SharedGpuQueue(at_s=NOW, jobs=tuple(shared_gpu_jobs(jobs)))
    assert [(one.job, one.kind, one.count) for one in queue.jobs] == [
        ("1", "mps", 50),
        ("2", "shard", 2),
    ]
    assert read(tmp_path) == SharedGpuQueue()
    write(tmp_path, queue)
    assert read(tmp_path) == queue


@pytest.mark.parametrize("text", ["", "[]", '{"v":2}', '{"v":1,"at_s":1,"jobs":[{"x":1}]}'])
def test_a_damaged_queue_is_an_error_that_names_it(tmp_path: Path, text: str) -> None:
    """The last good one stays in use; the log says what is wrong."""
    (tmp_path / "queue.json").write_text(text)
    with pytest.raises(InputError, match=r"queue\.json"):
        read(tmp_path)
