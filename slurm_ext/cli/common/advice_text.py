"""First advice on a run, for people: what to change, what that removes, and the option to set."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MOST_SHOWN = 3  # in the text for people; all of them are in the JSON


def lines(advice: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The first advice, and what comes after it."""
    for place, item in enumerate(advice[:MOST_SHOWN]):
        yield f"{'then:' if place else 'advice:':<9} {clause(item)}"


def clause(advice: Mapping[str, Any]) -> str:
    """`more workers: ... (data: 31 % of its training, about 420 s): DataLoader(num_workers=4)`."""
    from slurm_ext.core.advice.words import NAMES
    from slurm_ext.report.formatting import percent

    option = f": {advice['option']}" if advice["option"] else ""
    cause = f"{NAMES[advice['word']]}: {percent(advice['share'])}{_seconds(advice)}"
    return f"{advice['next']} ({cause}){option}"


def _seconds(advice: Mapping[str, Any]) -> str:
    """Seconds of the run that it removes, with their interval where one is known."""
    if advice["removable_s"] is None:
        return " of its time"
    bounds = advice["interval_s"]
    between = "" if bounds is None else f", {bounds[0]:.0f} to {bounds[1]:.0f} s"
    return f" of its training, about {advice['removable_s']:.0f} s{between}"
