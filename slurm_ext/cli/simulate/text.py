"""`dlqueue simulate` for people: a table, what was repaired, and a page with plots."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from slurm_ext.report.charts import Points, shares_by_time, shares_over_time
from slurm_ext.report.formatting import counted, seconds
from slurm_ext.report.render import render
from slurm_ext.report.tables import Chart

if TYPE_CHECKING:
    from slurm_ext.simulate.replay_result import ReplayResult

WIDTH = 140  # where nobody's terminal says another
SLICES = 240  # of a curve
HEADER = (
    "policy", "mean JCT", "median", "p99",
    "mean queue", "median", "p99", "p99.9",
    "in use", "restarts",
)  # fmt: skip
TIMES = (
    "jct_mean_s", "jct_median_s", "jct_p99_s",
    "queue_mean_s", "queue_median_s", "queue_p99_s", "queue_p999_s",
)  # fmt: skip
Document = Mapping[str, Any]


def show(document: Document) -> None:
    """Print the document of `--json` for a person."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    table = Table(title=Text(_about(document)), box=box.SIMPLE)
    rows = _rows(document)
    table.add_column(HEADER[0], min_width=max(len(row[0]) for row in rows))
    for name in HEADER[1:]:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)
    for line in _remarks(document):
        console.print(Text(line), soft_wrap=True)


def page(document: Document, outcomes: Sequence["ReplayResult"]) -> str:
    """One HTML page that needs nothing else."""
    from slurm_ext.report.plots import svg

    return render(
        "simulate.html.jinja",
        source=PurePath(document["source"]).name,
        about=_about(document),
        remarks=list(_remarks(document)),
        header=HEADER,
        rows=_rows(document),
        charts=[
            (title, chart, svg(chart, f"plot-{number}", title))
            for number, (title, chart) in enumerate(_charts(outcomes))
        ],
    )


def _charts(outcomes: Sequence["ReplayResult"]) -> Iterator[tuple[str, Chart]]:
    jct = {one.policy: _distribution(one.jct_s) for one in outcomes}
    queue = {one.policy: _distribution(one.queue_s) for one in outcomes}
    used = {one.policy: _pairs(*one.utilisation(SLICES)) for one in outcomes}
    done = "Share of jobs that completed within a time of their submission; further left is sooner."
    waited = "Share of jobs that waited no longer than a time; further left is sooner."
    busy = "Share of all GPUs that ran a job, from the first submission on."
    yield "Completion", shares_by_time(done, "jobs completed", jct)
    yield "Waiting", shares_by_time(waited, "jobs started", queue)
    yield "GPUs in use", shares_over_time(busy, "GPUs in use", used)


def _distribution(seconds: Any) -> Points:
    """(seconds, share of jobs that took no longer)."""
    from slurm_ext.simulate.replay_result import distribution

    return _pairs(*distribution(seconds, SLICES))


def _pairs(across: Any, up: Any) -> Points:
    return list(zip(across.tolist(), up.tolist(), strict=True))


def _about(document: Document) -> str:
    jobs, nodes, gpus = (document[name] for name in ("jobs", "nodes", "gpus"))
    return f"{counted(jobs, 'job')} on {counted(nodes, 'node')}, {counted(gpus, 'GPU')}"


def _rows(document: Document) -> list[list[str]]:
    return [
        [
            one["policy"],
            *(seconds(one[name]) for name in TIMES),
            f"{one['utilisation']:.1%}",
            f"{one['restarts']:,.0f}",
        ]
        for one in document["policies"]
    ]


def _remarks(document: Document) -> Iterator[str]:
    """What was changed or left out of the file, and against whom."""
    for why, jobs in document["repairs"].items():
        yield f"{counted(jobs, 'job')}: {why}"
    first, *others = document["policies"]
    for one in others:
        if one["jct_mean_s"] > 0:
            gain = first["jct_mean_s"] / one["jct_mean_s"]
            ahead = f"{gain:.2f}x better" if gain >= 1 else f"{1 / gain:.2f}x worse"
            yield f"{one['policy']}: mean JCT {ahead} than {first['policy']}"
