"""The ranks of one training: what they agree on, and whether their gradients are synchronised."""

from __future__ import annotations

import contextlib
import gc
import json
import sys
from datetime import timedelta
from typing import Any, Callable, Sequence

_WAIT_S = 120.0  # for the slowest rank, at a window's edge
_LINGER_S = 20.0  # of the rank that holds the store, for the others to read its last word

DDP = "torch.nn.parallel.distributed", "DistributedDataParallel"
_FSDP = (
    ("torch.distributed.fsdp.fully_sharded_data_parallel", "FullyShardedDataParallel"),
    ("torch.distributed.fsdp._fully_shard._fully_shard", "FSDPModule"),
    ("torch.distributed._composable.fsdp.fully_shard", "FSDPModule"),
)


class RankAgreement:
    """One word for all ranks, by the store that they met in: no collective of the job's own.

    Every rank asks at the same steps. Where there is no store, each goes by its own word.
    """

    def __init__(self, store: Any = None, rank: int = 0, world: int = 1) -> None:
        self.rank, self.world = rank, world
        self._store = store
        self._asked = 0

    @classmethod
    def of_process(cls) -> RankAgreement:
        """The agreement of the process group that this process has joined, if any."""
        distributed = sys.modules.get("torch.distributed")
        if distributed is None or not distributed.is_available():
            return cls()
        if not distributed.is_initialized() or distributed.get_world_size() < 2:
            return cls()
        rank, world = distributed.get_rank(), distributed.get_world_size()
        with contextlib.suppress(Exception):  # MPI's group has none, an older torch another name
            return cls(distributed.distributed_c10d._get_default_store(), rank, world)
        return cls(None, rank, world)

    @property
    def is_shared(self) -> bool:
        """True if other ranks are asked."""
        return self._store is not None and self.world > 1

    @property
    def is_mute(self) -> bool:
        """True if there are other ranks, and no way to ask them: only steps are the same on all."""
        return self._store is None and self.world > 1

    def agree(self, own: Any, choose: Callable[[Sequence[Any]], Any]) -> Any:
        """`choose` of every rank's word, as rank 0 makes it. Raises whatever the store raises.

        Words and choice are values that JSON has.
        """
        if not self.is_shared:
            return choose([own])
        self._asked += 1
        name = f"dlqueue/profile/{self._asked}"
        self._store.set(f"{name}/{self.rank}", json.dumps(own))
        if self.rank == 0:
            keys = [f"{name}/{rank}" for rank in range(self.world)]
            self._wait(keys)
            words = [json.loads(self._store.get(key)) for key in keys]
            self._store.set(name, json.dumps(choose(words)))
        self._wait([name])
        return json.loads(self._store.get(name))

    def _wait(self, keys: list[str]) -> None:
        self._store.wait(keys, timedelta(seconds=_WAIT_S))

    def part(self) -> None:
        """Leave: the rank whose process holds the store goes last."""
        if not self.is_shared:
            return
        with contextlib.suppress(Exception):
            self._store.set(f"dlqueue/profile/left/{self.rank}", "1")
            if self.rank == 0:
                keys = [f"dlqueue/profile/left/{rank}" for rank in range(self.world)]
                self._store.wait(keys, timedelta(seconds=_LINGER_S))


class SyncSwitch:
    """The switch of the training's DistributedDataParallel modules; `why_not`: it has none.

    `is_sharded`: the training is FSDP's, whose communication a trace tells.
    """

    def __init__(self, world: int) -> None:
        self.modules: list[Any] = []
        self.why_not: str | None = None
        self.is_sharded = False
        if world < 2:
            self.why_not = "one rank: there is no communication"
        elif _instances(*_known(_FSDP)):
            self.is_sharded = True
            self.why_not = "FSDP: without synchronisation each rank would hold whole gradients"
        else:
            self.modules = _instances(*_known([DDP]))
            if not self.modules:
                self.why_not = "no DistributedDataParallel module was found"

    def set(self, synced: bool) -> None:
        """Synchronise from the next forward pass on, or do not: as `no_sync` does it."""
        for module in self.modules:
            module.require_backward_grad_sync = synced


def _known(classes: Any) -> tuple[type, ...]:
    """Those of the classes whose module the job has imported."""
    found = (getattr(sys.modules.get(module), name, None) for module, name in classes)
    return tuple(one for one in found if isinstance(one, type))


def _instances(*kinds: type) -> list[Any]:
    """Objects of these classes that live; by their type, for proxies lie about their class."""
    return [one for one in gc.get_objects() if issubclass(type(one), kinds)] if kinds else []
