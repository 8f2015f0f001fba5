"""An advice, and the order of several: most removable seconds first, then what costs least."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

WORTH = 0.10  # of a step: fewer removable seconds are not worth a user's time
ALIKE = 0.9  # of the largest: removable seconds so near to each other are the same


class Cost(IntEnum):
    """Effort of an advice for the user."""

    SETTING = 0  # an option of the program or of the submission
    RESOURCE = 1  # more of the cluster
    CODE = 2  # other code, data in another form, or other numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One thing to do about one cause of lost time."""

    word: str  # one of words.py
    action: str  # its name in JSON: more_workers, persistent_workers, ...
    next: str  # a clause for the user
    cost: Cost = Cost.SETTING
    removable_s: float = 0.0  # of a step
    share: float = 0.0  # of the step that is removable
    low_s: float | None = None  # its 90 % interval, where known
    high_s: float | None = None
    value: int | None = None  # of the option
    workers: int | None = None  # to set beside `value`, where that alone would not do it
    option: str = ""  # to set, in the words of the program's framework


def ordered(unordered: Iterable[Advice]) -> Iterator[Advice]:
    """Largest removable seconds first; among those that are alike, the cheapest."""
    left = sorted(unordered, key=lambda advice: -advice.removable_s)
    while left:
        alike = [advice for advice in left if advice.removable_s >= ALIKE * left[0].removable_s]
        first = min(alike, key=lambda advice: advice.cost)
        left.remove(first)
        yield first


def as_json(advice: Advice, *, steps: float | None = None) -> dict[str, Any]:
    """Plain values; seconds are those of a run with so many steps, null of a prediction."""
    low_s, high_s = advice.low_s, advice.high_s
    countable = steps is not None and low_s is not None and high_s is not None
    return {
        "word": advice.word,
        "action": advice.action,
        "share": round(advice.share, 4),
        "removable_s": None if steps is None else round(advice.removable_s * steps, 3),
        "interval_s": [round(end_s * (steps or 0.0), 3) for end_s in (low_s or 0.0, high_s or 0.0)]
        if countable
        else None,
        "cost": advice.cost.name.lower(),
        "next": advice.next,
        "option": advice.option or None,
        "value": advice.value,
        "workers": advice.workers,
    }
