"""`dlqueue doctor`: what is missing or misconfigured on this machine."""

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from slurm_ext.cli.doctor.finding import Finding

HELP = (
    "Look at this machine and say what is missing or misconfigured; exit 1 where something fails."
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument(
        "--nagios",
        action="store_true",
        help="as a monitoring plugin: one line first, exit 0 ok, 1 warning, 2 critical, 3 unknown",
    )


def run(args: argparse.Namespace) -> int:
    """Print every finding; 1 where one of them is a failure."""
    from slurm_ext.cli.doctor.finding import FAIL
    from slurm_ext.cli.doctor.sources import table

    if args.nagios:
        from slurm_ext.cli.doctor import nagios

        return nagios.run(args, lambda args: _look(args)[0])
    findings, counted = _look(args)
    if args.json:
        import json

        documents = [asdict(finding) for finding in findings]
        print(json.dumps({"findings": documents, "sources": counted}))
    else:
        _print_table(findings)
        print("\nWhat can be counted about a job on this machine:")
        _console().print(table(counted))
    return int(any(finding.status == FAIL for finding in findings))


def _look(args: argparse.Namespace) -> "tuple[list[Finding], list[dict[str, Any]]]":
    """Every finding, and what can be counted here."""
    from slurm_ext.cli.doctor.access import counters
    from slurm_ext.cli.doctor.checks import examine
    from slurm_ext.cli.doctor.sources import sources
    from slurm_ext.core.settings.document import load

    settings = load(args.config)
    counted = sources(settings)
    return [*examine(settings), *counters(counted)], counted


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
