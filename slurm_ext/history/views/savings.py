"""Savings of changed jobs: hours that the same work would take as written, less those it took.

As written a job would have run g times as long, and on as many cores as it asked for. g is the rate
of changed jobs over the control group's, of the same rows as the gain (gain.py), each weighed by
what it held: hours are paid for, not jobs. Jobs whose rate nobody measured saved nothing here.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from slurm_ext.core.stats import LogGroup, weighed, welch_ratio
from slurm_ext.history.views.gain import ELIGIBLE, with_logarithm

# A part of a GPU that dlqueue gave instead of a whole one is a saving; one that the user asked for,
# or that another job's user did, would have been a part anyhow.
_OURS = "(d.mode = 'act' AND NOT d.holdout AND json_extract(d.sharing, '$.done') = 1)"
_CORES = "coalesce(1.0 * d.before_cpus / nullif(d.after_cpus, 0), 1.0)"


@dataclass(frozen=True, slots=True)
class Resource:
    """SQL of what run `c` of decision `d` held, and would have held as written at its speed."""

    held: str
    written: str


GPU_HOURS = Resource(
    "c.gpu_hours / (1 + c.gpu_company)", f"c.gpu_hours / iif({_OURS}, 1, 1 + c.gpu_company)"
)
CORE_HOURS = Resource("c.core_hours", f"c.core_hours * iif(d.holdout, 1, {_CORES})")


def priced(gpu_hour: str, core_hour: float) -> Resource:
    """Both together, in money; `gpu_hour` is SQL of an hour's price."""
    parts = ((GPU_HOURS.held, CORE_HOURS.held), (GPU_HOURS.written, CORE_HOURS.written))
    return Resource(
        *(f"({gpus}) * {gpu_hour} + ({cores}) * {core_hour!r}" for gpus, cores in parts)
    )


@dataclass(frozen=True, slots=True)
class HeldSums:
    """Sums over one group's decisions; weights are what each would have held."""

    n: int = 0
    w: float = 0.0
    w2: float = 0.0
    wx: float = 0.0
    w2x: float = 0.0
    w2x2: float = 0.0
    held: float = 0.0

    def __add__(self, other: "HeldSums") -> "HeldSums":
        names = HeldSums.__slots__
        return HeldSums(*(getattr(self, name) + getattr(other, name) for name in names))

    @property
    def group(self) -> LogGroup:
        """The logarithms, as Welch's test takes them."""
        return weighed(self.n, self.w, self.w2, self.wx, self.w2x, self.w2x2)


@dataclass(frozen=True, slots=True)
class Saving:
    """Savings of one resource with their 95 % interval, beside the hours that changed jobs held."""

    held: float
    jobs: int
    value: float
    low: float
    high: float


Groups = tuple[HeldSums, HeldSums]  # changed, control
_SUMS = "count(*), sum(w), sum(w * w), sum(w * x), sum(w * w * x), sum(w * w * x * x), sum(held)"


def sums_by_month(conn: sqlite3.Connection, resource: Resource) -> dict[str, Groups]:
    """Sums of both groups by month (`2026-01`, UTC), over the table period_runs. Raises sqlite3."""
    with_logarithm(conn)
    sql = (
        f"SELECT month, holdout, {_SUMS} FROM (SELECT o.holdout, sum({resource.written}) AS w,"
        f" sum({resource.held}) AS held, strftime('%Y-%m', max(c.end_s), 'unixepoch') AS month,"
        " avg(ln(o.achieved / o.before_samples_per_s)) AS x FROM outcomes o"
        " JOIN period_runs c ON c.id = o.run JOIN decisions d ON d.id = o.decision"
        f" WHERE {ELIGIBLE.format('o.')} GROUP BY o.decision) WHERE w > 0 GROUP BY 1, 2"
    )
    by_month: dict[str, list[HeldSums]] = defaultdict(lambda: [HeldSums(), HeldSums()])
    for month, held_out, *sums in conn.execute(sql):
        by_month[month][bool(held_out)] = HeldSums(*sums)
    return {month: (changed, control) for month, (changed, control) in by_month.items()}


def total(months: Iterable[Groups]) -> Groups:
    """All of them."""
    changed, control = HeldSums(), HeldSums()
    for month in months:
        changed, control = changed + month[0], control + month[1]
    return changed, control


def saving(groups: Groups) -> Saving | None:
    """Savings of the changed jobs; None where either group is too small."""
    changed, ratio = groups[0], welch_ratio(groups[0].group, groups[1].group)
    if ratio is None:
        return None
    ends = (changed.w * end - changed.held for end in (ratio.value, ratio.low, ratio.high))
    return Saving(changed.held, changed.n, *ends)
