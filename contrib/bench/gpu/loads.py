"""Known loads on the device, as the rows see them: programs/load.py makes them."""

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count

from contrib.bench.gpu.here import Here
from contrib.bench.gpu.talker import Talker

MARGIN_S = 30.0  # beyond the time that a load was told to run
FIELDS = ("kernels", "wall_s", "busy_s", "own_s", "gib")
_numbers = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """One run of a load: its kernels, its wall time, the device's time by events and by its own."""

    kernels: int
    wall_s: float
    busy_s: float  # by events: includes turns of other processes
    own_s: float  # rounds by their seconds alone, in this process
    gib: float  # that were moved

    @property
    def rate(self) -> float:
        """Kernels a second: the same work in each process, whatever limits it has."""
        return self.kernels / self.wall_s

    @property
    def share(self) -> float:
        """Part of the time in which it computed, as if it were alone."""
        return min(1.0, self.own_s / self.wall_s)


class Load(Talker):
    """One process that puts loads of some kinds on the device."""

    def __init__(self, here: Here, kinds: Iterable[str], env: Mapping[str, str]) -> None:
        said = f"{here.folder}/load-{next(_numbers)}"
        super().__init__(here.command("load", here.device, *kinds), here.environment(env), said)

    def begin(
        self, kind: str, seconds: float, share: float = 1.0, hold_mib: int = 0, gap_s: float = 0.0
    ) -> None:
        """Start a load of this kind for so long; `gap_s`: idle after each round."""
        self._seconds = seconds
        self.tell(kind=kind, seconds=seconds, share=share, hold_mib=hold_mib, gap_s=gap_s)

    def end(self) -> Done:
        """The run that was begun, once it is over."""
        answer = self.hear(self._seconds + MARGIN_S)
        return Done(**{name: answer[name] for name in FIELDS})


@contextlib.contextmanager
def loads(
    here: Here, number: int, kinds: Collection[str], env: Mapping[str, str]
) -> Iterator[list[Load]]:
    """So many load processes, each of which measured its rounds while nobody else computed."""
    with contextlib.ExitStack() as stack:
        started = []
        for _ in range(number):
            load = stack.enter_context(Load(here, kinds, env))
            load.hear()
            started.append(load)
        yield started
