"""Files and folders of sysfs: what is not there reads as empty."""

from __future__ import annotations

import os

MOST_CHARACTERS = 1024


def listed(folder: str) -> list[str]:
    """Names in a folder, sorted."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def text(path: str) -> str:
    """The text of a file, without the space around it."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read(MOST_CHARACTERS).strip()
    except OSError:
        return ""


def number(path: str) -> float | None:
    """The whole number in a file; None where there is none."""
    digits = text(path)
    return float(digits) if digits.isdecimal() else None
