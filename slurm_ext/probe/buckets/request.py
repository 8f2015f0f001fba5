"""The submission's word on gradient buckets: `DLQUEUE_BUCKETS`, read once from the environment.

`measure`: note when each gradient is ready. `SIGNATURE:RANKS:CAPS`: also give the model of that
signature, in a group of that many ranks, buckets that close at CAPS, in KiB: `4096` for all, or
`512,1024x12,8192` one by one, the last of which holds for all that follow.
"""

from __future__ import annotations

import os
import re
from typing import Mapping

MEASURE = "measure"
_MOST_CAPS, _MOST_KIB = 256, 1 << 22
_FORM = re.compile(r"([0-9a-f]{12}):([1-9][0-9]{0,6}):([0-9x,]{1,220})")
_CAP = re.compile(r"([1-9][0-9]{0,6})(?:x([1-9][0-9]{0,2}))?")


class BucketRequest:
    """A signature, the ranks of its group, and where its buckets close (KiB); or only measuring."""

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        text = env.get("DLQUEUE_BUCKETS", "")
        form = _FORM.fullmatch(text)
        caps = _caps(form.group(3)) if form else ()
        self.measures = text == MEASURE or bool(caps)
        self.caps_kib = caps
        self.signature = form.group(1) if form and caps else ""
        self.ranks = int(form.group(2)) if form and caps else 0
        self.text = form.group(3) if form and caps else ""


def _caps(text: str) -> tuple[int, ...]:
    """The caps one by one; none where the text is of another form."""
    caps: list[int] = []
    for part in text.split(","):
        form = _CAP.fullmatch(part)
        if form is None or int(form.group(1)) > _MOST_KIB:
            return ()
        caps += [int(form.group(1))] * int(form.group(2) or 1)
    return tuple(caps) if len(caps) <= _MOST_CAPS else ()
