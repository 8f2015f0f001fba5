"""Steps of optimisers that torch.compile took into its graphs, where no hook runs.

Every change in place moves a tensor's version. So a parameter tells, batch by batch, whether its
optimiser stepped; several steps with one batch count as one.
"""

from __future__ import annotations

import functools
import sys
import weakref
from typing import Any, Callable

_MOST = 64
_made: weakref.WeakSet[Any] = weakref.WeakSet()  # optimisers


def follow_makers(kind: Any) -> None:
    """Keep in mind the optimisers that the program makes; `kind` is torch's class of them."""
    original: Callable[..., None] = kind.__init__

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **named: Any) -> None:  # noqa: N807 - that method's place
        original(self, *args, **named)
        try:
            if len(_made) < _MOST:
                _made.add(self)
        except Exception:  # noqa: S110 - the optimiser is made all the same
            pass

    kind.__init__ = __init__


class UnseenSteps:
    """Versions of the optimisers' parameters when they were looked at last."""

    def __init__(self) -> None:
        self._versions: weakref.WeakKeyDictionary[Any, tuple[int, ...]] = (
            weakref.WeakKeyDictionary()
        )

    def made(self) -> list[Any]:
        """Optimisers that stepped since the last look; none before anything was compiled."""
        compiler = sys.modules.get("torch._dynamo.utils")
        if compiler is None:
            return []
        stepped = []
        for optimiser in list(_made):
            versions = _versions(optimiser)
            if self._versions.get(optimiser, versions) != versions:
                stepped.append(optimiser)
            self._versions[optimiser] = versions
        return stepped if compiler.counters["frames"]["total"] else []


def _versions(optimiser: Any) -> tuple[int, ...]:
    """Versions of its first parameter and of its last one."""
    groups = optimiser.param_groups
    return groups[0]["params"][0]._version, groups[-1]["params"][-1]._version
