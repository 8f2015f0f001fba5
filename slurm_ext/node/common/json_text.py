"""JSON by the C part of `json` alone: `json` imports `re`, which is half of a hook's time.

Where a Python has another C part, or none, `json` itself does the work.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_WHITE = " \t\n\r"


def _refuse(constant: str) -> object:
    raise ValueError(f"holds {constant}")


def _not_json(value: object) -> object:
    raise TypeError(f"{type(value).__name__} is no JSON")


class _Rules:
    """Rules of decoding, by the names that the C part asks for."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int, parse_constant = float, int, _refuse


def _parts() -> tuple[Callable[[str, int], tuple[Any, int]], Callable[[Any, int], Any]]:
    """The scanner and the encoder, tried once."""
    try:
        from _json import encode_basestring_ascii, make_encoder, make_scanner

        encode = make_encoder(
            None, _not_json, encode_basestring_ascii, None, ":", ",", False, False, False
        )
        scan: Any = make_scanner(_Rules)  # type: ignore[arg-type] # the stub takes its own kind
        if scan('{"a":[1]}', 0)[0] == {"a": [1]} and "".join(encode({"a": [1]}, 0)) == '{"a":[1]}':
            return scan, encode
    except (ImportError, TypeError, AttributeError):
        pass
    import json

    plain = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
    decoder: Any = json.JSONDecoder(parse_constant=_refuse)
    return decoder.scan_once, lambda value, _: plain.encode(value)


_scan, _encode = _parts()


def loads(text: str) -> Any:
    """The value in a JSON text. Raises ValueError, for NaN and the infinities too."""
    try:
        value, end = _scan(text, len(text) - len(text.lstrip(_WHITE)))
    except StopIteration as error:
        raise ValueError(f"a value is missing at character {error.value}") from None
    if text[end:].strip(_WHITE):
        raise ValueError(f"more follows the value at character {end}")
    return value


def dumps(value: Any) -> str:
    """The value as a compact JSON text in ASCII. Raises ValueError for a number that is none."""
    return "".join(_encode(value, 0))
