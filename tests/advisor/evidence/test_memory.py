"""What the advisor knows by heart: runs by key, and partitions' rules."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.advisor.evidence.runs import COLUMNS, LEVELS, NEWEST, RunTable
from slurm_ext.advisor.evidence.summary import EvidenceSummary, summarize
from slurm_ext.advisor.limits.bounds import PartitionRules
from slurm_ext.advisor.limits.partition_limits import ClusterRules
from slurm_ext.advisor.limits.rules import read_rules
from slurm_ext.core.records import Level, LoaderRun, Submission
from slurm_ext.slurm import MemoryClient, NodeInfo, PartitionInfo
from tests.builders import STARVED

RUN = LoaderRun(
    samples_per_s=12.5,
    workers=3,
    cores=2.0,
    batch_size=32.0,
    accel_samples_per_s=64.0,
    fetch_wall_s=0.25,
    fetch_cpu_s=0.125,
    node_cores=16,
    emulated=True,
)


def append(
    table: RunTable, runs: list[LoaderRun], script_keys: list[int], owners: list[int] | None = None
) -> None:
    """Rows that differ in their script's key only; the cluster's is 1 for all, five own them."""
    values = [
        [*(getattr(run, name) for name in COLUMNS[:-1]), table.code(run.gpu_model)] for run in runs
    ]
    keys = [np.zeros(len(runs), np.int64) for _ in Level]
    keys[list(Level).index(Level.SCRIPT)][:] = script_keys
    keys[list(Level).index(Level.CLUSTER)][:] = 1
    whose = [number % 5 for number in range(len(runs))] if owners is None else owners
    table.extend(np.array(values, np.float32), keys, np.array(whose, np.int32))


def test_a_run_comes_back_as_it_went_in() -> None:
    """Counts are counts, flags are flags, and what was not measured is None."""
    table = RunTable()
    append(table, [RUN], [7])
    assert table.newest({Level.SCRIPT: 7}) == {Level.SCRIPT: [RUN]}
    assert table.newest({Level.SCRIPT: 8, Level.KIND: 7}) == {}


def test_gpu_models_come_back_by_name_and_jobs_cannot_fill_the_memory_with_them() -> None:
    """A thousand names are kept; whoever invents more has no model."""
    table = RunTable()
    named = [replace(RUN, gpu_model=f"GPU {number}", ranks=2) for number in (1, 2, 1)]
    append(table, named, [7, 7, 7])
    assert table.newest({Level.SCRIPT: 7}) == {Level.SCRIPT: named[::-1]}
    codes = {table.code(f"invented {number}") for number in range(2000)}
    assert len({code for code in codes if code == code}) == 998


@pytest.mark.parametrize("bulk", [10, 5000])
def test_the_newest_come_first_whether_loaded_at_once_or_later(bulk: int) -> None:
    """Rows of the first load and of later ones form one chain."""
    table = RunTable()
    append(table, [replace(RUN, workers=n) for n in range(bulk)], [n % 5 + 1 for n in range(bulk)])
    append(table, [replace(RUN, workers=9999)], [1])
    found = [run.workers for run in table.newest({Level.SCRIPT: 1})[Level.SCRIPT]]
    older = [n for n in range(bulk) if n % 5 == 0][::-1]
    assert found == [9999, *older][:NEWEST]
    assert len(table) == bulk + 1
    (newest, *_) = table.newest({Level.CLUSTER: 1})[Level.CLUSTER]
    assert newest.workers == 9999


@pytest.mark.parametrize("rows", [10, 5000])
def test_a_key_of_one_run_has_no_other_run(rows: int) -> None:
    """Whether few rows are loaded or many at once: a chain ends where its key's runs do."""
    table = RunTable()
    runs = [replace(RUN, workers=number) for number in range(rows)]
    append(table, runs, list(range(1, rows + 1)))
    for key in (1, 2, 3, rows):
        assert table.newest({Level.SCRIPT: key}) == {Level.SCRIPT: [runs[key - 1]]}


@pytest.mark.parametrize(
    ("owners", "kept"),
    [
        ([0, 1, 2, 0, 0, 0, 0, 0], [7, 2, 1]),  # one user's flood is one of three
        ([0, 1, 2, 3, 0, 1, 2, 3], [7, 6, 5, 4, 3, 2, 1, 0]),
        ([0, 1, 0, 1, 0, 1], []),  # two are no pool
        ([0] * 8, []),
    ],
)
def test_nobody_has_more_than_a_third_of_what_others_are_told(
    owners: list[int], kept: list[int]
) -> None:
    """The newest of each user; with fewer than three, nothing is told of others."""
    table = RunTable()
    append(table, [replace(RUN, workers=n) for n in range(len(owners))], [7] * len(owners), owners)
    found = table.newest({Level.SCRIPT: 7, Level.CLUSTER: 1})
    assert [run.workers for run in found[Level.CLUSTER]] == kept
    assert len(found[Level.SCRIPT]) == len(owners)  # a user's own are all his


