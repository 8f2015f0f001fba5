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
            one = document["likeliest"]
            yield f"likely:   {percent(one['chance'])} for {_shape(one)}"
        yield from _chosen("fastest: ", document["fastest"], NO_MONEY)
        yield from _next(document)
        front = document["front"]
        for one in front[:MOST_SHOWN]:
            yield f"front:    {_shape(one)}"
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
        rows=[_cells(one) for one in document["front"]],
        remarks=[one for one in first[1:] if not one.startswith("front:")],
        charts=charts,
    )


def chart(document: Mapping[str, Any]) -> Chart:
    """Each node type's shapes as points, and the Pareto front as a line."""
    by_node: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for one in document["shapes"]:
        by_node[one["node"]].append(_point(one))
    front = ChartSeries("front", [_point(one) for one in document["front"]], joined=True)
    return Chart(
        form="points",
        about="Each point is a number of nodes of one type; below and left of the line is nothing.",
        x="time (logarithmic)",
        y="cost",
        series=[front, *(ChartSeries(name, points) for name, points in by_node.items())],
        ticks={log10(at): seconds(at) for at in TICKS},
        shares=False,
    )


def _point(one: Shape) -> tuple[float, float]:
    return log10(one["time_s"]), one["cost"]


def _cells(one: Shape) -> Sequence[str]:
    return (
        f"{one['nodes']} x {one['node']}",
        str(one["gpus"]),
        f"{one['batch']:.4g}",
        f"{one['samples_per_s']:.4g}",
        seconds(one["time_s"]),
        seconds(one["time_high_s"]),
        f"{one['cost']:.4g}",
        one["limit"],
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


def _chosen(word: str, one: Shape | None, why_none: str) -> Iterator[str]:
    if one is None:
        yield f"{word} {why_none}"
        return
    yield f"{word} {_shape(one)}"
    yield f"on:       {one['rests_on']}"


def _next(document: Mapping[str, Any]) -> Iterator[str]:
    """The shape to measure before all the work goes to one."""
    one, cheapest = document["trial"], document["cheapest"]
    if one is not None:
        why = f"{percent(one['chance'])} likely to be in time"
        if one["saving"] is not None:
            why += f" and cheaper, {percent(one['saving'])} cheaper to expect"
        yield f"next:     a run of some minutes on {one['nodes']} x {one['node']} first: {why}"
    elif cheapest is not None and not cheapest["certain"]:
        yield "next:     a run of some minutes on the cheapest first: its interval is wide"


def _shape(one: Shape) -> str:
    return (
        f"{one['nodes']} x {one['node']} ({one['gpus']} GPUs, batch {one['batch']:.4g} each):"
        f" {seconds(one['time_s'])} ({seconds(one['time_low_s'])} to"
        f" {seconds(one['time_high_s'])}), cost {one['cost']:.4g}; {one['limit']} is its limit"
    )
