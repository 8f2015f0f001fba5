"""The probe in this very process: its methods, taken out and put back, and its sums as of now."""

import contextlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from torch.optim import optimizer
from torch.utils.data import dataloader

SUMMED = ("batches", "wait_s", "step_s")
Sums = Mapping[str, float]
_TORCH: Any = dataloader
_OPTIMIZER: Any = optimizer
_PLACES = (
    (_TORCH.DataLoader, "__iter__"),
    (_TORCH._BaseDataLoaderIter, "__next__"),  # noqa: SLF001 - the probe's own places
    (_TORCH._utils.fetch._MapDatasetFetcher, "fetch"),  # noqa: SLF001 - the same
)


class ProbeInside:
    """The probe where there is one; without it nothing is taken out and there are no sums.

    With its methods its hook on optimisers' steps goes, too: steps without a batch would look as if
    the program kept its batches in memory.
    """

    def __init__(self) -> None:
        self._attached: Any = sys.modules.get("_dlqueue_probe.attach")

    @contextlib.contextmanager
    def methods(self, *, taken_out: bool) -> Iterator[None]:
        """The probe's methods, or torch's own ones in their places."""
        probes = [getattr(*place) for place in _PLACES]
        hooks = _OPTIMIZER._global_optimizer_post_hooks  # noqa: SLF001 - as above
        stepped = dict(hooks)
        try:
            if taken_out:
                hooks.clear()
            for place, method in zip(_PLACES, probes, strict=True):
                if taken_out:
                    setattr(*place, getattr(method, "__wrapped__", method))
            yield
        finally:
            for place, method in zip(_PLACES, probes, strict=True):
                setattr(*place, method)
            hooks.update(stepped)

    def sums(self) -> Sums | None:
        """Its batches, waits and steps so far; None: it measures nothing here."""
        session = self._session()
        if session is None:
            return None
        loaders = session.writer.measured()["loaders"]
        phases = [phase for loader in loaders for phase in loader["phases"]]
        return {name: sum(phase[name] or 0.0 for phase in phases) for name in SUMMED}

    def write(self) -> None:
        """Have it write its summary now."""
        session = self._session()
        if session is not None:
            session.writer.write(finished=False)

    def _session(self) -> Any:
        return self._attached.ProbeState.session if self._attached else None


def between(before: Sums | None, after: Sums | None) -> dict[str, float] | None:
    """Seconds of a batch between two moments; None where there was none."""
    if before is None or after is None or after["batches"] <= before["batches"]:
        return None
    batches = after["batches"] - before["batches"]
    return {
        "batches": batches,
        "wait_s": (after["wait_s"] - before["wait_s"]) / batches,
        "step_s": (after["step_s"] - before["step_s"]) / batches,
    }
