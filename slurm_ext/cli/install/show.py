"""A plan in lines: one for each file, its diff in a dry run, and what to do next."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurm_ext.install.plan import InstallPlan
    from slurm_ext.install.site_files import InstallRoot


def show(
    plan: "InstallPlan",
    place: "InstallRoot",
    in_use: frozenset[Path],
    warnings: list[str],
    args: argparse.Namespace,
) -> None:
    """Print it; `held` are launchers that Slurm still runs."""
    from slurm_ext.install.plan import next_steps

    steps = list(next_steps(plan, place, in_use))
    if args.json:
        print(json.dumps(_as_json(plan, steps, warnings, dry_run=args.dry_run)))
        return
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    for change in plan.real:
        print(change.diff() if args.dry_run else f"{change.word:<8} {change.path}")
    if not plan.real:
        print("every file is as it is to be")
    if steps:
        print("\nnothing was done; afterwards:" if args.dry_run else "\nnow:")
    for step in steps:
        print(f"  {step}")


def _as_json(
    plan: "InstallPlan", steps: list[str], warnings: list[str], *, dry_run: bool
) -> object:
    changes = [
        {"path": str(change.path), "what": change.word, "diff": change.diff()}
        for change in plan.real
    ]
    return {
        "steps": sorted(plan.steps),
        "dry_run": dry_run,
        "changes": changes,
        "warnings": warnings,
        "next": steps,
    }
