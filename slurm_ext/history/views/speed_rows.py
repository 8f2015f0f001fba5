"""Rates of runs with the node and the GPU that they ran on: what hardware is compared by.

Only runs that had their GPU to themselves, on one node, with a curve that can be believed. A rate
is that of the steps alone, so that a slow loader is not held against a node. Steps on CPUs are
compared among nodes of as many cores: no record names the CPU, and most kinds differ in these.
"""

from dataclasses import dataclass

from slurm_ext.history.store.reading import explaining
from slurm_ext.history.store.store import History

MOST_RUNS = 20_000  # the newest: a second or two of work

_ROWS = """
SELECT r.end_s, r.node, r.user, l.gpu_model, l.accel_samples_per_s, l.key_script_args,
    l.batch_size, l.gpus, l.ranks, l.on_cpu, l.threads, l.data_key,
    CASE WHEN l.on_cpu OR l.gpu_model IS NULL THEN l.node_cores END,
    (SELECT group_concat(DISTINCT n.source) FROM counters c
     JOIN counter_names n ON n.id = c.counter WHERE c.run = r.id AND n.name LIKE 'gpu_util%')
FROM loader_runs l CROSS JOIN runs r ON r.id = l.run
WHERE l.accel_samples_per_s > 0 AND l.key_script_args IS NOT NULL AND l.doubt IS NULL
    AND NOT coalesce(l.emulated, 0) AND coalesce(l.nodes, 1) = 1
    AND r.end_s >= ? AND r.end_s < ? AND (? IS NULL OR r.account = ?)
    AND NOT EXISTS (SELECT 1 FROM corunners c WHERE c.run = r.id AND c.shared_gpus <> '')
ORDER BY l.id DESC LIMIT ?"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedRow:
    """One run; `training` is equal for runs of the same work on any GPU, or on CPUs of one kind."""

    at_s: float
    node: str
    gpu: str | None  # UUID of its only GPU; None: several, none, or not counted
    user: str
    gpu_model: str | None
    training: str
    samples_per_s: float  # of one rank, waiting for data taken away


def speed_rows(
    history: History,
    *,
    since_s: float = 0.0,
    until_s: float = 1e18,
    account: str | None = None,
    most: int = MOST_RUNS,
) -> list[SpeedRow]:
    """The newest runs of a period, oldest first by their end. Raises HistoryError."""
    with explaining(history.path):
        measured = history.conn.execute(
            _ROWS, (since_s, until_s, account, account, most)
        ).fetchall()
    rows = [
        SpeedRow(
            at_s=at_s,
            node=node,
            gpu=_only_gpu(sources),
            user=user or "",
            gpu_model=gpu_model,
            training="/".join(map(str, work)),
            samples_per_s=rate,
        )
        for at_s, node, user, gpu_model, rate, *work, sources in reversed(measured)
    ]
    return sorted(rows, key=lambda row: row.at_s)


def _only_gpu(sources: str | None) -> str | None:
    """The UUID in `nvml/GPU-1`."""
    uuid = (sources or "").partition("/")[2]
    return uuid if uuid and "," not in uuid else None
