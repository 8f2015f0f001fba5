"""Actions of cluster loops on one job, for people."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MOST_SHOWN = 20  # the newest, in the text for people; all of them are in the JSON


def lines(moves: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """One line a move (history/ingest/actions.py), oldest first, in local time."""
    if len(moves) > MOST_SHOWN:
        yield f"moves:    {len(moves) - MOST_SHOWN} earlier ones (--json lists them)"
    for move in moves[-MOST_SHOWN:]:
        yield f"{move['kind'] + ':':<9} {_line(move)}"


def _line(move: Mapping[str, Any]) -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(move["at_s"]))
    shadow = " (shadow: only decided)" if move["mode"] == "shadow" else ""
    came = f"; {move['outcome']}" if move["outcome"] else ""
    return f"{when} {move['done']}{shadow}: {move['why']}{came}"
