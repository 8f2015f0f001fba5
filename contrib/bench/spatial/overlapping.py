"""Overlap of halos and convolutions on two ranks over links of several speeds."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from contrib.bench.buckets.runs import ROOT
from contrib.bench.common.limited_link import Place, linked, to_their_end
from slurm_ext.core.errors import MissingError

MBITS = (50, 200, 1600)


def overlapping(size: int, turns: int, mbits: Sequence[int] = MBITS) -> dict[str, Any]:
    """Of each speed: the step with overlap where the model chose it, and everywhere, over none.

    Without root there are no links to limit, and the answer says so.
    """
    found: dict[str, Any] = {}
    for mbit in mbits:
        try:
            with linked(2, mbit) as places:
                found[f"{mbit} Mbit/s"] = _row(_ran(places, size, turns))
        except MissingError as error:
            return {"why_not": str(error)}
    return found


def _row(ranks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """By the slower rank of each step; the median over all turns."""
    seconds = {}
    for kind in ranks[0]["seconds"]:
        turns = zip(*(rank["seconds"][kind] for rank in ranks), strict=True)
        seconds[kind] = median([max(step) for turn in turns for step in zip(*turn, strict=True)])
    return {
        "chosen": ranks[0]["chosen"],
        "seconds": seconds,
        "chosen_over_none": seconds["chosen"] / seconds["none"],
        "all_over_none": seconds["all"] / seconds["none"],
    }


def _ran(places: Sequence[Place], size: int, turns: int) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="dlqueue-bench-") as folder:
        ranks = [
            _start(place, [str(rank), str(len(places)), str(size), str(turns), f"{folder}/{rank}"])
            for rank, place in enumerate(places)
        ]
        to_their_end(ranks)
        return [json.loads((Path(folder) / str(n)).read_text()) for n in range(len(places))]


def _start(place: Place, words: Sequence[str]) -> "subprocess.Popen[str]":
    program = [sys.executable, "-W", "ignore", "-m", "contrib.bench.spatial.over_link"]
    env = {**os.environ, **place.environment, "OMP_NUM_THREADS": "1"}
    command = [*place.prefix, *program, *words]
    return subprocess.Popen(command, cwd=ROOT, env=env, stderr=subprocess.PIPE, text=True)
