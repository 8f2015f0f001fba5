"""JSON from hands we do not trust: small, shallow, finite, or refused with the reason."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_NUMBER = 1e18
MAX_STRING = 4096
MAX_DEPTH = 12
MAX_ITEMS = 200_000


class OutOfBoundsError(ValueError):
    """The text is not JSON, or holds something that no honest writer writes."""


def parse(raw: bytes) -> dict[str, object]:
    """The JSON object in `raw`, every value within bounds. Raises OutOfBoundsError."""
    try:
        document = json.loads(raw.decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise OutOfBoundsError(f"is not JSON: {str(error)[:200]}") from None
    if not isinstance(document, dict):
        raise OutOfBoundsError("is not a JSON object")
    _check(document)
    return document


def _refuse(constant: str) -> object:
    raise OutOfBoundsError(f"holds {constant}")


def refuse_negative(document: object) -> None:
    """Raise OutOfBoundsError where a number is below zero: counts and durations never are."""
    for value, _ in _values(document):
        if isinstance(value, (int, float)) and value < 0:
            raise OutOfBoundsError("holds a negative number")


def _check(document: object) -> None:
    for count, (value, depth) in enumerate(_values(document)):
        if depth > MAX_DEPTH or count > MAX_ITEMS:
            raise OutOfBoundsError(f"is deeper than {MAX_DEPTH} or longer than {MAX_ITEMS} values")
        _check_scalar(value)


def _values(document: object) -> Iterator[tuple[object, int]]:
    """Every key and value with its depth; no recursion, so that depth is a figure, not a crash."""
    waiting: list[tuple[object, int]] = [(document, 0)]
    while waiting:
        value, depth = waiting.pop()
        yield value, depth
        if isinstance(value, dict):
            waiting += [(key, depth) for key in value]
            waiting += [(item, depth + 1) for item in value.values()]
        elif isinstance(value, list):
            waiting += [(item, depth + 1) for item in value]


def _check_scalar(value: object) -> None:
    if isinstance(value, str):
        if len(value) > MAX_STRING:
            raise OutOfBoundsError(f"holds a text of {len(value)} characters")
        if not value.isascii():
            _check_encodable(value)
    elif isinstance(value, (int, float)) and not -MAX_NUMBER < value < MAX_NUMBER:
        raise OutOfBoundsError(f"holds a number beyond {MAX_NUMBER:g}")


def _check_encodable(value: str) -> None:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise OutOfBoundsError("holds half a character") from None
