"""Sizes at which gradient buckets close, in KiB, as DLQUEUE_BUCKETS and records have them.

`4096` for all; `512,1024x12,8192` one by one, the last of which holds for all that follow. The
probe, which imports nothing of this room, reads the same form (probe/buckets/request.py).
"""

import re
from collections.abc import Sequence
from itertools import groupby

MOST_KIB = 1 << 22  # of one bucket
_CAP = "[1-9][0-9]{0,6}(x[1-9][0-9]{0,2})?"
_FORM = re.compile(f"{_CAP}(,{_CAP}){{0,63}}")


def is_caps(text: str) -> bool:
    """True if a text has this form."""
    return bool(_FORM.fullmatch(text))


def as_text(caps_kib: Sequence[float]) -> str:
    """The text of these sizes; each is at least 1 KiB."""
    whole = [min(MOST_KIB, max(1, int(cap))) for cap in caps_kib]
    runs = [(cap, len([*same])) for cap, same in groupby(whole)]
    return ",".join([f"{cap}x{count}" if count > 1 else f"{cap}" for cap, count in runs])


def as_mib(caps: str) -> list[float]:
    """The sizes of such a text one by one, in MiB, as torch takes them."""
    parts = [part.partition("x") for part in caps.split(",")]
    return [int(kib) / 1024 for kib, _, times in parts for _ in range(int(times or 1))]
