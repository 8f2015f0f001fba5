"""`dlqueue predict --what-if` for people: a table, what it rests on, and a plot."""

import sys
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from slurm_ext.advisor.pipeline.message import number
from slurm_ext.cli.predict.text import PLOT_HEIGHT, PLOT_WIDTH, duration, run_time
from slurm_ext.core.errors import Extra
from slurm_ext.report.formatting import counted

WIDTH = 120  # where nobody's terminal says another
_SOMETIMES = {"GPUs": "gpus", "type": "gpu_type"}  # columns that only some tables need
_WORDS = {"cpus_per_task": "cpus-per-task", "num_workers": "workers"}
Row = Mapping[str, Any]


def show(answer: Mapping[str, Any], *, plotted: bool) -> None:
    """Print the document of `--what-if --json` for a person."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    console.print(_table(answer["rows"], str(answer["script"])))
    for line in lines(answer):
        console.print(Text(line), soft_wrap=True)
    if plotted:
        console.print(Text.from_ansi(plot(answer["rows"])))


def lines(answer: Mapping[str, Any]) -> Iterator[str]:
    """The table's evidence, and what is unknown."""
    written = next(row for row in answer["rows"] if "written" in row["marks"])
    yield from _evidence(answer, written)
    already = {answer["queue_why"], None if answer["level"] else written["rate_why"], None}
    for row in answer["rows"]:
        remarks = _remarks(row, already)
        if remarks:
            yield f"{_shape(row)}: {'; '.join(remarks)}"
    yield from (f"left out: {_shape(row)}: {row['why']}" for row in answer["left_out"])
    if not any("recommended" in row["marks"] for row in answer["rows"]):
        yield "recommended: none of these"
    if written["next"]:
        yield f"next:      {written['next']} ({written['bottleneck']})"
    yield f"dlqueue:   {_would(answer)}"


def _evidence(answer: Mapping[str, Any], written: Row) -> Iterator[str]:
    if answer["level"]:
        emulated = "; the accelerator was emulated" if answer["emulated"] else ""
        runs = counted(answer["runs"], "run") if answer["runs"] else "other users' runs"
        alone = "; without the jobs that want the same cores" if answer.get("alone") else ""
        yield f"samples/s: {runs}, {answer['level']}{emulated}{alone}; 90 % intervals"
    else:
        yield f"samples/s: unknown: {written['rate_why']}; a run with the probe would tell"
    yield f"run time:  {_work(answer)}"
    if answer["queue_why"]:
        yield f"wait:      unknown: {answer['queue_why']}"
    if answer["not_believed"]:
        impossible = counted(answer["not_believed"], "run")
        yield f"not believed: {impossible}, whose numbers cannot be true"


def plot(rows: Sequence[Row]) -> str:
    """Samples/s over cores, or over workers where the cores are all the same."""
    with Extra("plots"):
        from plotext import figure

    written = next(row for row in rows if "written" in row["marks"])
    place = ("gpus", "nodes", "gpu_type")
    same = [r for r in rows if r["samples_per_s"] and all(r[k] == written[k] for k in place)]
    axis, word = "cpus_per_task", "CPUs per task"
    if len({row[axis] for row in same}) < 2:
        axis, word = "num_workers", "workers"
    best: dict[int, Row] = {}
    for row in sorted(same, key=lambda row: float(row["samples_per_s"])):
        best[row[axis]] = row
    if len(best) < 2:
        return "(nothing to plot: fewer than two shapes are known)"
    at = sorted(best)
    bounds = ([best[n]["interval"][side] for n in at] for side in (0, 1))
    figure.clear()
    figure.plot_size(PLOT_WIDTH, PLOT_HEIGHT)
    for rates, marker in zip((*bounds, [best[n]["samples_per_s"] for n in at]), "..*", strict=True):
        figure.draw(figure.signal(at, rates, marker=marker).lines())
    figure.title(f"samples/s over {word}, at the best of the rows above")
    return str(figure.build().string(colorless=True))


