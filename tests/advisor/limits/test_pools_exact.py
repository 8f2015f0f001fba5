"""Rules of partitions and pools of their GPUs: every reason, every edge."""

from dataclasses import replace
from typing import Any

import pytest

from slurm_ext.advisor.limits.bounds import (
    PartitionRules,
)
from slurm_ext.advisor.limits.gpu_pools import GpuPool, joined, pool_of
from slurm_ext.advisor.limits.partition_limits import ClusterRules
from slurm_ext.advisor.limits.rules import client_of, read_rules
from slurm_ext.core.records import Submission
from slurm_ext.core.settings.document import Settings
from slurm_ext.slurm import (
    Accounting,
    Association,
    JobAllowance,
    MemoryClient,
    NodeInfo,
    PartitionInfo,
)
from slurm_ext.slurm.allowances import Allowances


@pytest.mark.parametrize(
    ("partition", "config", "known"),
    [
        ({}, {}, set()),
        ({"exclusive": True}, {}, {"whole_nodes"}),
        ({"job_defaults": "DefCpuPerGPU=4,DefMemPerGPU=1"}, {}, {"cpus_by_gpu", "mem_by_gpu"}),
        ({}, {"JobDefaults": "DefCpuPerGPU=4"}, {"cpus_by_gpu"}),
        ({}, {"JobDefaults": "DefMemPerGPU=4"}, {"mem_by_gpu"}),
        ({"job_defaults": "DefMemPerGPU=1"}, {"JobDefaults": "DefCpuPerGPU=4"}, {"mem_by_gpu"}),
    ],
)
def test_a_partition_that_gives_cpus_or_memory_by_itself_is_known(
    partition: dict[str, Any], config: dict[str, str], known: set[str]
) -> None:
    """By OverSubscribe=EXCLUSIVE, or by JobDefaults, where a partition's own go first."""
    names = ("whole_nodes", "cpus_by_gpu", "mem_by_gpu")
    client = MemoryClient(
        known_nodes=(NodeInfo(name="n1", cpus=8, mem_mib=800, partitions=("a",)),),
        known_partitions=(PartitionInfo(name="a", **partition),),
        known_config=config,
    )
    rules = read_rules(client).partitions["a"]
    assert {name for name in names if getattr(rules, name)} == known


@pytest.mark.parametrize(("per_socket", "cpus"), [(None, 64), (8, 16), (40, 64)])
def test_a_partition_may_use_a_part_of_each_socket(per_socket: int | None, cpus: int) -> None:
    """MaxCPUsPerSocket of slurm.conf(5): a job above it is refused."""
    node = NodeInfo(name="n1", cpus=64, mem_mib=800, sockets=2, partitions=("a",))
    partition = PartitionInfo(name="a", max_cpus_per_socket=per_socket)
    client = MemoryClient(known_nodes=(node,), known_partitions=(partition,), known_config={})
    assert read_rules(client).partitions["a"].cpus_per_node == cpus


def test_the_clusters_rules_are_read_whole() -> None:
    """Partitions without nodes have none; QOS, default and task prolog stand beside them."""
    client = MemoryClient(
        known_nodes=(
            NodeInfo(name="n1", cpus=8, mem_mib=800, partitions=("a", "b"), features=("x",)),
            NodeInfo(name="n2", cpus=0, mem_mib=0, partitions=("c",)),
        ),
        known_partitions=(
            PartitionInfo(name="a", qos="q", max_cpus_per_node=4, max_mem_per_node_mib=400),
            PartitionInfo(name="b", default=True, def_mem_per_node_mib=5),
            PartitionInfo(name="c"),
            PartitionInfo(name="d"),
        ),
        known_config={
            "DefMemPerCPU": "100",
            "MaxMemPerCPU": "200",
            "TaskProlog": "/x",
            "JobDefaults": "",
            "TaskPlugin": "task/affinity",
        },
    )
    rules = read_rules(client)
    assert rules.partitions == {
        "a": PartitionRules(
            cpus_per_node=4, mem_per_node_mib=400, def_mem_per_cpu_mib=100, max_mem_per_cpu_mib=200
        ),
        "b": PartitionRules(cpus_per_node=8, mem_per_node_mib=800, max_mem_per_cpu_mib=200),
        "c": PartitionRules(
            cpus_per_node=1,
            mem_per_node_mib=None,
            def_mem_per_cpu_mib=100,
            max_mem_per_cpu_mib=200,
        ),
    }
    assert (rules.default, rules.qos, rules.task_prolog) == ("b", {"a": "q"}, True)
    assert rules.allowances is None
    assert set(rules.pools) == {"a", "b", "c", "d"}
    assert rules.pools["a"].features == {"x"}
    plain = read_rules(
        MemoryClient(
            known_nodes=client.known_nodes,
            known_partitions=(PartitionInfo(name="a"),),
            known_config={"DefMemPerCPU": "0", "MaxMemPerCPU": "UNLIMITED"},
        )
    )
    assert plain.partitions["a"] == PartitionRules(
        cpus_per_node=8, mem_per_node_mib=800, keeps_cores=False
    )
    assert (plain.default, plain.task_prolog) == (None, False)


