"""Right, wrong and forbidden advice, and the confusion matrix. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from contrib.bench.advice.profiles import CONTROLS, FAULTS, PROFILES, Profile

NOTHING = "nothing"

Said = tuple[str, str]
"""Word and action of an advice."""


def is_right(profile: Profile, said: Sequence[Said]) -> bool:
    """The first is right, and nothing is said that must not be."""
    return first_is_right(profile, said) and not is_forbidden(profile, said)


def first_is_right(profile: Profile, said: Sequence[Said]) -> bool:
    """One of the right ones; nothing where nothing is right."""
    return (said[0][1] in profile.right) if said else not profile.right


def is_forbidden(profile: Profile, said: Sequence[Said]) -> bool:
    """Something is said that must not be, or first that must not be first."""
    first = said[0][1] if said else ""
    return (
        any(action in profile.never or word in profile.never_word for word, action in said)
        or first in profile.never_first
    )


def scores(said: Mapping[str, Sequence[Sequence[Said]]]) -> dict[str, Any]:
    """Faults whose seeds are all right, silent controls, and what was said first of each."""
    right = {
        name: sum(is_right(PROFILES[name], one) for one in every) for name, every in said.items()
    }
    whole = {name for name, every in said.items() if right[name] == len(every)}
    forbidden = sum(
        is_forbidden(PROFILES[name], one) for name, every in said.items() for one in every
    )
    return {
        "faults_right": len(whole & set(FAULTS)),
        "controls_silent": len(whole & set(CONTROLS)),
        "said_what_must_not_be": forbidden,
        "right_seeds": right,
        "confusion": {name: dict(Counter(map(first, every))) for name, every in said.items()},
    }


def first(said: Sequence[Said]) -> str:
    """The first advice by its action."""
    return said[0][1] if said else NOTHING
