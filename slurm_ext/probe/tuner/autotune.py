"""Which worker count to measure next, and where to stay: pure decisions on measured rates.

`next_count` is the whole search: it gets the rates of the counts tried so far and names the next
count; a count that was tried already is where the loader stays. More workers are tried while the
loop waits for them, as many as the measured cost of a batch asks for; fewer where they can give the
same rate. Nothing here knows a loader, a clock or a model.
"""

from __future__ import annotations

import math
from statistics import median
from typing import Dict, NamedTuple

LEAST_WAIT = 0.03  # of the time: more workers cannot pay for a loop that waits less
_SOME_WAIT, _MUCH_WAIT = 0.05, 0.15
_SAME = 0.03  # rates that differ by less are the same,
_SAME_AT_MOST = 0.06  # or by less than their noise, within reason
_SPARE = 1.15  # workers beyond the mean need, because batches are not all alike
_FIRST_JUMP, _JUMP_TIMES = 8, 3
_IDLE = 0.5  # of the time that a batch may take
MOST_TRIES = 8

LEAST_BLOCKS, MOST_BLOCKS = 3, 8
_CLEAR_BLOCKS = 2
_ERROR = 0.015  # of a rate: what is known better needs no further block
_WORSE, _BETTER = 0.85, 1.15  # of the best rate so far: clear after two blocks


class Rate(NamedTuple):
    """Measurement of one worker count: batches/s, its relative error, and seconds of a batch."""

    batches_per_s: float
    error: float
    wait: float  # share of the time
    step_s: float
    fetch_s: float  # of one worker with a core of its own, on the wall; 0: unknown
    cpu_s: float  # of one worker
    idle: bool = False  # workers had each batch long before it was asked for


class Block(NamedTuple):
    """Some batches in a row, whole rounds over the workers: how many, seconds, waiting."""

    batches: int
    seconds: float
    wait_s: float

    def plus(self, other: Block) -> Block:
        """Both, as one block."""
        return Block(
            self.batches + other.batches,
            self.seconds + other.seconds,
            self.wait_s + other.wait_s,
        )


Tried = Dict[int, Rate]


def enough(blocks: list[Block], best: float | None) -> bool:
    """True if a count's blocks tell its rate well enough to go on; `best` is of other counts."""
    rates = [block.batches / block.seconds for block in blocks]
    clear = best is not None and (max(rates) < _WORSE * best or min(rates) > _BETTER * best)
    if clear and len(rates) >= _CLEAR_BLOCKS:
        return True
    return len(rates) >= MOST_BLOCKS or (len(rates) >= LEAST_BLOCKS and _error(rates) <= _ERROR)


def rate(
    blocks: list[Block], fetch_s: float, cpu_s: float, start_s: float, made_s: float = 0.0
) -> Rate:
    """The rate of one count: the median block's, less what each batch bears of starting workers.

    It is no higher than what the workers make, one batch in `made_s`: batches that were made ahead
    flatter a block.
    """
    rates = [block.batches / block.seconds for block in blocks]
    batches = sum(block.batches for block in blocks)
    seconds = sum(block.seconds for block in blocks)
    wait_s = sum(block.wait_s for block in blocks)
    return Rate(
        batches_per_s=1 / (max(1 / median(rates), made_s) + start_s),
        error=_error(rates),
        wait=wait_s / seconds,
        step_s=(seconds - wait_s) / batches,
        fetch_s=fetch_s,
        cpu_s=cpu_s,
    )


def idle(blocks: list[Block], fetch_s: float, slowest_s: float, count: int, under_way: int) -> bool:
    """True if the loop waits for something else than its `count` workers, such as a core.

    They have little to do, and no fetch takes so long that the batches under way run out meanwhile.
    Both times are as they came, waiting for cores included.
    """
    each_s = sum(block.seconds for block in blocks) / sum(block.batches for block in blocks)
    return fetch_s < _IDLE * count * each_s and slowest_s < _IDLE * under_way * each_s


def _error(rates: list[float]) -> float:
    """Relative standard error of the median, from the spread around it."""
    middle = median(rates)
    spread = 1.4826 * median([abs(one - middle) for one in rates])
    return 1.25 * spread / math.sqrt(len(rates)) / middle


def best_of(tried: Tried) -> int:
    """The smallest count whose rate is the highest one's, but for noise."""
    top = max(tried.values())
    return min(count for count, one in tried.items() if _as_good(one, top))


def _as_good(one: Rate, top: Rate) -> bool:
    same = min(_SAME_AT_MOST, max(_SAME, one.error + top.error))
    return one.batches_per_s >= (1 - same) * top.batches_per_s


def next_count(tried: Tried, most: int, cores: float) -> int:
    """The count to measure next, `most` at most; one of `tried`: stay there.

    `cores` are those that the loader's workers share with the training. A loader without workers
    of its own starts at 0, in the training process, and comes back to it where nothing is better.
    """
    best = best_of(tried)
    if len(tried) >= MOST_TRIES:
        return best
    for wanted in (_more(tried, best, cores), _fewer(tried, best)):
        count = best if wanted is None else min(wanted, most)
        if count not in tried and _may_pay(tried, count):
            return count
    return best


def _more(tried: Tried, best: int, cores: float) -> int | None:
    """More workers than the best count so far; None: they would not pay."""
    now = tried[best]
    above = [count for count in tried if count > best]
    if now.wait <= LEAST_WAIT or now.idle:
        return None
    if not above:
        return _jump(now, best, cores)
    failed = min(above)
    between = round(math.sqrt(max(best, 1) * failed))
    return between if len(above) == 1 and failed > 2 * best + 1 else None


def _jump(now: Rate, best: int, cores: float) -> int | None:
    """As many as the step's pace needs and the cores can run; some more if that is no more."""
    furthest = _JUMP_TIMES * best or _FIRST_JUMP
    known = now.fetch_s and now.step_s
    needed = math.ceil(_SPARE * now.fetch_s / now.step_s) if known else 2 * best + 1
    busy = (1 - _SAME) * cores  # what is left is not worth a worker
    run = math.ceil(busy * now.fetch_s / now.cpu_s) if now.cpu_s else furthest
    target = max(1, min(needed, run, furthest))
    if target > best:
        return target
    if best < run and now.wait > _SOME_WAIT:
        return best + max(1, best // 2)
    return best + 1 if best == run and now.wait > _MUCH_WAIT else None


def _fewer(tried: Tried, best: int) -> int | None:
    """Fewer workers that could give the best count's rate; None: there are none."""
    now = tried[best]
    fetches = [one.fetch_s for one in tried.values() if one.fetch_s]
    if best <= 1 or not fetches:
        return None
    below = max([count for count in tried if count < best], default=0)
    spare = _SPARE if now.wait <= LEAST_WAIT else 1 - _SAME
    needed = max(1, math.ceil(spare * now.batches_per_s * min(fetches)))
    failed = below >= needed
    count = (below + best) // 2 if failed else needed
    return count if below < count < best else None


def _may_pay(tried: Tried, count: int) -> bool:
    """False where so few workers cannot reach the best rate, at the lowest cost seen."""
    fetches = [one.fetch_s for one in tried.values() if one.fetch_s]
    if not fetches or count == 0:
        return True
    top = max(tried.values()).batches_per_s
    return count / min(fetches) >= (1 - _SAME_AT_MOST) * top
