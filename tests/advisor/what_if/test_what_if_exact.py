"""What-if tables to the digit: layouts, rows, run times, waits and the JSON of them."""

from dataclasses import replace
from typing import Any

import pytest

from slurm_ext.advisor.limits.bounds import PartitionRules
from slurm_ext.advisor.pipeline.decide import DecisionContext
from slurm_ext.advisor.what_if.layout import (
    GpuOption,
    JobLayout,
    request_of,
    task_mem_of,
    with_gpus,
    written_layout,
)
from slurm_ext.advisor.what_if.queue_wait import (
    StartQuery,
    brief,
    machines_of,
    options_for,
    starts,
    submission,
)
from slurm_ext.advisor.what_if.run_length import TrainingWork, work_of
from slurm_ext.advisor.what_if.runtime_estimates import (
    completed,
    runtime_evidence,
    runtime_json,
    wanted_of,
)
from slurm_ext.advisor.what_if.shapes import Axes, ClusterNodes, size
from slurm_ext.advisor.what_if.speed import LayoutSpeed, of_model
from slurm_ext.advisor.what_if.table import WhatIfRow, WhatIfTable
from slurm_ext.advisor.what_if.table_json import table_json
from slurm_ext.core.errors import SlurmError, UsageError
from slurm_ext.core.records import Interval, Level, LoaderRun, Submission
from slurm_ext.core.settings.document import Settings
from slurm_ext.model.duration.query import DurationQuery
from slurm_ext.slurm import MemoryClient, NodeInfo, StartEstimate
from tests.advisor.what_if.test_what_if_rows import NOW_S, RUN, table

# -- whole tables ---------------------------------------------------------------------------------


def text_of(made: WhatIfTable) -> list[str]:
    """A line for each row: where, cores and workers, rate with its interval, seconds, marks."""
    return [_line(row) for row in made.rows]


def _line(row: WhatIfRow) -> str:
    here, rate = row.layout, row.rate
    assert rate is not None
    where = f"{here.gpus}x{here.gpu_type or 'any'} n{here.nodes} t{here.tasks} r{here.ranks}"
    rates = f"{rate.samples_per_s:.3g} {rate.interval.low:.3g} {rate.interval.high:.3g}"
    marks = " ".join(row.marks)
    seconds = "?" if row.run_s is None else f"{row.run_s:.0f}"
    return f"{where} {here.cpus_per_task}c {here.num_workers}w: {rates} {seconds} {marks}".strip()


RANKS = [replace(RUN, gpus=n, ranks=n, samples_per_s=12 - n / 10) for n in (1, 2, 4)]
OTHER_GPU = replace(RUN, gpu_model="NVIDIA H100", accel_samples_per_s=200.0)


@pytest.mark.parametrize(
    ("runs", "options", "lines"),
    [
        ([RUN, RUN], {}, "PLAIN"),
        (RANKS, {}, "SEEN"),
        ([RUN], {"head": "#SBATCH -c 2 --gpus=2 -n 2 --mem-per-cpu=4G"}, "TASKS"),
        ([replace(RUN, gpus=0, gpu_model=None)], {"head": "#SBATCH -c 4", "rules": None}, "CPUS"),
        ([RUN, OTHER_GPU], {"cores": (2, 8), "gpus": (1, 2), "gpu_types": ("h100",)}, "AXES"),
        ([RUN], {"head": "#SBATCH -N 2 -n 2 -c 8 --gpus-per-node=2"}, "NODES"),
    ],
)
def test_a_table_has_these_rows(runs: list[LoaderRun], options: dict[str, Any], lines: str) -> None:
    """Shapes, rates with their bounds, seconds and marks, three digits each."""
    assert text_of(table(*runs, **options)) == TABLES[lines]


def test_chosen_shapes_that_may_not_be_have_their_reason() -> None:
    """Memory for their workers, and cores for their GPUs."""
    made = table(RUN, cores=(2,), gpus=(4,), workers=(0, 40))
    assert [(one.num_workers, one.gpus, why) for one, why in made.left_out] == [
        (0, 4, "its 4 GPUs need 4 CPUs"),
        (40, 4, "its memory holds 8 workers at most"),
    ]
    tight = PartitionRules(cpus_per_node=32, max_mem_per_cpu_mib=16 * 1024)
    made = table(RUN, cores=(3,), rules=tight)
    assert [why for _, why in made.left_out] == ["its limits and its memory need 4 CPUs a task"]
    assert table(RUN).left_out == ()
    assert table(RUN, replace(RUN, samples_per_s=1e9)).not_believed == 1


@pytest.mark.parametrize(
    ("axes", "head", "why"),
    [
        (
            {"cores": tuple(range(1, 50))},
            "#SBATCH -c 4 --gres=gpu:1",
            "the axes make 49 rows; at most 48 can be shown",
        ),
        (
            {"gpu_types": ("v100",)},
            "#SBATCH -c 4 --gres=gpu:1",
            (
                "--gpu-type v100: no node and no run like this one has it;"
                " known: a100, h100, NVIDIA A100-SXM4-80GB"
            ),
        ),
        (
            {"gpus": (2,)},
            "#SBATCH --gpus=1 --gres=gpu:1",
            "the script asks for GPUs in a way that cannot be varied: try --gpus=N",
        ),
        (
            {"gpus": (7,)},
            "#SBATCH -c 4 --gres=gpu:1",
            "7 GPUs cannot be spread evenly over 2 nodes",
        ),
    ],
)
def test_axes_that_cannot_be_are_refused_to_the_word(
    axes: dict[str, Any], head: str, why: str
) -> None:
    """The option that is wrong, and what is possible."""
    with pytest.raises(UsageError) as caught:
        table(RUN, head=head, **axes)
    assert str(caught.value) == why


