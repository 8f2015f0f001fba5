"""The part of a job's page on its use over time: a plot for each resource, a line for each node."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean
from typing import Any

from slurm_ext.questions.explain.time_line import RESOURCES, highest
from slurm_ext.report.formatting import seconds, shown
from slurm_ext.report.tables import Chart, ChartSeries, Column, Kind, ReportTable, Section

Runs = Sequence[Mapping[str, Any]]
_WAIT: tuple[str, str, None, Kind] = ("waiting", "wait", None, "share")
_DRAWN = (*RESOURCES, _WAIT)
# Values of a series: title of their plot, its axis, and the axis's word for their unit.
_TITLES = {
    "cpus": ("CPUs at work", "CPUs"),
    "mem_bytes": ("Memory in use", ""),
    "gpus": ("GPUs at work", "GPUs"),
    "gpu_mem_bytes": ("Memory of its GPUs in use", ""),
    "read_bytes_per_s": ("Read from files in a second", ""),
    "wait": ("Training that waited for data", "share of its time"),
}
_SIZES = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "bytes"))
_TIMES = ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))
_FEWEST = 3  # of a unit of time, to be the axis's


def sections(runs: Runs) -> Iterator[Section]:
    """None where nothing was sampled."""
    sampled = [run for run in runs if run["series"]]
    if not sampled:
        return
    whole_s = max(run["series"]["end_s"][-1] for run in sampled)
    tables = [
        _table(key, of, kind, mine)
        for _, key, of, kind in _DRAWN
        if (mine := [run for run in sampled if highest(run["series"][key])])
    ]
    yield Section(
        key="time",
        title="Over time",
        answer=f"sampled over {seconds(whole_s)}",
        tables=(*tables, *(_figures(at, run) for at, run in enumerate(sampled))),
    )


def _table(key: str, of: str | None, kind: Kind, runs: Runs) -> ReportTable:
    columns = (
        Column("node", "node", "name"),
        Column("mean", "on average", kind),
        Column("most", "at most", kind),
        Column("asked", "asked for", kind),
    )
    rows = [
        (run["node"], mean(_measured(run["series"][key])), highest(run["series"][key]))
        + ((run[of],) if of else ())
        for run in runs
    ]
    return ReportTable(
        key=key,
        title=_TITLES[key][0],
        columns=columns[: len(rows[0])],
        rows=rows,
        chart=_chart(key, of, kind, runs),
    )


def _chart(key: str, of: str | None, kind: Kind, runs: Runs) -> Chart:
    """All nodes in the units of the largest value; gaps are gaps."""
    limits = {run[of] for run in runs if of and run[of]}
    level = limits.pop() if len(limits) == 1 else None
    most = max(highest(run["series"][key]) for run in runs)
    size, unit = _unit(max(most, level or 0.0), _SIZES, 1) if kind == "bytes" else (1, "")
    long_s, time_unit = _unit(max(r["series"]["end_s"][-1] for r in runs), _TIMES, _FEWEST)
    return Chart(
        form="lines",
        about=f"{_TITLES[key][0]}: at most {shown(most, kind)} on one node."
        + (f" It asked for {shown(level, kind)}." if level else ""),
        x=f"{time_unit} since its start",
        y=_TITLES[key][1] or unit,
        series=[
            ChartSeries(run["node"], _points(run["series"], key, long_s, size)) for run in runs
        ],
        level=None if level is None else level / size,
        level_name="asked for",
        shares=kind == "share",
        most=1.0 if kind == "share" else max(most, level or 0.0) / size,
    )


def _points(
    series: Mapping[str, Any], key: str, long_s: float, size: float
) -> list[tuple[float, float]]:
    return [
        (at / long_s, float("nan") if value is None else value / size)
        for at, value in zip(series["end_s"], series[key], strict=True)
    ]


def _unit(value: float, units: Sequence[tuple[float, str]], fewest: float) -> tuple[float, str]:
    return next((unit for unit in units if value >= fewest * unit[0]), units[-1])


def _measured(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _figures(at: int, run: Mapping[str, Any]) -> ReportTable:
    """Every stretch of one node's time, for who cannot see a plot."""
    series = run["series"]
    kinds = {key: kind for _, key, _, kind in _DRAWN}
    there = [key for key in kinds if series[key] is not None]
    return ReportTable(
        key=f"figures-{at}",
        title=f"All samples on {run['node']}",
        columns=(
            Column("end_s", "until", "seconds"),
            *(Column(key, _TITLES[key][0], kinds[key]) for key in there),
        ),
        rows=list(zip(series["end_s"], *(series[key] for key in there), strict=True)),
        folded=True,
    )
