"""Predict a submission's run time, by the promoted model of durations and ended jobs.

Not on the submit path: people ask (`predict`, `--what-if`). Without a promoted model nobody is told
anything, and nothing is kept in memory.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurm_ext.advisor.limits.bounds import cpus_of
from slurm_ext.core.files import file_id
from slurm_ext.core.gpu_request import devices_per_node, nodes_of, tasks_of
from slurm_ext.core.records import Interval, Submission
from slurm_ext.core.units import MIB
from slurm_ext.model.artifact_store import current

if TYPE_CHECKING:
    from slurm_ext.advisor.what_if.table import WhatIfRow, WhatIfTable
    from slurm_ext.model.duration.predictor import DurationPredictor, RuntimePrediction
    from slurm_ext.model.duration.query import DurationQuery

BUSY_MS = 500
MOST_ENDED = 20_000  # jobs read at first: a second or two, in which answers share the interpreter
MINUTE_S = 60.0


class RuntimeEstimator:
    """The model of durations and the ended jobs, in the advisor or in one command."""

    def __init__(self) -> None:
        self._lengths: DurationPredictor | None = None
        self._file: tuple[int, int] | None = None

    def look(self, state_dir: Path, most: int = MOST_ENDED) -> None:
        """Take the promoted model and the jobs that ended since; `most` at first.

        Raises ModelError, HistoryError; what is known stays in use.
        """
        if current(state_dir / "models" / "duration") is None:
            self._lengths = None
            return
        from slurm_ext.model.duration.predictor import (
            load_predictor,  # numpy, only where there is a model
        )

        path = state_dir / "history.db"
        file = file_id(path)
        before = self._lengths if file == self._file else None  # another history: from the start
        lengths = load_predictor(state_dir / "models", before)
        if lengths is not None and file is not None:
            _take(lengths, path, most)
        self._lengths, self._file = lengths, file

    def of(
        self,
        job: Submission,
        now_s: float,
        partition: str | None = None,
        minutes: float | None = None,
    ) -> "RuntimePrediction | None":
        """Of a job submitted now; None without a model for it.

        `partition`: where it names none; `minutes`: after which Slurm ends it, None: not known.
        """
        lengths = self._lengths  # the refresher may replace it meanwhile
        if lengths is None:
            return None
        query = wanted_of(job, now_s, partition)
        return _within(lengths.predict([query])[0], minutes) if lengths.knows(query) else None


def _take(lengths: "DurationPredictor", path: Path, most: int) -> None:
    from slurm_ext.history.store.reading import connect
    from slurm_ext.history.store.store import History
    from slurm_ext.history.views.finished_jobs import (  # only where there is a model
        finished_since,
        newest_finished,
    )

    history = History(path, connect(path, busy_timeout_ms=BUSY_MS), BUSY_MS / 1000)
    try:
        new = lengths.last_id > 0
        lengths.take(
            finished_since(history, lengths.last_id) if new else newest_finished(history, most)
        )
    finally:
        history.close()


def wanted_of(job: Submission, now_s: float, partition: str | None = None) -> "DurationQuery":
    """The whole job as records of ended ones tell it."""
    from slurm_ext.model.duration.query import DurationQuery

    nodes = nodes_of(job)
    cpus = cpus_of(job) * tasks_of(job)
    mem_mib = (job.mem_per_node_mib or 0) * nodes or (job.mem_per_cpu_mib or 0) * cpus
    return DurationQuery(
        submit_s=now_s,
        user=job.user_name or None,
        job_name=job.name or None,
        account=job.account,
        partition=job.partition or partition,
        cpus=cpus,
        num_nodes=nodes,
        gpus=devices_per_node(job),
        mem_bytes=mem_mib * MIB or None,
        time_limit_s=job.time_limit_minutes and job.time_limit_minutes * MINUTE_S,
    )


def _within(length: "RuntimePrediction", minutes: float | None) -> "RuntimePrediction":
    most_s = float("inf") if minutes is None else minutes * MINUTE_S
    return replace(
        length,
        median_s=min(length.median_s, most_s),
        mean_s=min(length.mean_s, most_s),
        low_s=min(length.low_s, most_s),
        high_s=min(length.high_s, most_s),
    )


def runtime_json(length: "RuntimePrediction | None") -> dict[str, Any] | None:
    """As JSON values: {median_s, mean_s, low_s, high_s, runs, like: [names shared]}, or null."""
    return None if length is None else {**asdict(length), "like": list(length.like)}


def middle_s(estimate: Mapping[str, Any]) -> float:
    """The median; an advisor of an earlier release tells the mean of logs alone."""
    middle: float = estimate.get("median_s", estimate["mean_s"])
    return middle


def runtime_evidence(estimate: Mapping[str, Any]) -> str:
    """`12 ended jobs of the same user, job name and gpus`, of what `runtime_json` gave."""
    names = [name.replace("_s", "").replace("_", " ") for name in estimate["like"]]
    *first, last = names or [""]
    alike = f" of the same {', '.join(first)}{' and ' if first else ''}{last}" if names else ""
    return f"{estimate['runs']} ended job{'' if estimate['runs'] == 1 else 's'}{alike}"


def completed(table: "WhatIfTable", estimate: Mapping[str, Any] | None) -> "WhatIfTable":
    """The table whose written row has the model's run time where its own runs tell none."""
    if estimate is None:
        return table
    return replace(table, rows=tuple(_completed(row, estimate) for row in table.rows))


def _completed(row: "WhatIfRow", estimate: Mapping[str, Any]) -> "WhatIfRow":
    if "written" not in row.marks or row.run_s is not None:
        return row
    note = f"its run time is that of {runtime_evidence(estimate)}"
    interval = Interval(estimate["low_s"], estimate["high_s"])
    return replace(row, run_s=middle_s(estimate), run_interval=interval, notes=(*row.notes, note))