def test_as_many_rows_as_may_be_are_made() -> None:
    """Forty-eight chosen ones are not too many."""
    assert len(table(RUN, workers=tuple(range(32)), cores=(4,)).rows) >= 32


def test_without_nodes_or_runs_no_type_of_gpu_is_known() -> None:
    """The message ends with none."""
    with pytest.raises(UsageError, match=r"known: none$"):
        table(machines=ClusterNodes(), gpu_types=("a100",))


def test_axes_are_true_where_one_is_chosen() -> None:
    """Each of the four alone."""
    assert not Axes()
    assert Axes(cores=(0,))
    assert Axes(workers=(0,))
    assert Axes(gpus=(0,))
    assert Axes(gpu_types=("a",))


def test_any_kind_of_gpu_can_be_asked_for() -> None:
    """A named one only where a node has it."""
    nodes = ClusterNodes(gpu_types=("a",))
    assert [nodes.has(kind) for kind in (None, "a", "b")] == [True, True, False]
    assert ClusterNodes().has(None)


def test_the_json_of_a_table_has_every_field() -> None:
    """Names and values as the module says; null is unknown and has its reason beside it."""
    made = table(RUN, cores=(2,), workers=(1, 40), head="#SBATCH -c 4 --gres=gpu:2 --mem=8G -t 1")
    body = table_json(made, "nobody asked", lambda layout: (f"-c{layout.cpus_per_task}",))
    rows = body.pop("rows")
    assert body == {
        "mode": "shadow",
        "eligible": True,
        "action": made.thought.decision.action if made.thought.decision else "",
        "before": {"cpus_per_task": 4, "num_workers": 1},
        "after": body["after"],
        "why": made.thought.why,
        "level": "same script and arguments",
        "runs": 1,
        "emulated": False,
        "work": {
            "samples": 36_000.0,
            "outside_s": [30.0, 30.0],
            "level": "same script and arguments",
            "runs": 1,
        },
        "work_why": None,
        "queue_why": "nobody asked",
        "not_believed": 0,
        "left_out": [
            {
                "cpus_per_task": 2,
                "num_workers": 40,
                "gpus": 2,
                "gpu_type": None,
                "why": "its memory holds 2 workers at most",
            }
        ],
    }
    (row,) = [row for row in rows if "written" in row["marks"]]
    (same,) = [row for row in made.rows if "written" in row.marks]
    assert same.rate is not None
    assert same.run_s is not None
    assert same.run_interval is not None
    low, high = same.run_interval.low, same.run_interval.high
    assert row == {
        "marks": list(same.marks),
        "cpus_per_task": 4,
        "num_workers": 1,
        "tasks": 1,
        "nodes": 1,
        "gpus": 2,
        "gpu_type": None,
        "ranks": 2,
        "samples_per_s": same.rate.samples_per_s,
        "interval": [same.rate.interval.low, same.rate.interval.high],
        "interval_level": 0.9,
        "bottleneck": same.rate.bottleneck,
        "next": same.rate.next,
        "rate_why": None,
        "run_s": same.run_s,
        "run_interval": [low, high],
        "run_why": None,
        "gpu_hours": 2 * same.run_s / 3600,
        "gpu_hours_interval": [2 * low / 3600, 2 * high / 3600],
        "cpu_hours": 4 * same.run_s / 3600,
        "cpu_hours_interval": [4 * low / 3600, 4 * high / 3600],
        "wait_s": 0.0,
        "wait_why": None,
        "refused": None,
        "result_s": same.run_s,
        "fault": None,
        "notes": ["longer than its time limit"],
        "sbatch": ["-c4"],
    }


def test_the_json_of_what_is_unknown_has_reasons() -> None:
    """No runs, no decision, no start: each is null, and says why."""
    made = table(says=lambda _: StartEstimate(why="away"), head="#SBATCH -a 1-2")
    body = table_json(made, None, lambda _: ())
    assert {name: body[name] for name in ("eligible", "action", "before", "after", "why")} == {
        "eligible": False,
        "action": "none",
        "before": None,
        "after": None,
        "why": "is an array: its tasks share one submission",
    }
    assert (body["level"], body["runs"], body["emulated"], body["work"]) == (None, 0, None, None)
    why = "no run of this script has come to its end with its samples counted"
    assert body["work_why"] == why
    (row,) = body["rows"]
    nothing = "I do not know yet: no runs like this one"
    assert (row["rate_why"], row["run_why"], row["wait_why"]) == (nothing, nothing, "away")
    unknown: tuple[str, ...] = (
        "samples_per_s",
        "interval",
        "interval_level",
        "bottleneck",
        "next",
        "run_s",
    )
    unknown += ("run_interval", "gpu_hours", "gpu_hours_interval", "cpu_hours", "result_s")
    assert {row[name] for name in unknown} == {None}
    asked = replace(made, rows=tuple(replace(one, start=StartEstimate()) for one in made.rows))
    assert table_json(asked, None, lambda _: ())["rows"][0]["wait_why"] == "not asked"
    assert table_json(asked, "no Slurm", lambda _: ())["rows"][0]["wait_why"] == "no Slurm"
    refused = table(RUN, says=lambda _: StartEstimate(refused="no"))
    row = table_json(refused, None, lambda _: ())["rows"][0]
    assert (row["refused"], row["wait_why"], row["wait_s"]) == ("no", None, None)


