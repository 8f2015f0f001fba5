"""Ranks over which this process's gradients are averaged: by DDP or FSDP, as they are made."""

from __future__ import annotations

import functools
from typing import Any, Callable


class DataRanks:
    """The most ranks that any module's gradients are averaged over; 1: no module was seen."""

    def __init__(self) -> None:
        self.most = 1

    def note(self, ranks: int) -> None:
        """A module was made that averages over so many."""
        self.most = max(self.most, ranks)


def follow_sharding(module: Any, note: Callable[[int], None]) -> None:
    """Call `note(ranks)` when FSDP's modules are made; `module` is that of either version."""
    for name, ranks_of in (
        ("FullyShardedDataParallel", _of_module),
        ("FSDPParamGroup", _of_parameters),
    ):
        kind = module.__dict__.get(name)
        if kind is not None:
            kind.__init__ = _noted(kind.__init__, ranks_of, note)


def _noted(
    original: Callable[..., None], ranks_of: Callable[[Any], int], note: Callable[[int], None]
) -> Callable[..., None]:
    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **options: Any) -> None:  # noqa: N807 - it takes its place
        original(self, *args, **options)
        try:  # noqa: SIM105 - the job's own module is there
            note(ranks_of(self))
        except Exception:  # noqa: S110 - of an unknown torch
            pass

    return __init__


def _of_module(module: Any) -> int:
    """Of FSDP's first version; hybrid sharding averages over nodes besides."""
    between = getattr(module, "_inter_node_pg", None)
    return int(module.process_group.size() * (between.size() if between is not None else 1))


def _of_parameters(group: Any) -> int:
    return int(group.mesh_info.mesh.size())
