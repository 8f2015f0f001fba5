"""The advisor's memory of how gradients went to other ranks, by script; the refresher adds to it.

A plan costs some milliseconds where sizes are tried, so that it is made when runs arrive, and kept.
"""

from collections.abc import Iterable, Mapping

from slurm_ext.core.records import Level, Submission, SyncRun
from slurm_ext.core.settings.document import Settings
from slurm_ext.history.store.store import History
from slurm_ext.history.views.sync_rows import SyncRow, sync_rows
from slurm_ext.policy.buckets import BucketPlan, plan_buckets

MOST_SCRIPTS = 1_000
MOST_RUNS = 32  # of a script; each has the readiness of every gradient, some kilobytes
_MOST_ROWS = 16_000  # that are read at once: the newest
_MOST_PLANS = 4_000  # a user may ask for any number of nodes
_MOST_PLANNED = (
    64  # scripts whose plans are made when their runs arrive; others' when they are asked
)
_NO_RUN = plan_buckets((), None, 0.0)


class BucketMemory:
    """Runs of each script, the newest first, and the plans that rest on them."""

    def __init__(self) -> None:
        self._runs: dict[int, tuple[SyncRun, ...]] = {}
        self._plans: dict[tuple[int, int | None, float], BucketPlan] = {}
        self._last_id = 0

    def look(self, history: History, min_gain: float) -> None:
        """Take in what is new in the history. Raises HistoryError."""
        self.add(sync_rows(history, self._last_id, _MOST_ROWS), min_gain)

    def add(self, rows: Iterable[SyncRow], min_gain: float) -> None:
        """Take in runs, the newest first."""
        fresh: dict[int, list[SyncRun]] = {}
        for row in rows:
            self._last_id = max(self._last_id, row.id)
            of_script = fresh.setdefault(row.script, [])
            if len(of_script) < MOST_RUNS:
                of_script.append(row.run)
        for script, runs in reversed(fresh.items()):
            known = self._runs.pop(script, ())
            self._runs[script] = (*runs, *known)[:MOST_RUNS]
        for script in [*self._runs][:-MOST_SCRIPTS]:
            del self._runs[script]
        self._plans = {mark: plan for mark, plan in self._plans.items() if mark[0] not in fresh}
        for script in [*fresh][:_MOST_PLANNED]:
            for nodes in {run.nodes for run in fresh[script]}:
                self._plan(script, nodes, min_gain)

    def plan(self, keys: Mapping[Level, int], job: Submission, settings: Settings) -> BucketPlan:
        """The plan for one submission, by runs of the same script on as many nodes."""
        script = keys.get(Level.SCRIPT)
        if script is None or script not in self._runs:
            return _NO_RUN
        nodes = job.max_nodes or job.min_nodes
        return self._plan(script, nodes, settings["policy.min_gain"])

    def _plan(self, script: int, nodes: int | None, min_gain: float) -> BucketPlan:
        mark = (script, nodes, min_gain)
        plan = self._plans.get(mark)
        if plan is None:
            if len(self._plans) >= _MOST_PLANS:
                self._plans = {}
            plan = self._plans[mark] = plan_buckets(self._runs.get(script, ()), nodes, min_gain)
        return plan
