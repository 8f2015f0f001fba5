"""Errors of the predicted speed of a job beside another, on published tables.

    python -m contrib.bench.colocation --train DIR --test DIR [--json] [--quick]

Both folders hold gpu_coloc/ and cpu_coloc/ with the tables' published names; a table that the test
folder lacks is skipped and named in figures.skipped.

Two different folders: the model learns from all of --train and predicts the rows of --test. The
same folder twice is the development protocol: each family, model or campaign is predicted from
what was learned without it, each part in turn.

Protocols, in this order (each file says what it learns from and what was shaped on the tables):
gavel_tensorflow.py (unseen families, solo counters of a profiler), lucid.py (unseen models, NVML's
solo figures), gavel_completion.py (a new GPU with some of its pairs revealed) and ntua/protocol.py
(unseen campaigns and mixes of CPU interference). Speeds are relative to the job alone; scores.py
defines the figures and says what accept means.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

from contrib.bench.colocation import gavel_completion, gavel_tensorflow, lucid
from contrib.bench.colocation.ntua import protocol as ntua
from contrib.bench.colocation.scores import ProtocolResult
from contrib.bench.common.program import folders, options, run
from slurm_ext.core.errors import DlqueueError, InputError

PROTOCOLS: dict[str, Callable[..., ProtocolResult]] = {
    "colocation_tf": gavel_tensorflow.protocol,
    "colocation_lucid": lucid.protocol,
    "colocation_completion": gavel_completion.protocol,
    "colocation_ntua": ntua.protocol,
}


def result(train: Path, test: Path, *, quick: bool) -> dict[str, Any]:
    """The benchmark's last line. Raises InputError if no protocol finds its tables."""
    began = monotonic()
    figures: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    skipped: list[str] = []
    for name, protocol in PROTOCOLS.items():
        print(f"{name}: learning and predicting", file=sys.stderr)
        try:
            scored = protocol(train, test, quick=quick)
        except DlqueueError as error:
            skipped.append(f"{name}: {error}")
            continue
        figures |= scored.figures
        rows += scored.wanted
        skipped += scored.skipped
    if not figures:
        raise InputError(str(test), "; ".join(skipped))
    figures |= {"skipped": skipped, "quick": quick, "seconds": round(monotonic() - began, 1)}
    return {"bench": "colocation", "figures": figures, "wanted": rows}


def main() -> None:
    """Score and print; 1 where a folder cannot be used."""
    parser = options(__doc__, quick="fewer folds and baselines, to try it")
    same = "folder of tables to predict; the same as --train: leave one family out"
    folders(parser, train="folder of tables to learn from", test=same)
    run(parser, lambda args: result(args.train, args.test, quick=args.quick), _print)


def _print(result: dict[str, Any]) -> None:
    """Errors of every method, for people."""
    figures = result["figures"]
    for line in figures["skipped"]:
        print("left out:", line)
    for protocol, part in figures.items():
        if not isinstance(part, dict) or "ours" not in part:
            continue
        print(f"{protocol}: {part['n']} rows")
        for name, row in (("ours", part["ours"]), *part["baselines"].items()):
            shown = {
                key: row.get(key)
                for key in ("mae", "r2", "spearman", "auc", "coverage90", "harmful_accepts")
            }
            cells = (f"{key} {value:6.3f}" for key, value in shown.items() if value is not None)
            print(f"  {name:<22}" + "  ".join(cells))


if __name__ == "__main__":
    main()
