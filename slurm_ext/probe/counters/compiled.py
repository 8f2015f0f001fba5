"""Steps of optimisers that torch.compile took into its graphs, where no hook runs.

Every change in place moves a tensor's version. So a parameter tells, batch by batch, whether its
optimiser stepped; several steps with one batch count as one. The first one, in which it is
compiled, is not seen.
"""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

_MOST = 64


class UnseenSteps:
    """Versions of the optimisers' parameters when they were looked at last."""

    def __init__(self) -> None:
        self._frames = 0  # that torch.compile took when optimisers were looked for
        self._versions: dict[weakref.ref[Any], tuple[int, ...]] = {}

    def made(self) -> list[Any]:
        """Optimisers that stepped since the last look; none before anything was compiled."""
        compiler = sys.modules.get("torch._dynamo.utils")
        if compiler is None:
            return []
        frames = compiler.counters["frames"]["total"]
        if frames != self._frames:
            self._frames = frames
            known = {one: self._versions.get(one) for one in map(weakref.ref, _optimisers())}
            self._versions = {one: versions or _versions(one()) for one, versions in known.items()}
        return [one for one in map(self._stepped, list(self._versions)) if one is not None]

    def _stepped(self, reference: weakref.ref[Any]) -> Any:
        """The optimiser if it stepped since the last look; else None."""
        optimiser = reference()
        if optimiser is None:
            self._versions.pop(reference)
            return None
        before, now = self._versions[reference], _versions(optimiser)
        self._versions[reference] = now
        return None if before == now else optimiser


def _optimisers() -> list[Any]:
    """Those that the program has made, found among all objects: a wrapped maker would be pickled.

    It takes as long as a collection of garbage, after a compilation, which takes seconds.
    """
    kind = sys.modules["torch.optim.optimizer"].Optimizer
    return [one for one in gc.get_objects() if issubclass(type(one), kind)][:_MOST]


def _versions(optimiser: Any) -> tuple[int, ...]:
    """Versions of its first parameter and of its last one."""
    groups = optimiser.param_groups
    return groups[0]["params"][0]._version, groups[-1]["params"][-1]._version