def test_a_wait_counts_from_now() -> None:
    """A start in the past is no wait; a row that nobody asked about has none."""
    made = table(RUN, says=lambda _: StartEstimate(start_s=int(NOW_S) + 7))
    assert {row.wait_s for row in made.rows} == {7.0}
    assert made.rows[0].run_s is not None
    assert made.rows[0].result_s == made.rows[0].run_s + 7.0
    assert replace(made.rows[0], wait_s=None).result_s is None
    assert replace(made.rows[0], run_s=None).result_s is None


@pytest.mark.parametrize(("minutes", "noted"), [(49, True), (50, True), (51, False)])
def test_a_run_of_just_its_time_limit_is_not_noted(minutes: int, noted: bool) -> None:
    """Fifty minutes and a second are longer than fifty minutes."""
    made = table(RUN, head=f"#SBATCH -c 4 --gres=gpu:1 --mem=64G -t {minutes}")
    (row,) = [row for row in made.rows if "written" in row.marks]
    assert row.run_s == pytest.approx(3009, abs=1)
    assert bool(row.notes) is noted


def test_without_evidence_no_speed_is_known() -> None:
    """No cores are kept busy, and no memory limits the workers."""
    speed = LayoutSpeed(DecisionContext(settings=Settings()), lambda _: 1)
    assert (speed.main_cores(), speed.most_workers(layout()), speed.believed) == (0.0, None, None)
    assert speed.at(layout()) == "I do not know yet: no runs like this one"


# -- layouts --------------------------------------------------------------------------------------


def layout(**values: Any) -> JobLayout:
    """One task of four CPUs and two workers."""
    return JobLayout(**{"cpus_per_task": 4, "num_workers": 2, **values})


@pytest.mark.parametrize(
    ("values", "cpus", "tasks_per_node", "ranks_per_task"),
    [
        ({}, 4, 1, 1),
        ({"tasks": 3, "nodes": 2}, 12, 2, 1),
        ({"tasks": 3, "ranks": 4}, 12, 3, 2),
        ({"tasks": 2, "ranks": 4, "nodes": 2}, 8, 1, 2),
        ({"ranks": 0}, 4, 1, 1),
    ],
)
def test_a_layout_counts_what_it_spreads(
    values: dict[str, Any], cpus: int, tasks_per_node: int, ranks_per_task: int
) -> None:
    """CPUs of all tasks, tasks of the fullest node, ranks of the fullest task."""
    here = layout(**values)
    assert (here.cpus, here.tasks_per_node, here.ranks_per_task) == (
        cpus,
        tasks_per_node,
        ranks_per_task,
    )
    assert size(replace(here, gpu_type="a", gpus=3)) == ("a", 3, 4, 2)
    assert size(here) == ("", 0, 4, 2)


@pytest.mark.parametrize(
    ("option", "here", "words"),
    [
        (GpuOption(), {"gpus": 4}, "--gpus=4"),
        (GpuOption(option="gres"), {"gpus": 4, "nodes": 2}, "--gres=gpu:2"),
        (
            GpuOption(option="gres", others=("tmp:1",)),
            {"gpus": 4, "gpu_type": "a"},
            "--gres=tmp:1,gpu:a:4",
        ),
        (GpuOption(option="gpus-per-node"), {"gpus": 4, "nodes": 2}, "--gpus-per-node=2"),
        (
            GpuOption(option="gpus-per-task"),
            {"gpus": 4, "tasks": 4, "gpu_type": "a"},
            "--gpus-per-task=a:1",
        ),
    ],
)
def test_gpus_in_the_words_of_the_script(
    option: GpuOption, here: dict[str, Any], words: str
) -> None:
    """By the job, the node or the task, with its type and what stands beside it."""
    assert option.words(layout(**here)) == words


@pytest.mark.parametrize(
    ("options", "request_"),
    [
        ({}, GpuOption()),
        ({"gpus": None}, GpuOption()),
        ({"gres": "tmp:1"}, GpuOption()),
        ({"gpus": "2"}, GpuOption(option="gpus", count=2)),
        (
            {"gres": "tmp:1,gpu:a:2,nic"},
            GpuOption(option="gres", kind="a", count=2, others=("tmp:1", "nic")),
        ),
        ({"gres": "gpu:a:1,gpu:b:1"}, None),
        ({"gpus": "1", "gres": "gpu:1"}, None),
        ({"gpus": "1", "gres": "tmp:1"}, GpuOption(option="gpus", count=1)),
        ({"gpus-per-socket": "1"}, None),
        ({"gpus-per-socket": None}, None),
    ],
)
def test_the_gpu_option_of_a_script(
    options: dict[str, str | None], request_: GpuOption | None
) -> None:
    """None where it cannot be varied: two ways at once, two types, or by the socket."""
    assert request_of(options) == request_


