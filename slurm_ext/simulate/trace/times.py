"""Times of traces as seconds: numbers as they are, dates by their zone or the default one."""

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from math import inf
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from slurm_ext.core.errors import UsageError

MOST = 1e12  # seconds: 31,700 years; a date in milliseconds is more


def number(text: str) -> float:
    """Number in a text; Python's 1_0 for 10 is none. Raises ValueError."""
    if "_" in text:
        raise ValueError(f"{text[:40]!r} is no number")
    return float(text)


class Clock:
    """Reads the times of one file, which must all be of one kind."""

    def __init__(self, zone: tzinfo) -> None:
        """`zone`: of dates that name none."""
        self._zone = zone
        self._kind: str | None = None

    def seconds(self, text: str, *, not_before: float = -inf) -> float:
        """Seconds since the epoch, or since whatever the file counts from. Raises ValueError.

        `not_before`: decides which one is meant of the hours that a clock repeats.
        """
        try:
            value, kind = number(text), "seconds"
        except ValueError:
            value, kind = self._dated(text, not_before)
        if not abs(value) <= MOST:
            raise ValueError(f"{text[:40]!r} is no time in seconds (or is it in milliseconds?)")
        if self._kind not in (None, kind):
            raise ValueError(f"{text!r} is of the kind '{kind}', earlier times '{self._kind}'")
        self._kind = kind
        return value

    def _dated(self, text: str, not_before: float) -> tuple[float, str]:
        try:
            moment = datetime.fromisoformat(text.strip())
        except ValueError:
            expected = "seconds or 2026-01-31T08:00:00, with +01:00 or not"
            raise ValueError(f"{text[:40]!r} is no time: expected {expected}") from None
        kind = "dates with a zone" if moment.tzinfo else "dates without a zone"
        dated = moment if moment.tzinfo else moment.replace(tzinfo=self._zone)
        try:
            if moment.tzinfo is None and dated.timestamp() < not_before:
                dated = dated.replace(fold=1)
            return dated.timestamp(), kind
        except OverflowError:  # the first or the last hours of all years, in a zone
            raise ValueError(f"{text[:40]!r} is no time that can be counted") from None


def zone_of(text: str) -> tzinfo:
    """A time zone by name (Europe/Berlin, UTC) or offset (+02:00). Raises UsageError."""
    if text == "UTC":
        return UTC
    try:
        if text[:1] in "+-" and len(text) == 6:
            hours, minutes = int(text[:3]), int(text[0] + text[4:])
            return timezone(timedelta(hours=hours, minutes=minutes))
        return ZoneInfo(text)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        raise UsageError(
            f"--timezone {text!r}: expected a name as Europe/Berlin, or an offset as +02:00"
        ) from None
