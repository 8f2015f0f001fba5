"""Metrics for a scrape: the advisor's counters, what is in memory, and what lies on the disk.

No label names a job, a user or a script: the number of series is fixed, or bounded (partitions and
accounts, group_families.py). What cannot be had just now is left out, and counted.
"""

import logging
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from slurm_ext.advisor.evidence.calibrate import usual
from slurm_ext.advisor.evidence.standing import Standings
from slurm_ext.advisor.pipeline.journal import journals
from slurm_ext.advisor.service.advisor import Advisor
from slurm_ext.advisor.service.counters import BOUNDS_S
from slurm_ext.advisor.service.group_families import GroupFamilies
from slurm_ext.core.errors import DlqueueError
from slurm_ext.core.successes import TASKS, last_success_s, oldest_waiting
from slurm_ext.history.store.reading import connect
from slurm_ext.history.views.self_metrics import SelfMetrics, read_self_metrics

FRESH_S = 15.0  # how long what the disk said is told again
MOST_FILES = 20_000  # of the spool that are looked at
BUSY_MS = 500
log = logging.getLogger(__name__)


class PrometheusCollector:
    """A collector of prometheus_client's; used by one thread that answers scrapes."""

    def __init__(self, advisor: Advisor) -> None:
        self._advisor = advisor
        self._disk: list[Metric] = []
        self._groups = GroupFamilies()
        self._looked_s = float("-inf")
        self._failed = 0

    def describe(self) -> Iterable[Metric]:
        """Nothing: to be registered costs no look at the disk."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Every family, once a scrape."""
        yield from self._counted()
        yield from self._in_memory()
        if time.monotonic() - self._looked_s >= FRESH_S:
            self._disk, self._looked_s = self._on_disk(), time.monotonic()
        yield from self._disk
        what = "Looks at the history or the spool that failed"
        yield CounterMetricFamily("dlqueue_looks_failed", what, value=self._failed)

    def _counted(self) -> Iterator[Metric]:
        counters = self._advisor.counters
        decisions = CounterMetricFamily(
            "dlqueue_decisions", "Submissions decided on", labels=("action", "outcome")
        )
        for (action, outcome), count in sorted(counters.decisions.copy().items()):
            decisions.add_metric([action, outcome], count)
        yield decisions
        answers = HistogramMetricFamily(
            "dlqueue_answer_seconds", "From a line to its answer", labels=("kind",)
        )
        for kind, latency in sorted(counters.answers.copy().items()):
            answers.add_metric([kind], *_buckets(latency.counts, latency.total_s))
        yield answers
        yield CounterMetricFamily(
            "dlqueue_breaker_trips", "Rests that slurmctld's Lua told of", value=counters.rests
        )
        yield _gauge(
            "dlqueue_breaker_open",
            "Whether slurmctld probably rests after an answer that came too late",
            counters.resting,
        )

    def _in_memory(self) -> Iterator[Metric]:
        advisor = self._advisor
        kill_file = Path(advisor.settings["paths.kill_file"])
        yield _gauge("dlqueue_runs", "Runs that answers rest on", len(advisor.runs))
        what, unreadable = "Runs that were passed over", advisor.counters.unreadable_runs
        yield _gauge("dlqueue_runs_unreadable", what, unreadable)
        factor = usual(advisor.factors)
        yield _gauge("dlqueue_interval_factor", "By which intervals are widened", factor)
        yield _stopped(advisor.standings)
        yield _gauge("dlqueue_killed", "Whether the kill file is there", kill_file.exists())
        yield _gauge("dlqueue_deadline_seconds", "slurmctld's", _deadline_s(advisor))
        named = {"mode": str(advisor.settings["site.mode"]), "model": advisor.priors.name or ""}
        yield InfoMetricFamily("dlqueue_serving", "Mode of the site and model", value=named)

    def _on_disk(self) -> list[Metric]:
        """Metrics of the files in the state folder; unreadable parts are left out."""
        state = self._advisor.settings.state_dir
        metrics: list[Metric] = []
        for look in (of_history, of_spool, of_successes, self._groups.of):
            try:
                metrics += look(state)
            except (DlqueueError, OSError) as error:
                self._failed += 1
                log.debug("left out of the metrics: %s", error)
        return metrics