@pytest.mark.parametrize(
    ("fields", "request_", "runs", "here"),
    [
        ({}, None, [], layout(cpus_per_task=1, num_workers=3)),
        (
            {"cpus_per_task": 2, "num_tasks": 4, "min_nodes": 2},
            GpuOption(option="gres", kind="a", count=2),
            [],
            JobLayout(
                cpus_per_task=2, num_workers=3, tasks=4, nodes=2, gpus=4, gpu_type="a", ranks=4
            ),
        ),
        (
            {"num_tasks": 2, "cpus_per_tres": "gres:gpu:3"},
            GpuOption(option="gpus-per-task", count=1),
            [],
            JobLayout(cpus_per_task=3, num_workers=3, tasks=2, gpus=2, ranks=2),
        ),
        (
            {"num_tasks": 8, "cpus_per_tres": "gres:gpu:3"},
            GpuOption(count=2),
            [],
            JobLayout(cpus_per_task=1, num_workers=3, tasks=8, gpus=2, ranks=2),
        ),
        (
            {"cpus_per_task": 5, "cpus_per_tres": "gres:gpu:3"},
            None,
            [],
            JobLayout(cpus_per_task=5, num_workers=3),
        ),
        (
            {},
            GpuOption(count=4),
            [replace(RUN, ranks=None), replace(RUN, gpus=2, nodes=None, ranks=1)],
            JobLayout(cpus_per_task=1, num_workers=3, gpus=4, ranks=2),
        ),
        (
            {},
            GpuOption(count=1),
            [replace(RUN, gpus=4, nodes=2, ranks=1), replace(RUN, ranks=7)],
            JobLayout(cpus_per_task=1, num_workers=3, gpus=1, ranks=1),
        ),
        (
            {"num_tasks": 2},
            None,
            [replace(RUN, gpus=1, ranks=9), replace(RUN, gpus=0, ranks=5)],
            JobLayout(cpus_per_task=1, num_workers=3, tasks=2, ranks=5),
        ),
        (
            {},
            GpuOption(count=2),
            [replace(RUN, gpus=0, ranks=5)],
            JobLayout(cpus_per_task=1, num_workers=3, gpus=2, ranks=2),
        ),
    ],
)
def test_a_job_as_it_is_written(
    fields: dict[str, Any], request_: GpuOption | None, runs: list[LoaderRun], here: JobLayout
) -> None:
    """GPUs and CPUs of all, and the ranks that its runs had for each GPU."""
    assert written_layout(Submission(**fields), request_, 3, runs) == replace(here, num_workers=3)


@pytest.mark.parametrize(
    ("written", "gpus", "per_node", "here"),
    [
        ({"gpus": 1}, 2, 4, {"gpus": 2, "cpus_per_task": 8, "ranks": 2}),
        ({"gpus": 1}, 4, 4, {"gpus": 4, "cpus_per_task": 16, "ranks": 4}),
        (
            {"gpus": 1},
            8,
            4,
            {"gpus": 8, "nodes": 2, "tasks": 2, "cpus_per_task": 16, "ranks": 8},
        ),
        ({"gpus": 1}, 8, None, {"gpus": 8, "cpus_per_task": 32, "ranks": 8}),
        ({"gpus": 0}, 2, None, {"gpus": 2, "cpus_per_task": 8, "ranks": 2}),
        (
            {"gpus": 2, "tasks": 2, "ranks": 2},
            4,
            4,
            {"gpus": 4, "tasks": 4, "cpus_per_task": 4, "ranks": 4},
        ),
        (
            {"gpus": 4, "tasks": 2, "ranks": 4},
            2,
            4,
            {"gpus": 2, "tasks": 1, "cpus_per_task": 4, "ranks": 2},
        ),
        (
            {"gpus": 3, "tasks": 2, "ranks": 3},
            6,
            8,
            {"gpus": 6, "tasks": 2, "cpus_per_task": 8, "ranks": 6},
        ),
        (
            {"gpus": 1, "tasks": 2, "ranks": 1},
            2,
            8,
            {"gpus": 2, "tasks": 2, "cpus_per_task": 8, "ranks": 2},
        ),
        (
            {"gpus": 4, "nodes": 2, "tasks": 2, "ranks": 4},
            1,
            4,
            {"gpus": 1, "nodes": 1, "tasks": 1, "cpus_per_task": 2, "ranks": 1},
        ),
        (
            {"gpus": 4, "nodes": 2, "tasks": 2, "ranks": 4},
            2,
            4,
            {"gpus": 2, "nodes": 2, "tasks": 2, "cpus_per_task": 2, "ranks": 2},
        ),
        ({"gpus": 4, "ranks": 1}, 1, 4, {"gpus": 1, "cpus_per_task": 1, "ranks": 1}),
    ],
)
def test_a_job_over_other_gpus(
    written: dict[str, Any], gpus: int, per_node: int | None, here: dict[str, Any]
) -> None:
    """Cores and ranks go with the GPUs; tasks stay one a node, or one for so many GPUs."""
    assert with_gpus(layout(**written), gpus, per_node) == layout(**here)


