"""A job in other shapes: which rows there are, what they say, and which one is recommended."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from slurm_ext.advisor.limits.bounds import PartitionRules
from slurm_ext.advisor.pipeline.decide import DecisionContext
from slurm_ext.advisor.pipeline.script import options_of, read_script
from slurm_ext.advisor.what_if.layout import JobLayout, request_of, task_mem_of
from slurm_ext.advisor.what_if.shapes import MOST_CHOSEN, Axes, ClusterNodes
from slurm_ext.advisor.what_if.speed import LayoutSpeed
from slurm_ext.advisor.what_if.table import MOST_ROWS, WhatIfRow, WhatIfTable, draft, judged
from slurm_ext.core.errors import UsageError
from slurm_ext.core.records import Level, LoaderRun, Submission
from slurm_ext.core.settings.document import Settings
from slurm_ext.slurm import StartEstimate
from tests.model.scaling.test_scaling_model import family

GIB = 1 << 30
NOW_S = 1_795_260_000.0
RULES = PartitionRules(cpus_per_node=32, mem_per_node_mib=256 * 1024)
MACHINES = ClusterNodes(cpus=32, gpus=4, gpu_types=("a100", "h100"))
RUN = LoaderRun(  # one worker where eight would do: data costs 80 ms, the step 10 ms
    samples_per_s=12.0,
    workers=1,
    cores=4.0,
    batch_size=8.0,
    accel_samples_per_s=100.0,
    fetch_wall_s=0.08,
    fetch_cpu_s=0.078,
    main_cpu_s=0.0001,
    node_cores=64,
    user_workers=1,
    gpus=1,
    ranks=1,
    nodes=1,
    run_samples=36_000.0,
    outside_s=30.0,
    worker_rss_bytes=2 * GIB,
    gpu_model="NVIDIA A100-SXM4-80GB",
)
HEAD = "#SBATCH -c 4 --gres=gpu:1 --mem=64G -t 60"


def script(head: str = HEAD) -> Submission:
    """A batch script with these options."""
    return read_script(f"#!/bin/bash\n{head}\npython3 train.py\n", "job.sh", user_name="ada")


def drafted(
    *runs: LoaderRun,
    head: str = HEAD,
    rules: PartitionRules | None = RULES,
    machines: ClusterNodes = MACHINES,
    level: Level = Level.SCRIPT_ARGS,
    **axes: Any,
) -> WhatIfTable:
    """The table of a script whose own runs these are, before Slurm was asked."""
    job = script(head)
    known = DecisionContext(
        settings=Settings(), evidence={level: list(runs)} if runs else {}, rules=rules
    )
    request = request_of(options_of(job.script or "", "job.sh"))
    return draft(job, known, request, Axes(**axes), machines)


def table(
    *runs: LoaderRun,
    says: Callable[[JobLayout], StartEstimate] = lambda _: StartEstimate(start_s=0),
    **more: Any,
) -> WhatIfTable:
    """The table after `says` answered for each row."""
    made = drafted(*runs, **more)
    return judged(made, {row.layout: says(row.layout) for row in made.rows}, NOW_S)


def marked(made: WhatIfTable, mark: str) -> WhatIfRow:
    """The one row with a mark."""
    (row,) = [row for row in made.rows if mark in row.marks]
    return row


def rate(row: WhatIfRow) -> float:
    """The row's samples/s, which have to be known."""
    assert row.rate is not None
    return row.rate.samples_per_s


def test_the_table_has_the_written_the_recommended_the_knee_and_the_maximum() -> None:
    """At a glance: at most a dozen rows, each mark once, in the order of their size."""
    made = table(RUN)
    written, chosen = marked(made, "written"), marked(made, "recommended")
    knee, most = marked(made, "knee"), marked(made, "maximum")
    assert len(made.rows) <= MOST_ROWS
    assert (written.layout.cpus_per_task, written.layout.num_workers) == (4, 1)
    assert rate(written) < rate(knee) <= rate(most)
    assert rate(chosen) >= 0.95 * rate(most)
    assert knee.layout.cpus_per_task <= most.layout.cpus_per_task
    order = [(row.layout.gpus, row.layout.cpus_per_task) for row in made.rows]
    assert order == sorted(order)


def test_run_time_comes_from_the_jobs_own_work_and_carries_both_doubts() -> None:
    """Samples of earlier runs over the row's rate, and the seconds beside the training loop."""
    row = marked(table(RUN, RUN), "written")
    assert row.rate is not None
    assert row.run_s == pytest.approx(36_000 / rate(row) + 30)
    assert row.run_interval is not None
    assert row.run_interval.low == pytest.approx(36_000 / row.rate.interval.high + 30)
    assert row.run_interval.high == pytest.approx(36_000 / row.rate.interval.low + 30)
    vague = marked(table(RUN, replace(RUN, run_samples=30_000.0, outside_s=90.0)), "written")
    assert vague.run_interval is not None
    assert vague.run_interval.low < row.run_interval.low
    assert vague.run_interval.high > row.run_interval.high


@pytest.mark.parametrize(
    ("runs", "why"),
    [
        ([replace(RUN, run_samples=None)], "no run of this script has come to its end"),
        ([replace(RUN, run_samples=0.0)], "no run of this script has come to its end"),
        ([RUN, replace(RUN, run_samples=3e6)], "different amounts of work: 3.6e+04 to 3e+06"),
    ],
)
def test_unknown_or_contradictory_work_gives_rates_without_run_times(
    runs: list[LoaderRun], why: str
) -> None:
    """Nothing is averaged over runs that were told to do different things."""
    row = marked(table(*runs), "written")
    assert row.rate is not None
    assert (row.run_s, row.result_s) == (None, None)
    assert why in row.run_why


