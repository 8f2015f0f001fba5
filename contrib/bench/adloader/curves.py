"""Every kind's rate alone, over a grid of CPU shares and workers: what a search may look at."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from contrib.bench.adloader.actuator import CPU, Group, open_workers
from contrib.bench.adloader.site import MOST_WORKERS, TRAINING
from contrib.bench.adloader.training import KINDS

SHARES = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)  # cores, as far as there are
WORKERS = (1, 2, 4, 8)
MEASURE_S = 1.2
ROUNDS = 6  # of all workers, for one point
MOST_S = 3.0  # for one point, however slow
STARVED_S = 60.0  # for a second batch, on a machine whose cores others have
LEVEL = 1.03  # two shares in a row that bring less are followed by no better one
SITE = Path(__file__).parents[3] / "slurm_ext" / "probe" / "site"


@dataclass(frozen=True, slots=True)
class Table:
    """Rates in samples/s by share and workers."""

    rates: Mapping[tuple[float, int], float]

    def at(self, cores: float, workers: int) -> float:
        """Between shares by straight lines; workers as measured, or the next fewer."""
        shares = sorted({share for share, _ in self.rates})
        count = max((w for w in WORKERS if w <= workers), default=WORKERS[0])
        below = max((s for s in shares if s <= cores), default=shares[0])
        above = min((s for s in shares if s >= cores), default=shares[-1])
        low, high = self.rates[below, count], self.rates[above, count]
        return low if above <= below else low + (high - low) * (cores - below) / (above - below)

    def best(self, cores: float) -> tuple[float, int]:
        """The highest rate with so many cores, and the fewest workers within 1 % of it."""
        rates = {workers: self.at(cores, workers) for workers in WORKERS}
        top = max(rates.values())
        return top, next(workers for workers in WORKERS if rates[workers] >= 0.99 * top)

    def as_json(self) -> list[list[float]]:
        """Rows of share, workers, samples/s."""
        return [[*key, round(rate, 2)] for key, rate in self.rates.items()]

    @classmethod
    def from_json(cls, rows: list[list[float]]) -> "Table":
        """Read what `as_json` wrote."""
        return cls({(share, int(workers)): rate for share, workers, rate in rows})


class Alone:
    """One endless training that is driven over the grid."""

    def __init__(self, kind: str, data: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="adloader-"))
        self.log = self.folder / "log"
        self.group = Group(CPU / f"adloader-{os.getpid()}-alone")
        self.group.make()
        script = 'echo $$ > "$0/cgroup.procs"; exec "$@"'
        training = [sys.executable, str(TRAINING), kind, "--samples", "1000000"]
        training += ["--workers", str(KINDS[kind].user_workers), "--data", str(data)]
        self.process = subprocess.Popen(
            ["sh", "-c", script, str(self.group.folder), *training, "--log", str(self.log)],
            env={
                **os.environ,
                "PYTHONPATH": str(SITE),
                "DLQUEUE_RUN_DIR": str(self.folder),
                "DLQUEUE_NUM_WORKERS": str(MOST_WORKERS),
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # torch warns of workers: here they are what is measured
        )
        self.await_batches(4 * MOST_WORKERS, 30)

    def end(self) -> None:
        """Kill it and its workers."""
        while self.group.lives():
            for pid in (self.group.folder / "cgroup.procs").read_text().split():
                subprocess.run(["kill", "-9", pid], check=False, stderr=subprocess.DEVNULL)
            time.sleep(0.02)
        self.process.wait()
        self.group.remove()

    def batches(self) -> list[tuple[float, int]]:
        """All so far."""
        if not self.log.exists():
            return []
        rows = [line.split() for line in self.log.read_text().split("\n")[:-1]]
        return [(float(at_s), int(samples)) for at_s, samples in rows]

    def await_batches(self, count: int, most_s: float) -> list[tuple[float, int]]:
        """`count` more batches, as far as they come within `most_s`."""
        before, deadline = len(self.batches()), time.monotonic() + most_s
        while time.monotonic() < deadline and len(self.batches()) < before + count:
            if self.process.poll() is not None:
                raise RuntimeError(f"the training ended with {self.process.returncode}")
            time.sleep(0.05)
        return self.batches()[before:]

    def rate(self, cores: float, workers: int, before: int) -> float:
        """Samples/s once what was fetched before has been used up."""
        self.group.hold(cores)
        open_workers(self.folder, workers)
        time.sleep(0.3)
        self.await_batches(2 * max(before, workers), MOST_S / 2)
        begin = len(self.batches()) - 1
        time.sleep(MEASURE_S)
        self.await_batches(ROUNDS * workers - (len(self.batches()) - begin), MOST_S - MEASURE_S)
        self.await_batches(begin + 2 - len(self.batches()), STARVED_S)
        return steady_rate(self.batches()[begin:], workers)


def steady_rate(batches: Sequence[tuple[float, int]], workers: int) -> float:
    """Samples/s over whole rounds: batches come in bursts of as many as there are workers."""
    whole = max(1, (len(batches) - 1) // workers * workers)
    (began_s, first), (ended_s, last) = batches[0], batches[whole]
    return (last - first) / (ended_s - began_s)


def sweep(kind: str, data: Path, cores: int) -> Table:
    """The grid of one kind on so many cores; level parts are not measured further."""
    alone, rates = Alone(kind, data), dict[tuple[float, int], float]()
    try:
        for share, workers, rate in _points(alone, cores):
            rates[share, workers] = rate
            print(f"{kind}: {share} cores, {workers} workers: {rate:.0f}/s", file=sys.stderr)
        return Table(rates)
    finally:
        alone.end()


def _points(alone: Alone, cores: int) -> Iterator[tuple[float, int, float]]:
    before = MOST_WORKERS
    for workers in WORKERS:
        row: list[float] = []
        for share in (share for share in SHARES if share <= cores):
            row.append(row[-1] if is_level(row) else alone.rate(share, workers, before))
            before = workers
            yield share, workers, row[-1]


def is_level(row: Sequence[float]) -> bool:
    """True if the last two larger shares did not raise the rate."""
    return len(row) > 2 and row[-1] < LEVEL * row[-2] and row[-2] < LEVEL * row[-3]
