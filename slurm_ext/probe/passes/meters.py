"""Meters of one process's loaders: a loader that is made again continues its predecessor's.

So does the loader of a second training that looks like the first one's, until an optimiser steps
other parameters with its first batch: then the pass begins a meter of its own.
"""

from __future__ import annotations

import weakref
from typing import Any

from ..counters import marks
from ..inspection import description
from .loader_meter import LoaderMeter
from .one_pass import Pass

_MAX_LOADERS = 32
_MOST_TOLD_APART = 16  # meters from which on a further training continues the last one's


class Meters:
    """All meters, in the order of their loaders' first passes; `dataloader` is torch's module."""

    def __init__(self, dataloader: Any, run_dir: str) -> None:
        self.dataloader, self.run_dir = dataloader, run_dir
        self.all: list[LoaderMeter] = []
        self._current: list[LoaderMeter] = []  # without those of trainings that are over
        self._of: dict[int, LoaderMeter] = {}  # by the owner's id

    def of(self, loader: Any) -> LoaderMeter | None:
        """The loader's numbers; None: the process has too many loaders."""
        known = self._of.get(id(loader))
        if known is not None and known.owner() is loader:
            return known
        facts = description.facts_of(loader, self.dataloader)
        meter = self.new(loader, facts, description.rows_in_all(loader))
        if meter is not None:
            meter.share = marks.share_of(loader)
        return meter

    def of_iterator(self, iterator: Any) -> LoaderMeter | None:
        """The numbers of an iterator of torch's that another library's loader made."""
        return self.new(iterator, description.facts_of_iterator(iterator, self.dataloader), None)

    def new(self, owner: Any, facts: dict[str, Any], rows: int | None) -> LoaderMeter | None:
        """The meter of a loader that is seen for the first time: a predecessor's, or its own."""
        for meter in self._current:
            if meter.owner() is None and meter.facts == facts:
                return self._give(meter, owner)
        if len(self.all) >= _MAX_LOADERS:
            return None
        meter = LoaderMeter(len(self.all), facts, self.run_dir)
        meter.rows_in_all = rows
        self.all.append(meter)
        self._current.append(meter)
        return self._give(meter, owner)

    def _give(self, meter: LoaderMeter, owner: Any) -> LoaderMeter:
        for key in [key for key, other in self._of.items() if other is meter]:
            del self._of[key]
        meter.owner = weakref.ref(owner)
        self._of[id(owner)] = meter  # an id may be that of an object that is gone
        return meter

    def stepped(self, current: Pass, models: set[int]) -> None:
        """Optimisers of these models are about to be credited to the pass."""
        known = current.meter.models
        if models <= known:
            return
        first = not (current.steps or current.over) and current.meter in self._current
        if first and known and not models & known and len(self.all) < _MOST_TOLD_APART:
            self._part(current, models)
        current.meter.models |= models

    def _part(self, current: Pass, models: set[int]) -> None:
        """The pass is of another training: its meter takes the place of the former one."""
        former, owner = current.meter, current.meter.owner()
        meter = self._of_training(former.facts, models)
        former.hand_over(current, meter)
        self._current[self._current.index(former)] = meter
        if owner is not None:
            self._give(meter, owner)
        former.owner = lambda: None

    def _of_training(self, facts: dict[str, Any], models: set[int]) -> LoaderMeter:
        """The meter of these models' training from such a loader, which may have begun before."""
        for meter in self.all:
            if meter not in self._current and meter.facts == facts and meter.models & models:
                return meter
        self.all.append(LoaderMeter(len(self.all), facts, self.run_dir))
        return self.all[-1]
