"""A training on the simulated machine, and the record that a probe would leave of it.

The training process takes batches in their order; workers make them ahead, at most two each, in
turn, as torch's DataLoader does. What is measured is what the probe measures, with its errors.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from contrib.bench.advice.machine import Machine, Process, Program

MEASURED = 0.02  # log sd of what a probe measures of one run
BUCKET = 0.13  # relative width of the percentiles' histogram


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One training and where it runs; seconds and bytes are of one sample unless they say else."""

    batch: int = 8
    workers: int = 2
    cores: float = 2.0
    others: int = 0  # busy processes of other jobs on these cores
    cpu_s: float = 0.002
    sleep_s: float = 0.0
    read_bytes: float = 0.0
    disk: float = 1e9  # bytes/s of all readers
    slow_share: float = 0.0  # of the samples,
    slow_times: float = 1.0  # which take so many times as long
    spread: float = 0.15  # log sd of a sample's time
    step_s: float = 0.05  # of the accelerator, for a batch
    host_s: float = 0.002  # CPU of the training process, for a batch
    start_s: float = 0.03  # until a worker that starts can work
    batches: int = 200  # of a pass
    lasts_s: float = 45.0
    prefetch: int = 2  # batches that each worker makes ahead
    persistent: bool = False  # workers live from pass to pass
    rss_bytes: int = 200 << 20
    mem_bytes: int = 64 << 30
    emulated: bool = True
    gpus: int = 0
    rates: tuple[tuple[int, float], ...] = ()  # that a search for workers measured before


@dataclass(slots=True)
class Seen:
    """Measurements of one pass or of several: sums, and each batch's making time."""

    epochs: int = 0
    batches: int = 0
    wait_s: float = 0.0
    step_s: float = 0.0
    first_wait_s: float = 0.0
    wait_queued_s: float = 0.0
    step_queued_s: float = 0.0
    host_cpu_s: float = 0.0
    made: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    queued_s: float = 0.0
    times: list[float] = field(default_factory=list)


class Run:
    """A job that runs to its end; `phases` are its first pass and all later ones."""

    def __init__(self, job: Job, rng: random.Random) -> None:
        self.job, self.rng = job, rng
        self.machine = Machine(cores=job.cores, disk=job.disk)
        self.phases = [Seen(), Seen()]
        self.ready: set[int] = set()
        self.taken = 0
        self.passes = 0
        for _ in range(job.others):
            self.machine.start(_busy())

    def go(self) -> None:
        """Run it."""
        main: list[Process] = []
        main.append(self.machine.start(self._main(lambda: main[0])))
        self.machine.run(lambda: main[0].over)

    @property
    def seen(self) -> Seen:
        """The phase that its present pass belongs to."""
        return self.phases[min(1, self.passes)]

    def _main(self, me: Callable[[], Process]) -> Program:
        yield "sleep", 0.0
        while self.machine.now < self.job.lasts_s:
            self.ready, self.taken = set(), 0
            self.seen.epochs += 1
            for worker in range(self.job.workers):
                self._start(worker)
            for number in range(self.job.batches):
                if self.machine.now >= self.job.lasts_s:
                    break
                yield from self._turn(number, me())
            self.passes += 1

    def _turn(self, number: int, me: Process) -> Program:
        """One batch: wait for it, then the step."""
        seen, began, queued_s = self.seen, self.machine.now, me.queued_s
        if self.job.workers == 0:
            yield from self._make(me, seen)
        else:
            yield "until", lambda: number in self.ready
        waited_s = self.machine.now - began
        seen.wait_s += waited_s
        seen.first_wait_s += waited_s if number == 0 else 0.0
        seen.wait_queued_s += me.queued_s - queued_s
        self.taken += 1
        began, queued_s = self.machine.now, me.queued_s
        yield "cpu", self.job.host_s * self._noise(0.05)
        seen.step_queued_s += me.queued_s - queued_s
        yield "sleep", max(0.0, self.job.step_s * self._noise(0.02) - self.job.host_s)
        seen.step_s += self.machine.now - began
        seen.host_cpu_s += self.job.host_s
        seen.batches += 1

    def _start(self, worker: int) -> None:
        place: list[Process] = []
        place.append(self.machine.start(self._worker(worker, lambda: place[0])))

    def _worker(self, worker: int, me: Callable[[], Process]) -> Program:
        seen, every, mine = self.seen, self.job.workers, self.passes

        def wanted() -> bool:
            return self.passes != mine or number < self.taken + self.job.prefetch * every

        yield "sleep", 0.0 if self.job.persistent and mine else self.job.start_s
        for number in range(worker, self.job.batches, every):
            yield "until", wanted
            if self.passes != mine:
                return
            yield from self._make(me(), seen)
            self.ready.add(number)

    def _make(self, me: Process, seen: Seen) -> Program:
        """The samples of a batch, in amounts of a whole batch."""
        job, began = self.job, self.machine.now
        cpu_s, queued_s = me.cpu_s, me.queued_s
        units = sum(self._sample() for _ in range(job.batch))
        if job.sleep_s:
            yield "sleep", units * job.sleep_s
        if job.read_bytes:
            yield "disk", units * job.read_bytes
        yield "cpu", units * job.cpu_s
        seen.made += 1
        seen.wall_s += self.machine.now - began
        seen.times.append(self.machine.now - began)
        seen.cpu_s += me.cpu_s - cpu_s
        seen.queued_s += me.queued_s - queued_s

    def _sample(self) -> float:
        slow = self.job.slow_times if self.rng.random() < self.job.slow_share else 1.0
        return slow * self._noise(self.job.spread)

    def _noise(self, spread: float) -> float:
        return self.rng.lognormvariate(-(spread**2) / 2, spread)


