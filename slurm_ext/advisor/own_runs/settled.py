"""Worker counts at which searches stayed, by command and folder: the next run starts there.

A small file that `dlqueue run` can read before the program starts; the history is for people.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

NAME = "settled.json"
MOST = 512  # commands that are remembered
_MOST_BYTES = 64 * 1024
_MOST_WORKERS = 1024


def key_of(argv: Sequence[str], work_dir: str) -> str:
    """The same words in the same folder are the same program."""
    from hashlib import blake2b

    text = "\0".join([work_dir, *argv]).encode("utf-8", "surrogateescape")
    return blake2b(text, digest_size=16).hexdigest()


def settled_workers(own: str, argv: Sequence[str], work_dir: str) -> int | None:
    """Workers at which the program's last search stayed; None: none is known."""
    settled = _read(own)
    workers = settled.get(key_of(argv, work_dir)) if settled else None
    return workers if type(workers) is int and 1 <= workers <= _MOST_WORKERS else None


def remember(
    own: str, argv: Sequence[str], work_dir: str, summaries: Sequence[Mapping[str, Any]]
) -> None:
    """Note where the search of this run stayed; one without an end forgets nothing."""
    workers = workers_of(summaries)
    if workers is None:
        return
    import json

    key = key_of(argv, work_dir)
    settled = {name: value for name, value in _read(own).items() if name != key}
    newest = dict([*settled.items(), (key, workers)][-MOST:])
    hidden = os.path.join(own, f".{NAME}")
    try:
        with open(hidden, "w", encoding="utf-8") as file:
            file.write(json.dumps(newest))
        os.replace(hidden, os.path.join(own, NAME))
    except OSError:
        pass  # the next run starts from the user's own setting


def workers_of(summaries: Sequence[Mapping[str, Any]]) -> int | None:
    """Workers at which the search of the loader with the most samples stayed."""
    loaders = [loader for summary in summaries for loader in summary["loaders"]]
    tuned = [loader for loader in loaders if (loader.get("tuned") or {}).get("workers") is not None]
    if not tuned:
        return None
    busiest = max(tuned, key=lambda loader: sum(phase["samples"] for phase in loader["phases"]))
    workers: int = busiest["tuned"]["workers"]
    return workers


def _read(own: str) -> dict[str, Any]:
    """The memory; empty where its file is absent, damaged or too large."""
    try:
        with open(os.path.join(own, NAME), "rb") as file:
            raw = file.read(_MOST_BYTES + 1)
        if len(raw) > _MOST_BYTES:
            return {}
        import json

        document = json.loads(raw)
    except (OSError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
