"""A machine in simulated time: cores and a disk that processes share, and sleeping.

A process is a generator of amounts: `("cpu", seconds)`, `("disk", bytes)`, `("sleep", seconds)` or
`("until", condition)`. Those that want the same resource share it evenly. This knows nothing of
dlqueue, so that what it makes can test dlqueue's rules.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from math import inf

Need = tuple[str, float] | tuple[str, Callable[[], bool]]
Program = Generator[Need, None, None]
TINY = 1e-12


@dataclass(slots=True)
class Process:
    """One process, what it wants now, and what it has spent."""

    program: Program
    kind: str = "sleep"
    left: float = 0.0
    condition: Callable[[], bool] | None = None
    over: bool = False
    cpu_s: float = 0.0
    queued_s: float = 0.0
    blocked_s: float = 0.0

    def next(self) -> None:
        """Take up the next amount, or end."""
        try:
            self.kind, amount = next(self.program)
        except StopIteration:
            self.over = True
            return
        self.condition = amount if callable(amount) else None
        self.left = inf if callable(amount) else amount


@dataclass(slots=True)
class Machine:
    """Its cores, its disk's bytes/s for all readers together, and its processes."""

    cores: float
    disk: float = inf
    now: float = 0.0
    processes: list[Process] = field(default_factory=list)

    def start(self, program: Program) -> Process:
        """A process that begins now."""
        process = Process(program)
        process.next()
        self.processes.append(process)
        return process

    def run(self, until: Callable[[], bool]) -> None:
        """Let time pass until `until` is true, or nothing is left to happen."""
        while not until():
            self._wake()
            self.processes = [one for one in self.processes if not one.over]
            speeds = {id(one): self._speed(one) for one in self.processes}
            lengths = [one.left / speeds[id(one)] for one in self.processes if speeds[id(one)]]
            step_s = min(lengths, default=inf)
            if step_s == inf:
                return
            self._pass(step_s, speeds)

    def _wake(self) -> None:
        """Processes whose condition has come true go on; one may make another's true."""
        going = True
        while going:
            going = False
            for process in self.processes:
                if not process.over and process.condition is not None and process.condition():
                    process.next()
                    going = True

    def _speed(self, process: Process) -> float:
        if process.kind == "until":
            return 0.0
        if process.kind == "sleep":
            return 1.0
        sharing = sum(one.kind == process.kind for one in self.processes)
        return min(1.0, self.cores / sharing) if process.kind == "cpu" else self.disk / sharing

    def _pass(self, step_s: float, speeds: dict[int, float]) -> None:
        self.now += step_s
        for process in [*self.processes]:  # one may start another
            speed = speeds[id(process)]
            if process.kind == "cpu":
                process.cpu_s += step_s * speed
                process.queued_s += step_s * (1 - speed)
            elif process.kind != "until":
                process.blocked_s += step_s
            if process.condition is None:
                process.left -= step_s * speed
                if process.left <= TINY * max(1.0, self.now):
                    process.next()
