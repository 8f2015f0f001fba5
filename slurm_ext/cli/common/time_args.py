"""Times as people type them: `7d`, `2026-01-31`, `2026-01-31T08:00`."""

import argparse
import re

_AGO = re.compile(r"([0-9]{1,6})([dhm])")
_AGO_S = {"d": 86400, "h": 3600, "m": 60}


def seconds_of(option: str, text: str, now_s: float) -> float:
    """Seconds since the epoch of `7d` (ago) or a local date and time. Raises UsageError."""
    from datetime import datetime

    from slurm_ext.core.errors import UsageError

    ago = _AGO.fullmatch(text)
    if ago is not None:
        return now_s - int(ago[1]) * _AGO_S[ago[2]]
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        raise UsageError(
            f"{option} {text!r} is not a time: try 7d, 12h, 2026-01-31 or 2026-01-31T08:00"
        ) from None


MOST = 65536  # CPUs, workers or GPUs of one job: beyond any cluster


def counts(least: int, text: str) -> tuple[int, ...]:
    """`1,2,4`: counts of an axis."""
    words = text.split(",")
    fine = all(word.isascii() and word.isdecimal() and len(word) < 9 for word in words)
    if not fine or not all(least <= int(word) <= MOST for word in words):
        message = f"{text!r}: expected counts from {least} to {MOST} such as 1,2,4"
        raise argparse.ArgumentTypeError(message)
    return tuple(dict.fromkeys(map(int, words)))


def names(text: str) -> tuple[str, ...]:
    """`a100,h100`: GPU types."""
    words = tuple(word.strip() for word in text.split(","))
    if not all(word and word.isprintable() and ":" not in word for word in words):
        message = f"{text!r}: expected names such as a100,h100"
        raise argparse.ArgumentTypeError(message)
    return tuple(dict.fromkeys(words))