def test_gpus_that_do_not_divide_are_refused_to_the_word() -> None:
    """Over nodes, or over tasks of several GPUs each."""
    with pytest.raises(UsageError, match=r"^5 GPUs cannot be spread evenly over 2 nodes$"):
        with_gpus(layout(gpus=1), 5, 4)
    with pytest.raises(UsageError, match=r"^3 GPUs cannot be shared by tasks of 2 GPUs each$"):
        with_gpus(layout(gpus=4, tasks=2), 3, 4)


def test_memory_of_a_task_in_another_layout() -> None:
    """By the node it is shared by its tasks; by the CPU it is kept unless the GPUs change."""
    written = layout(gpus=1)
    more = replace(written, gpus=2, cpus_per_task=8)
    node = Submission(mem_per_node_mib=1000, cpus_per_task=4)
    cpu = Submission(mem_per_cpu_mib=10, cpus_per_task=4)
    assert task_mem_of(node, None, written, replace(written, tasks=4, nodes=2)) == 500
    assert task_mem_of(cpu, None, written, replace(written, cpus_per_task=2)) == 40
    assert task_mem_of(cpu, None, written, more) == 80
    assert task_mem_of(Submission(), None, written, more) is None
    rules = PartitionRules(cpus_per_node=8, def_mem_per_cpu_mib=5)
    assert task_mem_of(Submission(), rules, written, more) == 40


# -- run times ------------------------------------------------------------------------------------


def test_work_is_the_median_of_runs_that_did_alike() -> None:
    """Half as much again is still alike; the seconds outside are the least and most seen."""
    runs = [
        replace(RUN, run_samples=samples, outside_s=outside_s)
        for samples, outside_s in ((100.0, 3.0), (150.0, 0.0), (110.0, 9.0))
    ]
    work, why = work_of({Level.SCRIPT_ARGS: runs, Level.SCRIPT: [RUN]})
    assert work is not None
    assert work.log_sd == pytest.approx(0.1731, abs=1e-4)
    assert replace(work, log_sd=0.0) == TrainingWork(
        samples=110.0,
        log_sd=0.0,
        outside_s=Interval(0.0, 9.0),
        level=Level.SCRIPT_ARGS,
        runs=3,
    )
    assert why == ""
    uneven = [runs[0], replace(runs[1], run_samples=150.1)]
    assert work_of({Level.SCRIPT: uneven}) == (
        None,
        "earlier runs did different amounts of work: 100 to 150 samples",
    )
    unknown = "no run of this script has come to its end with its samples counted"
    assert work_of({Level.USER_NAME: runs}) == (None, unknown)
    assert work_of({Level.SCRIPT: [replace(RUN, outside_s=None)]}) == (None, unknown)
    found, _ = work_of(
        {Level.SCRIPT_ARGS: [replace(RUN, run_samples=0.0)], Level.SCRIPT: [runs[0]]}
    )
    assert found is not None
    assert (found.level, found.runs) == (Level.SCRIPT, 1)
    small, _ = work_of({Level.SCRIPT: [replace(RUN, run_samples=0.5)]})
    assert small is not None


def test_seconds_of_a_run_carry_the_doubts_of_rate_and_work() -> None:
    """Both ends: the rate's factor of two and the work's spread, added as squares of logs."""
    work = TrainingWork(
        samples=1000.0, log_sd=0.0, outside_s=Interval(10.0, 30.0), level=Level.SCRIPT, runs=1
    )
    run_s, bounds = work.run_s(10.0, Interval(5.0, 20.0, 0.8))
    assert run_s == 120.0
    assert (bounds.low, bounds.high, bounds.level) == pytest.approx((60.0, 230.0, 0.8))
    _, wider = replace(work, log_sd=0.5).run_s(10.0, Interval(5.0, 20.0))
    assert (wider.low, wider.high) == pytest.approx((44.1086, 323.181), rel=1e-4)


@pytest.mark.parametrize(
    ("fields", "changes"),
    [
        ({}, {}),
        ({"user_name": "u", "name": "n", "account": "a"}, "named"),
        ({"partition": "q"}, {"partition": "q"}),
        (
            {"mem_per_node_mib": 3, "min_nodes": 2},
            {"mem_bytes": 6 << 20, "num_nodes": 2, "cpus": 2},
        ),
        ({"mem_per_cpu_mib": 3, "cpus_per_task": 2}, {"mem_bytes": 6 << 20, "cpus": 2}),
        ({"num_tasks": 3, "cpus_per_task": 2}, {"cpus": 6}),
        ({"time_limit_minutes": 2}, {"time_limit_s": 120.0}),
        ({"time_limit_minutes": 0}, {"time_limit_s": 0}),
        ({"tres_per_job": "gpu:4", "min_nodes": 2}, {"gpus": 2, "num_nodes": 2, "cpus": 2}),
    ],
)
def test_the_question_about_a_jobs_length(fields: dict[str, Any], changes: Any) -> None:
    """The whole job in the units of ended ones; empty names are unknown."""
    if changes == "named":
        changes = {"user": "u", "job_name": "n", "account": "a"}
    plain = DurationQuery(submit_s=5.0, partition="p", cpus=1, num_nodes=1, gpus=0)
    assert wanted_of(Submission(**fields), 5.0, "p") == replace(plain, **changes)
    assert wanted_of(Submission(), 5.0).partition is None


