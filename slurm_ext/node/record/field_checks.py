"""Values against the table of fields: each of its type and within its bounds, or null."""

from __future__ import annotations

from slurm_ext.node.record import fields
from slurm_ext.node.record.bounds import OutOfBoundsError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_TYPES = {
    fields.TEXT: (str,),
    fields.WHOLE: (int,),
    fields.NUMBER: (int, float),
    fields.LIST: (list,),
    fields.TEXTS: (list,),
    fields.NUMBERS: (list,),
    fields.COUNTED: (list, int),
    fields.OBJECT: (dict,),
    fields.FLAG: (bool,),
}


def _are_numbers(values: list[Any]) -> bool:
    """True if a list holds numbers that are not below zero, and nothing else."""
    numbers = set(map(type, values)) <= {int, float}
    return numbers and (not values or 0 <= min(values) <= max(values) <= fields.LARGEST)


def check_fields(  # noqa: C901 (each call more is paid hundreds of times a record)
    section: str, values: Any, columns: Sequence[fields.Field]
) -> dict[str, Any]:
    """One object's known keys, each checked: a single loop, for a record has hundreds of values.

    Raises OutOfBoundsError at the first fault.
    """
    if type(values) is not dict:
        raise OutOfBoundsError(f"has no section {section!r}")
    checked = {}
    for name, kind, _, least, most, required, _, _ in columns:
        value = values.get(name)
        if value is None:
            if required:
                raise OutOfBoundsError(f"has no {section}.{name}")
            if name not in values:
                continue
        elif (value_type := type(value)) not in _TYPES[kind]:
            raise OutOfBoundsError(f"{section}.{name} is {value_type.__name__}")
        elif value_type is int or value_type is float:
            if not least <= value <= most:
                raise OutOfBoundsError(f"{section}.{name} is not within {least:g} and {most:g}")
        elif kind != fields.FLAG and len(value) > most:
            raise OutOfBoundsError(f"{section}.{name} is longer than {most}")
        elif kind == fields.TEXTS and not set(map(type, value)) <= {str}:
            raise OutOfBoundsError(f"{section}.{name} holds something else than texts")
        elif kind == fields.NUMBERS and not _are_numbers(value):
            raise OutOfBoundsError(f"{section}.{name} holds something else than numbers")
        checked[name] = value
    return checked


_OBJECTS = (
    ("directive", fields.DIRECTIVE),
    ("optimizer", fields.OPTIMIZER),
    ("communication", fields.COMMUNICATION),
)


def known_summary(summary: Any) -> dict[str, Any]:
    """The known part of a probe's summary. Raises OutOfBoundsError where a probe writes no such."""
    checked = check_fields("probe.summaries[]", summary, fields.SUMMARY)
    for name, columns in _OBJECTS:
        if checked.get(name) is not None:
            checked[name] = check_fields(name, checked[name], columns)
    communication = checked.get("communication") or {}
    if communication.get("buckets") is not None:
        communication["buckets"] = check_fields("buckets", communication["buckets"], fields.BUCKETS)
    loaders = [
        check_fields("loaders[]", one, fields.LOADER) for one in checked.get("loaders") or ()
    ]
    for loader in loaders:
        phases = loader["phases"]
        loader["phases"] = [check_fields("phases[]", phase, fields.PHASE) for phase in phases]
        if loader.get("tuned") is not None:
            loader["tuned"] = _known_search(loader["tuned"])
    return {**checked, "loaders": loaders}


def _known_search(tuned: Any) -> dict[str, Any]:
    checked = check_fields("tuned", tuned, fields.TUNED)
    return {
        **checked,
        "rates": [check_fields("rates[]", rate, fields.RATE) for rate in checked["rates"]],
    }
