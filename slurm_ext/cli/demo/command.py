"""`dlqueue demo`: the whole loop on a private Slurm, as a table."""

import argparse
import sys
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurm_ext.cli.demo.loop import DemoResult, Progress, TrainingRow

HELP = (
    "Start a private Slurm, submit four small PyTorch trainings as naive users write them, learn, "
    "submit the same files again, and show what it changed."
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument(
        "--folder", type=Path, help="where to keep outputs and the report (default: a new one)"
    )


def run(args: argparse.Namespace) -> int:
    """Play the demo and print its table; raises MissingError (with what to install), InputError."""
    from slurm_ext.cli.demo.loop import play, scripts, spec
    from slurm_ext.cli.sandbox.command import settings_of
    from slurm_ext.sandbox import Sandbox

    overrides = settings_of(args.config)
    _need_torch()
    scripts()
    folder = args.folder or _new_folder()
    with _progress() as tell:
        tell("starting a private Slurm")
        with Sandbox(folder / "slurm", spec(overrides)) as sandbox:
            outcome = play(sandbox, tell)
    report = _write_report(folder, outcome)
    if args.json:
        import json

        print(json.dumps({**asdict(outcome), "report": str(report)}))
    else:
        _print_table(outcome, report)
    return 0


def _need_torch() -> None:
    from importlib.util import find_spec

    from slurm_ext.core.errors import Extra

    for module, package in (("torch", "torch"), ("PIL", "pillow")):
        if find_spec(module) is None:
            raise Extra("train").lacks(package)


def _new_folder() -> Path:
    import tempfile

    return Path(tempfile.mkdtemp(prefix="dlqueue-demo-"))


@contextmanager
def _progress() -> "Iterator[Progress]":
    """A line on stderr for each step, with the time it started; a spinner where someone looks."""
    from rich.console import Console

    console = Console(stderr=True, log_path=False)
    with console.status("") as status:

        def tell(doing: str) -> None:
            status.update(doing)
            console.log(doing)

        yield tell


def _write_report(folder: Path, outcome: "DemoResult") -> Path:
    from slurm_ext.report.render import render

    path = folder / "report.md"
    accelerator = "emulated" if any(job.emulated for job in outcome.jobs) else "CUDA"
    path.write_text(render("demo.md.jinja", accelerator=accelerator, **asdict(outcome)))
    return path


def _print_table(outcome: "DemoResult", report: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 110)
    emulated = any(job.emulated for job in outcome.jobs)
    table = Table(
        "script",
        "cpus-per-task",
        "workers",
        "samples/s" + (" (emulated accelerator)" if emulated else ""),
        "predicted (90 % interval)",
        "gain",
        title="The same files, submitted twice with plain sbatch",
    )
    for job in outcome.jobs:
        table.add_row(*_cells(job))
    console.print(table)
    console.print("\nWhat sbatch printed the second time:")
    for job in outcome.jobs:
        console.print(
            f"  {job.script.removesuffix('.sbatch')}: {job.message or 'nothing'}",
            markup=False,
            soft_wrap=True,
        )
    console.print(
        f"\n{outcome.records} runs recorded, {outcome.rejected_jobs} jobs rejected, "
        f"{outcome.drained_nodes} nodes drained. Report: {report}",
        soft_wrap=True,
        highlight=False,
    )


def _cells(job: "TrainingRow") -> list[str]:
    predicted = "not predicted"
    if job.interval and job.predicted_samples_per_s is not None:
        low, high = job.interval
        predicted = f"{job.predicted_samples_per_s:.0f} ({low:.0f} to {high:.0f})"
    before, after = job.samples_per_s
    return [
        job.script.removesuffix(".sbatch"),
        _change(job.cpus_per_task),
        _change(job.num_workers),
        f"{before:.0f} -> {after:.0f}",
        predicted,
        "left alone" if job.left_alone else f"{after / before:.2f}x",
    ]


def _change(pair: tuple[Any, Any]) -> str:
    return str(pair[0]) if pair[0] == pair[1] else f"{pair[0]} -> {pair[1]}"
