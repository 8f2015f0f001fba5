"""Slurm's lists of hosts, such as `n[01-04,7],m2`."""

import re
from collections.abc import Iterator

_PART = re.compile(r"(?:[^,\[\]]|\[[^\]]*\])+")
MOST = 100_000  # names of one list; more is a mistake
MOST_DIGITS = 40  # of a range


def expand(text: str) -> tuple[str, ...]:
    """Return all names in order; `(null)` is an empty list. Raises ValueError on a wrong list.

    >>> expand("n[08-10,3],m2")
    ('n08', 'n09', 'n10', 'n3', 'm2')
    """
    if text in ("", "(null)", "None"):
        return ()
    parts = _PART.findall(text)
    if ",".join(parts) != text:
        raise ValueError(f"{text[:80]!r} is no list of hosts")
    names: list[str] = []
    for part in parts:
        for name in _names(part):
            names.append(name)
            if len(names) > MOST:
                raise ValueError(f"{text[:80]!r} names more than {MOST} hosts")
    return tuple(names)


def first(text: str) -> str:
    """The first name, without expanding the others; text that is no list comes back as it is."""
    name, rest = "", text
    while rest:
        plain, bracket, rest = rest.partition("[")
        if not bracket or "," in plain:
            return name + plain.partition(",")[0]
        inside, _, rest = rest.partition("]")
        name += plain + inside.partition(",")[0].partition("-")[0]
    return name


def _names(part: str) -> Iterator[str]:
    """Names of one item, with any number of brackets in it."""
    before, bracket, rest = part.partition("[")
    if not bracket:
        yield part
        return
    inside, _, after = rest.partition("]")
    for span in inside.split(","):
        for number in _numbers(span):
            for tail in _names(after) if after else ("",):
                yield f"{before}{number}{tail}"


def _numbers(span: str) -> Iterator[str]:
    """Numbers of a range: 08-10 is 08, 09, 10."""
    first, dash, last = span.partition("-")
    if not first.isdecimal() or (dash and not last.isdecimal()) or len(span) > MOST_DIGITS:
        raise ValueError(f"[{span:.80}] is no range of hosts")
    for number in range(int(first), int(last or first) + 1):
        yield f"{number:0{len(first)}}"
