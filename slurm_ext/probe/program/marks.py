"""Marks of a value in a program's code: its part in the data that a loader reads."""

from __future__ import annotations

from typing import Iterable

ITSELF, PARTS, ITEM, DEEPER, GROUP, WAY = 1, 2, 4, 8, 16, 32
"""It is of the data; its parts are; it is an item, is deeper than an item, has items as parts.

A way is a dataset: its `__getitem__` may give of the data.
"""

CONTAINER = ITSELF | PARTS | GROUP
CONTAINER_OF_PLAIN = ITSELF
AN_ITEM = ITSELF | PARTS | ITEM


def inside(marks: int) -> int:
    """Marks of a part of what has these."""
    if not marks & PARTS:
        return 0
    item = AN_ITEM if marks & GROUP else 0
    return item | (AN_ITEM | DEEPER if marks & (ITEM | DEEPER) else 0)


def copied(marks: int) -> int:
    """Marks of a new container with the same parts."""
    return marks & ~(ITSELF | WAY) if marks & PARTS else 0


def holding(marks: int) -> int:
    """Marks of a new container that has it as a part."""
    if not marks & (ITSELF | PARTS):
        return 0
    lone = marks & ITSELF and not marks & (DEEPER | GROUP)
    return PARTS | GROUP | (0 if lone else ITEM | DEEPER)


def union(marks: Iterable[int]) -> int:
    """Marks of what may be any of several values."""
    found = 0
    for one in marks:
        found |= one
    return found
