"""The document of `recommend --nodes` in lines for people, and as a page with a plot."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import log10
from typing import Any

from slurm_ext.report.formatting import percent, seconds
from slurm_ext.report.tables import Chart, ChartSeries

MOST_SHOWN = 6  # shapes of the front in the text for people; all are in the JSON
HEADER = ("nodes", "GPUs", "batch a GPU", "samples/s", "time", "at most", "cost", "limit")
TICKS = (60.0, 600.0, 3600.0, 6 * 3600.0, 86400.0, 7 * 86400.0, 30 * 86400.0)
NO_TIME = "no shape is sure to meet the deadline"
NO_MONEY = "no shape is sure to stay within the budget"

Shape = Mapping[str, Any]


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """One fact a line."""
    yield f"{document['job']}: {_goal(document)}"
    for what in document["missing"]:
        yield f"missing:  {what}"
    if document["shapes"]:
        yield from _chosen("cheapest:", document["cheapest"], NO_TIME)
        if document["likeliest"] is not None:
            shape = document["likeliest"]
            yield f"likely:   {percent(shape['chance'])} for {_shape(shape)}"
        yield from _chosen("fastest: ", document["fastest"], NO_MONEY)
        yield from _next(document)
        front = document["front"]
        for shape in front[:MOST_SHOWN]:
            yield f"front:    {_shape(shape)}"
        if len(front) > MOST_SHOWN:
            yield f"front:    {len(front) - MOST_SHOWN} more (--json, --html)"
    for name, why in document["left_out"].items():
        yield f"left out: {name}: {why}"


def page(document: Mapping[str, Any]) -> str:
    """An HTML page: the front as a table, and every shape in a plot of cost over time."""
    from slurm_ext.report.table_page import table_page

    first = list(lines(document))
    charts = {"Cost over time": chart(document)} if document["shapes"] else {}
    return table_page(
        "dlqueue recommend",
        "Nodes",
        str(document["job"]),
        about=_goal(document),
        caption="Shapes that no other one beats in both time and cost",
        row_name="shape",
        header=("shape", *HEADER[1:]),
        rows=[_cells(shape) for shape in document["front"]],
        remarks=[line for line in first[1:] if not line.startswith("front:")],
        charts=charts,
    )


def chart(document: Mapping[str, Any]) -> Chart:
    """Each node type's shapes as points, and the Pareto front as a line."""
    by_node: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for shape in document["shapes"]:
        by_node[shape["node"]].append(_point(shape))
    front = ChartSeries("front", [_point(shape) for shape in document["front"]], joined=True)
    return Chart(
        form="points",
        about="Each point is a number of nodes of one type; below and left of the line is nothing.",
        x="time (logarithmic)",
        y="cost",
        series=[front, *(ChartSeries(name, points) for name, points in by_node.items())],
        ticks={log10(at): seconds(at) for at in TICKS},
        shares=False,
    )


def _point(shape: Shape) -> tuple[float, float]:
    return log10(shape["time_s"]), shape["cost"]


def _cells(shape: Shape) -> Sequence[str]:
    return (
        f"{shape['nodes']} x {shape['node']}",
        str(shape["gpus"]),
        f"{shape['batch']:.4g}",
        f"{shape['samples_per_s']:.4g}",
        seconds(shape["time_s"]),
        seconds(shape["time_high_s"]),
        f"{shape['cost']:.4g}",
        shape["limit"],
    )


def _goal(document: Mapping[str, Any]) -> str:
    parts = []
    if document["samples"] is not None:
        parts.append(f"{document['samples']:.4g} samples")
    if document["deadline_s"] is not None:
        parts.append(f"within {seconds(document['deadline_s'])}")
    if document["budget"] is not None:
        parts.append(f"for at most {document['budget']:g}")
    return ", ".join(parts) or "no recommendation"


def _chosen(word: str, shape: Shape | None, why_none: str) -> Iterator[str]:
    if shape is None:
        yield f"{word} {why_none}"
        return
    yield f"{word} {_shape(shape)}"
    yield f"on:       {shape['rests_on']}"


def _next(document: Mapping[str, Any]) -> Iterator[str]:
    """The shape to measure before all the work goes to one."""
    trial, cheapest = document["trial"], document["cheapest"]
    if trial is not None:
        why = f"{percent(trial['chance'])} likely to be in time"
        if trial["saving"] is not None:
            why += f" and cheaper, {percent(trial['saving'])} cheaper to expect"
        yield f"next:     a run of some minutes on {trial['nodes']} x {trial['node']} first: {why}"
    elif cheapest is not None and not cheapest["certain"]:
        yield "next:     a run of some minutes on the cheapest first: its interval is wide"


def _shape(shape: Shape) -> str:
    return (
        f"{shape['nodes']} x {shape['node']} ({shape['gpus']} GPUs, batch {shape['batch']:.4g}"
        f" each): {seconds(shape['time_s'])} ({seconds(shape['time_low_s'])} to"
        f" {seconds(shape['time_high_s'])}), cost {shape['cost']:.4g};"
        f" {shape['limit']} is its limit"
    )