def test_other_jobs_of_the_kind_say_how_fast_but_not_how_long() -> None:
    """Their amount of work is theirs."""
    runs = [replace(RUN, accel_samples_per_s=100.0 + n) for n in range(8)]
    row = marked(table(*runs, level=Level.KIND), "written")
    assert row.rate is not None
    assert row.run_s is None


def test_without_history_the_row_as_written_is_there_and_says_that_nothing_is_known() -> None:
    """No rate is invented; what Slurm says of the wait is told all the same."""
    made = table(says=lambda _: StartEstimate(start_s=int(NOW_S) + 60))
    (row,) = made.rows
    assert row.marks == ("written",)
    assert (row.rate, row.rate_why, row.wait_s) == (
        None,
        "I do not know yet: no runs like this one",
        60.0,
    )


def test_runs_that_contradict_each_other_widen_the_interval_or_say_nothing() -> None:
    """Three times faster at the same shape is doubt; twenty times is no answer."""

    def faster(by: float) -> WhatIfRow:
        other = replace(
            RUN,
            samples_per_s=12.0 * by,
            accel_samples_per_s=100.0 * by,
            fetch_wall_s=0.08 / by,
            fetch_cpu_s=0.078 / by,
        )
        return marked(table(RUN, other), "written")

    sure, doubtful = faster(1.0).rate, faster(3.0).rate
    assert sure is not None
    assert doubtful is not None
    assert doubtful.interval.high / doubtful.interval.low > sure.interval.high / sure.interval.low
    assert faster(20.0).rate is None
    assert faster(20.0).rate_why == "I do not know: 2 runs like this one contradict each other"


def test_time_to_result_is_waiting_and_running() -> None:
    """From now on; a start that has passed is no wait."""
    row = marked(table(RUN, says=lambda _: StartEstimate(start_s=int(NOW_S) + 600)), "written")
    assert row.run_s is not None
    assert (row.wait_s, row.result_s) == (600.0, 600.0 + row.run_s)
    late = marked(table(RUN, says=lambda _: StartEstimate(start_s=1)), "written")
    assert late.wait_s == 0.0
    unknown = marked(table(RUN, says=lambda _: StartEstimate(why="away")), "written")
    assert (unknown.wait_s, unknown.result_s) == (None, None)


def test_what_slurm_refuses_is_shown_and_never_recommended() -> None:
    """The next best row that Slurm takes is; where it takes none, none is."""
    free = marked(table(RUN), "recommended").layout.cpus_per_task
    made = table(
        RUN,
        says=lambda one: (
            StartEstimate(refused="no") if one.cpus_per_task >= free else StartEstimate(start_s=0)
        ),
    )
    chosen = marked(made, "recommended")
    assert chosen.layout.cpus_per_task < free
    assert [row for row in made.rows if row.start.refused]
    none = table(RUN, says=lambda _: StartEstimate(refused="no"))
    assert not any("recommended" in row.marks for row in none.rows)


def test_a_job_that_is_fine_as_written_is_recommended_as_written() -> None:
    """Nobody is sent to another shape for nothing."""
    fine = replace(
        RUN, samples_per_s=99.0, fetch_wall_s=0.001, fetch_cpu_s=0.0005, cores=1.0, user_workers=1
    )
    made = table(fine, fine, head="#SBATCH -c 1 --gres=gpu:1")
    assert "recommended" in marked(made, "written").marks
    offline = table(
        fine, fine, head="#SBATCH -c 1 --gres=gpu:1", rules=None, machines=ClusterNodes()
    )
    assert "recommended" in marked(offline, "written").marks


def test_the_cpus_that_a_user_wrote_may_be_advised_although_dlqueue_would_keep_them() -> None:
    """The table is for people who can change their script; the site's settings are told apart."""
    made = table(RUN)
    assert made.thought.decision is not None
    assert made.thought.decision.after.cpus_per_task == 4
    assert marked(made, "recommended").layout.cpus_per_task > 4


def test_chosen_axes_make_their_rows() -> None:
    """Cores and workers as asked, best workers where none were named, and always the written."""
    made = table(RUN, cores=(1, 2), workers=(3, 5))
    asked = {(row.layout.cpus_per_task, row.layout.num_workers) for row in made.rows}
    assert {(1, 3), (1, 5), (2, 3), (2, 5), (4, 1)} <= asked
    made = table(RUN, cores=(2,))
    (row,) = [row for row in made.rows if row.layout.cpus_per_task == 2]
    assert row.layout.num_workers >= 2


def test_too_many_combinations_are_refused() -> None:
    """A table of hundreds of rows would ask slurmctld hundreds of questions."""
    with pytest.raises(UsageError, match=f"make 100 rows; at most {MOST_CHOSEN}"):
        drafted(RUN, cores=tuple(range(1, 11)), workers=tuple(range(10)))


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
        rate_of_two = LayoutSpeed(known, lambda _: None).at(layout)
        assert not isinstance(rate_of_two, str)
        widths.append(rate_of_two.interval.high / rate_of_two.interval.low)
    plain, learned = widths
    assert learned != plain