def test_a_partitions_own_default_for_nodes_goes_before_slurm_conf() -> None:
    """Both defaults of one partition: the one by the CPU counts."""
    node = NodeInfo(name="n1", cpus=8, mem_mib=800, partitions=("a",))
    partition = PartitionInfo(name="a", def_mem_per_cpu_mib=7, max_mem_per_cpu_mib=9)
    config = {"DefMemPerCPU": "100", "MaxMemPerCPU": "200"}
    client = MemoryClient(known_nodes=(node,), known_partitions=(partition,), known_config=config)
    found = read_rules(client).partitions["a"]
    assert (found.def_mem_per_cpu_mib, found.max_mem_per_cpu_mib) == (7, 9)


def test_of_two_partitions_each_rule_is_the_narrower() -> None:
    """Least of CPUs and memory, most of what comes with each CPU; no rule is no limit.

    What one of them sets by the GPU is set.
    """
    one = PartitionRules(
        cpus_per_node=8, mem_per_node_mib=100, def_mem_per_cpu_mib=1, max_mem_per_cpu_mib=9
    )
    two = PartitionRules(
        cpus_per_node=4,
        mem_per_node_mib=200,
        def_mem_per_cpu_mib=2,
        max_mem_per_cpu_mib=5,
        mem_by_gpu=True,
    )
    rules = ClusterRules(
        partitions={"a": one, "b": two, "c": PartitionRules(cpus_per_node=16)}, default="a,b"
    )
    both = PartitionRules(
        cpus_per_node=4,
        mem_per_node_mib=100,
        def_mem_per_cpu_mib=2,
        max_mem_per_cpu_mib=5,
        mem_by_gpu=True,
    )
    assert rules.rules_for(Submission()) == both
    assert rules.rules_for(Submission(partition="b,a")) == both
    assert rules.rules_for(Submission(partition="a,c")) == replace(one, cpus_per_node=8)
    assert rules.rules_for(Submission(partition="c,c")) == PartitionRules(cpus_per_node=16)
    assert rules.rules_for(Submission(partition="a,z")) is None


def test_a_partitions_qos_limits_the_jobs_that_go_there() -> None:
    """Of several partitions every QOS counts; one without a QOS adds none."""
    own = Association(account="x", user="ada")
    limits = {"q": JobAllowance(max_cpus=3), "r": JobAllowance(max_cpus=2)}
    rules = ClusterRules(
        partitions={name: PartitionRules(cpus_per_node=8) for name in "abc"},
        default="a",
        qos={"a": "q", "b": "r"},
        allowances=Allowances(Accounting(associations=(own,), qos=limits)),
    )

    def most(partition: str | None) -> int | None:
        found = rules.rules_for(Submission(user_name="ada", partition=partition))
        assert found is not None
        return found.allowance.max_cpus

    assert [most(name) for name in (None, "a", "b", "a,b", "c", "c,a")] == [3, 3, 2, 2, None, 3]


def test_the_pool_of_a_job_is_that_of_all_its_partitions() -> None:
    """One that is not known makes the pool unknown; without any name the default counts."""
    pools = {"a": GpuPool(nodes=frozenset("1")), "b": GpuPool(nodes=frozenset("2"))}
    rules = ClusterRules(pools=pools, default="a")
    assert rules.pool_for(None) == rules.pool_for("a") == pools["a"]
    assert rules.pool_for(",".join("a" * 500)) is pools["a"]  # named often, looked at once
    found = rules.pool_for("a,b")
    assert found is not None
    assert found.nodes == {"1", "2"}
    assert rules.pool_for("a,c") is None
    assert ClusterRules(pools=pools).pool_for(None) is None


NODE = NodeInfo(name="n1", cpus=8, mem_mib=1, gres={"gpu": 2, "mps": 200}, features=("f",))

GPU = PartitionInfo(name="gpu")

SPLIT = "its partitions cut their GPUs differently"


