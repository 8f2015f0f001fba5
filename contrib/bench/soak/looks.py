"""Rows of a soak: what the service and the feed did since the row before."""

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from contrib.bench.soak.feed import MOST_WAITING, Feed
from contrib.bench.soak.service import Service
from contrib.bench.soak.times import Times, times_of
from slurm_ext.core.errors import UsageError

ROWS = "rows.jsonl"
NAP_S = 0.02


def soaked(
    folder: Path, seconds: float, every_s: float, *, say: bool = False
) -> list[dict[str, Any]]:
    """Rows of all starts so far, this one's behind them; the last one is of its end."""
    rows = read_rows(folder / ROWS)
    before_s = rows[-1]["t_s"] if rows else 0.0
    with (
        Service(folder) as service,
        Feed(folder) as feed,
        (folder / ROWS).open("a", encoding="ascii") as file,
    ):
        for found in _looks(service, feed, seconds, every_s):
            rows.append({"t_s": round(before_s + found.pop("after_s"), 1), **found})
            file.write(json.dumps(rows[-1]) + "\n")
            file.flush()
            if say:
                print(rows[-1], flush=True)
    return rows


def _looks(
    service: Service, feed: Feed, seconds: float, every_s: float
) -> Iterator[dict[str, float]]:
    """Feed it, and look at it every so often and at the end."""
    began = looked = time.monotonic()
    known, used = feed.taken(), _used(service)
    while looked < began + seconds:
        times, held_back_s = _fed(service, feed, min(looked + every_s, began + seconds))
        now, taken, using = time.monotonic(), feed.taken(), _used(service)
        since_s = now - looked
        found = {"after_s": now - began, "records": taken}
        found["rate"] = round((taken - known) / since_s, 1)
        found["held_back"] = round(held_back_s / since_s, 3)
        found |= {name: round(value, 3) for name, value in service.held().items()}
        yield found | _cores(used, using, since_s) | _waits(times)
        known, looked, used = taken, now, using


def _fed(service: Service, feed: Feed, until: float) -> tuple[list[float], float]:
    """Milliseconds of each submission until then; seconds for which the spool was full."""
    times, held_back_s = list[float](), 0.0
    while (now := time.monotonic()) < until:
        if service.backlog() < MOST_WAITING:
            times += feed.turn()
        else:
            time.sleep(NAP_S)
            held_back_s += time.monotonic() - now
    feed.delivered()
    return times, held_back_s


def _used(service: Service) -> dict[tuple[str, int], Times]:
    return {**service.times(), ("feed", 0): times_of(Path("/proc/self"))}


def _cores(
    before: Mapping[tuple[str, int], Times], now: Mapping[tuple[str, int], Times], since_s: float
) -> dict[str, float]:
    """Cores that each process kept busy, and the share of time in which it waited for one."""
    found: dict[str, float] = {}
    for (kind, pid), times in now.items():
        known = before.get((kind, pid), Times())
        found[f"{kind}_cores"] = round((times.cpu_s - known.cpu_s) / since_s, 3)
        found[f"{kind}_queued"] = round((times.queued_s - known.queued_s) / since_s, 3)
    return found


def _waits(times: list[float]) -> dict[str, float]:
    if len(times) < 2:
        return {}
    return {
        "submit_p50_ms": round(median(times), 3),
        "submit_p99_ms": round(quantiles(times, n=100)[98], 3),
    }


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Rows of earlier starts; the last one may be torn, by a machine that died."""
    if not path.exists():
        return []
    text = path.read_text(encoding="ascii")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="ascii")
    rows = []
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            rows.append({**json.loads(line)})
        except (ValueError, TypeError):
            raise UsageError(f"{path}: line {number} is no row of a soak") from None
    return rows
