"""A what-if table as plain JSON values. Pure.

Schema (version 1), null is unknown and has its reason beside it:
- mode, eligible, action, before, after, why: what dlqueue itself would do with a submission, as
  the site's settings have it (as in `dlqueue predict`)
- level, runs, emulated: the evidence of the rates (as in `dlqueue predict`); alone: true where
  other jobs wanted the runs' cores, and the rates are those without them
- run_time: {median_s, mean_s, low_s, high_s, runs, like}: how long it will run as written, by the
  promoted model of durations (model/duration/predictor.py), or null; added by the command
- work: {samples, outside_s: [least, most], level, runs} or null, work_why: all samples of a run,
  and its seconds outside of the training loop
- queue_why: why no start is known at all, or null
- not_believed: runs that are left out, because their numbers cannot be true
- rows, each: marks (written, recommended, knee, maximum); cpus_per_task, num_workers (of each
  training process), gpus, nodes, tasks (of the job), ranks (training processes), gpu_type;
  samples_per_s of the whole job, interval, interval_level, bottleneck (a word of
  core/advice/words.py) and next (what to do about it), rate_why; run_s, run_interval,
  run_why;
  gpu_hours, cpu_hours, each with _interval;
  wait_s (from now), wait_why, refused (Slurm's reason, or null); result_s = wait_s + run_s;
  fault (why it is never recommended, or null); notes; sbatch: the options that make the row
- left_out: {cpus_per_task, num_workers, gpus, gpu_type, why} of chosen shapes that may not be
"""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from slurm_ext.advisor.what_if.layout import JobLayout
from slurm_ext.advisor.what_if.table import WhatIfRow, WhatIfTable
from slurm_ext.core.records import Interval

HOUR_S = 3600


def table_json(
    table: WhatIfTable, queue_why: str | None, options: Callable[[JobLayout], tuple[str, ...]]
) -> dict[str, Any]:
    """The document, without v, script and source."""
    believed, recommendation, work = table.speed.believed, table.thought, table.work
    decision = recommendation.decision
    return {
        "mode": recommendation.mode.value,
        "eligible": decision is not None,
        "action": decision.action if decision else "none",
        "before": asdict(decision.before) if decision else None,
        "after": asdict(decision.after) if decision else None,
        "why": recommendation.why,
        "level": believed.level.value if believed else None,
        "runs": believed.runs if believed else 0,
        "emulated": believed.emulated if believed else None,
        "alone": believed.by_other_jobs if believed else None,
        "work": None
        if work is None
        else {
            "samples": work.samples,
            "outside_s": _pair(work.outside_s),
            "level": work.level.value,
            "runs": work.runs,
        },
        "work_why": None if work else table.work_why,
        "queue_why": queue_why,
        "not_believed": table.not_believed,
        "rows": [_row(row, queue_why, options(row.layout)) for row in table.rows],
        "left_out": [
            {
                "cpus_per_task": layout.cpus_per_task,
                "num_workers": layout.num_workers,
                "gpus": layout.gpus,
                "gpu_type": layout.gpu_type,
                "why": why,
            }
            for layout, why in table.left_out
        ],
    }


def _row(row: WhatIfRow, queue_why: str | None, options: tuple[str, ...]) -> dict[str, Any]:
    rate, start = row.rate, row.start
    unknown = start.why or queue_why or "not asked"
    return {
        "marks": list(row.marks),
        **asdict(row.layout),
        "samples_per_s": rate.samples_per_s if rate else None,
        "interval": _pair(rate.interval if rate else None),
        "interval_level": rate.interval.level if rate else None,
        "bottleneck": rate.bottleneck if rate else None,
        "next": rate.next if rate else None,
        "rate_why": None if rate else row.rate_why,
        "run_s": row.run_s,
        "run_interval": _pair(row.run_interval),
        "run_why": None if row.run_s is not None else row.run_why,
        **_hours(row, "gpu_hours", row.layout.gpus),
        **_hours(row, "cpu_hours", row.layout.cpus),
        "wait_s": row.wait_s,
        "wait_why": unknown if row.wait_s is None and not start.refused else None,
        "refused": start.refused,
        "result_s": row.result_s,
        "fault": row.fault,
        "notes": list(row.notes),
        "sbatch": list(options),
    }


def _hours(row: WhatIfRow, name: str, units: int) -> dict[str, Any]:
    if row.run_s is None or row.run_interval is None:
        return {name: None, f"{name}_interval": None}
    low, high = row.run_interval.low, row.run_interval.high
    return {
        name: units * row.run_s / HOUR_S,
        f"{name}_interval": [units * low / HOUR_S, units * high / HOUR_S],
    }


def _pair(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]