@pytest.mark.parametrize(
    ("partition", "gres", "config", "why"),
    [
        (GPU, {"gpu": 2, "mps": 200}, {}, ""),
        (GPU, {"gpu": 2, "mps": 2}, {}, ""),
        (GPU, {"mps": 2}, {}, "its partition has no GPUs"),
        (GPU, {"gpu": 0}, {}, "its partition has no GPUs"),
        (
            GPU,
            {"gpu": 2, "mps": 1},
            {},
            "not every GPU of its partition has the same number of mps",
        ),
        (GPU, {"gpu": 2}, {}, "not every GPU of its partition has the same number of mps"),
        (
            GPU,
            {"gpu": 2, "mps": 200},
            {"GresTypes": "mps,gpu,shard"},
            "GresTypes has both mps and shard, with which Slurm names no GPU to the job",
        ),
        (GPU, {"gpu": 2, "mps": 200}, {"GresTypes": "gpu,mps"}, ""),
        (
            replace(GPU, billing="gres/GPU=1"),
            {"gpu": 2, "mps": 200},
            {},
            "TRESBillingWeights counts GPUs and not their mps",
        ),
        (replace(GPU, billing="cpu=1"), {"gpu": 2, "mps": 200}, {}, ""),
        (replace(GPU, billing="Gres/Gpu=1,GRES/MPS=1"), {"gpu": 2, "mps": 200}, {}, ""),
        (
            replace(GPU, job_defaults="DefCpuPerGPU=1"),
            {"gpu": 2, "mps": 200},
            {},
            "JobDefaults gives CPUs or memory by the GPU",
        ),
        (
            replace(GPU, job_defaults="other=1"),
            {"gpu": 2, "mps": 200},
            {"JobDefaults": "DefMemPerGPU=1"},
            "",
        ),
    ],
)
def test_each_reason_against_parts_of_a_gpu(
    partition: PartitionInfo, gres: dict[str, int], config: dict[str, str], why: str
) -> None:
    """One clause; the partition's own words go before slurm.conf's."""
    pool = pool_of(partition, [replace(NODE, gres=gres)], config)
    assert pool.refused.get("mps", "") == why
    assert ("mps" in pool.shares) == (not why)
    assert pool.features == {"f"}


def test_a_pool_names_nodes_types_and_parts_of_a_gpu() -> None:
    """Types as Slurm names them; GPUs without one are the empty text."""
    typed = replace(NODE, name="n2", gres={"gpu": 2, "gpu:a100": 2, "shard": 8}, features=("g",))
    mixed = replace(NODE, name="n3", gres={"gpu": 2, "gpu:v100": 1, "shard": 8})
    idle = replace(NODE, name="n4", gres={}, features=("h",))
    pool = pool_of(GPU, [typed, mixed, idle], {})
    assert pool == GpuPool(
        nodes=frozenset({"n2", "n3"}),
        gpu_types=frozenset({"a100", "v100", ""}),
        shares={"shard": 4},
        refused={"mps": "not every GPU of its partition has the same number of mps"},
        features=frozenset({"f", "g", "h"}),
    )
    assert pool_of(GPU, [typed], {}).gpu_types == {"a100"}


def test_joined_pools_have_what_all_of_them_offer() -> None:
    """Nodes and types together, features in common; a part of another size is refused."""
    one = GpuPool(
        nodes=frozenset({"n1"}),
        gpu_types=frozenset({"a"}),
        shares={"mps": 100, "shard": 4},
        features=frozenset({"f", "g"}),
    )
    two = GpuPool(
        nodes=frozenset({"n2"}),
        gpu_types=frozenset({"b"}),
        shares={"mps": 100, "shard": 2},
        features=frozenset({"g", "h"}),
    )
    three = GpuPool(shares={"mps": 100, "shard": 4}, features=frozenset({"g"}))
    assert joined([one]) is one
    assert joined([one, two, three]) == GpuPool(
        nodes=frozenset({"n1", "n2"}),
        gpu_types=frozenset({"a", "b"}),
        shares={"mps": 100},
        refused={"shard": SPLIT},
        features=frozenset({"g"}),
    )
    without = GpuPool(refused={"mps": "its partition has no GPUs"})
    assert joined([one, without]).refused == {"mps": "its partition has no GPUs", "shard": SPLIT}
    assert joined([one, without]).shares == {}


def test_the_client_is_the_cluster_of_the_settings() -> None:
    """Commands and slurm.conf as the settings name them."""
    chosen = Settings(
        values={"paths.slurm_bin": "/opt/slurm/bin", "paths.slurm_conf": "/etc/s.conf"}
    )
    client = client_of(chosen)
    assert client._bin_dir == "/opt/slurm/bin"
    assert client._env["SLURM_CONF"] == "/etc/s.conf"
