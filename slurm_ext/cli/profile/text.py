"""Lines of `dlqueue profile` for people."""

from collections.abc import Iterator, Mapping
from typing import Any

_SAID_LINES = 10
_DEPTHS = {
    "L1": "L1, one run in windows",
    "L1+trace": "L1+trace, one run in windows, communication by the profiler's traces",
    "L0": "L0, in passing",
}
_NAMES = {"data": "waiting for data", "slow rank": "waiting for a slow rank"}
_ENDED = {
    "precise": "every difference is known to 2.5 % of a step",
    "steps": "the steps allowed are used up",
    "seconds": "the seconds allowed are used up",
}


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The document of analysis.py, one fact a line."""
    if document["depth"] is None:
        yield f"{document['command']}: nothing measured; the run {document['how']}"
    else:
        yield from _measured(document)
    if document["why_not"]:
        yield f"not entered: {document['why_not']}"
    for note in document["notes"]:
        yield f"note:        {note}"
    yield from _kept(document)
    yield from (f"  | {line}" for line in document["said"].splitlines()[-_SAID_LINES:])


def _measured(document: Mapping[str, Any]) -> Iterator[str]:
    ranks, workers = document["ranks"], document["workers"]
    yield (
        f"depth:       {_DEPTHS[document['depth']]}; {ranks} rank{'s' * (ranks != 1)},"
        f" {workers} worker{'s' * (workers != 1)} each, {document['steps']} steps"
        + (f"; {_ENDED[document['ended']]}" if document["ended"] in _ENDED else "")
    )
    yield f"{'':30}{'ms a step':>10}  {'90 % interval':>18}  {'share':>6}"
    yield from (_part(part) for part in _ordered(document["parts"]) if _ms(part["value"]) != "0")
    yield _line("whole step", document["step"], 1.0)
    if document["au"] is not None:
        yield f"accelerator utilisation (AU, as MLPerf Storage has it): {document['au']:.0%}"
    first = document["first"]
    if first is not None:
        name = _NAMES.get(first["name"], first["name"])
        yield f"first:       {name}, {1e3 * first['seconds']:.3g} ms a step: {first['do']}"
    elif document["depth"] != "L0":
        yield "first:       nothing that can be removed is worth 2.5 % of a step"


def _ordered(parts: list[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Each part, and behind it what it is made of."""
    for part in parts:
        if part["part_of"] is None:
            yield part
            yield from (child for child in parts if child["part_of"] == part["name"])


def _part(part: Mapping[str, Any]) -> str:
    name = _NAMES.get(part["name"], part["name"])
    return _line(f"  {name}" if part["part_of"] else name, part, part["share"])


def _line(name: str, figure: Mapping[str, Any], share: float) -> str:
    between = ""
    if figure["low"] is not None:
        between = f"{_ms(figure['low'])} to {_ms(figure['high'])}"
    return f"{name:<30}{_ms(figure['value']):>10}  {between:>18}  {share:>6.0%}"


def _ms(seconds: float) -> str:
    """Milliseconds to the hundredth: less is noise."""
    return f"{round(1e3 * seconds, 2) + 0:.4g}"


def _kept(document: Mapping[str, Any]) -> Iterator[str]:
    saves, files = document["saves"], document["files"]
    if saves:
        names = ", ".join(f"{name} {count}" for name, count in sorted(saves.items()))
        yield f"not saved:   {names}"
    if files.get("written"):
        yield f"not written: {files['written']} files went into the run's own folder, now removed"
    if files.get("spared"):
        yield f"spared:      what was there was to be removed or renamed {files['spared']} times"
