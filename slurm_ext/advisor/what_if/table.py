"""A job in other shapes: how fast each would be, and which one to take. Pure.

`draft` chooses the shapes, the caller asks Slurm when each would start, `judged` says which one is
recommended: never one that Slurm refuses, whose workers its memory does not hold, or whose GPUs
would be left without the cores that their processes need. It is what the policy would choose if
it might change the CPUs that the user wrote; GPUs are never advised.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from slurm_ext.advisor.evidence.alike import of_its_kind
from slurm_ext.advisor.evidence.summary import usual_workers
from slurm_ext.advisor.pipeline.context import DecisionContext
from slurm_ext.advisor.pipeline.decide import Recommendation, decide
from slurm_ext.advisor.what_if.layout import GpuOption, JobLayout, task_mem_of, written_layout
from slurm_ext.advisor.what_if.run_length import TrainingWork, work_of
from slurm_ext.advisor.what_if.shapes import Axes, ClusterNodes, ShapeGrid, size
from slurm_ext.advisor.what_if.speed import LayoutRate, LayoutSpeed
from slurm_ext.core.errors import UsageError
from slurm_ext.core.records import Decision, Interval, Level, Submission
from slurm_ext.model.throughput.evidence_checks import usable_runs
from slurm_ext.slurm.records import StartEstimate

MARKS = ("written", "recommended", "knee", "maximum")  # as a row shows them
MOST_ROWS = 12  # unless axes were chosen: a table to be read at a glance


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfRow:
    """One shape; None is unknown, for the reason beside it."""

    layout: JobLayout
    marks: tuple[str, ...] = ()  # of MARKS
    rate: LayoutRate | None = None
    rate_why: str = ""
    run_s: float | None = None
    run_interval: Interval | None = None
    run_why: str = ""
    start: StartEstimate = field(default_factory=StartEstimate)
    wait_s: float | None = None
    fault: str | None = None  # why it is never recommended
    notes: tuple[str, ...] = ()

    @property
    def result_s(self) -> float | None:
        """Seconds from now to the result: in the queue, and running."""
        return None if self.run_s is None or self.wait_s is None else self.wait_s + self.run_s


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfTable:
    """Every row, what they rest on, and what was left out."""

    job: Submission
    known: DecisionContext
    thought: Recommendation  # of the submission as the site's settings have it
    advice: Decision | None  # of the policy, free to choose; None: it does not know such jobs
    speed: LayoutSpeed
    written: JobLayout
    rows: tuple[WhatIfRow, ...]
    work: TrainingWork | None
    work_why: str
    left_out: tuple[tuple[JobLayout, str], ...] = ()
    not_believed: int = 0  # runs whose numbers cannot be true


def draft(
    job: Submission,
    context: DecisionContext,
    request: GpuOption | None,
    axes: Axes,
    machines: ClusterNodes,
) -> WhatIfTable:
    """The rows without their waits. Raises UsageError where the axes cannot be."""
    if request is None and (axes.gpus or axes.gpu_types):
        raise UsageError("the script asks for GPUs in a way that cannot be varied: try --gpus=N")
    every, context = context, replace(context, evidence=of_its_kind(context.evidence, job))
    near = [level for level in Level if level is not Level.CLUSTER]
    evidence = {level: usable_runs(runs) for level, runs in context.evidence.items()}
    runs = [run for level in near for run in evidence.get(level, ())]
    written = written_layout(job, request, usual_workers(context.evidence), runs)
    recommendation = decide(job, every)
    mem_mib = partial(task_mem_of, job, context.rules, written)
    speed = LayoutSpeed(context, mem_mib, written.gpus)
    shapes = ShapeGrid(job, context, written, speed, machines, recommendation.workers_stay)
    advice = _advice(job, every, written)
    marks, left_out = _chosen(shapes, advice, written, axes, known=speed.believed is not None)
    work, work_why = work_of(evidence)
    table = WhatIfTable(
        job=job,
        known=context,
        thought=recommendation,
        advice=advice,
        speed=speed,
        written=written,
        rows=(),
        work=work,
        work_why=work_why,
        left_out=tuple(left_out),
        not_believed=max(
            (len(runs) - len(evidence[level]) for level, runs in context.evidence.items()),
            default=0,
        ),
    )
    layouts = sorted(marks, key=size)
    rows = (_row(table, layout, tuple(marks[layout]), shapes.fault(layout)) for layout in layouts)
    return replace(table, rows=tuple(rows))


def judged(
    table: WhatIfTable, starts: Mapping[JobLayout, StartEstimate], now_s: float
) -> WhatIfTable:
    """The table with what Slurm said of each row, and the recommended one marked."""
    rows = [_started(row, starts.get(row.layout), now_s) for row in table.rows]
    chosen = _recommended(table, [row for row in rows if _may_be(table, row)])
    return replace(
        table,
        rows=tuple(
            replace(row, marks=tuple(m for m in MARKS if m in (*row.marks, "recommended")))
            if row is chosen
            else row
            for row in rows
        ),
    )


def _advice(job: Submission, context: DecisionContext, written: JobLayout) -> Decision | None:
    """The policy's choice, CPUs included; it knows jobs of one rank a task, by known rules."""
    if context.rules is None or written.ranks_per_task > 1:
        return None
    settings = context.settings
    free = replace(settings, values={**settings.values, "policy.change_explicit": "any"})
    return decide(job, replace(context, settings=free)).decision