@pytest.mark.parametrize(
    ("runs", "like", "text"),
    [
        (0, [], "0 ended jobs"),
        (1, ["user"], "1 ended job of the same user"),
        (12, ["user", "job_name"], "12 ended jobs of the same user and job name"),
        (
            2,
            ["user", "partition", "time_limit_s"],
            "2 ended jobs of the same user, partition and time limit",
        ),
    ],
)
def test_ended_jobs_in_a_clause(runs: int, like: list[str], text: str) -> None:
    """One, several, and what they share."""
    assert runtime_evidence({"runs": runs, "like": like}) == text
    assert runtime_json(None) is None


def test_a_written_row_without_a_run_time_gets_the_models() -> None:
    """Other rows, and rows that have one, stay as they are."""
    told = {"mean_s": 9.0, "low_s": 3.0, "high_s": 20.0, "runs": 1, "like": ["user"]}
    known, unknown = table(RUN), table(replace(RUN, run_samples=None))
    assert completed(known, told) == known
    assert completed(unknown, None) is unknown
    made = completed(unknown, told)
    for before, after in zip(unknown.rows, made.rows, strict=True):
        if "written" not in before.marks:
            assert after == before
            continue
        note = "its run time is that of 1 ended job of the same user"
        assert after == replace(
            before, run_s=9.0, run_interval=Interval(3.0, 20.0), notes=(*before.notes, note)
        )


def test_runs_of_one_kind_of_gpu() -> None:
    """By a part of the driver's name; a level without any is left out."""
    evidence = {Level.SCRIPT: [RUN, OTHER_GPU], Level.KIND: [RUN]}
    assert of_model(evidence, "h100") == {Level.SCRIPT: [OTHER_GPU]}
    assert of_model(evidence, "NVIDIA H100") == {Level.SCRIPT: [OTHER_GPU]}
    assert of_model(evidence, None) == evidence
    assert of_model(evidence, "") == {}


# -- waiting --------------------------------------------------------------------------------------


def query(written: JobLayout, **values: Any) -> StartQuery:
    """What is asked about a script with two arguments."""
    job = values.pop("job", Submission(argv=("job.sh", "--lr", "1"), cpus_per_task=4))
    return StartQuery(job=job, script="/x/job.sh", written=written, **values)


@pytest.mark.parametrize(
    ("written", "here", "values", "options"),
    [
        ({}, {}, {}, ()),
        ({}, {"num_workers": 9}, {}, ()),
        ({}, {"cpus_per_task": 5}, {}, ("--cpus-per-task=5",)),
        (
            {"gpus": 2},
            {"gpus": 2, "cpus_per_task": 5},
            {"options": {"cpus-per-gpu": "2"}},
            ("--cpus-per-gpu=3",),
        ),
        ({"gpus": 2}, {"gpus": 2}, {"options": {"cpus-per-gpu": "2"}}, ()),
        (
            {"gpus": 1},
            {"gpus": 2, "cpus_per_task": 8},
            {"options": {"cpus-per-gpu": "4"}, "request": GpuOption()},
            ("--gpus=2",),
        ),
        ({}, {"cpus_per_task": 5}, {"options": {"cpus-per-gpu": "4"}}, ("--cpus-per-task=5",)),
        ({}, {"nodes": 2, "tasks": 2}, {}, ("--nodes=2", "--ntasks=2")),
        ({}, {"tasks": 3}, {}, ("--ntasks=3",)),
        (
            {},
            {"nodes": 2, "tasks": 4},
            {"options": {"ntasks-per-node": "1"}},
            ("--nodes=2", "--ntasks-per-node=2"),
        ),
        (
            {},
            {"nodes": 2, "tasks": 4},
            {"options": {"ntasks-per-node": "1", "ntasks": "1"}},
            ("--nodes=2", "--ntasks-per-node=2", "--ntasks=4"),
        ),
        ({}, {"gpus": 1, "gpu_type": "a"}, {"request": GpuOption()}, ("--gpus=a:1",)),
        ({"gpus": 1}, {"gpus": 1, "gpu_type": "a"}, {"request": GpuOption()}, ("--gpus=a:1",)),
        ({"gpus": 1}, {"gpus": 2}, {}, ()),
    ],
)
def test_the_options_of_a_row(
    written: dict[str, Any], here: dict[str, Any], values: dict[str, Any], options: tuple[str, ...]
) -> None:
    """Only what differs from the script, in the script's own words."""
    asked = query(layout(**written), **values)
    assert options_for(asked, layout(**here)) == options
    assert submission(asked, layout(**here)) == (*options, "/x/job.sh", "--lr", "1")


def test_memory_is_asked_for_as_edits_would_have_it() -> None:
    """The total stays where the CPUs change; with other GPUs it goes with the CPUs."""
    job = Submission(cpus_per_task=4, mem_per_cpu_mib=100)
    asked = query(layout(gpus=1), job=job, request=GpuOption())
    two = layout(gpus=1, cpus_per_task=2)
    assert options_for(asked, two) == ("--cpus-per-task=2", "--mem-per-cpu=200")
    assert options_for(asked, replace(two, gpus=2)) == ("--cpus-per-task=2", "--gpus=2")
    rules = PartitionRules(cpus_per_node=8, mem_per_node_mib=300)
    tight = replace(asked, rules=rules)
    assert options_for(tight, replace(two, cpus_per_task=3))[1] == "--mem-per-cpu=133"


