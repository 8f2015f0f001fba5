"""Section on the gain: changed jobs against the control group (history/views/gain.py)."""

from collections import defaultdict
from collections.abc import Sequence
from math import exp, log

from slurm_ext.core.stats import FEWEST, LogGroup, Ratio, share
from slurm_ext.history.store.reading import explaining
from slurm_ext.history.views.gain import GainEstimate, decisions_by, estimate_gain
from slurm_ext.report.context import ReportContext, Row
from slurm_ext.report.formatting import change, percent
from slurm_ext.report.tables import Chart, ChartSeries, Column, ReportTable, Section

PER_DOUBLING = 16  # bins
GROUPS = ("changed", "left alone (control)")
NO_GAIN = "not measured"

# The plus keeps the list from being walked for each decision: that took the square of the runs.
IN_PERIOD = "+run IN (SELECT id FROM period_runs)"
RATIOS = f"""
SELECT holdout, CAST(floor(x * {PER_DOUBLING / log(2)}) AS INT) AS bin, count(*), sum(predicted)
FROM ({decisions_by(IN_PERIOD)}) GROUP BY holdout, bin ORDER BY holdout, bin"""
ENDS = """
SELECT d.holdout, count(*), sum(c.state IN ('FAILED', 'OUT_OF_MEMORY', 'TIMEOUT'))
FROM period_runs c JOIN decisions d ON d.token = c.decision
WHERE d.mode = 'act' AND d.action = 'change' GROUP BY d.holdout"""
CORES = """
SELECT sum(max(0, saved)), sum(max(0, -saved)), count(*) FROM (
    SELECT c.core_hours * (1.0 * d.before_cpus / d.after_cpus - 1) AS saved
    FROM period_runs c JOIN decisions d ON d.token = c.decision
    WHERE d.mode = 'act' AND d.action = 'change' AND NOT d.holdout AND d.after_cpus > 0)"""


def ratios(context: ReportContext) -> list[Row]:
    """(held out, bin, decisions, sum of ln predicted gain)."""
    return context.rows(RATIOS)


def gain_in_period(context: ReportContext) -> GainEstimate:
    """The gain over the report's period. Raises HistoryError."""
    with explaining(context.history.path):
        return estimate_gain(context.history.conn, IN_PERIOD)


def section(context: ReportContext) -> Section:
    """The gain with its interval, how both groups ended, and what it did to cores."""
    counted = ratios(context)
    gain = gain_in_period(context)
    groups, ratio = [gain.changed, gain.control], gain.ratio
    ends = {group: (runs, bad) for group, runs, bad in context.rows(ENDS)}
    return Section(
        key="gain",
        title="What dlqueue gained",
        answer=_answer(ratio),
        lead=tuple(_lead(ratio, groups, counted)),
        tables=(
            _claim(ratio, _wish(counted)),
            _cores(context),
            _table(groups, counted, ends),
            _spread(counted, groups),
        ),
    )


def _answer(ratio: Ratio | None) -> str:
    if ratio is None:
        return NO_GAIN
    return f"{change(ratio.value)} samples/s ({change(ratio.low)} to {change(ratio.high)})"


def _lead(ratio: Ratio | None, groups: list[LogGroup], counted: list[Row]) -> list[str]:
    changed, control = (group.n for group in groups)
    if ratio is None:
        return [
            (
                f"Nothing can be claimed: of changed jobs {changed:,}, of the control group"
                f" {control:,} were measured in this period; {FEWEST} of each are wanted. The"
                " control group is the share of eligible jobs that policy.holdout_share leaves as"
                " written, in mode act."
            )
        ]
    return [
        (
            f"Jobs that dlqueue changed ran at {change(ratio.value)} samples/s compared with"
            f" eligible jobs that a draw left as written; the 95 % interval is"
            f" {change(ratio.low)} to {change(ratio.high)}. {_sure(ratio)}"
        ),
        (
            f"Believed beforehand of the same jobs: {change(_wish(counted))}. A belief is no gain;"
            " it is told here to be checked."
        ),
    ]


def _sure(ratio: Ratio) -> str:
    if ratio.low > 1:
        return "That is not chance."
    if ratio.high < 1:
        return "That is not chance: they ran slower."
    return "That may be chance: the interval holds 0 %."


def _wish(counted: list[Row]) -> float:
    """Predicted gain of the changed jobs."""
    rows = [row for row in counted if row[0] == 0]
    return exp(sum(row[3] for row in rows) / max(1, sum(row[2] for row in rows)))


