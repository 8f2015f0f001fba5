"""Limits of one submission to the word and to the unit: every reason, every edge."""

from dataclasses import replace
from typing import Any

import pytest

from slurm_ext.advisor.limits.allowances import Allowances, narrowest
from slurm_ext.advisor.limits.bounds import (
    PartitionRules,
    cpus_of,
    floor_for,
    limits_for,
    most_per_cpu_mib,
    tasks_of,
)
from slurm_ext.advisor.limits.eligible import (
    wants_to_share,
    why_not_edited,
    why_skipped,
    words_of,
)
from slurm_ext.advisor.limits.gpu_pools import GpuPool, joined, pool_of
from slurm_ext.advisor.limits.partition_limits import ClusterRules
from slurm_ext.advisor.limits.rules import client_of, read_rules
from slurm_ext.core.records import ShapeLimits, Submission
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.units import MIB
from slurm_ext.slurm import (
    Accounting,
    Association,
    JobAllowance,
    MemoryClient,
    NodeInfo,
    PartitionInfo,
)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"comment": "dlqueue=off"}, "opted out"),
        ({"env": {"DLQUEUE": "off"}}, "opted out"),
        ({"script": None}, "has no script: salloc and srun are never edited"),
        ({"script_truncated": True}, "its script is too long to be read"),
        ({"array": ""}, "is an array: its tasks share one submission"),
        ({"het_offset": 0}, "is a heterogeneous job"),
        ({"comment": "DLQUEUE=OFF"}, None),
        ({"env": {"DLQUEUE": "offline"}}, None),
        ({}, None),
    ],
)
def test_the_reason_for_no_edit_at_all_is_one_clause(
    fields: dict[str, Any], why: str | None
) -> None:
    """A user reads it as it stands here; words in other letters are other words."""
    assert why_skipped(Submission(**{"script": "", **fields})) == why


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"shared": 0}, "--exclusive gives it whole nodes anyway"),
        ({"shared": 2}, None),
        ({"reservation": ""}, "it runs in a reservation"),
        ({"cpus_per_tres": ""}, "--cpus-per-gpu sets its CPUs"),
        ({"min_nodes": 2, "max_nodes": 1}, "it spans several nodes"),
        ({"max_nodes": 2}, "it spans several nodes"),
        ({"min_nodes": 0, "max_nodes": 0}, None),
        ({"max_nodes": 1}, None),
    ],
)
def test_the_reason_to_learn_only_is_one_clause(fields: dict[str, Any], why: str | None) -> None:
    """Whole nodes, reservations, CPUs by the GPU, and more than one node."""
    assert why_not_edited(Submission(**fields)) == why


@pytest.mark.parametrize(
    ("word", "shares"),
    [
        *((word, True) for word in ("1", "yes", "true", "on", " ON ")),
        *((word, False) for word in ("0", "no", "false", "off", " No ")),
        ("", None),
        ("maybe", None),
    ],
)
def test_each_word_of_consent_counts(word: str, shares: bool | None) -> None:
    """Any other word leaves it to the site's settings."""
    job = Submission(env={"DLQUEUE_SHARE": word}, partition="p")
    assert wants_to_share(job, Settings()) == bool(shares)
    everywhere = Settings(values={"sharing.partitions": ["p"]})
    assert wants_to_share(job, everywhere) == (shares is not False)


def test_a_job_without_partition_or_account_shares_by_the_star_only() -> None:
    """A setting that names something does not mean a job that names nothing."""
    named = Settings(values={"sharing.partitions": ["p"], "sharing.accounts": ["a"]})
    assert not wants_to_share(Submission(), named)
    assert wants_to_share(Submission(), Settings(values={"sharing.accounts": ["*"]}))
    assert wants_to_share(Submission(), Settings(values={"sharing.partitions": ["*"]}))
    assert not wants_to_share(Submission(), Settings())


def test_words_of_a_comment_are_split_at_commas_semicolons_and_blanks() -> None:
    """Nothing else divides words."""
    assert words_of(Submission(comment="a,b;c d\te:f")) == ["a", "b", "c", "d", "e:f"]
    assert words_of(Submission()) == []


# -- bounds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "cpus", "tasks"),
    [
        ({}, 1, 1),
        ({"cpus_per_task": 0, "num_tasks": 0}, 1, 1),
        ({"cpus_per_task": 2, "num_tasks": 2}, 2, 2),
        ({"ntasks_per_node": 3}, 1, 3),
        ({"ntasks_per_node": 3, "num_tasks": 5}, 1, 5),
        ({"num_tasks": 0, "ntasks_per_node": 3}, 1, 3),
        ({"cpus_per_task": -1, "num_tasks": -1}, 1, 1),
    ],
)
def test_cpus_and_tasks_are_at_least_one(fields: dict[str, Any], cpus: int, tasks: int) -> None:
    """Slurm's default is one of each, and the job's tasks go before its tasks a node."""
    assert (cpus_of(Submission(**fields)), tasks_of(Submission(**fields))) == (cpus, tasks)


