"""First advice on a run, for people: what to change, what that removes, and the option to set."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MOST_SHOWN = 3  # in the text for people; all of them are in the JSON


def lines(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The first advice, and what comes after it."""
    for place, one in enumerate(found[:MOST_SHOWN]):
        yield f"{'then:' if place else 'advice:':<9} {clause(one)}"


def clause(one: Mapping[str, Any]) -> str:
    """`more workers: ... (data: 31 % of its training, about 420 s): DataLoader(num_workers=4)`."""
    from slurm_ext.core.advice.words import NAMES
    from slurm_ext.report.formatting import percent

    option = f": {one['option']}" if one["option"] else ""
    return f"{one['next']} ({NAMES[one['word']]}: {percent(one['share'])}{_seconds(one)}){option}"


def _seconds(one: Mapping[str, Any]) -> str:
    """Seconds of the run that it removes, with their interval where one is known."""
    if one["removable_s"] is None:
        return " of its time"
    bounds = one["interval_s"]
    between = "" if bounds is None else f", {bounds[0]:.0f} to {bounds[1]:.0f} s"
    return f" of its training, about {one['removable_s']:.0f} s{between}"
