"""Nodes and GPUs that are slower than their peers, by the runs of all users."""

from collections.abc import Callable, Sequence
from math import log

from slurm_ext.history.views.speed_rows import SpeedRow, speed_rows
from slurm_ext.model.node_speed.residuals import UnitRun
from slurm_ext.model.node_speed.slow import UnitSpeed, UnitSpeeds, unit_speeds
from slurm_ext.report.context import ReportContext
from slurm_ext.report.formatting import counted, percent
from slurm_ext.report.tables import Column, ReportTable, Section

ABOUT = (
    "Each run is compared with runs of the same training on other nodes, so that what a node is"
    " given to do does not count. A node is slow where several users' runs say so; without that,"
    " its figure is what its runs have shown, and no reproach."
)
MOST = 40


def section(context: ReportContext) -> Section:
    """Slow nodes with what to do, then the speed of all that could be compared."""
    period = context.period
    rows = speed_rows(
        context.history, since_s=period.since_s, until_s=period.until_s, account=period.account
    )
    nodes, gpus = by_node(rows), by_gpu(rows)
    return Section(
        key="node_speeds",
        title="Slow nodes",
        answer=_answer(nodes),
        lead=(ABOUT,),
        tables=(_table("nodes", "Nodes", nodes), _table("gpus", "GPUs", gpus)),
    )


def by_node(rows: Sequence[SpeedRow]) -> UnitSpeeds:
    """Speed of nodes; GPUs of other models are no peers, nor CPUs of other numbers of cores."""
    return _speeds(rows, lambda row: row.node)


def by_gpu(rows: Sequence[SpeedRow]) -> UnitSpeeds:
    """Speed of single GPUs, by runs that had one."""
    return _speeds([row for row in rows if row.gpu], lambda row: f"{row.node} {row.gpu}")


def excluding(slow: Sequence[UnitSpeed]) -> str:
    """Advice on slow nodes; empty where there is none."""
    names = ",".join(sorted({change.unit.partition(" ")[0] for change in slow}))
    if not names:
        return ""
    # Two kinds of CPU with as many cores are peers: only the site knows them apart.
    return f"keep jobs off by --exclude={names} until it is repaired, unless its CPU is just older"


def _speeds(rows: Sequence[SpeedRow], unit: Callable[[SpeedRow], str]) -> UnitSpeeds:
    return unit_speeds(
        [
            UnitRun(
                at_s=row.at_s,
                unit=unit(row),
                training=f"{row.training}/{row.gpu_model}",
                user=row.user,
                log_rate=log(row.samples_per_s),
            )
            for row in rows
        ]
    )


def _answer(nodes: UnitSpeeds) -> str:
    if not nodes.units:
        return "no training ran on enough nodes to compare them"
    if not nodes.slow:
        return f"none of {counted(len(nodes.units), 'node')}"
    worst = nodes.slow[0]
    return f"{counted(len(nodes.slow), 'node')}: {worst.unit} takes {percent(worst.slower)} longer"


def _table(key: str, title: str, speeds: UnitSpeeds) -> ReportTable:
    """The slow ones first."""
    units = sorted(speeds.units, key=lambda unit: unit.since_s is None)[:MOST]
    columns = (
        Column("unit", title.removesuffix("s").lower() if key == "nodes" else "GPU", "name"),
        Column("slower", "a step takes longer by", "share"),
        Column("low", "at least", "share"),
        Column("high", "at most", "share"),
        Column("runs", "runs", "count"),
        Column("users", "users", "count"),
        Column("since", "slow since", "time"),
        Column("advice", "what to do", "words"),
    )
    return ReportTable(
        key=key,
        title=title,
        columns=columns,
        rows=[
            (
                unit.unit,
                unit.slower,
                unit.low,
                unit.high,
                unit.runs,
                unit.users,
                unit.since_s,
                excluding([unit]) if unit.since_s is not None else "",
            )
            for unit in units
        ],
        note=f"By {counted(speeds.runs, 'run')} of trainings that ran on three nodes or more.",
        folded=not speeds.slow,
    )
