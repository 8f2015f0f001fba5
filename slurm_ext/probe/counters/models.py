"""Numbers of the models that a process trains, by the parameters of their optimisers."""

from __future__ import annotations

import weakref
from typing import Any


class Models:
    """Optimisers that have a parameter in common train one model; 0 is a model of nobody knows."""

    def __init__(self) -> None:
        self._count = 0
        self._of: dict[int, tuple[weakref.ref[Any], int]] = {}  # by the parameter's id

    def number(self, optimiser: Any) -> int:
        """The number of the model that this optimiser trains; a new one for new parameters."""
        parameters = [one for group in optimiser.param_groups for one in group["params"]]
        known = [number for one in parameters if (number := self._known(one))]
        if not known:
            self._count += 1
            self._of = {key: kept for key, kept in self._of.items() if kept[0]() is not None}
        number = known[0] if known else self._count
        self._of.update((id(one), (weakref.ref(one), number)) for one in parameters)
        return number

    def _known(self, parameter: Any) -> int:
        """The model of a parameter that was seen; an id may be that of one that is gone."""
        of, number = self._of.get(id(parameter), (None, 0))
        return number if of is not None and of() is parameter else 0
