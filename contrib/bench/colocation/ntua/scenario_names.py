"""Neighbours of nginx, read from the name of a run's scenario.

Names say numbers before kinds (2_iBench_CPU_pods_1_stress-ng_l3_pod) or behind them (CPU2_L3_1); a
kind without a number is there once. A number that no known kind goes with is somebody else: then
who is there is not known, which is not nobody.
"""

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from contrib.bench.colocation.tables import Cells

KINDS = ("cpu", "l3", "mem")
_WORD = re.compile(r"(cpu|l3|mem)[a-z]*(\d+)?|(?<![a-z\d])(\d+)")
Word = tuple[str, str, str]  # kind, the number written to it, a number apart
Party = list[tuple[str, str]]  # kinds and their numbers, empty where none is written


def neighbours(row: Cells) -> list[float]:
    """Number of each of KINDS; NaN if neither name nor label gives it."""
    if row["Interference_Category"].lower() == "baseline":
        return [0.0] * len(KINDS)
    texts = row["Interference_Name"].lower(), (row.get("Scenario_Label") or "").lower()
    parties = [party for text in texts if (party := _party(text))]
    if not parties:
        return [np.nan] * len(KINDS)
    party = max(
        parties, key=lambda each: all(many for _, many in each)
    )  # the first one that counts
    total: Counter[str] = Counter()
    for kind, many in party:
        total[kind] += int(many or 1)
    return [float(total[kind]) for kind in KINDS]


def _party(text: str) -> Party | None:
    """None where nobody, or somebody else as well, is named."""
    words: list[Word] = _WORD.findall(text)
    if not words:
        return None
    return _counted_before(words) if words[0][2] else _counted_behind(words)


def _counted_before(words: Sequence[Word]) -> Party | None:
    party: Party = []
    waiting = ""
    for kind, joined, apart in words:
        if not kind and waiting:
            return None
        if kind:
            party.append((kind, waiting or joined))
            waiting = joined if waiting else ""
        else:
            waiting = apart
    return None if waiting else party


def _counted_behind(words: Sequence[Word]) -> Party | None:
    party: Party = []
    for kind, joined, apart in words:
        if kind:
            party.append((kind, joined))
        elif party[-1][1]:
            return None
        else:
            party[-1] = party[-1][0], apart
    return party