def test_nodes_of_the_jobs_partitions() -> None:
    """The largest count of each; none where there are no nodes."""
    nodes = [
        NodeInfo(name="a", cpus=4, mem_mib=1, partitions=("p",), gres={"gpu": 2, "gpu:x": 2}),
        NodeInfo(name="b", cpus=9, mem_mib=1, partitions=("p", "q"), gres={"gpu:y": 1, "mps": 5}),
        NodeInfo(name="c", cpus=2, mem_mib=1, partitions=("r",), gres={"gpu:x": 1, "gpu:z": 1}),
    ]
    assert machines_of(nodes, "p") == ClusterNodes(nodes=2, cpus=9, gpus=2, gpu_types=("x", "y"))
    assert machines_of(nodes, "q,r") == ClusterNodes(
        nodes=2, cpus=9, gpus=0, gpu_types=("y", "x", "z")
    )
    assert machines_of(nodes, None) == machines_of(nodes, "") == machines_of(nodes, ",")
    assert machines_of(nodes, None).nodes == 3
    assert machines_of(nodes, "none") == ClusterNodes()


@pytest.mark.parametrize(
    ("output", "clause"),
    [
        ("", "sbatch failed"),
        ("\n \n", "sbatch failed"),
        ("first\nlast\x1b \n\n", "last"),
        ("x" * 101, "x" * 100),
    ],
)
def test_a_failure_is_its_last_line(output: str, clause: str) -> None:
    """A hundred characters at most; without any the command's name."""
    assert brief(SlurmError("sbatch --test-only x", 1, output)) == clause


TOO_MANY = "no node has that many"


@pytest.mark.parametrize(
    ("here", "answer", "shown"),
    [
        ({}, StartEstimate(start_s=5), StartEstimate(start_s=5)),
        ({}, StartEstimate(refused="else"), StartEstimate(refused="else")),
        ({}, StartEstimate(refused=TOO_MANY), StartEstimate(refused=TOO_MANY)),
        (
            {"nodes": 3, "tasks": 3},
            StartEstimate(refused=TOO_MANY),
            StartEstimate(refused="more nodes than there are (2)"),
        ),
        (
            {"nodes": 2, "tasks": 3},
            StartEstimate(refused=f"{TOO_MANY} CPUs"),
            StartEstimate(refused=f"{TOO_MANY} CPUs"),
        ),
        (
            {"tasks": 3},
            StartEstimate(refused=TOO_MANY),
            StartEstimate(refused="more CPUs than any node has (8)"),
        ),
        (
            {"gpus": 5, "nodes": 2},
            StartEstimate(refused=TOO_MANY),
            StartEstimate(refused="more GPUs than any node has (2)"),
        ),
        ({"gpus": 4, "nodes": 2}, StartEstimate(refused=TOO_MANY), None),
        ({"gpu_type": "x"}, StartEstimate(start_s=1), StartEstimate(start_s=1)),
        (
            {"gpu_type": "y"},
            StartEstimate(start_s=1),
            StartEstimate(why="Slurm knows no GPUs by that name"),
        ),
    ],
)
def test_what_is_too_much_is_named(
    here: dict[str, Any], answer: StartEstimate, shown: StartEstimate | None
) -> None:
    """Nodes, CPUs of a node, GPUs of a node; just as many as there are is not too much."""
    nodes = ClusterNodes(nodes=2, cpus=8, gpus=2, gpu_types=("x",))
    client = MemoryClient(known_start=lambda _: answer)
    row = layout(**here)
    asked = query(layout(), machines=nodes)
    assert starts(client, asked, [row], 60.0) == {row: shown or answer}


def test_no_time_left_is_the_reason() -> None:
    """With the time that there was."""
    client = MemoryClient()
    why = "Slurm did not answer within 0 s"
    assert starts(client, query(layout()), [layout()], 0.0) == {layout(): StartEstimate(why=why)}


def test_a_failed_question_is_the_reason() -> None:
    """Of the rows that it was about."""

    def fails(_words: tuple[str, ...]) -> StartEstimate:
        raise SlurmError("sbatch --test-only", 1, "down")

    client = MemoryClient(known_start=fails)
    assert starts(client, query(layout()), [layout()], 9.0) == {layout(): StartEstimate(why="down")}


