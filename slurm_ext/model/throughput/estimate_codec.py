"""An Estimate as one short line, which travels with the job to the node's controller.

The user can write anything into it: what does not describe a possible curve reads as None.
A step on CPUs adds two cells at the end, which an older node refuses: it leaves such a job alone.
"""

import json
from math import inf, isfinite
from typing import Any

from slurm_ext.core.records import Level
from slurm_ext.model.throughput.estimate import Estimate
from slurm_ext.model.throughput.inversion import LogNormal

VERSION = 1
MAX_CHARS = 256
_MOST_LOG, _MOST_SD = 50.0, 5.0
_MOST = 1e15
_PARAMETERS = ("accel", "wall", "cpu", "efficiency")
_COSTS = (
    "main_cpu_s",
    "receive_s",
    "slice_s",
    "sample_bytes",
    "batch_size",
    "bytes_per_sample",
)
_MAYBE = ("storage_samples_per_s", "worker_rss_bytes")  # null: not known
_LEVELS = (
    Level.SCRIPT_ARGS,
    Level.SCRIPT,
    Level.USER_NAME,
    Level.KIND,
    Level.CLUSTER,
    Level.OWN_KIND,
    Level.ACCOUNT_KIND,
)
"""By number: jobs that run across an update keep what they were told."""
STEP_CELLS = 2  # threads, grows
CELLS = 1 + 2 * len(_PARAMETERS) + len(_COSTS) + len(_MAYBE) + 5


def write(estimate: Estimate) -> str:
    """At most MAX_CHARS of plain text; of many shapes seen, as many as fit."""
    pairs = [list(pair) for pair in estimate.seen]
    while len(text := _text(estimate, pairs)) > MAX_CHARS and pairs:
        pairs.pop()
    return text


def read(text: str) -> Estimate | None:
    """The Estimate of a line, None where it is none."""
    try:
        row = json.loads(text) if len(text) <= MAX_CHARS else None
        whole = (
            isinstance(row, list) and len(row) in (CELLS, CELLS + STEP_CELLS) and row[0] == VERSION
        )
        return _estimate(row) if whole and row is not None else None
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
        return None


def _text(estimate: Estimate, pairs: list[list[float]]) -> str:
    row: list[Any] = [VERSION]
    for name in _PARAMETERS:
        parameter = getattr(estimate, name)
        row += [_short(parameter.log_mean), _short(parameter.log_sd)]
    row += [_short(getattr(estimate, name)) for name in (*_COSTS, *_MAYBE)]
    epoch = None if estimate.epoch_samples == inf else _short(estimate.epoch_samples)
    row += [epoch, int(estimate.emulated), _LEVELS.index(estimate.level), estimate.runs]
    row.append([[w, _short(c)] for w, c in pairs])
    if estimate.threads:
        row += [_short(estimate.threads), int(estimate.grows)]
    return json.dumps(row, separators=(",", ":"))


def _short(value: float | None) -> float | int | None:
    if value is None:
        return None
    rounded = float(f"{value:.4g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e9 else rounded


def _estimate(row: list[Any]) -> Estimate:
    cells = iter(row[1:])
    parameters: Any = {name: _parameter(next(cells), next(cells)) for name in _PARAMETERS}
    costs: Any = {name: _number(next(cells)) for name in _COSTS}
    maybe = {name: _maybe(next(cells)) for name in _MAYBE}
    epoch, emulated, level, runs, counts, *step = cells  # ValueError for fewer
    threads, grows = step or (0.0, 0)
    rss = maybe["worker_rss_bytes"]
    return Estimate(
        **parameters,
        **costs,
        storage_samples_per_s=maybe["storage_samples_per_s"],
        worker_rss_bytes=None if rss is None else int(rss),
        epoch_samples=_maybe(epoch) or inf,
        emulated=(False, True)[int(_number(emulated))],
        level=_LEVELS[int(_number(level))],
        runs=int(_number(runs)),
        seen=tuple((int(_number(w)), _number(c, above=0.0)) for w, c in _list(counts)),
        threads=_number(threads),
        grows=(False, True)[int(_number(grows))],
    )


def _parameter(mean: object, sd: object) -> LogNormal:
    if abs(value := _number(mean, low=-_MOST_LOG)) > _MOST_LOG:
        raise ValueError("a belief beyond any machine")
    return LogNormal(value, min(_MOST_SD, _number(sd)))


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("not a list")
    return value


def _maybe(value: object) -> float | None:
    return None if value is None else _number(value, above=0.0)


def _number(value: object, low: float = 0.0, above: float = -inf) -> float:
    if type(value) not in (int, float):
        raise TypeError("not a number")
    number = float(value)  # type: ignore[arg-type]  # an int or a float, as just checked
    if not (isfinite(number) and low <= number <= _MOST and number > above):
        raise ValueError("a number out of bounds")
    return number