def test_limits_hold_node_memory_and_workers() -> None:
    """The node's cores are those of the partition, however few the job may take."""
    rules = PartitionRules(
        cpus_per_node=8, def_mem_per_cpu_mib=100, allowance=JobAllowance(max_cpus=4)
    )
    assert limits_for(Submission(cpus_per_task=2), rules, 9) == ShapeLimits(
        max_cpus_per_task=4, node_cores=8, mem_bytes=200 * MIB, max_workers=9
    )
    assert limits_for(Submission(), PartitionRules(cpus_per_node=8), 3) == ShapeLimits(
        max_cpus_per_task=8, node_cores=8, mem_bytes=None, max_workers=3
    )


@pytest.mark.parametrize(
    ("fields", "rules", "roof"),
    [
        # Memory by the CPU without a node's memory known, or the other way round, limits nothing.
        ({}, {"mem_per_node_mib": 1}, 8),
        ({}, {"def_mem_per_cpu_mib": 100}, 8),
        # Memory that the job asks for by itself does not grow with its CPUs.
        ({"mem_per_node_mib": 0}, {"mem_per_node_mib": 200, "def_mem_per_cpu_mib": 100}, 8),
        ({"mem_per_cpu_mib": 0}, {"mem_per_node_mib": 200, "def_mem_per_cpu_mib": 100}, 2),
        ({"num_tasks": 2}, {"mem_per_node_mib": 799, "def_mem_per_cpu_mib": 100}, 3),
        ({"num_tasks": 2}, {"mem_per_node_mib": 800, "def_mem_per_cpu_mib": 100}, 4),
    ],
)
def test_memory_by_default_limits_the_cpus(
    fields: dict[str, Any], rules: dict[str, Any], roof: int
) -> None:
    """A CPU more than the node's memory has room for keeps the job waiting for ever."""
    limits = limits_for(Submission(**fields), PartitionRules(cpus_per_node=8, **rules), 64)
    assert limits.max_cpus_per_task == roof


@pytest.mark.parametrize(
    ("fields", "allowance", "roof"),
    [
        ({}, {"max_cpus": 0}, 1),
        ({"num_tasks": 2}, {"max_cpus": 7}, 3),
        ({"time_limit_minutes": 0}, {"max_cpu_minutes": 600}, 1),
        ({"time_limit_minutes": 1}, {"max_cpu_minutes": 5}, 5),
        ({"time_limit_minutes": 1}, {"max_cpu_minutes": 0}, 1),
        ({"time_limit_minutes": 1}, {"max_cpu_minutes": 5, "max_cpus": 3}, 3),
        ({}, {"max_mem_mib": 0}, 1),
        ({}, {"max_mem_mib": 299}, 2),
        ({"num_tasks": 2}, {"max_mem_mib": 799}, 3),
        ({"mem_per_node_mib": 5}, {"max_mem_mib": 299}, 8),
        ({"cpus_per_task": 3}, {"by_other_means": True, "max_cpus": 8}, 3),
    ],
)
def test_accounts_limit_the_whole_job(
    fields: dict[str, Any], allowance: dict[str, Any], roof: int
) -> None:
    """A limit of nothing is a limit, and each is shared by the job's tasks."""
    rules = PartitionRules(
        cpus_per_node=8, def_mem_per_cpu_mib=100, allowance=JobAllowance(**allowance)
    )
    if "num_tasks" in fields:
        rules = replace(rules, cpus_per_node=16)
    assert limits_for(Submission(**fields), rules, 64).max_cpus_per_task == roof


@pytest.mark.parametrize(
    ("fields", "rules", "floor"),
    [
        ({}, None, 1),
        ({"tres_per_node": "gpu:2"}, None, 2),
        ({"num_tasks": 4, "tres_per_node": "gpu:2"}, None, 1),
        ({"tres_per_node": "gpu:5"}, PartitionRules(cpus_per_node=8), 5),
        ({"mem_per_node_mib": 10}, PartitionRules(cpus_per_node=8, max_mem_per_cpu_mib=0), 1),
        ({"mem_per_node_mib": 0}, PartitionRules(cpus_per_node=8, max_mem_per_cpu_mib=5), 1),
        (
            {"mem_per_node_mib": 2, "tres_per_node": "gpu:3"},
            PartitionRules(cpus_per_node=8, max_mem_per_cpu_mib=1),
            3,
        ),
        (
            {"mem_per_node_mib": 4, "tres_per_node": "gpu:3"},
            PartitionRules(cpus_per_node=8, max_mem_per_cpu_mib=1),
            4,
        ),
    ],
)
def test_the_floor_counts_gpus_and_memory(
    fields: dict[str, Any], rules: PartitionRules | None, floor: int
) -> None:
    """Whichever needs more CPUs, shared by the tasks and rounded up."""
    assert floor_for(Submission(**fields), rules) == floor


