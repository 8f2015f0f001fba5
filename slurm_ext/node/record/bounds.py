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
    texts: list[str] = []
    numbers: list[float] = []
    many = 0
    for _ in range(MAX_DEPTH + 1):
        many += sum([len(container) * (2 if type(container) is dict else 1) for container in level])
        if many > MAX_ITEMS:
            break
        level = _next_level(level, texts, numbers)
        if not level:
            _check_texts(texts, escaped=escaped)
            _check_numbers(numbers, least)
            return
    raise OutOfBoundsError(f"is deeper than {MAX_DEPTH} or longer than {MAX_ITEMS} values")


def _next_level(level: list[Any], texts: list[str], numbers: list[float]) -> list[Any]:
    """Objects and lists inside these; their texts and numbers are added to the lists."""
    below = []
    for container in level:
        values = container
        if type(container) is dict:
            texts += container
            values = container.values()
        for value in values:
            kind = type(value)
            if kind is float or kind is int:
                numbers.append(value)
            elif kind is str:
                texts.append(value)
            elif kind is dict or kind is list:
                below.append(value)
    return below


def _check_texts(texts: list[str], *, escaped: bool) -> None:
    if texts and (longest := max(map(len, texts))) > MAX_STRING:
        raise OutOfBoundsError(f"holds a text of {longest} characters")
    if escaped:
        _check_encodable("".join(texts))


def _check_numbers(numbers: list[float], least: float) -> None:
    if numbers and not max(numbers) < MAX_NUMBER:
        raise OutOfBoundsError(f"holds a number beyond {MAX_NUMBER:g}")
    if numbers and not min(numbers) >= least:
        raise OutOfBoundsError("holds a negative number")


def _check_encodable(value: str) -> None:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise OutOfBoundsError("holds half a character") from None
