"""JSON by the interpreter's own C functions, which the json package wraps.

Importing that package takes 10 ms, most of it for regular expressions: as long as bare Python's
whole start. It is the way out wherever those functions are not what CPython 3.9 to 3.13 has.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_BLANK = " \t\n\r"


def loads(text: str, constant: Callable[[str], object] = float) -> object:
    """The value in `text`, as json.loads has it. Raises ValueError or RecursionError.

    `constant` is given NaN, Infinity or -Infinity, which JSON does not know.
    """
    try:
        value, end = _scanner(constant)(text, 0)
        if not text[end:].strip(_BLANK):
            return value
    except (ImportError, StopIteration, TypeError, AttributeError):
        pass
    import json

    return json.loads(text, parse_constant=constant)


def dumps(value: object) -> str:
    """`value` in one line of ASCII without blanks. Raises ValueError for what is not finite."""
    try:
        return "".join(_encoder()(value, 0))
    except (ImportError, TypeError):
        import json

        return json.dumps(value, separators=(",", ":"), allow_nan=False)


class _Plainly:
    """How a scanner reads: strictly, with Python's own numbers, objects as dicts."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int = float, int

    def __init__(self, constant: Callable[[str], object]) -> None:
        self.parse_constant = constant


def _scanner(constant: Callable[[str], object]) -> Callable[[str, int], tuple[object, int]]:
    from _json import make_scanner

    return make_scanner(_Plainly(constant))  # type: ignore[arg-type]  # a decoder's attributes


def _encoder() -> Callable[[object, int], tuple[str, ...]]:
    from _json import encode_basestring_ascii, make_encoder

    return make_encoder({}, _refuse, encode_basestring_ascii, None, ":", ",", False, False, False)


def _refuse(value: object) -> object:
    raise TypeError(f"{type(value).__name__} is not JSON")
