"""`dlqueue doctor`: what is missing or misconfigured on this machine."""

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from slurm_ext.cli.doctor_finding import Finding

HELP = (
    "Look at this machine and say what is missing or misconfigured; exit 1 where something fails."
)


def configure(_parser: argparse.ArgumentParser) -> None:
    """Nothing beyond the common options."""


def run(args: argparse.Namespace) -> int:
    """Print every finding; 1 where one of them is a failure."""
    from slurm_ext.cli.doctor_checks import examine
    from slurm_ext.cli.doctor_finding import FAIL
    from slurm_ext.cli.doctor_sources import sources, table
    from slurm_ext.facts.settings import load

    settings = load(args.config)
    findings, counted = examine(settings), sources(settings)
    if args.json:
        import json

        found = [asdict(finding) for finding in findings]
        print(json.dumps({"findings": found, "sources": counted}))
    else:
        _print_table(findings)
        print("\nWhat can be counted about a job on this machine:")
        _console().print(table(counted))
    return int(any(finding.status == FAIL for finding in findings))


def _print_table(findings: "list[Finding]") -> None:
    from rich.markup import escape
    from rich.table import Table

    colours = {"ok": "green", "warn": "yellow", "fail": "red"}
    table = Table("check", "", box=None)
    table.add_column("seen", overflow="fold")  # a path that is cut short helps nobody
    table.add_column("what to do")
    for finding in findings:
        status = f"[{colours[finding.status]}]{finding.status}[/]"
        table.add_row(finding.name, status, escape(finding.seen), escape(finding.advice))
    _console().print(table)


def _console() -> "Console":
    from rich.console import Console

    return Console()
