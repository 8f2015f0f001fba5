"""First advice on runs of a history, by the records that they came from."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from slurm_ext.core.advice.from_record import advice_of
from slurm_ext.history.ingest.rows import MODELS_BETWEEN
from slurm_ext.history.store.reading import explaining
from slurm_ext.history.store.store import History
from slurm_ext.history.views.queries import job
from slurm_ext.node.record.reader import leave_out_faulty

_START = itemgetter("job_id", "restart")
# One task of an array has the array's number, by which all of its tasks would be read.
_OWN_TASK = "SELECT array_task_id FROM runs WHERE job_id = ? AND array_job_id = job_id LIMIT 1"
_ALLOCATION = ("cpus", "cpus_per_task", "num_tasks", "num_nodes", "mem_bytes", "gpus")


def run_advice(run: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Advice on a run of `queries.job`, as core/advice/from_record.py has it; [] where none is due.

    `runs`: those of the whole job, because ranks on its other nodes tell who waits for whom.
    """
    start, own = _START(run), _summaries(run)
    if not own:
        return []
    others = [_summaries(one) for one in runs if _START(one) == start and one is not run]
    return advice_of(
        {
            "allocation": {name: run[name] for name in _ALLOCATION},
            "times": {"elapsed_s": run["elapsed_s"]},
            "outcome": {"state": run["state"]},
            "host": {"cores": run["node_cores"], "gpus": _models(run)},
            "counters": run.get("counters") or (),
            "probe": {"summaries": own},
        },
        [summary for some in others for summary in some],
    )


def _models(run: Mapping[str, Any]) -> list[str]:
    """Each model of the node's GPUs once, as ingest joined them."""
    return run["node_gpu_model"].split(MODELS_BETWEEN) if run["node_gpu_model"] else []


def _summaries(run: Mapping[str, Any]) -> list[dict[str, Any]]:
    probe = run.get("probe")
    if not isinstance(probe, dict) or not probe.get("summaries"):
        return []
    leave_out_faulty(probe)
    return [*(probe.get("summaries") or ())]


def job_advice(history: History, job_id: int) -> dict[str, Any] | None:
    """First advice on a job's last run; None where none is due. Raises HistoryError."""
    with explaining(history.path):
        task = history.conn.execute(_OWN_TASK, (job_id,)).fetchone()
    recorded = job(history, job_id, *(task or ()))
    runs = [row for row in recorded["runs"] if row["job_id"] == job_id] if recorded else []
    advice = run_advice(runs[-1], runs) if runs else []
    return advice[0] if advice else None
