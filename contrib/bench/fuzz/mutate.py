"""Honest documents and texts, damaged by chance: the same generator gives the same damage."""

from copy import deepcopy
from random import Random
from typing import Any

HOSTILE: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    0.5,
    -0.0,
    1e-320,
    1e17,
    1e18,
    1e308,
    2**31,
    2**53 + 1,
    2**63 - 1,
    2**63,
    10**40,
    float("nan"),
    float("inf"),
    -float("inf"),
    "",
    "abc",
    "0",
    "1e5",
    "\x00",
    "\x1b[2J\x1b]0;x\x07",
    "=cmd|' /C calc'!A0",
    "../../etc/passwd",
    "\ud800",
    "é\u202e\U0001f600",
    "x" * 5000,
    [],
    {},
    [1],
    ["a"],
    [[]],
    {"a": 1},
    [None] * 300,
)
"""Values that no honest writer puts in a field."""

TOKENS = (
    "\x00",
    "\n",
    "\r",
    "\t",
    "|",
    "||",
    ",",
    ";",
    "'",
    '"',
    "\\",
    "`",
    "$(id)",
    "%s",
    "{}",
    "-1",
    "0",
    "1e400",
    "99999999999999999999",
    "nan",
    "inf",
    "٣",
    "\uff11",
    "0x10",
    "1_000",
    "\x1b[31m",
    "=1+1",
    "@SUM",
    "\ud800",
    "\udcff",
    "\u2028",
    "é",
    "\U0001f600",
    "n[1-9999999]",
    "[[[[",
    "]",
    "{",
    "}",
    "[0-9]",
    "None",
    "Unknown",
    "UNLIMITED",
    "1-00:00:00",
    "00:00",
    "K",
)
"""Texts that parsers trip over."""


def mutated(document: Any, random: Random, *, most: int = 3) -> Any:
    """A copy of a JSON document with one to `most` of its parts changed."""
    body = deepcopy(document)
    for _ in range(random.randint(1, most)):
        places = _places(body)
        if places:
            _damage(random.choice(places), random)
    return body


def mutated_text(text: str, random: Random, *, most: int = 3) -> str:
    """A text with one to `most` pieces cut, repeated, moved or replaced."""
    for _ in range(random.randint(1, most)):
        first = random.randrange(len(text) + 1)
        last = min(len(text), first + random.choice((0, 1, 1, 2, 4, 16)))
        piece = random.choice(
            ("", random.choice(TOKENS), random.choice(TOKENS), text[first:last] * 2, text[:first])
        )
        text = text[:first] + piece + text[last:]
    return text


def _places(body: Any) -> list[tuple[Any, Any]]:
    """Every container with each of its keys or indices, depth first."""
    found: list[tuple[Any, Any]] = []
    waiting = [body]
    while waiting:
        container = waiting.pop()
        keys = container if isinstance(container, dict) else range(len(container))
        found += [(container, key) for key in keys]
        waiting += [container[key] for key in keys if isinstance(container[key], dict | list)]
    return found


def _damage(place: tuple[Any, Any], random: Random) -> None:
    """Change one part: mostly its value, at times its name, its absence or its size."""
    container, key = place
    way = random.randrange(10)
    if way < 6:
        container[key] = deepcopy(random.choice(HOSTILE))
    elif way == 6:
        del container[key]
    elif way == 7 and isinstance(container[key], int | float):
        container[key] = container[key] * random.choice((-1, 0, 1e-9, 1e9, 1e300))
    elif way == 8 and isinstance(container[key], str):
        container[key] = mutated_text(container[key], random)
    elif isinstance(container, dict):
        container[str(random.choice(TOKENS))] = deepcopy(container[key])
    else:
        container.append(deepcopy(container[key]))
