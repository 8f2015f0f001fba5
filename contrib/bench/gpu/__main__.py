"""Every figure that needs an NVIDIA GPU, by one command, without Slurm, in at most ten minutes.

Nothing is installed: what is absent is named with its reason. Each row is a process of its own, so
that one that fails, crashes or hangs leaves the others alone; it gets its part of `--seconds`, and
what a short row leaves is the others'. Use a GPU that nobody else uses. `--device cpu` tries the
ways without a GPU; its figures are not a GPU's.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from contrib.bench.common.program import Result, options, run
from contrib.bench.gpu import machine
from contrib.bench.gpu.here import CONTROL, Here
from contrib.bench.gpu.page import line, page
from contrib.bench.gpu.started import row_of
from contrib.bench.gpu.table import ROWS, RowKind, wanted
from slurm_ext.core.errors import UsageError

SECONDS, QUICK_S = 580.0, 180.0


def surroundings(args: argparse.Namespace) -> tuple[Here, dict[str, Any]]:
    """The device and GPUs to use, and facts of the machine."""
    gpus, no_nvml = machine.listed()
    torch = machine.torch_facts()
    works = "" if torch["why"] else "cuda"
    names = machine.chosen(gpus, os.environ)
    names = names or tuple(map(str, range(len(torch.get("devices") or ()))))
    by_uuid = {gpu["uuid"]: gpu.get("name") for gpu in gpus}
    here = Here(
        device="cpu" if args.device == "cpu" else works,
        no_device=str(torch["why"]),
        gpus=names,
        index=machine.index_of(names, gpus),
        gpu_name=str(by_uuid.get(names[0] if names else "") or "GPU"),
        control=str(args.control),
        seconds=0.0,
        folder="",
    )
    return here, {**machine.facts(gpus, torch), "nvml": no_nvml or "answers"}


def measured(rows: Sequence[RowKind], here: Here, seconds: float) -> dict[str, dict[str, Any]]:
    """Each row's outcome, with a line of progress; all within `seconds`."""
    end_s = time.monotonic() + seconds
    whole = sum(kind.weight for kind in rows)
    parts = [f"{kind.name} {seconds * kind.weight / whole:.0f}" for kind in rows]
    print(f"budget: {seconds:.0f} s: {', '.join(parts)}", file=sys.stderr, flush=True)
    outcomes: dict[str, dict[str, Any]] = {}
    for place, kind in enumerate(rows):
        left_s = end_s - time.monotonic()
        part_s = left_s * kind.weight / sum(other.weight for other in rows[place:])
        try:
            outcomes[kind.name] = row_of(kind, here, part_s)
        except KeyboardInterrupt:
            break
        print(line(kind.name, outcomes[kind.name]), file=sys.stderr, flush=True)
    return outcomes


def result(args: argparse.Namespace) -> Result:
    """The benchmark's last line; the page is written on the way."""
    rows = [kind for kind in ROWS if not args.only or kind.name in args.only]
    part = sum(kind.weight for kind in rows) / sum(kind.weight for kind in ROWS)
    seconds = part * (QUICK_S if args.quick else SECONDS) if args.seconds is None else args.seconds
    if not 0 < seconds <= 3600:
        raise UsageError(f"--seconds {seconds:g}: more than 0 and at most 3600 are wanted")
    if args.page and not args.page.parent.is_dir():
        raise UsageError(f"--page {args.page}: there is no folder {args.page.parent}")
    began = time.monotonic()
    here, facts = surroundings(args)
    note = _note(here)
    if note:
        print(note, file=sys.stderr, flush=True)
    outcomes = measured(rows, here, seconds - (time.monotonic() - began))
    figures = {"machine": facts, "device": here.device or None, "note": note, "rows": outcomes}
    judged = {} if here.device == "cpu" else outcomes  # no bound is met by another device
    found = {"bench": "gpu", "figures": figures, "wanted": wanted(rows, judged)}
    if args.page:
        args.page.write_text(page(found), encoding="utf-8")
    return found


def _note(here: Here) -> str:
    """A line on a machine that computes on no GPU."""
    if here.device == "cpu":
        return "device cpu: the ways are tried; no figure is a GPU's"
    if not here.device:
        return f"{here.no_device}: rows that compute on a GPU are absent (--device cpu tries them)"
    return ""


def main() -> None:
    """Measure and print."""
    parser = options(__doc__, quick=f"{QUICK_S:g} seconds in all: fewer repeats")
    names = [kind.name for kind in ROWS]
    parser.add_argument("--only", action="append", choices=names, metavar="ROW", help="repeatable")
    parser.add_argument("--seconds", type=float, help=f"for all rows together ({SECONDS:g})")
    parser.add_argument("--page", type=Path, help="write the figures there, as Markdown")
    parser.add_argument("--device", choices=("auto", "cuda", "cpu"), default="auto")
    parser.add_argument("--control", type=Path, default=CONTROL, help=f"of MPS ({CONTROL})")
    run(parser, result, lambda found: print(page(found)))


if __name__ == "__main__":
    main()