def _table(rows: Sequence[Row], script: str) -> Table:
    shown = {name: any(row[key] for row in rows) for name, key in _SOMETIMES.items()}
    hours = "GPU-hours" if shown["GPUs"] else "CPU-hours"
    headers = ["", "cores", "workers", *(name for name, used in shown.items() if used)]
    headers += ["samples/s", "limit", "run time", hours, "wait", "result in"]
    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        title_justify="left",
        title=Text(f"{ascii(script)[1:-1]} in other shapes"),
    )
    for header in headers:
        table.add_column(header, no_wrap=True)
    for row in rows:
        style = "bold" if "recommended" in row["marks"] else None
        table.add_row(*map(Text, _cells(row, shown)), style=style)
    return table


def _cells(row: Row, shown: Mapping[str, bool]) -> Iterator[str]:
    marks = {"written": "as written", "recommended": "* recommended"}
    yield ", ".join(marks.get(mark, mark) for mark in row["marks"])
    yield str(row["cpus_per_task"]) + (f" x {row['tasks']}" if row["tasks"] > 1 else "")
    yield str(row["num_workers"])
    if shown["GPUs"]:
        yield str(row["gpus"]) + (f" on {row['nodes']}" if row["nodes"] > 1 else "")
    if shown["type"]:
        yield row["gpu_type"] or "any"
    yield _with_bounds(row["samples_per_s"], row["interval"])
    yield row["bottleneck"] or ""
    yield duration(row["run_s"])
    hours = row["gpu_hours" if shown["GPUs"] else "cpu_hours"]
    yield "unknown" if hours is None else f"{hours:.3g}"
    yield "refused" if row["refused"] else duration(row["wait_s"])
    yield "" if row["refused"] else duration(row["result_s"])


def _remarks(row: Row, already: Set[str | None]) -> list[str]:
    """Slurm's refusal, a fault, what is unknown and why; not what was said of all rows before."""
    refused = row["refused"] and f"Slurm refuses it: {row['refused']}"
    wait = None if row["wait_why"] in already else f"wait unknown: {row['wait_why']}"
    rate = None if row["rate_why"] in already else row["rate_why"]
    return [clause for clause in (refused, row["fault"], rate, wait, *row["notes"]) if clause]


def _with_bounds(value: float | None, interval: Sequence[float] | None) -> str:
    if value is None or interval is None:
        return "unknown"
    return f"{number(value)} ({number(interval[0])} to {number(interval[1])})"


def _work(answer: Mapping[str, Any]) -> str:
    work = answer["work"]
    if work is None and answer.get("run_time"):
        return f"{run_time(answer['run_time'])}; in other shapes unknown: {answer['work_why']}"
    if work is None:
        return f"unknown: {answer['work_why']}"
    low, high = work["outside_s"]
    beside = duration(low) if duration(low) == duration(high) else f"{low:.0f} to {high:.0f} s"
    return (
        f"{work['samples']:.4g} samples as in {counted(work['runs'], 'run')}, {work['level']},"
        f" and {beside} outside of the training loop"
    )


def _would(answer: Mapping[str, Any]) -> str:
    """The change that a submission as written meets, by the site's settings."""
    if answer["action"] != "change":
        return f"would leave it as it is: {answer['why']}"
    shapes = zip(answer["before"].items(), answer["after"].values(), strict=True)
    changes = ", ".join(f"{_WORDS[k]} {old} -> {new}" for (k, old), new in shapes if old != new)
    return f"would change {changes}: {answer['why']} (mode {answer['mode']})"


def _shape(row: Row) -> str:
    kind = f" {row['gpu_type']}" if row["gpu_type"] else ""
    gpus = [counted(row["gpus"], f"{kind} GPU".strip())] if row["gpus"] else []
    parts = [counted(row["cpus_per_task"], "core"), counted(row["num_workers"], "worker"), *gpus]
    return ", ".join(parts)
