"""Pure: the summary that jobstats leaves in AdminComment, as counters.

`JS1:` and base64 of gzip of JSON: nodes → {total_time: CPU seconds, cpus, used_memory,
total_memory, gpu_utilization: {minor: per cent}, gpu_used_memory: {minor: bytes}} (Princeton
University, jobstats, docs/setup/summaries.md). `JS1:Short` and `JS1:None`: jobs without one.
"""

import binascii
import json
import zlib
from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any

MARK = "JS1:"
MOST_BYTES = 4 << 20  # of the summary of a job on thousands of nodes
_EMPTY = {"Short", "None", ""}
_GZIP = 16 + zlib.MAX_WBITS
SOURCE = "jobstats"


class NoSummaryError(Exception):
    """The text after `JS1:` cannot be read."""


def summary_of(comment: str) -> dict[str, Mapping[str, Any]]:
    """Node → its figures; empty where there is no summary. Raises NoSummaryError."""
    text = comment.strip()
    if not text.startswith(MARK) or text[len(MARK) :] in _EMPTY:
        return {}
    try:
        raw = b64decode(text[len(MARK) :], validate=True)
        plain = zlib.decompressobj(_GZIP).decompress(raw, MOST_BYTES)
        nodes = json.loads(plain)["nodes"]
    except (binascii.Error, zlib.error, ValueError, KeyError, TypeError, RecursionError) as error:
        raise NoSummaryError(repr(error)) from None
    if not isinstance(nodes, dict) or not all(isinstance(node, dict) for node in nodes.values()):
        raise NoSummaryError("nodes is no object of objects")
    return nodes


def counters_of(node: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Counters of one node; what its figures lack is left out. None: the summary lacks the node."""
    return list(_counters(node or {}))


def _counters(node: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for key, name, unit in (("total_time", "cpu_user", "s"), ("used_memory", "mem_peak", "B")):
        if _sound(node.get(key)):
            yield _counter(name, unit, SOURCE, node[key])
    for key, name, unit, scale in (
        ("gpu_utilization", "gpu_util", "1", 0.01),
        ("gpu_used_memory", "gpu_mem_peak", "B", 1.0),
    ):
        gpus = node.get(key)
        for minor, value in gpus.items() if isinstance(gpus, dict) else ():
            if _sound(value):
                yield _counter(name, unit, f"{SOURCE}/gpu{minor[:8]}", value * scale)


def _sound(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < 1e18


def _counter(name: str, unit: str, source: str, value: float) -> dict[str, Any]:
    return {"name": name, "unit": unit, "source": source, "value": float(value)}
