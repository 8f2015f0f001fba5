"""Known loads on the device, as the rows see them: programs/load.py makes them."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from contrib.bench.gpu.here import Here
from contrib.bench.gpu.talker import Talker

MARGIN_S = 30.0  # beyond the time that a load was told to run
_numbers = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """One run of a load: its rounds, its wall time, the device's time by events and by its own."""

    rounds: int
    wall_s: float
    busy_s: float  # by events: includes turns of other processes
    own_s: float  # rounds by their seconds alone
    gib: float  # that were moved

    @property
    def rate(self) -> float:
        """Rounds a second."""
        return self.rounds / self.wall_s

    @property
    def share(self) -> float:
        """Part of the time in which it computed, as if it were alone."""
        return min(1.0, self.own_s / self.wall_s)


class Load(Talker):
    """One process that puts loads on the device."""

    def __init__(self, here: Here, env: Mapping[str, str] | None = None) -> None:
        said = f"{here.folder}/load-{next(_numbers)}"
        super().__init__(here.command("load", here.device), here.environment(env), said)

    def begin(self, kind: str, seconds: float, share: float = 1.0, hold_mib: int = 0) -> None:
        """Start a load of this kind for so long."""
        self._seconds = seconds
        self.tell(kind=kind, seconds=seconds, share=share, hold_mib=hold_mib)

    def end(self) -> Done:
        """The run that was begun, once it is over."""
        return done_of(self.hear(self._seconds + MARGIN_S))


def done_of(answer: Mapping[str, Any]) -> Done:
    """Answer of a load after a run."""
    return Done(**{name: answer[name] for name in ("rounds", "wall_s", "busy_s", "own_s", "gib")})


@contextlib.contextmanager
def loads(here: Here, number: int, env: Mapping[str, str] | None = None) -> Iterator[list[Load]]:
    """So many load processes, each of which measured its rounds while nobody else computed."""
    with contextlib.ExitStack() as stack:
        started = []
        for _ in range(number):
            load = stack.enter_context(Load(here, env))
            load.hear()
            started.append(load)
        yield started


def together(each: Sequence[tuple[Load, str]], seconds: float) -> list[Done]:
    """Run loads of these kinds at the same time."""
    for load, kind in each:
        load.begin(kind, seconds)
    return [load.end() for load, _ in each]


def described(words: Mapping[str, Any]) -> str:
    """A line of a program's answer, for messages."""
    return json.dumps(dict(words))[:200]
