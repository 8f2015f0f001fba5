"""A requeued start's record that its node filed under the start that followed."""

from collections.abc import Mapping
from typing import Any

from slurm_ext.core.records import Outcome
from slurm_ext.history.store.store import History

_FILE = (
    f"UPDATE runs SET restart = :restart, record_id = :record_id, state = '{Outcome.REQUEUED}',"
    " exit_code = NULL, signal = NULL"
    " WHERE cluster = :cluster AND job_id = :job_id AND restart = :restart + 1 AND node = :node"
    " AND source = 'epilog' AND end_s <= :latest_s"
)


def file_under_its_start(history: History, record: Mapping[str, Any], latest_s: float) -> bool:
    """File the node's own record where `record`, which Slurm tells, is; True if there was one.

    Slurm gives the epilog of a requeued start the next one's count (22.05), and a node whose prolog
    left no notes has nothing else to go by. What ended by `latest_s` is of the start before. Raises
    HistoryError.
    """
    named = {**record["identity"], "record_id": record["record_id"], "latest_s": latest_s}
    with history.transaction() as conn:
        return bool(conn.execute(_FILE, named).rowcount)
