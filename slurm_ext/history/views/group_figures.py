"""Waste and gain by partition and account over the newest runs: a bounded number of figures.

The newest RUNS runs are looked at, of no user more than a share while others have any, and NAMES of
each kind are told apart; the rest is `other`.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

from slurm_ext.core.stats import LogGroup, Ratio, welch_ratio
from slurm_ext.history.store.reading import explaining
from slurm_ext.history.store.store import History
from slurm_ext.history.views.finished_jobs import fair_places
from slurm_ext.history.views.gain import ELIGIBLE, with_logarithm
from slurm_ext.history.views.period_view import Period, select_runs

RUNS = 5000
NAMES = 20
LONGEST = 64  # letters of a name
OTHER, NONE = "other", "none"
KINDS = ("partition", "account")
HELD = ("gpu_hours", "core_hours")
LOSSES = {
    "gpu_idle": "gpu_hours",
    "starved": "gpu_hours",
    "core_idle": "core_hours",
    "mem_unused": "gib_hours",
}
_DAY_S = 86400.0
_SUMS = ", ".join(
    (
        "count(*)",
        *(f"total({column})" for column in HELD),
        *(f"total({whole} * {loss})" for loss, whole in LOSSES.items()),
        *(f"total(iif({loss} IS NULL, 0, {whole}))" for loss, whole in LOSSES.items()),
    )
)
# From the few runs outwards: a look at every decision would cost more with each year.
_GAIN = f"""
SELECT name, holdout, count(*), sum(x), sum(x * x) FROM (
    SELECT c.{{kind}} AS name, o.holdout, avg(ln(o.achieved / o.before_samples_per_s)) AS x
    FROM period_runs c CROSS JOIN decisions e ON e.token = c.decision
    CROSS JOIN outcomes o ON o.decision = e.id AND o.run = c.id
    WHERE {ELIGIBLE.format("o.")} GROUP BY o.decision) GROUP BY 1, 2"""


@dataclass(slots=True)
class GroupFigures:
    """One partition or account: hours held and lost, and logarithms of changed and control jobs."""

    sums: list[float] = field(default_factory=lambda: [0.0] * (1 + len(HELD) + 2 * len(LOSSES)))
    logs: list[LogGroup] = field(default_factory=lambda: [LogGroup(0, 0.0, 0.0)] * 2)

    def add(self, sums: Iterable[float]) -> None:
        """Count another name's runs here."""
        self.sums = [have + more for have, more in zip(self.sums, sums, strict=True)]

    def add_logs(self, held_out: bool, n: int, total: float, squares: float) -> None:
        """Count another name's decisions here."""
        had = self.logs[held_out]
        self.logs[held_out] = LogGroup(had.n + n, had.total + total, had.squares + squares)

    @property
    def runs(self) -> float:
        """Number of runs."""
        return self.sums[0]

    @property
    def held(self) -> Mapping[str, float]:
        """Hours by resource."""
        return dict(zip(HELD, self.sums[1:], strict=False))

    @property
    def lost(self) -> Mapping[str, tuple[float, float]]:
        """Hours lost, and hours of which that is known, by kind of loss; without the unmeasured."""
        first = 1 + len(HELD)
        ends = zip(self.sums[first:], self.sums[first + len(LOSSES) :], strict=False)
        return {loss: (lost, of) for loss, (lost, of) in zip(LOSSES, ends, strict=True) if of > 0}

    @property
    def gain(self) -> Ratio | None:
        """Rate of changed jobs over the control group's; None of too few."""
        return welch_ratio(*self.logs)


Groups = Mapping[str, Mapping[str, GroupFigures]]
"""By kind (`partition`, `account`), then by name."""


def group_figures(history: History, now_s: float) -> Groups:
    """Figures of the newest runs. Raises HistoryError."""
    until_s = now_s + _DAY_S
    newest = fair_places(history, RUNS, (until_s, 0))
    with_logarithm(history.conn)
    period = Period(since_s=-inf, until_s=until_s, runs=[run for _, run in newest])
    select_runs(history, period, lambda _: None)
    with explaining(history.path):
        return {kind: _of_kind(history, kind) for kind in KINDS}


def _of_kind(history: History, kind: str) -> dict[str, GroupFigures]:
    order = f"SELECT {kind}, {_SUMS} FROM period_runs GROUP BY 1 ORDER BY 3 DESC, 4 DESC, 1"
    rows: list[tuple[Any, ...]] = history.conn.execute(order).fetchall()
    shown = {name: (name or NONE)[:LONGEST] for name, *_ in rows[:NAMES]}
    figures: dict[str, GroupFigures] = defaultdict(GroupFigures)
    for name, *sums in rows:
        figures[shown.get(name, OTHER)].add(sums)
    for name, held_out, *logs in history.conn.execute(_GAIN.format(kind=kind)):
        figures[shown.get(name, OTHER)].add_logs(bool(held_out), *logs)
    return dict(figures)