TABLES: dict[str, list[str]] = {
    "PLAIN": [
        "1xany n1 t1 r1 1c 2w: 12.3 11 13.9 2945",
        "1xany n1 t1 r1 2c 3w: 24.7 22.3 27.3 1489",
        "1xany n1 t1 r1 4c 1w: 12.1 11.1 13.1 3016 written",
        "1xany n1 t1 r1 4c 5w: 49 45 53.4 764",
        "1xany n1 t1 r1 4c 22w: 49.4 44.3 55.1 759",
        "1xany n1 t1 r1 8c 9w: 91.7 84.6 99.4 423",
        "1xany n1 t1 r1 9c 9w: 94.8 88.7 101 410 knee",
        "1xany n1 t1 r1 10c 11w: 97.7 93.8 102 398 recommended",
        "1xany n1 t1 r1 12c 14w: 98.7 95 102 395 maximum",
        "1xany n1 t1 r1 16c 10w: 98 94.1 102 397",
        "1xany n1 t1 r1 32c 10w: 98 94.1 102 397",
        "2xany n1 t1 r2 20c 11w: 185 131 262 224",
    ],
    "SEEN": [
        "1xany n1 t1 r1 1c 2w: 12.2 10.9 13.6 2983",
        "1xany n1 t1 r1 2c 3w: 24.4 22.2 26.7 1508",
        "1xany n1 t1 r1 4c 1w: 11.9 11.1 12.8 3055 written",
        "1xany n1 t1 r1 4c 5w: 48.4 44.8 52.3 774",
        "1xany n1 t1 r1 8c 9w: 91.1 83.7 99.2 425",
        "1xany n1 t1 r1 9c 9w: 94.4 87.3 102 411 knee",
        "1xany n1 t1 r1 10c 11w: 97.7 91.3 105 398 recommended",
        "1xany n1 t1 r1 12c 20w: 98.8 92.1 106 394 maximum",
        "1xany n1 t1 r1 16c 10w: 98 91.6 105 397",
        "1xany n1 t1 r1 32c 10w: 98.1 91.5 105 397",
        "2xany n1 t1 r2 20c 11w: 195 183 209 214",
        "4xany n1 t1 r4 32c 8w: 353 324 385 132",
    ],
    "TASKS": [
        "1xany n1 t1 r1 5c 4w: 48.1 42.9 54 778",
        "2xany n1 t2 r2 1c 2w: 24.8 19.9 30.8 1484",
        "2xany n1 t2 r2 2c 1w: 24.2 19.8 29.4 1520 written",
        "2xany n1 t2 r2 2c 2w: 46.1 38.5 55.3 810",
        "2xany n1 t2 r2 2c 3w: 49.5 40.2 60.8 758",
        "2xany n1 t2 r2 4c 4w: 92.3 77.5 110 420 knee",
        "2xany n1 t2 r2 5c 4w: 96.3 79.1 117 404 recommended",
        "2xany n1 t2 r2 6c 4w: 96.6 78.8 118 403 maximum",
        "2xany n1 t2 r2 8c 4w: 96.7 78.3 119 402",
        "2xany n1 t2 r2 16c 4w: 96.7 76.8 122 402",
        "4xany n1 t4 r4 5c 4w: 193 146 254 217",
    ],
    "CPUS": [
        "0xany n1 t1 r1 1c 2w: 12.4 10.8 14.2 2939",
        "0xany n1 t1 r1 2c 3w: 24.7 21.8 28 1486",
        "0xany n1 t1 r1 4c 1w: 12.1 10.8 13.5 3009 written",
        "0xany n1 t1 r1 4c 5w: 49.1 44 54.9 763",
        "0xany n1 t1 r1 4c 20w: 49.5 43.4 56.4 757",
        "0xany n1 t1 r1 8c 9w: 91.8 84.1 100 422",
        "0xany n1 t1 r1 9c 9w: 94.8 88.4 102 410 knee",
        "0xany n1 t1 r1 10c 10w: 97.3 92.5 102 400 recommended",
        "0xany n1 t1 r1 12c 14w: 98.7 94.1 103 395 maximum",
        "0xany n1 t1 r1 16c 10w: 98.1 93.4 103 397",
        "0xany n1 t1 r1 32c 10w: 98.1 93.3 103 397",
    ],
    "AXES": [
        "1xany n1 t1 r1 4c 1w: 12.1 11.1 13.1 3016 written",
        "1xany n1 t1 r1 10c 11w: 118 102 136 335 recommended",
        "1xany n1 t1 r1 12c 13w: 131 90 190 305 knee",
        "1xany n1 t1 r1 20c 20w: 136 78.3 238 294 maximum",
        "1xh100 n1 t1 r1 2c 3w: 24.7 21.8 28 1486",
        "1xh100 n1 t1 r1 8c 10w: 98.3 85.9 113 396",
        "2xh100 n1 t1 r2 2c 11w: 24.8 19.3 31.7 1484",
        "2xh100 n1 t1 r2 8c 11w: 99 80.6 122 394",
    ],
    "NODES": [
        "1xany n1 t1 r1 5c 6w: 61.2 54.6 68.4 619",
        "2xany n2 t2 r2 5c 6w: 122 101 148 325",
        "4xany n2 t2 r4 2c 2w: 49.5 36.6 67 757",
        "4xany n2 t2 r4 4c 3w: 98.9 74.1 132 394",
        "4xany n2 t2 r4 8c 1w: 48.3 36.7 63.6 775 written",
        "4xany n2 t2 r4 8c 5w: 197 149 258 213",
        "4xany n2 t2 r4 10c 6w: 243 182 325 178 recommended",
        "4xany n2 t2 r4 13c 7w: 290 142 593 154 knee",
        "4xany n2 t2 r4 16c 7w: 299 122 731 151",
        "4xany n2 t2 r4 20c 8w: 305 103 904 148 maximum",
        "4xany n2 t2 r4 32c 7w: 300 119 752 150",
        "8xany n2 t2 r8 20c 6w: 482 298 778 105",
    ],
}