@pytest.mark.parametrize(
    ("node_mib", "account_mib", "room"),
    [(1000, None, 166), (None, 600, 100), (1000, 600, 100), (600, 1000, 100), (None, None, None)],
)
def test_room_for_memory_is_shared_by_all_cpus(
    node_mib: int | None, account_mib: int | None, room: int | None
) -> None:
    """Two tasks of three CPUs: the lesser of node and account, by six."""
    allowance = JobAllowance(max_mem_mib=account_mib)
    rules = PartitionRules(cpus_per_node=8, mem_per_node_mib=node_mib, allowance=allowance)
    assert most_per_cpu_mib(Submission(num_tasks=2), 3, rules) == room
    assert most_per_cpu_mib(Submission(num_tasks=2), 3, None) is None


# -- allowances -----------------------------------------------------------------------------------


def test_the_narrowest_limits_take_each_least_and_the_greatest_minimum() -> None:
    """Field by field; what nobody limits stays without a limit."""
    one = JobAllowance(
        min_cpus=2, max_cpus=8, max_mem_mib=900, max_cpu_minutes=60, max_mps=50, max_shard=4
    )
    other = JobAllowance(
        min_cpus=3, max_cpus=4, max_mem_mib=100, max_cpu_minutes=30, max_mps=20, max_shard=2
    )
    both = replace(other, min_cpus=3)
    assert narrowest([one, other]) == narrowest([other, one]) == both
    assert narrowest([]) == narrowest([JobAllowance()]) == JobAllowance()
    assert narrowest([JobAllowance(), one]) == one
    assert narrowest([JobAllowance(min_cpus=1)]).min_cpus == 1
    assert narrowest([JobAllowance(max_cpus=0), one]).max_cpus == 0
    assert narrowest([JobAllowance(by_other_means=True), one]).by_other_means is True
    assert narrowest([one]).by_other_means is False


def test_sixty_four_accounts_above_are_looked_at() -> None:
    """The sixty-fifth is one too many: a loop must end."""

    def limited(level: int) -> int | None:
        chain = [
            Association(
                account=f"a{n}",
                parent=f"A{n + 1}",
                allowance=JobAllowance(max_cpus=5 if n == level else None),
            )
            for n in range(70)
        ]
        accounting = Accounting(associations=(*chain, Association(account="A0", user="ada")))
        found = Allowances(accounting).of(Submission(user_name="ada"))
        assert found is not None
        return found.max_cpus

    assert [limited(level) for level in (0, 1, 63, 64)] == [5, 5, 5, None]


@pytest.mark.parametrize(
    ("qos", "default", "cpus"),
    [
        ("a,b", "", 2),
        ("b", "", 3),
        (None, "c", 4),
        (None, "", 2),
        ("c", "a", 4),
    ],
)
def test_the_qos_of_a_job_is_its_own_else_the_default_else_any(
    qos: str | None, default: str, cpus: int
) -> None:
    """Several that are asked for all count."""
    own = Association(account="x", user="ada", default_qos=default, qos=("a", "b", "c"))
    limits = {name: JobAllowance(max_cpus=n) for name, n in (("a", 2), ("b", 3), ("c", 4))}
    allowances = Allowances(Accounting(associations=(own,), qos=limits))
    found = allowances.of(Submission(user_name="ada", qos=qos))
    assert found is not None
    assert found.max_cpus == cpus
    narrower = allowances.of(Submission(user_name="ada", qos="c"), ["b"])
    assert narrower is not None
    assert narrower.max_cpus == 3
    assert allowances.of(Submission(user_name="ada", qos="c"), ["b", "z"]) is None


# -- partitions -----------------------------------------------------------------------------------


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
    assert plain.partitions["a"] == PartitionRules(cpus_per_node=8, mem_per_node_mib=800)
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
    """Least of CPUs and memory, most of what comes with each CPU; no rule is no limit."""
    one = PartitionRules(
        cpus_per_node=8, mem_per_node_mib=100, def_mem_per_cpu_mib=1, max_mem_per_cpu_mib=9
    )
    two = PartitionRules(
        cpus_per_node=4, mem_per_node_mib=200, def_mem_per_cpu_mib=2, max_mem_per_cpu_mib=5
    )
    rules = ClusterRules(
        partitions={"a": one, "b": two, "c": PartitionRules(cpus_per_node=16)}, default="a,b"
    )
    both = PartitionRules(
        cpus_per_node=4, mem_per_node_mib=100, def_mem_per_cpu_mib=2, max_mem_per_cpu_mib=5
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
    found = rules.pool_for("a,b")
    assert found is not None
    assert found.nodes == {"1", "2"}
    assert rules.pool_for("a,c") is None
    assert ClusterRules(pools=pools).pool_for(None) is None


# -- GPUs of a partition --------------------------------------------------------------------------

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
