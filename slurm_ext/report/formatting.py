"""Values as people read them, in every format. Names are users' words: shown, not obeyed."""

import re
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

ABSENT = "-"
_TIMES = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))
_SIZES = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))
_ENERGIES = ((3.6e9, "MWh"), (3.6e6, "kWh"), (3.6e3, "Wh"), (1.0, "J"))
# Marks that change the direction of what follows them, in a table or a terminal.
_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_HIDDEN = {"Cc", "Cs", "Co", "Cn", "Zl", "Zp"}
_MOST = 120
WORDS = ("text", "name", "words")  # kinds that are no figures
_HEAT = (0.5, 0.7, 0.85, 0.95, 1.05)
# As loops write them: `job 41, 42`, `requeue 41` (not `requeue 2->4 GPUs`), `41.0 at least 90%`.
_JOBS = re.compile(
    r"\bjob \d+(?:_\d+)?(?:, \d+)*|(?<=requeue )\d+\b(?!->)"
    r"|\b\d+\.\d+(?= (?:at least|may run|has not agreed)\b)"
)


def shown(value: Any, kind: str = "text") -> str:
    """A cell's text; what was not measured is a dash, never 0."""
    if value is None or (kind == "words" and not value):
        return ABSENT
    if kind in WORDS or isinstance(value, str):
        return name(value)
    return _SHOWN[kind](value)


def name(value: Any) -> str:
    """A user's words in one line: nothing that breaks it, turns it round or cannot be seen."""
    text = str(value)
    cut = text if len(text) <= _MOST else text[: _MOST - 1] + "…"
    return "".join("·" if _hidden(char) else char for char in cut) or "(no name)"


def without_jobs(text: str) -> str:
    """A sentence about a move with no number of a job in it: `it goes after another job`."""
    return _JOBS.sub("another job", text)


def moment(seconds: float) -> str:
    """A time in UTC; one that no calendar has, as its number."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return f"{seconds:g} s"


def counted(number: float, noun: str) -> str:
    """`1 run`, `1,024 runs`."""
    return f"{number:,.0f} {noun}" + ("" if number == 1 else "s")


def percent(share: float) -> str:
    """A share of 1: `12 %`, `0.4 %`."""
    near = abs(share)
    digits = 0 if near >= 0.1 or near == 0 else 1
    return f"{100 * share:.{digits}f} %"


def change(ratio: float) -> str:
    """A ratio as what it changes: `+34 %`; from twice on `2.1x`."""
    return f"{ratio:.2g}x" if ratio >= 2 else f"{100 * (ratio - 1):+.1f} %"


def hours(value: float) -> str:
    """Hours of anything: `12,345`, `1.5`."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def money(value: float) -> str:
    """An amount; its currency stands in the heading: `12,345`, `1.80`."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


def seconds(value: float) -> str:
    """A duration in its largest unit: `2.8 h`."""
    return _scaled(value, _TIMES)


def energy(joules: float) -> str:
    """Joules as people pay for them: `12.3 kWh`."""
    return _scaled(joules, _ENERGIES)


def _scaled(value: float, units: tuple[tuple[float, str], ...]) -> str:
    size, unit = next((part for part in units if abs(value) >= part[0]), units[-1])
    return (
        f"{value / size:,.3g} {unit}" if abs(value / size) < 1000 else f"{value / size:,.0f} {unit}"
    )


def _hidden(char: str) -> bool:
    return char in _TURNING or unicodedata.category(char) in _HIDDEN


_SHOWN: dict[str, Callable[[Any], str]] = {
    "id": str,
    "count": lambda value: f"{value:,.0f}",
    "number": lambda value: f"{value:.4g}",
    "share": percent,
    "change": change,
    "hours": hours,
    "money": money,
    "seconds": seconds,
    "bytes": lambda value: _scaled(value, _SIZES),
    "rate": lambda value: f"{value:.4g}/s",
    "energy": energy,
    "time": moment,
}


def heat(ratio: Any) -> str:
    """CSS class of a ratio, from `heat-0` (half the speed or less) to `heat-5` (faster)."""
    if not isinstance(ratio, (int, float)):
        return ""
    return f"heat-{sum(ratio >= limit for limit in _HEAT)}"
