"""A job on other GPUs, with other memory and time: rows, refusals and guards."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from slurm_ext.advisor.limits.bounds import PartitionRules
from slurm_ext.advisor.pipeline.context import DecisionContext
from slurm_ext.advisor.what_if.layout import task_mem_of
from slurm_ext.advisor.what_if.shapes import ClusterNodes
from slurm_ext.advisor.what_if.speed import LayoutSpeed
from slurm_ext.core.errors import UsageError
from slurm_ext.core.records import Level, LoaderRun
from slurm_ext.core.settings.document import Settings
from slurm_ext.slurm import StartEstimate
from tests.advisor.what_if.drafts import GIB, HEAD, RUN, drafted, marked, rate, table
from tests.model.scaling.test_scaling_model import family


def test_more_gpus_keep_cores_and_ranks_for_each_and_say_how_sure() -> None:
    """Seen counts are sure, others wider, and what would be a guess is unknown."""
    one = replace(RUN, worker_rss_bytes=GIB // 4)
    four = replace(one, gpus=4, ranks=4, accel_samples_per_s=90.0)
    large = ClusterNodes(cpus=64, gpus=8)
    made = table(one, four, one, machines=large, cores=(32,), workers=(12,), gpus=(2, 4, 8, 64))
    by_gpus = {row.layout.gpus: row for row in made.rows}
    assert (by_gpus[2].layout.ranks, by_gpus[4].layout.ranks) == (2, 4)
    two, many = by_gpus[2].rate, by_gpus[4].rate
    assert two is not None
    assert many is not None
    assert two.samples_per_s < many.samples_per_s < many.interval.high < 1.3 * many.interval.low
    more = by_gpus[8].rate
    assert more is not None
    assert more.interval.high / more.interval.low > many.interval.high / many.interval.low
    assert (by_gpus[64].rate, by_gpus[64].layout.nodes) == (None, 8)
    assert "factor of three" in by_gpus[64].rate_why


def test_a_job_that_never_had_gpus_tells_nothing_of_them() -> None:
    """A rate on GPUs does not follow from one on CPUs."""
    made = table(replace(RUN, gpus=0), head="#SBATCH -c 4 --mem=64G", gpus=(2,))
    (row,) = [row for row in made.rows if row.layout.gpus == 2]
    assert (row.rate, row.rate_why) == (None, "no run with GPUs")


def test_gpu_types_are_rows_of_the_runs_that_they_had() -> None:
    """Two models seen are two rows; one that the cluster has and nobody ran on is unknown."""
    fast = replace(RUN, accel_samples_per_s=300.0, gpu_model="NVIDIA H100 80GB HBM3")
    head = HEAD.replace("gpu:1", "gpu:a100:1")
    made = table(RUN, fast, head=head, cores=(32,), gpu_types=("A100", "h100"))
    rates = {row.layout.gpu_type: row for row in made.rows if row.layout.cpus_per_task == 32}
    assert rate(rates["h100"]) > rate(rates["a100"])
    only = table(RUN, head=head, gpu_types=("h100",))
    (row,) = [row for row in only.rows if row.layout.gpu_type == "h100"]
    assert (row.rate, row.rate_why) == (None, "no runs like this one on h100")
    assert {row.layout.gpu_type for row in table(RUN, fast).rows} == {None, "a100", "h100"}


@pytest.mark.parametrize("kind", ["h300", "nvidia", "-"])
def test_an_unknown_gpu_type_is_refused_with_those_that_are_known(kind: str) -> None:
    """From nodes and from runs."""
    if kind == "nvidia":  # a part of the driver's name: the one model that was meant
        assert drafted(RUN, gpu_types=(kind,)).rows
        return
    with pytest.raises(UsageError, match=f"{kind}: .*known: a100, h100, NVIDIA A100-SXM4-80GB"):
        drafted(RUN, gpu_types=(kind,))


def test_gpus_that_a_script_asks_for_in_two_ways_cannot_be_varied() -> None:
    """Said, and not guessed; the other axes still are."""
    head = "#SBATCH -c 4 --gpus=2 --gres=gpu:1"
    with pytest.raises(UsageError, match="cannot be varied"):
        drafted(RUN, head=head, gpus=(1,))
    assert drafted(RUN, head=head, cores=(1,)).rows


def test_gpus_that_do_not_divide_over_the_nodes_are_refused() -> None:
    """Slurm itself would take uneven nodes; ranks and their rates would not be known."""
    with pytest.raises(UsageError, match="5 GPUs cannot be spread evenly over 2 nodes"):
        drafted(RUN, gpus=(5,))


def test_more_workers_than_memory_holds_are_left_out_with_the_reason() -> None:
    """Chosen ones are named; 64 GiB hold 32 workers of 2 GiB."""
    made = drafted(RUN, workers=(32, 33))
    assert {row.layout.num_workers for row in made.rows} >= {32}
    ((layout, why),) = made.left_out
    assert (layout.num_workers, why) == (33, "its memory holds 32 workers at most")


def test_a_run_beyond_its_time_limit_is_noted() -> None:
    """Slurm would end it."""
    row = marked(table(RUN, head=HEAD.replace("-t 60", "-t 10")), "written")
    assert row.notes == ("longer than its time limit",)


positive = st.floats(1e-4, 1e4)

counts = st.integers(1, 8)


@settings(max_examples=60, deadline=None)
@given(
    run=st.builds(
        partial(LoaderRun, samples_per_s=50.0, batch_size=8.0, nodes=1),
        workers=st.integers(0, 16),
        cores=st.floats(0.5, 64),
        accel_samples_per_s=positive,
        fetch_wall_s=positive,
        fetch_cpu_s=positive,
        main_cpu_s=st.none() | st.floats(0, 1),
        worker_rss_bytes=st.none() | st.integers(1, 64 * GIB),
        gpus=st.integers(0, 4),
        ranks=st.none() | counts,
        node_cores=st.none() | st.integers(1, 128),
    ),
    cores=counts,
    gpus=st.integers(0, 4),
    tasks=counts,
    mem_gib=st.none() | st.integers(1, 128),
    rules=st.none() | st.builds(PartitionRules, cpus_per_node=st.integers(8, 128)),
    axes=st.fixed_dictionaries(
        {},
        optional={
            "cores": st.lists(counts, min_size=1, max_size=3).map(tuple),
            "workers": st.lists(st.integers(0, 64), min_size=1, max_size=3).map(tuple),
            "gpus": st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=2).map(tuple),
        },
    ),
    refusing=st.integers(0, 64),
)
def test_no_row_but_the_written_one_breaks_a_guard_and_no_recommendation_does(
    run: LoaderRun,
    cores: int,
    gpus: int,
    tasks: int,
    mem_gib: int | None,
    rules: PartitionRules | None,
    axes: dict[str, Any],
    refusing: int,
) -> None:
    """Workers fit the memory, GPUs have their cores, and what Slurm refuses is not advised."""
    head = f"#SBATCH -c {cores} -n {tasks}" + (f" --gpus={gpus}" if gpus else "")
    head += f" --mem={mem_gib}G" if mem_gib else ""
    try:
        made = table(
            run,
            head=head,
            rules=rules,
            says=lambda one: (
                StartEstimate(refused="no") if one.cpus >= refusing else StartEstimate(start_s=0)
            ),
            **axes,
        )
    except UsageError as error:
        if "GPUs cannot be" not in str(error):  # they do not divide over its tasks or nodes
            raise
        reject()
    mem_of = partial(task_mem_of, made.job, rules, made.written)
    for row in made.rows:
        advised = "recommended" in row.marks
        if "written" in row.marks and not advised:
            continue
        layout, mem_mib = row.layout, mem_of(row.layout)
        if run.worker_rss_bytes and mem_mib is not None and made.speed.believed is not None:
            held = layout.num_workers * layout.ranks_per_task * run.worker_rss_bytes
            assert held <= mem_mib << 20
        if layout.gpus:
            assert layout.cpus >= layout.gpus
            assert layout.cpus >= layout.ranks * (made.speed.main_cores() - 0.1)
        assert not (advised and (row.start.refused or row.fault))
    assert sum("recommended" in row.marks for row in made.rows) <= 1
    assert sum("written" in row.marks for row in made.rows) == 1


def test_counts_of_gpus_nearest_to_the_written_one_are_compared() -> None:
    """Four of those that runs had, and of half and twice: a far one is left out first."""
    runs = [replace(RUN, gpus=count, ranks=count) for count in (8, 7, 6, 2, 1)]
    made = drafted(
        *runs, head="#SBATCH -c 32 --gres=gpu:8", machines=ClusterNodes(cpus=64, gpus=16)
    )
    assert {row.layout.gpus for row in made.rows} == {8, 7, 6, 4, 2}


def test_what_other_trainings_taught_narrows_other_counts_of_gpus() -> None:
    """A learned family says how such a training scales; without it physics alone does."""
    layout = replace(drafted(RUN).rows[0].layout, gpus=2, ranks=2, tasks=2)
    widths = []
    for known_family in (None, family()):
        known = DecisionContext(
            settings=Settings(), evidence={Level.SCRIPT_ARGS: [RUN]}, family=known_family
        )
        rate_of_two = LayoutSpeed(known, lambda _: None, 1).at(layout)
        assert not isinstance(rate_of_two, str)
        widths.append(rate_of_two.interval.high / rate_of_two.interval.low)
    plain, learned = widths
    assert learned != plain
