"""The page of `dlqueue profile --html`: the parts of a step, and every window in its time."""

from collections.abc import Mapping
from typing import Any

from slurm_ext.cli.profile.analysis import KINDS
from slurm_ext.cli.profile.text import lines
from slurm_ext.report.plots import svg
from slurm_ext.report.render import render
from slurm_ext.report.tables import Chart, ChartSeries

_TITLE = "Windows in the order in which they ran"


def page(document: Mapping[str, Any]) -> str:
    """One HTML page that needs nothing else."""
    chart = _chart(document)
    return render(
        "profile.html.jinja",
        command=document["command"],
        depth=document["depth"],
        lines=list(lines(document)),
        parts=document["parts"],
        title=_TITLE,
        chart=chart,
        plot=None if chart is None else svg(chart, "windows", _TITLE),
    )


def _chart(document: Mapping[str, Any]) -> Chart | None:
    """Mean step of each window against the time it began, as a share of the normal step."""
    drawn = [window for window in document["windows"] if window["mean_s"] is not None]
    if not drawn or document["step"] is None:
        return None
    normal = document["step"]["value"]
    series = [
        ChartSeries(
            name,
            [(w["at_s"], w["mean_s"] / normal) for w in drawn if w["kind"] == kind],
        )
        for kind, name in KINDS.items()
    ]
    return Chart(
        form="lines",
        about="Each point is one window: the mean of its steps, of the mean normal step.",
        x="seconds since the training began",
        y="step",
        series=[line for line in series if line.points],
    )