def of_history(state: Path) -> list[Metric]:
    """Metrics of the ledger, and of the journal that is not in it yet. Raises HistoryError."""
    path = state / "history.db"
    if not path.exists():
        return []
    with closing(connect(path, busy_timeout_ms=BUSY_MS)) as conn:
        standing = read_self_metrics(conn, path)
    waiting = sum(
        max(0, path.stat().st_size - standing.journals.get(path.name, 0))
        for path in journals(state / "journal")
    )
    return [
        _gauge("dlqueue_set_aside_records", "Records that could not be read", standing.set_aside),
        _gauge("dlqueue_set_aside_dropped_records", "Records that had no room", standing.dropped),
        _gauge("dlqueue_journal_lag_bytes", "Decisions that are not in the ledger yet", waiting),
        *_standing(standing),
    ]


def _standing(standing: SelfMetrics) -> Iterator[Metric]:
    gain, beliefs = standing.gain, standing.beliefs
    runs = GaugeMetricFamily("dlqueue_gain_runs", "Decisions of each group", labels=("group",))
    runs.add_metric(["changed"], gain.changed.n)
    runs.add_metric(["control"], gain.control.n)
    yield runs
    if gain.ratio is not None:
        what = "Rate of changed jobs over the control group's, 95 % interval"
        ratio = GaugeMetricFamily("dlqueue_gain_ratio", what, labels=("bound",))
        for bound, name in (("mean", "value"), ("low", "low"), ("high", "high")):
            ratio.add_metric([bound], getattr(gain.ratio, name))
        yield ratio
    if beliefs is None:
        return
    yield _gauge("dlqueue_model_outcomes", "Newest outcomes looked at", beliefs.outcomes)
    yield _gauge("dlqueue_model_error_ratio", "Median error of predicted rates", beliefs.error)
    yield _gauge("dlqueue_model_coverage_ratio", "Share that 90 % intervals held", beliefs.coverage)
    what = "Share that the 20 newest intervals held"
    yield _gauge("dlqueue_model_newest_coverage_ratio", what, beliefs.newest_coverage)
    if beliefs.drift is not None:
        what = "Error of the newest quarter over that of the rest"
        yield _gauge("dlqueue_model_drift_ratio", what, beliefs.drift)


def _stopped(standings: Standings) -> Metric:
    """Count scripts and users that outcomes keep from being changed."""
    what = "Scripts, users, or the site (1), which outcomes keep from being changed"
    stopped = GaugeMetricFamily("dlqueue_stopped", what, labels=("of",))
    users = list(standings.users.values())
    stopped.add_metric(["scripts"], sum(len(user.stopped_scripts()) for user in users))
    stopped.add_metric(["users"], sum(bool(user.stopped) for user in users))
    stopped.add_metric(["site"], bool(standings.site))
    return stopped


def of_spool(state: Path) -> list[Metric]:
    """Metrics of the records that wait in the spool, and the oldest one's age. Raises OSError."""
    count, lag_s = oldest_waiting(state / "spool", MOST_FILES)
    return [
        _gauge("dlqueue_ingest_lag_seconds", "Age of the oldest record that waits", lag_s),
        _gauge("dlqueue_ingest_waiting_records", "Records that wait in the spool", count),
    ]


def of_successes(state: Path) -> list[Metric]:
    """Times of last successes; a task that never succeeded is left out."""
    what = "When a task that goes on unseen succeeded last"
    times = GaugeMetricFamily("dlqueue_last_success_timestamp_seconds", what, labels=("task",))
    for task in TASKS:
        if (moment := last_success_s(state, task)) is not None:
            times.add_metric([task], moment)
    return [times]


def _deadline_s(advisor: Advisor) -> float:
    return float(advisor.settings["advisor.deadline_ms"]) / 1000


def _gauge(name: str, what: str, value: float) -> Metric:
    return GaugeMetricFamily(name, what, value=value)


def _buckets(counts: list[int], total_s: float) -> tuple[list[tuple[str, float]], float]:
    """Cumulative, as Prometheus has them."""
    bounds, total = [*map(str, BOUNDS_S), "+Inf"], 0
    buckets = []
    for bound, count in zip(bounds, list(counts), strict=True):
        total += count
        buckets.append((bound, float(total)))
    return buckets, total_s
