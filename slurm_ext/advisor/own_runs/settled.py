"""Worker counts at which searches stayed, by command and folder: the next run starts there.

A small file that `dlqueue run` can read before the program starts; the history is for people.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

NAME = "settled.json"
MOST = 512  # commands that are remembered
_MOST_BYTES = 64 * 1024
_MOST_WORKERS = 1024


def key_of(argv: Sequence[str], work_dir: str) -> str:
    """The same words in the same folder are the same program."""
    text = "\0".join([work_dir, *argv]).encode("utf-8", "surrogateescape")
    return blake2b(text, digest_size=16).hexdigest()


def settled_workers(own: Path, key: str) -> int | None:
    """Workers at which its last search stayed; None: none is known."""
    workers = _read(own / NAME).get(key)
    return workers if type(workers) is int and 1 <= workers <= _MOST_WORKERS else None


def remember(own: Path, key: str, summaries: Sequence[Mapping[str, Any]]) -> None:
    """Note where the search of this run stayed; one without an end forgets nothing."""
    workers = workers_of(summaries)
    if workers is None:
        return
    known = {name: value for name, value in _read(own / NAME).items() if name != key}
    newest = dict([*known.items(), (key, workers)][-MOST:])
    hidden = own / f".{NAME}"
    with suppress(OSError):  # the next run starts from the user's own setting
        hidden.write_text(json.dumps(newest))
        hidden.replace(own / NAME)


def workers_of(summaries: Sequence[Mapping[str, Any]]) -> int | None:
    """Workers at which the search of the loader with the most samples stayed."""
    loaders = [loader for summary in summaries for loader in summary["loaders"]]
    found = [one for one in loaders if (one.get("tuned") or {}).get("workers") is not None]
    if not found:
        return None
    busiest = max(found, key=lambda one: sum(phase["samples"] for phase in one["phases"]))
    workers: int = busiest["tuned"]["workers"]
    return workers


def _read(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        if path.stat().st_size <= _MOST_BYTES:
            known = json.loads(path.read_bytes())
            return known if isinstance(known, dict) else {}
    return {}
