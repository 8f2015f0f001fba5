"""JSON from hands we do not trust: small, shallow, finite, or refused with the reason."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_NUMBER = 1e18
MAX_STRING = 4096
MAX_DEPTH = 12
MAX_ITEMS = 200_000


class OutOfBoundsError(ValueError):
    """The text is not JSON, or holds something that no honest writer writes."""


def parse(raw: bytes, least: float = -MAX_NUMBER) -> dict[str, Any]:
    """The JSON object in `raw`, its numbers between `least` and MAX_NUMBER, its texts short.

    Raises OutOfBoundsError.
    """
    try:
        document = json.loads(raw.decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise OutOfBoundsError(f"is not JSON: {str(error)[:200]}") from None
    if not isinstance(document, dict):
        raise OutOfBoundsError("is not a JSON object")
    # UTF-8 has no half characters: only an escape can hold one.
    _check(document, least, escaped=b"\\u" in raw)
    return document


def _refuse(constant: str) -> object:
    raise OutOfBoundsError(f"holds {constant}")


def _check(document: dict[str, Any], least: float, *, escaped: bool) -> None:
    """Check every key and value, all at once: few calls, because a record has many values."""
    level: list[Any] = [document]
    every: list[Any] = []
    for _ in range(MAX_DEPTH + 1):
        values: list[Any] = []
        for container in level:
            values += container  # of a dict its keys
            values += container.values() if type(container) is dict else ()
        every += values
        level = [value for value in values if type(value) is dict or type(value) is list]
        if len(every) > MAX_ITEMS:
            break
        if not level:
            _check_scalars(every, least, escaped=escaped)
            return
    raise OutOfBoundsError(f"is deeper than {MAX_DEPTH} or longer than {MAX_ITEMS} values")


def _check_scalars(values: list[Any], least: float, *, escaped: bool) -> None:
    texts = [value for value in values if type(value) is str]
    if texts and len(longest := max(texts, key=len)) > MAX_STRING:
        raise OutOfBoundsError(f"holds a text of {len(longest)} characters")
    if escaped:
        _check_encodable("".join(texts))
    numbers = [value for value in values if type(value) is float or type(value) is int]
    if numbers and not max(numbers) < MAX_NUMBER:
        raise OutOfBoundsError(f"holds a number beyond {MAX_NUMBER:g}")
    if numbers and not min(numbers) >= least:
        raise OutOfBoundsError("holds a negative number")


def _check_encodable(value: str) -> None:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise OutOfBoundsError("holds half a character") from None
