"""The part of a job's page on where its training's time went, and what would change that."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slurm_ext.cli.common.advice_text import MOST_SHOWN, clause
from slurm_ext.questions.explain.stalls import LEAST, WORDS
from slurm_ext.report.formatting import percent
from slurm_ext.report.tables import Chart, ChartSeries, Column, ReportTable, Section


def sections(runs: Sequence[Mapping[str, Any]]) -> Iterator[Section]:
    """None where no step was measured; nodes that ran together have one bar."""
    with_stalls: list[tuple[Mapping[str, Any], str]] = []
    for run in runs:
        stalls = run["stalls"]
        if stalls and stalls["step_s"] > 0 and stalls not in [other for other, _ in with_stalls]:
            with_stalls.append((stalls, run["node"]))
    if not with_stalls:
        return
    first = with_stalls[0][0]
    computing = first["parts"]["computing"] / first["step_s"]
    advice = next((run["advice"] for run in runs if run["advice"]), ())
    yield Section(
        key="step",
        title="Where its time went",
        answer=f"{percent(computing)} of it the training computed",
        lead=tuple(f"{clause(item)}." for item in advice[:MOST_SHOWN]),
        tables=tuple(
            _table(f"step-{at}", stalls, "" if len(with_stalls) == 1 else f" on {node}")
            for at, (stalls, node) in enumerate(with_stalls)
        ),
    )


def _table(key: str, stalls: Mapping[str, Any], where: str) -> ReportTable:
    step_s = stalls["step_s"]
    rows = [
        (WORDS[part][1], 1000 * spent_s, spent_s / step_s)
        for part, spent_s in stalls["parts"].items()
        if spent_s >= LEAST * step_s
    ]
    return ReportTable(
        key=key,
        title=f"A batch of its training{where}",
        columns=(
            Column("part", "part"),
            Column("ms", "milliseconds", "number"),
            Column("share", "share", "share"),
        ),
        rows=rows,
        chart=_chart(rows, step_s),
    )


def _chart(rows: Sequence[tuple[str, float, float]], step_s: float) -> Chart:
    """One bar, its parts below one another."""
    texts = ", ".join(f"{name} {percent(share)}" for name, _, share in rows)
    return Chart(
        form="rows",
        about=f"A batch took {1000 * step_s:.3g} ms: {texts}.",
        x="share of a batch's time",
        y="",
        series=[ChartSeries("parts", [(float(at), row[2]) for at, row in enumerate(rows)])],
        ticks={float(at): row[0] for at, row in enumerate(rows)},
        stacked=True,
        most=1.0,
    )
