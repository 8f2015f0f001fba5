"""Runs groups of scenarios, each group in a process of its own, with the probe or without.

Prints a line for each group: its name, scenario -> {"result", "rows"}, where `rows` are the
loaders' in the probe's summary (None without the probe), and what was written to standard error if
each group has a process of its own, as all have where there are several.
"""

# ruff: noqa: T201 - its output is its answer

import json
import os
import sys
from tempfile import TemporaryFile
from typing import Any

from tests.probe.in_children import ended_well, in_a_child
from tests.probe.loader_frame import GROUPS


def last_row(before: int) -> Any:
    """Rows of the loaders that came after so many."""
    process = sys.modules.get("_dlqueue_probe.process")
    session = process.ProbeState.session if process else None
    return [meter.row() for meter in session.meters.all[before:]] if session else None


def results(group: str) -> dict[str, Any]:
    """Every scenario of the group, in its turn."""
    found = {}
    for function in GROUPS[group]:
        process = sys.modules.get("_dlqueue_probe.process")
        session = process.ProbeState.session if process else None
        before = len(session.meters.all) if session else 0
        for meter in session.meters.all if session else ():
            meter.facts["of"] = "before"  # alike as they look, these loaders are not one made anew
        if holders := sys.modules.get("_dlqueue_probe.program.holders"):
            holders.Holders.looked_s = 0.0  # each is a program of its own
        if starts := sys.modules.get("_dlqueue_probe.passes.starts"):
            starts.Starts.loses = lambda _: False  # what workers change is asked, not if they pay
        found[function.__name__] = {"result": function(), "rows": last_row(before)}
    return found


def tell(group: str, answer: int, errors: int) -> None:
    """The process of one group: its results and all that it says, its end's words among them."""
    os.dup2(errors, sys.stderr.fileno())
    os.write(answer, json.dumps(results(group)).encode())


def main() -> None:
    """One group after the other; a single one in this very process."""
    groups = sys.argv[1:]
    if len(groups) == 1:
        print(json.dumps([*groups, results(*groups), ""]))
        return
    for group in groups:
        with TemporaryFile("w+") as answer, TemporaryFile("w+") as errors:
            child = in_a_child(tell, group, answer.fileno(), errors.fileno())
            ended_well(child)
            answer.seek(0)
            errors.seek(0)
            print(json.dumps([group, json.load(answer), errors.read()]), flush=True)
