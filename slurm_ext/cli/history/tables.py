"""Tables of `dlqueue history`."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from slurm_ext.cli.common.cells import cell

Row = Mapping[str, Any]
_WRAPPED = ("user", "partition", "name")  # in a narrow terminal; figures stay whole
_PREDICTED = "{after_samples_per_s:.4g} samples/s ({after_low:.4g} to {after_high:.4g})"


def print_runs(rows: Iterable[Row]) -> None:
    """One line a run: job, who, what, shape, outcome, throughput."""
    heads = ("job", "user", "partition", "name", "cpus", "workers", "samples/s", "state", "ended")
    table = Table(*(Column(head, no_wrap=head not in _WRAPPED) for head in heads), box=None)
    for row in rows:
        table.add_row(
            *(cell(row[name]) for name in ("job_id", "user", "partition", "job_name")),
            *(cell(row[name]) for name in ("cpus_per_task", "loader_workers")),
            _rate(row),
            cell(row["state"]),
            cell(_when(row["end_s"])),
        )
    Console().print(table)


def print_job(document: Mapping[str, Any]) -> None:
    """A job's runs one below the other, and what was decided for it."""
    console = Console()
    for row in document["runs"]:
        console.print(_facts(row))
        console.print(_counters(row["counters"]))
    console.print(_decision(document["decision"]))


def _rate(row: Row) -> Text:
    """Samples/s of the whole run, as `dlqueue jobs` has it; with an emulated step it says so."""
    rate = cell(row["loader_whole_samples_per_s"] or row["loader_samples_per_s"])
    return rate + Text(" emulated", style="dim") if row["loader_emulated"] else rate


def _facts(row: Row) -> Table:
    """Lines of one run: user, job, node, end, and what its loader measured."""
    title = Text(f"Job {row['job_id']}, restart {row['restart']}, node ") + cell(row["node"])
    table = Table(title=title, title_justify="left", box=None, show_header=False)
    for name in (
        "job_name",
        "user",
        "account",
        "partition",
        "state",
        "exit_code",
        "source",
        "cpus",
        "cpus_per_task",
        "num_tasks",
        "mem_bytes",
        "gpus",
        "elapsed_s",
        "decision",
        "gpu_energy_j",
        "node_energy_j",
        *(name for name in row if name.startswith("loader_")),
    ):
        table.add_row(name.replace("_", " "), cell(row[name]))
    table.add_row("ended", cell(_when(row["end_s"])))
    for other in row["corunners"]:
        whose = "another user's job" if other["job_id"] is None else f"job {other['job_id']}"
        table.add_row("beside", cell(f"{whose} for {other['overlap_s']} s"))
    return table


def _counters(counters: Iterable[Row]) -> Table:
    table = Table("counter", "value", "unit", "source", box=None)
    for counter in counters:
        table.add_row(*(cell(counter[name]) for name in ("name", "value", "unit", "source")))
    return table


def _decision(ledger: Row | None) -> Table:
    """Lines of one decision; `dlqueue explain` says more."""
    table = Table(title="Decision", title_justify="left", box=None, show_header=False)
    if ledger is None:
        table.add_row("none", Text("the advisor was not asked, or its answer is not in yet"))
        return table
    for name in ("token", "mode", "action", "reason", "message"):
        table.add_row(name, cell(ledger[name]))
    for what in ("cpus", "workers"):
        table.add_row(what, cell(f"{ledger['before_' + what]} -> {ledger['after_' + what]}"))
    if ledger["after_samples_per_s"] is not None:
        table.add_row("predicted", cell(_PREDICTED.format(**ledger)))
    return table


def _when(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return f"{seconds:g}"  # a clock that was far off
