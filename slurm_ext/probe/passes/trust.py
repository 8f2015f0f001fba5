"""Trust in a loader whose dataset went well in workers, for as long as that stays as it was."""

from __future__ import annotations

import weakref
from typing import Any

from ..inspection.appearance import appearance


class Trust:
    """Keeps what the loader's parts look like when their workers start, and none of the parts."""

    def __init__(self, loader: Any) -> None:
        self._loader = weakref.ref(loader)
        self._before = _appearance_of(loader)

    def holds(self, loader: Any) -> bool:
        """True for this very loader, if what its batches are made from is as it was."""
        same = loader is not None and self._loader() is loader and self._before is not None
        return same and _appearance_of(loader) == self._before


def _appearance_of(loader: Any) -> Any:
    """The look of what makes batches; None: it cannot be looked at."""
    try:
        return appearance(loader.dataset, loader.collate_fn)
    except Exception:  # objects of another kind
        return None
