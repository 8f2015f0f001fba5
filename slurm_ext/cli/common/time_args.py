"""Times as people type them: `7d`, `2026-01-31`, `2026-01-31T08:00`."""

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
