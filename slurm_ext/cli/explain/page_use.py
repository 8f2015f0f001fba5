"""The part of a job's page on what it used of what it asked for."""

from collections.abc import Iterator, Mapping
from typing import Any

from slurm_ext.core.units import format_minutes
from slurm_ext.report.formatting import percent, shown
from slurm_ext.report.tables import Chart, ChartSeries, Column, ReportTable, Section, texts

SHARES = {"cpu": "CPUs", "mem": "memory", "gpu": "GPUs", "time": "time"}
UNKNOWN = "not measured"
# Of a sheet (questions/explain/sheet.py): its name for people, and what it is.
_MORE = {
    "queued_s": ("in the queue before", "seconds"),
    "gpu_mem_used_bytes": ("memory of its fullest GPU in use", "bytes"),
    "read_bytes": ("read from files", "bytes"),
    "written_bytes": ("written to files", "bytes"),
    "gpu_energy_j": ("energy of its GPUs (NVML)", "energy"),
    "node_energy_j": ("energy of its nodes' processors (RAPL)", "energy"),
    "samples_per_s": ("samples", "rate"),
    "workers": ("workers of its loader", "count"),
    "wait": ("of its training's time waited for data", "share"),
    "exit_code": ("exit code", "count"),
}


def section(sheet: Mapping[str, Any]) -> Section:
    """Asked against used, and what else was counted."""
    rows = list(_rows(sheet))
    return Section(
        key="use",
        title="What it used",
        answer=f"{sheet['state']} after {_clock(sheet['elapsed_s'])}",
        tables=(_request_table(rows), _more(sheet)),
    )


def _rows(sheet: Mapping[str, Any]) -> Iterator[tuple[str, str, str, float | None]]:
    """Resource, asked for, used, and the share; without what the job did not ask for."""
    gpus = None if sheet["gpu"] is None else sheet["gpu"] * sheet["gpus"]
    for key, limit, used in (
        ("cpu", _number(sheet["cpus"]), _number(sheet["cpus_used"], " busy")),
        ("mem", _bytes(sheet["mem_bytes"]), _bytes(sheet["mem_used_bytes"])),
        ("gpu", _number(sheet["gpus"] or None), _number(gpus, " busy")),
        ("time", _clock(sheet["time_limit_s"]), _clock(sheet["elapsed_s"])),
    ):
        if limit:
            yield SHARES[key], limit, used or UNKNOWN, sheet[key]


def _request_table(rows: list[tuple[str, str, str, float | None]]) -> ReportTable:
    shares = [(row[0], row[3]) for row in rows if row[3] is not None]
    by_name = ", ".join(f"{percent(share)} of its {name}" for name, share in shares)
    chart = Chart(
        form="rows",
        about=f"Used: {by_name}.",
        x="share of what it asked for",
        y="",
        series=[ChartSeries("used", [(float(at), row[1]) for at, row in enumerate(shares)])],
        ticks={float(at): name for at, (name, _) in enumerate(shares)},
        most=1.0,
    )
    return ReportTable(
        key="asked",
        title="Asked for and used",
        columns=(
            *texts(("what", "what"), ("asked", "asked for"), ("used", "used")),
            Column("share", "share", "share"),
        ),
        rows=rows,
        chart=chart if shares else None,
    )


def _more(sheet: Mapping[str, Any]) -> ReportTable:
    measured = {key: sheet[key] for key in _MORE if sheet[key] is not None}
    rows = [(_MORE[key][0], shown(value, _MORE[key][1])) for key, value in measured.items()]
    if sheet["gpu_models"]:
        rows.insert(0, ("GPU", " + ".join(sheet["gpu_models"])))
    columns = texts(("what", "what"), ("value", "how much"))
    return ReportTable(key="more", title="Counted besides", columns=columns, rows=rows)


def _number(value: float | None, of: str = "") -> str:
    return "" if value is None else f"{value:.3g}{of}"


def _bytes(value: float | None) -> str:
    return "" if value is None else shown(value, "bytes")


def _clock(seconds: float | None) -> str:
    return "" if seconds is None else format_minutes(seconds / 60)
