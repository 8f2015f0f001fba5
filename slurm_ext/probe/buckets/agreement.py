"""Agreement of all ranks of a process group, over the store that made the group.

No collective is used, for a rank that is not asked would not take part in it, and the others would
wait for ever. A rank votes for what it would do. All follow the verdict, which is written once, by
whichever rank comes first (compare and set): "yes" only if all voted alike, "no" if a rank did not
vote in time or will not take part. A rank that voted follows the verdict, whatever it is; one whose
store fails before it heard it asks again, for as long as it would wait for others.
"""

from __future__ import annotations

import contextlib
import sys
import time
from hashlib import blake2b
from typing import Any, Callable

WAIT_S = 30.0
_SHORTEST_S, _LONGEST_S = 0.002, 0.25  # between two looks
_NO = "no"


class UnheardError(Exception):
    """This rank may have voted, and its store does not tell the verdict."""


class Agreement:
    """Agreements of this process; those of a group have a number, the same one in all its ranks."""

    def __init__(
        self,
        wait_s: float = WAIT_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._wait_s, self._clock, self._sleep = wait_s, clock, sleep
        self._numbers: dict[str, int] = {}

    def key(self, group: str) -> str:
        """The name of this group's next agreement in its store."""
        number = self._numbers[group] = self._numbers.get(group, 0) + 1
        return f"dlqueue/buckets/{group}/{number}"

    def reached(self, store: Any, key: str, size: int, vote: str) -> bool:
        """True if all ranks of the group give this vote; an empty one is against all others'.

        Raises what the store raises before this rank has voted, and UnheardError after that.
        """
        if not vote:
            _verdict(store, key, _NO)
            return False
        _counted(store, f"{key}/{vote}", 1)
        with contextlib.suppress(Exception):  # it may be there all the same: the verdict tells
            _counted(store, f"{key}/votes", 1)  # last: when all are there, each vote is counted
        return self._heard(store, key, size, vote) == vote

    def _heard(self, store: Any, key: str, size: int, vote: str) -> str:
        """The verdict, once the store tells it."""
        until = self._clock() + self._wait_s
        while True:
            try:
                return self._found(store, key, size, vote)
            except Exception as error:  # whatever the store raises: it may work again
                if self._clock() > until:
                    raise UnheardError(key) from error
            self._sleep(_LONGEST_S)

    def _found(self, store: Any, key: str, size: int, vote: str) -> str:
        alike = self._all_voted(store, key, size) and _counted(store, f"{key}/{vote}", 0) == size
        return _verdict(store, key, vote if alike else _NO)

    def _all_voted(self, store: Any, key: str, size: int) -> bool:
        """True as soon as all have voted; False after a time, or once there is a verdict."""
        until, pause = self._clock() + self._wait_s, _SHORTEST_S
        while _counted(store, f"{key}/votes", 0) < size:
            if store.check([f"{key}/verdict"]) or self._clock() > until:
                return False
            self._sleep(pause)
            pause = min(_LONGEST_S, 1.5 * pause)
        return True


def _counted(store: Any, key: str, more: int) -> int:
    return int(store.add(key, more))


def _verdict(store: Any, key: str, own: str) -> str:
    """The verdict of all, which is this rank's own if it is the first."""
    found = store.compare_set(f"{key}/verdict", "", own)
    return found.decode() if isinstance(found, bytes) else str(found)


def store_of(group: Any) -> tuple[Any, str]:
    """The store that all ranks of the job share, and a name in it that is this group's alone.

    Raises LookupError where there is none, as for a group of an old torch, which has no name.
    """
    c10d: Any = sys.modules["torch.distributed.distributed_c10d"]
    store = c10d._get_default_store()
    if store is None:
        raise LookupError("no store")
    if group is None:
        return store, "default"
    ranks = sorted(c10d.get_process_group_ranks(group))
    digest = blake2b(repr(ranks).encode(), digest_size=6).hexdigest()
    return store, f"{group.group_name}.{digest}"
