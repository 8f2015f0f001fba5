"""json.lua against Python's json: same texts, same values, and no surprise for other texts."""

import json
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.lua.lua_process import Lua, LuaError

EVERYDAY = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
INTEGERS = st.integers(-(2**53), 2**53)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)


def nested(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """JSON values; members are never null, which Lua shows as it shows absence."""
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, min_size=1, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4)
        ),
        max_leaves=20,
    )


def depth(value: Any) -> int:
    """How many arrays and objects enclose the innermost value."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, dict | list) + max(map(depth, inside), default=0)


def as_bytes(value: Any) -> Any:
    """The form in which Lua hands values over."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, list):
        return [as_bytes(item) for item in value] or {}  # one empty table, whatever it was
    if isinstance(value, dict):
        return {as_bytes(name): as_bytes(item) for name, item in value.items()}
    return value


@EVERYDAY
@given(value=nested(st.booleans() | INTEGERS | FLOATS | TEXTS), ascii_only=st.booleans())
def test_decodes_what_python_writes(lua: Lua, value: Any, ascii_only: bool) -> None:
    """Any JSON text of Python's, up to the depth bound, means the same in Lua."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=1).encode()
    if depth(value) <= 8:
        assert lua.run("return json.decode(...)", text) == as_bytes(value)


@EVERYDAY
@given(value=nested(st.booleans() | INTEGERS | TEXTS))
def test_python_decodes_what_lua_writes(lua: Lua, value: Any) -> None:
    """What Lua encodes (after decoding it, to have it there) is the same value to Python."""
    if depth(value) <= 8:
        text = lua.run("return json.encode(json.decode(...))", json.dumps(value).encode())
        assert json.loads(text) == value


@EVERYDAY
@given(raw=st.binary(max_size=300))
def test_any_bytes_survive_as_a_text(lua: Lua, raw: bytes) -> None:
    """Control bytes, NUL, quotes and invalid UTF-8 come out on the Python side as they went in."""
    line = lua.run("return json.encode({ text = ... })", raw)
    assert b"\n" not in line
    text = json.loads(line.decode("utf-8", "surrogateescape"))["text"]
    assert text.encode("utf-8", "surrogateescape") == raw


@EVERYDAY
@given(text=st.text('{}[]",:\\/ntfu0123456789.eE+- \t\x00é', max_size=40))
def test_accepts_nothing_that_python_refuses(lua: Lua, text: str) -> None:
    """Near-JSON is refused with a reason; it never means something to Lua alone."""
    try:
        expected = as_bytes(json.loads(text, parse_int=float))  # Lua 5.1 has no other numbers
    except ValueError:
        with pytest.raises(LuaError, match="not JSON"):
            lua.run("return json.decode(...)", text.encode())
    else:
        assert lua.run("return { json.decode(...) }", text.encode()) in ([expected], {})  # {}: null


BAD_TEXTS = (
    b"",
    b" ",
    b"nul",
    b"01",
    b"1.",
    b".5",
    b"+1",
    b"0x10",
    b"NaN",
    b"Infinity",
    b"[1,]",
    b"[",
    b'"',
    b'"\\x"',
    b'"\\u12g4"',
    b'"\n"',
    b"{1:2}",
    b'{"a"}',
    b'{"a":1,}',
    b"[]]",
    b"[1 2]",
    b"'a'",
    b"[" * 9 + b"]" * 9,
    b"[" * 60_000,
    b'{"a":' * 60_000,
)


@pytest.mark.parametrize("text", BAD_TEXTS, ids=lambda text: repr(text[:12]))
def test_refuses(lua: Lua, text: bytes) -> None:
    """What is not strict JSON, or nests deeper than eight, is refused and not guessed at."""
    with pytest.raises(LuaError, match="not JSON"):
        lua.run("return json.decode(...)", text)


def test_half_a_surrogate_pair_becomes_the_replacement_character(lua: Lua) -> None:
    """A text that Python kept as lone surrogates does not make the reply unreadable."""
    assert lua.run("return json.decode(...)", rb'"a\ud800b\udc80"') == "a\ufffdb\ufffd".encode()


def test_huge_numbers_stay_numbers(lua: Lua) -> None:
    """10^300, 10^400 and 60,000 digits decode to a number (infinity at worst), not to a crash."""
    texts = [b"1e300", b"1e400", b"9" * 60_000]
    numbers = [lua.run("return json.decode(...)", text) for text in texts]
    assert numbers == [1e300, math.inf, math.inf]


@pytest.mark.parametrize("number", ["0.5", "0/0", "1/0", "-1/0"])
def test_encodes_integers_only(lua: Lua, number: str) -> None:
    """A number that the wire cannot hold is an error and not a rounded one."""
    with pytest.raises(LuaError, match="cannot encode"):
        lua.run(f"return json.encode({number})")