def _claim(ratio: Ratio | None, wish: float) -> ReportTable:
    columns = (
        Column("gain", "measured gain", "change"),
        Column("low", "at least", "change"),
        Column("high", "at most", "change"),
        Column("believed", "predicted before", "change"),
    )
    rows = [] if ratio is None else [(ratio.value, ratio.low, ratio.high, wish)]
    note = "Changed jobs over control group, with Welch's 95 % interval." if rows else ""
    return ReportTable(key="gain", title="Samples/s", columns=columns, rows=rows, note=note)


def _table(
    groups: list[LogGroup], counted: list[Row], ends: dict[int, tuple[int, int]]
) -> ReportTable:
    columns = (
        Column("group", "jobs"),
        Column("decisions", "measured decisions", "count"),
        Column("ratio", "rate to belief as written", "change"),
        Column("median", "median", "change"),
        Column("runs", "runs", "count"),
        Column("bad", "ended badly", "share"),
        Column("bad_low", "at least", "share"),
        Column("bad_high", "at most", "share"),
    )
    rows = []
    for index, (name, group) in enumerate(zip(GROUPS, groups, strict=True)):
        bins = [(row[1], float(row[2])) for row in counted if row[0] == index]
        middle = quantile(bins, 0.5, 1 / PER_DOUBLING)
        runs, bad = ends.get(index, (0, 0))
        ended = share(bad or 0, runs)
        rows.append(
            (
                name,
                group.n,
                exp(group.mean) if group.n else None,
                None if middle is None else 2**middle,
                runs,
                *((None,) * 3 if ended is None else (ended.value, ended.low, ended.high)),
            )
        )
    note = "Ended badly: failed, out of memory or out of time, with Wilson's 95 % interval."
    return ReportTable(
        key="groups", title="Changed jobs and control group", columns=columns, rows=rows, note=note
    )


def _spread(counted: list[Row], groups: list[LogGroup]) -> ReportTable:
    """The distribution behind the mean: who gained much, and who lost."""
    cells: dict[float, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for group, number, many, *_ in counted:
        cells[number // 4 / 4][group] += many / max(1, groups[group].n)
    points = sorted(cells.items())
    series = [
        ChartSeries(name, [(at, cell[index]) for at, cell in points])
        for index, name in enumerate(GROUPS)
        if groups[index].n
    ]
    rows = [(2**at, 2 ** (at + 0.25), *cell) for at, cell in points]
    lost = sum(cell[0] for at, cell in points if at < 0)
    return ReportTable(
        key="spread",
        title="Rate achieved, compared with the prediction for the job as written",
        columns=(
            Column("from", "from", "change"),
            Column("to", "to", "change"),
            Column("changed", "of changed jobs", "share"),
            Column("control", "of the control group", "share"),
        ),
        rows=rows,
        folded=True,
        chart=Chart(
            form="bars",
            about=f"{percent(lost)} of the changed jobs ran slower than predicted as written.",
            x="rate achieved / rate predicted as written",
            y="share of jobs",
            series=series,
            width=0.25,
            ticks={float(k): f"{2.0**k:g}x" for k in range(-8, 9)},
        )
        if series
        else None,
    )


def _cores(context: ReportContext) -> ReportTable:
    freed, added, runs = context.row(CORES)
    return ReportTable(
        key="cores",
        title="Cores of changed jobs",
        columns=(
            Column("runs", "runs", "count"),
            Column("freed", "core-hours given back", "hours"),
            Column("added", "core-hours added", "hours"),
        ),
        rows=[(runs, freed, added)] if runs else [],
        note="By what each job asked for and what it got: arithmetic, not a measurement.",
    )


Bins = Sequence[tuple[int, float]]  # (number, weight), numbers rising


def quantile(bins: Bins, at: float, width: float) -> float | None:
    """Of what was counted in bins [k width, (k + 1) width), evenly within each; None of nothing."""
    total = sum(weight for _, weight in bins)
    if total <= 0:
        return None
    before = 0.0
    for number, weight in bins:
        if weight > 0 and before + weight >= at * total:
            return width * (number + (at * total - before) / weight)
        before += weight
    return width * (bins[-1][0] + 1)


def coarser(bins: Bins, by: int) -> list[tuple[int, float]]:
    """Bins that are `by` times as wide."""
    counts: dict[int, float] = {}
    for number, weight in bins:
        counts[number // by] = counts.get(number // by, 0.0) + weight
    return sorted(counts.items())