def _busy() -> Program:
    while True:
        yield "cpu", 0.01


def record(job: Job, rng: random.Random) -> dict[str, Any]:
    """The record of a run of this job."""
    run = Run(job, rng)
    run.go()
    summary = _summary(run, rng)
    return record_of([summary], job, run.machine.now)


def seconds_each(job: Job) -> float:
    """Seconds of a batch, all included; the same chance for every job."""
    run = Run(job, random.Random(0))
    run.go()
    return run.machine.now / sum(seen.batches for seen in run.phases)


def record_of(summaries: list[dict[str, Any]], job: Job, lasted_s: float) -> dict[str, Any]:
    """The node's part of a record around summaries of its processes."""
    cpus = max(1, int(job.cores))
    return {
        "allocation": {
            "cpus": cpus * len(summaries),
            "cpus_per_task": cpus,
            "num_tasks": len(summaries),
            "num_nodes": 1,
            "mem_bytes": job.mem_bytes,
            "gpus": job.gpus,
        },
        "times": {"elapsed_s": lasted_s},
        "outcome": {"state": "COMPLETED"},
        "host": {"cores": 64, "gpus": []},
        "counters": [],
        "corunners": [],
        "probe": {"summaries": summaries},
    }


def _summary(run: Run, rng: random.Random) -> dict[str, Any]:
    job = run.job
    phases = [
        _phase(name, seen, job, rng)
        for name, seen in zip(("first_epoch", "later"), run.phases, strict=True)
        if seen.batches
    ]
    return {
        "rank": 0,
        "world_size": 1,
        "host": "n1",
        "accelerator": None,
        "emulated": job.emulated,
        "threads": 1,
        "frameworks": [],
        "cores": job.cores,
        "node_cores": 64,
        "started_s": 0.0,
        "ended_s": run.machine.now,
        "communication": None,
        "loaders": [
            {
                "dataset": "Pictures",
                "style": "map",
                "batch_size": job.batch,
                "length": job.batch * job.batches,
                "user_num_workers": job.workers,
                "worker_rss_bytes": job.rss_bytes if job.workers else None,
                "startup_s": 0.01 * job.workers * sum(seen.epochs for seen in run.phases),
                "tuned": {"workers": None, "rates": [_rate(*one) for one in job.rates]}
                if job.rates
                else None,
                "phases": phases,
            }
        ],
    }


def _rate(workers: int, samples_per_s: float) -> dict[str, float]:
    return {"workers": workers, "samples_per_s": samples_per_s, "wait": 0.5}


def _phase(name: str, seen: Seen, job: Job, rng: random.Random) -> dict[str, Any]:
    """Sums of a phase as a probe measures them."""
    made_bytes = job.read_bytes * job.batch * seen.made
    exact = {
        "wait_s": seen.wait_s,
        "step_s": seen.step_s,
        "first_wait_s": seen.first_wait_s,
        "wait_queued_s": seen.wait_queued_s,
        "step_queued_s": seen.step_queued_s,
        "main_cpu_s": seen.host_cpu_s,
        "fetch_wall_s": seen.wall_s,
        "fetch_queued_s": seen.queued_s,
        "bytes_read": made_bytes,
    }
    measured = {key: value * rng.lognormvariate(0, MEASURED) for key, value in exact.items()}
    measured["first_wait_s"] = min(measured["first_wait_s"], measured["wait_s"])
    times = sorted(seen.times)
    at = {part: times[int(part * (len(times) - 1))] for part in (0.5, 0.99)} if times else {}
    return {
        "phase": name,
        "epochs": seen.epochs,
        "batches": seen.batches,
        "samples": seen.batches * job.batch,
        "steps": seen.batches,
        "wall_s": measured["wait_s"] + measured["step_s"],
        "workers": float(job.workers),
        "lent_s": 0.0,
        "fetch_samples": seen.made * job.batch,
        "fetch_cpu_s": min(seen.cpu_s, measured["fetch_wall_s"]),
        "delivered_bytes": None,
        **{
            f"fetch_p{round(100 * p)}_s": t * rng.uniform(1 - BUCKET, 1 + BUCKET)
            for p, t in at.items()
        },
        **measured,
    }
