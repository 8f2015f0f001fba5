"""Whole what-if tables, to the digit."""

from dataclasses import asdict, replace
from typing import Any

import pytest

from slurm_ext.advisor.limits.bounds import PartitionRules
from slurm_ext.advisor.pipeline.context import DecisionContext
from slurm_ext.advisor.what_if.shapes import Axes, ClusterNodes
from slurm_ext.advisor.what_if.speed import LayoutSpeed
from slurm_ext.advisor.what_if.table import WhatIfRow, WhatIfTable
from slurm_ext.advisor.what_if.table_json import table_json
from slurm_ext.core.errors import UsageError
from slurm_ext.core.records import LoaderRun
from slurm_ext.core.settings.document import Settings
from slurm_ext.slurm import StartEstimate
from tests.advisor.what_if.drafts import NOW_S, RUN, table
from tests.advisor.what_if.what_if_examples import OTHER_GPU, layout


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
    assert body["after"] is not None
    assert body == {
        "mode": "shadow",
        "eligible": True,
        "action": made.thought.decision.action if made.thought.decision else "",
        "before": {"cpus_per_task": 4, "num_workers": 1},
        "after": made.thought.decision and asdict(made.thought.decision.after),
        "why": made.thought.why,
        "level": "same script and arguments",
        "runs": 1,
        "emulated": False,
        "alone": False,
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
    speed = LayoutSpeed(DecisionContext(settings=Settings()), lambda _: 1, 0)
    assert (speed.main_cores(), speed.most_workers(layout()), speed.believed) == (0.0, None, None)
    assert speed.at(layout()) == "I do not know yet: no runs like this one"


TABLES: dict[str, list[str]] = {
    "PLAIN": [
        "1xany n1 t1 r1 1c 2w: 12.3 11 13.9 2945",
        "1xany n1 t1 r1 2c 3w: 24.7 22.3 27.3 1489",
        "1xany n1 t1 r1 4c 1w: 12.1 11.1 13.1 3016 written",
        "1xany n1 t1 r1 4c 5w: 49 45 53.4 764",
        "1xany n1 t1 r1 4c 20w: 49.4 44.3 55.1 759",
        "1xany n1 t1 r1 8c 9w: 91.7 84.5 99.4 423",
        "1xany n1 t1 r1 9c 9w: 94.8 88.6 101 410 knee",
        "1xany n1 t1 r1 10c 10w: 97.3 92.9 102 400 recommended",
        "1xany n1 t1 r1 12c 14w: 98.7 94.8 103 395 maximum",
        "1xany n1 t1 r1 16c 10w: 98 93.9 102 397",
        "1xany n1 t1 r1 32c 10w: 98 93.9 102 397",
        "2xany n1 t1 r2 20c 10w: 185 132 259 225",
    ],
    "SEEN": [
        "1xany n1 t1 r1 1c 2w: 12.2 10.9 13.6 2983",
        "1xany n1 t1 r1 2c 3w: 24.4 22.2 26.7 1508",
        "1xany n1 t1 r1 4c 1w: 11.9 11.1 12.8 3055 written",
        "1xany n1 t1 r1 4c 5w: 48.4 44.8 52.3 774",
        "1xany n1 t1 r1 8c 9w: 91.1 83.7 99.2 425",
        "1xany n1 t1 r1 9c 9w: 94.4 87.3 102 411 knee",
        "1xany n1 t1 r1 10c 10w: 97.2 90.7 104 400 recommended",
        "1xany n1 t1 r1 12c 20w: 98.8 92 106 394 maximum",
        "1xany n1 t1 r1 16c 10w: 98 91.5 105 397",
        "1xany n1 t1 r1 32c 10w: 98.1 91.4 105 397",
        "2xany n1 t1 r2 20c 10w: 194 182 208 215",
        "4xany n1 t1 r4 32c 8w: 353 324 385 132",
    ],
    "TASKS": [
        "1xany n1 t1 r1 4c 4w: 46.1 42.1 50.6 810",
        "2xany n1 t2 r2 1c 2w: 24.8 19.9 30.8 1484",
        "2xany n1 t2 r2 2c 1w: 24.2 19.8 29.4 1520 written",
        "2xany n1 t2 r2 2c 2w: 46.1 38.5 55.3 810",
        "2xany n1 t2 r2 2c 3w: 49.5 40.2 60.8 758",
        "2xany n1 t2 r2 4c 4w: 92.3 77.5 110 420 recommended knee",
        "2xany n1 t2 r2 6c 4w: 96.6 78.8 118 403 maximum",
        "2xany n1 t2 r2 8c 4w: 96.7 78.3 119 402",
        "2xany n1 t2 r2 16c 4w: 96.7 76.8 122 402",
        "4xany n1 t4 r4 4c 4w: 185 143 238 225",
    ],
    "CPUS": [
        "0xany n1 t1 r1 1c 2w: 12.4 10.8 14.2 2939",
        "0xany n1 t1 r1 2c 3w: 24.7 21.8 28 1486",
        "0xany n1 t1 r1 4c 1w: 12.1 10.8 13.5 3009 written",
        "0xany n1 t1 r1 4c 5w: 49.1 44 54.9 763",
        "0xany n1 t1 r1 4c 20w: 49.5 43.4 56.4 757",
        "0xany n1 t1 r1 8c 9w: 91.8 84.1 100 422",
        "0xany n1 t1 r1 9c 9w: 94.8 88.3 102 410 knee",
        "0xany n1 t1 r1 10c 10w: 97.3 92.3 103 400 recommended",
        "0xany n1 t1 r1 12c 14w: 98.7 93.9 104 395 maximum",
        "0xany n1 t1 r1 16c 10w: 98.1 93.2 103 397",
        "0xany n1 t1 r1 32c 10w: 98.1 93.2 103 397",
    ],
    "AXES": [
        "1xany n1 t1 r1 4c 1w: 12.1 11.1 13.1 3016 written",
        "1xany n1 t1 r1 10c 11w: 118 102 136 335 recommended",
        "1xany n1 t1 r1 12c 13w: 131 90 190 305 knee",
        "1xany n1 t1 r1 20c 20w: 136 78.2 238 294 maximum",
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
