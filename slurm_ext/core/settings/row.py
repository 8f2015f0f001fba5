"""Rows of the table of settings, by kind: text, path, number, choice, flag, names."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True, slots=True)
class Setting:
    """One key: its default (whose type is the key's), a check, and its meaning."""

    key: str
    default: Any
    doc: str
    valid: str
    ok: Callable[[Any], bool] = field(default=lambda _: True, repr=False)
    item: Callable[[Any], bool] = field(default=lambda _: True, repr=False)  # of a list
    retired: Mapping[str, str] = field(default_factory=dict)  # valid once -> what it is read as


def text(key: str, default: str, doc: str) -> Setting:
    """A string."""
    return Setting(key, default, doc, "a string")


def path(key: str, default: str, doc: str, *, empty: bool = False) -> Setting:
    """An absolute path, or with `empty` none."""
    valid = "an absolute path" + (" or empty" if empty else "")
    return Setting(key, default, doc, valid, lambda v: v.startswith("/") or (empty and not v))


def number(key: str, default: float, low: float, high: float, doc: str) -> Setting:
    """A number within bounds; whole if the default is."""
    kind = "an integer" if isinstance(default, int) else "a number"
    return Setting(key, default, doc, f"{kind} from {low} to {high}", lambda v: low <= v <= high)


def choice(
    key: str,
    default: str,
    choices: tuple[str, ...],
    doc: str,
    *,
    retired: Mapping[str, str] = MappingProxyType({}),
) -> Setting:
    """One of a few words; a word of an earlier release is read as the one that `retired` names."""
    valid = f"one of {', '.join(choices)}"
    return Setting(key, default, doc, valid, lambda v: v in choices, retired=retired)


def loop_mode(key: str, doc: str) -> Setting:
    """Mode of a loop: off, shadow (decide and record) or act. Off until a site turns it on."""
    return choice(key, "off", ("off", "shadow", "act"), doc)


def flag(key: str, default: bool, doc: str) -> Setting:
    """True or false."""
    return Setting(key, default, doc, "true or false")


def job_filters(loop: str, whose: str) -> tuple[Setting, ...]:
    """Filters of the jobs that a loop may change, by partition, account and user; all at first."""
    return tuple(
        names(f"{loop}.{kind}s", f"{kind.capitalize()}s {whose}", ["*"])
        for kind in ("partition", "account", "user")
    )


def names(key: str, doc: str, default: Sequence[str] = ()) -> Setting:
    """A list of names; ["*"] are all."""
    return Setting(
        key,
        list(default),
        doc,
        'a list of names, or ["*"]',
        item=lambda v: isinstance(v, str) and v != "",
    )