def _chosen(
    shapes: ShapeGrid, advice: Decision | None, written: JobLayout, axes: Axes, *, known: bool
) -> tuple[dict[JobLayout, list[str]], list[tuple[JobLayout, str]]]:
    """Layouts with their marks, and those that may not be with the reason."""
    marks: dict[JobLayout, list[str]] = {written: ["written"]}
    left_out: list[tuple[JobLayout, str]] = []
    base = written
    for layout, mark in shapes.special(advice):
        marks.setdefault(layout, []).extend([mark] if mark else [])
        base = base if mark else layout
    around = shapes.around(base) if known else ()
    for layout in shapes.chosen(axes, base) if axes else around:
        fault = None if layout in marks else shapes.fault(layout)
        if fault is not None:
            left_out.append((layout, fault))
        elif axes or len(marks) < MOST_ROWS:
            marks.setdefault(layout, [])
    return marks, left_out if axes else []


def _row(
    table: WhatIfTable, layout: JobLayout, marks: tuple[str, ...], fault: str | None
) -> WhatIfRow:
    rate = table.speed.at(layout)
    if isinstance(rate, str):
        return WhatIfRow(layout=layout, marks=marks, fault=fault, rate_why=rate, run_why=rate)
    row = WhatIfRow(layout=layout, marks=marks, fault=fault, rate=rate, run_why=table.work_why)
    if table.work is None:
        return row
    run_s, interval = table.work.run_s(rate.samples_per_s, rate.interval)
    limit = table.job.time_limit_minutes
    over = limit is not None and run_s > limit * 60
    notes = ("longer than its time limit",) if over else ()
    return replace(row, run_s=run_s, run_interval=interval, notes=notes)


def _started(row: WhatIfRow, start: StartEstimate | None, now_s: float) -> WhatIfRow:
    if start is None:
        return row
    wait_s = None if start.start_s is None else max(0.0, start.start_s - now_s)
    return replace(row, start=start, wait_s=wait_s)


def _may_be(table: WhatIfTable, row: WhatIfRow) -> bool:
    """True if a row may be recommended at all."""
    here, written = row.layout, table.written
    same = (here.gpus, here.nodes, here.gpu_type) == (
        written.gpus,
        written.nodes,
        written.gpu_type,
    )
    enough = here.cpus_per_task >= table.thought.least_cpus
    return same and enough and row.rate is not None and not row.fault and not row.start.refused


def _recommended(table: WhatIfTable, rows: Sequence[WhatIfRow]) -> WhatIfRow | None:
    """The policy's choice; else the smallest row that is fast enough, or the written one."""
    if table.advice is not None and table.advice.predicted_after is not None:
        after = (table.advice.after.cpus_per_task, table.advice.after.num_workers)
        for row in rows:
            if (row.layout.cpus_per_task, row.layout.num_workers) == after:
                return row
    settings = table.known.settings
    enough = settings["policy.target"] * max((_low(row) for row in rows), default=0.0)
    good = [row for row in rows if _low(row) >= enough]
    frugal = min(good, key=lambda row: size(row.layout), default=None)
    written = next((row for row in rows if row.layout == table.written), None)
    if frugal is None or written is None or written.layout.cpus > frugal.layout.cpus:
        return frugal
    worth = _speed(frugal) >= (1 + settings["policy.min_gain"]) * _speed(written)
    return frugal if worth else written


def _low(row: WhatIfRow) -> float:
    return row.rate.interval.low if row.rate else 0.0


def _speed(row: WhatIfRow) -> float:
    return row.rate.samples_per_s if row.rate else 0.0