@given(st.lists(st.lists(st.integers(-3, 3), min_size=1, max_size=40), min_size=1, max_size=6))
def test_every_key_finds_its_own_newest_runs(loads: list[list[int]]) -> None:
    """Against the plain way: filter everything, newest first. 0 is a key that is not known."""
    table, all_keys = RunTable(), [key for load in loads for key in load]
    row = 0
    for load in loads:
        append(table, [replace(RUN, workers=row + n) for n in range(len(load))], load)
        row += len(load)
        table.newest({Level.SCRIPT: load[0]})  # a remembered answer must not grow stale
    for key in range(-3, 4):
        wanted = [n for n, k in enumerate(all_keys) if k == key and key != 0][::-1][:NEWEST]
        found = table.newest({Level.SCRIPT: key}).get(Level.SCRIPT, [])
        assert [run.workers for run in found] == wanted


CLUSTER = MemoryClient(
    known_nodes=(
        NodeInfo(name="n1", cpus=16, mem_mib=64000, partitions=("gpu", "all")),
        NodeInfo(name="n2", cpus=64, mem_mib=256000, partitions=("big", "all")),
    ),
    known_partitions=(
        PartitionInfo(name="gpu", default=True, max_mem_per_cpu_mib=4000, def_mem_per_cpu_mib=1000),
        PartitionInfo(name="big", max_cpus_per_node=32),
        PartitionInfo(name="all", def_mem_per_node_mib=8000),
        PartitionInfo(name="empty"),
    ),
    known_config={
        "DefMemPerCPU": "2000",
        "MaxMemPerNode": "UNLIMITED",
        "TaskPlugin": "task/affinity",
    },
)


def test_rules_are_those_of_a_partitions_smallest_node() -> None:
    """A job may land on any node of its partition, so the smallest decides."""
    book = read_rules(CLUSTER)
    assert book.rules_for(Submission(partition="all")) == PartitionRules(
        cpus_per_node=16, mem_per_node_mib=64000
    )


def test_a_partitions_own_rules_go_before_the_clusters() -> None:
    """Memory by default, memory at most, CPUs at most: partition first, then slurm.conf."""
    book = read_rules(CLUSTER)
    assert book.rules_for(Submission(partition="gpu")) == PartitionRules(
        cpus_per_node=16,
        mem_per_node_mib=64000,
        def_mem_per_cpu_mib=1000,
        max_mem_per_cpu_mib=4000,
    )
    assert book.rules_for(Submission(partition="big")) == PartitionRules(
        cpus_per_node=32, mem_per_node_mib=256000, def_mem_per_cpu_mib=2000
    )


def test_a_job_without_a_partition_goes_to_the_default_one() -> None:
    """As Slurm does it."""
    book = read_rules(CLUSTER)
    assert book.rules_for(Submission()) == book.rules_for(Submission(partition="gpu"))


def test_of_several_partitions_the_narrowest_rules_hold() -> None:
    """Slurm may start the job in any of them."""
    rules = read_rules(CLUSTER).rules_for(Submission(partition="big,gpu"))
    assert rules is not None
    assert (rules.cpus_per_node, rules.mem_per_node_mib) == (16, 64000)
    assert (rules.def_mem_per_cpu_mib, rules.max_mem_per_cpu_mib) == (2000, 4000)


@pytest.mark.parametrize("partition", ["empty", "gpu,elsewhere", "gpu,"])
def test_an_unknown_partition_has_no_rules(partition: str) -> None:
    """Nothing is guessed: no rules means that no CPUs are added."""
    assert read_rules(CLUSTER).rules_for(Submission(partition=partition)) is None
    assert ClusterRules().rules_for(Submission(partition="gpu")) is None


def test_models_that_nobody_ran_on_have_one_summary() -> None:
    """A user who makes up names has one answer made; a known model keeps its own."""
    table = RunTable()
    on_gpu = replace(STARVED, emulated=False, gpus=1, on_cpu=0)
    row = [getattr(on_gpu, name) for name in COLUMNS[:-1]]
    values = np.array([[*row, table.code("NVIDIA A100")]], np.float32)
    table.extend(values, [np.full(1, 5, np.int64) for _ in LEVELS], np.zeros(1, np.int32))
    runs = table.newest(dict.fromkeys(Level, 5))

    def of(gres: str) -> EvidenceSummary:
        return table.summary(runs, None, job=Submission(tres_per_node=f"gres/gpu:{gres}"))

    assert of("x1:1") is of("made-up-2:1")
    assert of("x1:1") == summarize(
        runs, None, job=Submission(tres_per_node="gres/gpu:x1:1"), receives=table.receives.of("")
    )
    for other in ("a100:1", "x1:2", "a:1"):
        assert of(other) is not of("x1:1")
