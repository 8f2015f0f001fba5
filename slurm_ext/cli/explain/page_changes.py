"""The part of a job's page on what dlqueue changed, and what became of the prediction."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slurm_ext.cli.common.output import plain
from slurm_ext.cli.explain.text import document_ranks, done, is_changed
from slurm_ext.questions.explain.probe import rate_of
from slurm_ext.questions.explain.sheet import last_start
from slurm_ext.report.formatting import change
from slurm_ext.report.tables import Chart, ChartSeries, Column, ReportTable, Section, texts

_FIELDS = {"cpus": "CPUs a task", "workers": "workers of each loader", "bottleneck": "limited by"}
_SHAPES = {"before": "predicted as written", "after": "predicted as chosen"}
Rate = tuple[str, float, float | None, float | None]


def section(document: Mapping[str, Any]) -> Section:
    """Both shapes of the job, and its predicted rates beside the measured one."""
    ledger, run = document["decision"], _measured(document["runs"])
    rates = list(_rates(ledger, run, document_ranks(document)))
    return Section(
        key="changes",
        title="What dlqueue did",
        answer=done(ledger),
        lead=tuple(map(plain, _lead(ledger, run, rates))),
        tables=(_shapes(ledger), *([_scores(rates)] if rates else [])),
    )


def _measured(runs: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The run of the last start whose rate was measured."""
    last = last_start(runs) if runs else ()
    return next((run for run in last if rate_of(run)), None)


def _lead(
    ledger: Mapping[str, Any], run: Mapping[str, Any] | None, rates: Sequence[Rate]
) -> Iterator[str]:
    yield f"Because: {ledger['reason']}."
    if ledger["message"]:
        yield f"sbatch said: {ledger['message']}"
    verdict = run and run["verdict"]
    if verdict and len(rates) > 1:
        (name, predicted, *_), (_, measured, *_) = rates[-2:]
        inside = "inside" if verdict["inside"] else "outside"
        off = change(measured / predicted)
        yield f"Its rate was {off} against the one {name}: {inside} the 90 % interval."
        yield from (f"Why: {reason}." for reason in verdict["why"])


def _shapes(ledger: Mapping[str, Any]) -> ReportTable:
    rows = [
        (what, *(_text(ledger[f"{when}_{field}"]) for when in _SHAPES))
        for field, what in _FIELDS.items()
    ]
    columns = texts(("what", "what"), ("before", "as written"), ("after", "as chosen"))
    return ReportTable(key="shapes", title="Written and chosen", columns=columns, rows=rows)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _rates(ledger: Mapping[str, Any], run: Mapping[str, Any] | None, ranks: int) -> Iterator[Rate]:
    """Name, rate, low and high of all ranks; the last one predicted is of the shape that ran."""
    shapes = ("before", "after") if is_changed(ledger) else ("after", "before")
    by_name = {}
    for when in shapes if ledger["before_samples_per_s"] is not None else ():
        values = (ledger[f"{when}{end}"] for end in _columns(ledger, run))
        by_name[tuple(ranks * value for value in values)] = _SHAPES[when]
    yield from ((name, *values) for values, name in by_name.items())
    if run is not None:
        yield "measured", rate_of(run) or 0.0, None, None


def _columns(ledger: Mapping[str, Any], run: Mapping[str, Any] | None) -> Sequence[str]:
    """Ends of the columns of the world that the run was in; of the expected one without a run."""
    beside = ((run or {}).get("verdict") or {}).get("beside")
    there = beside is not None and beside != bool(ledger["crowded"])
    return [f"_{'else_' if there else ''}{name}" for name in ("samples_per_s", "low", "high")]


def _scores(rates: Sequence[Rate]) -> ReportTable:
    texts = ", ".join(f"{name} {value:.4g}" for name, value, *_ in rates)
    bounds = [(low or value, high or value) for _, value, low, high in rates]
    return ReportTable(
        key="scores",
        title="Predicted and measured",
        columns=(
            Column("what", "samples a second"),
            Column("rate", "rate", "rate"),
            Column("low", "at least", "rate"),
            Column("high", "at most", "rate"),
        ),
        rows=rates,
        note="At least, at most: of nine jobs in ten, as was believed before it ran.",
        chart=Chart(
            form="rows",
            about=f"Samples a second: {texts}.",
            x="samples a second; the line is the interval of nine in ten",
            y="",
            series=[ChartSeries("rate", [(float(at), r[1]) for at, r in enumerate(rates)], bounds)],
            ticks={float(at): rate[0] for at, rate in enumerate(rates)},
            shares=False,
        ),
    )
