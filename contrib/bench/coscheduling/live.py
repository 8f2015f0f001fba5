"""An arrival order on a private Slurm: ten real jobs on one node of two CPUs, with and without us.

All ten wait behind a job that holds the node until the last one has arrived and the co-scheduler
has looked once, so every policy starts from the same queue. The makespan begins when the first
job's process starts and ends with the last step of the last job. `idle_s` is the time of the
node's slots that no job used while some job waited.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from contrib.bench.coscheduling.matrix import KERNEL_FILE, Matrix
from slurm_ext.control.coscheduling.co_scheduling_loop import CoScheduler
from slurm_ext.control.coscheduling.jobs import key_of
from slurm_ext.control.coscheduling.pair_memory import PairMemory, pair_state
from slurm_ext.control.coscheduling.speed_monitor import SpeedMonitor
from slurm_ext.control.loops.action_log import ActionLog
from slurm_ext.core.errors import DlqueueError
from slurm_ext.core.gpu_sharing import CorunMeasurement, RelativeSpeed, SoloProfile
from slurm_ext.core.settings.document import Settings
from slurm_ext.policy.colocation.choose_pairs import SpeedPredictor
from slurm_ext.sandbox import Sandbox, SandboxSpec
from slurm_ext.slurm import CommandClient, JobInfo

INTERVAL_S = 0.5  # between two looks: the jobs' length by forty, as 15 s are of ten minutes
RUN_S = 600.0  # six times what an order takes on a quiet machine
SHORTEST_S = 1.0  # of an overlap that tells a speed


class RunFailedError(DlqueueError):
    """A job did not come to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One job of a live order."""

    kind: str
    began_s: float
    rows: Sequence[tuple[float, int, float]]  # Unix seconds, steps done, seconds queued
    solo: float  # steps/s alone
    bound: float | None = None  # lower bound of its speed that it was started with

    @property
    def ended_s(self) -> float:
        """Its last step."""
        return self.rows[-1][0]

    def speed(self, from_s: float = 0.0, to_s: float = float("inf")) -> float | None:
        """Of its speed alone while it had its core, in that time; None: too short to tell."""
        rows = [row for row in self.rows if from_s <= row[0] <= to_s]
        if len(rows) < 2 or rows[-1][0] - rows[0][0] < SHORTEST_S:
            return None
        (first_s, done_before, queued_before), (last_s, done, queued) = rows[0], rows[-1]
        had_core_s = max(0.05, (last_s - first_s) - (queued - queued_before))
        return (done - done_before) / had_core_s / self.solo

    def below_s(self, floor: float) -> float:
        """Seconds in a row below the floor, the longest, by half seconds."""
        longest = lately = 0.0
        marks = [row for i, row in enumerate(self.rows) if i % 5 == 0]
        for before, after in pairwise(marks):
            seconds = (after[0] - before[0]) - (after[2] - before[2])
            slow = seconds > 0 and (after[1] - before[1]) / seconds < floor * self.solo
            lately = lately + seconds if slow else 0.0
            longest = max(longest, lately)
        return longest


class Site:
    """A sandbox that is up, and its jobs' files."""

    def __init__(self, sandbox: Sandbox, data: Path, matrix: Matrix, seconds: float) -> None:
        self._slurm, self._data, self._matrix, self._seconds = sandbox, data, matrix, seconds
        self._played = 0

    def script(self, kind: str) -> str:
        """The job as its user wrote it; only the kind tells jobs apart."""
        steps = max(3, round(self._seconds * self._matrix.solo[kind]))
        log = f"$LOGS/{kind}.json"
        return (
            f"#!/bin/sh\n{sys.executable} {KERNEL_FILE} {kind} --data {self._data}"
            f" --steps {steps} --log {log}\n"
        )

    def play(self, order: Sequence[str], predictor: SpeedPredictor | None) -> list[Ran]:
        """Run the order; with `known` dlqueue steers, without Slurm alone. RunFailedError."""
        self._played += 1
        logs = self._slurm.path(f"logs{self._played}")
        logs.mkdir()
        go = logs / "go"
        hold = f"#!/bin/sh\nwhile [ ! -e {go} ]; do sleep 0.05; done\n"
        blocker, _ = self._slurm.sbatch("-c2", "--mem=100", script=hold)
        self._until(lambda: self._slurm.job(blocker)["JobState"] == "RUNNING", lambda: None)
        ids = {}
        for kind in order:
            ids[kind], _ = self._slurm.sbatch(
                "-c1",
                "--mem=2000",
                "--comment=dlqueue=share",
                "--time=10",
                script=self.script(kind),
                env={"LOGS": str(logs)},
            )
        pairing = self._pairing(predictor) if predictor else None
        step = pairing.round if pairing else lambda: ()
        step()
        go.touch()
        self._until(lambda: all((logs / f"{kind}.json").exists() for kind in order), step)
        if pairing:
            pairing.undo()
        for job_id in ids.values():
            self._slurm.wait(job_id)
        bounds = self._bounds(ids) if pairing else {}
        return [self._ran(kind, logs, bounds.get(kind)) for kind in order]

    def _until(self, done: Callable[[], bool], step: Callable[[], object]) -> None:
        deadline = time.monotonic() + RUN_S
        while not done():
            if time.monotonic() > deadline:
                raise RunFailedError(self._slurm.run(["squeue"]).stdout)
            step()
            time.sleep(INTERVAL_S)

    def _pairing(self, predictor: SpeedPredictor) -> CoScheduler:
        """The product's controller, with knowledge of kinds instead of a trained model."""
        state = self._slurm.path(f"pairing{self._played}")
        folder = pair_state(state)
        folder.path.mkdir(parents=True)
        values = {"sharing.pairing": "act", "sharing.lease_s": 60, "paths.state_dir": str(state)}
        client = CommandClient(slurm_conf=str(self._slurm.layout.slurm_conf))
        named = _Named({self.key(kind): kind for kind in self._matrix.solo}, predictor)
        watch = SpeedMonitor(lambda _: {}, {}, 60.0)  # no hooks here: nobody counts
        settings = Settings(values=values)
        return CoScheduler(
            settings,
            client,
            folder,
            PairMemory(),
            slowdowns=lambda: named,
            monitor=watch,
            action_log=ActionLog(state, "pair"),
        )

    def key(self, kind: str) -> str:
        """The solo key that the product finds for the kind's script."""
        return key_of(JobInfo(job_id=0, user_name=self._slurm.plan.user), self.script(kind))

    def _bounds(self, ids: Mapping[str, int]) -> dict[str, float]:
        """The lower bound that each job was freed with or joined by, the lower where both."""
        files = sorted(self._slurm.path(f"pairing{self._played}/moves").glob("pair-*.jsonl"))
        kinds = {f"{job_id}.0": kind for kind, job_id in ids.items()}
        last: dict[str, dict[str, float]] = {}  # what was said when it was freed last
        for line in [line for file in files for line in file.read_text().splitlines()]:
            move: dict[str, Any] = json.loads(line)
            if move["after"].get("free") and move["after"]["at_least"]:
                last[move["subject"]] = move["after"]["at_least"]
        bounds: dict[str, float] = {}
        for lows in last.values():
            for job, low in lows.items():
                bounds[kinds[job]] = min(low, bounds.get(kinds[job], 1.0))
        return bounds

    def _ran(self, kind: str, logs: Path, bound: float | None) -> Ran:
        log = json.loads((logs / f"{kind}.json").read_text())
        rows = [(float(t), int(n), float(q)) for t, n, q in log["rows"]]
        solo = self._matrix.solo[kind]
        return Ran(kind=kind, began_s=log["began_s"], rows=rows, solo=solo, bound=bound)


class _Named:
    """Knowledge by kind, asked by solo key."""

    def __init__(self, kinds: Mapping[str, str], known: SpeedPredictor) -> None:
        self._kinds, self._known = kinds, known

    def speed(
        self, job: SoloProfile, beside: Sequence[SoloProfile], device: str = "cpu"
    ) -> RelativeSpeed:
        others = [SoloProfile(key=self._kinds.get(one.key, one.key)) for one in beside]
        return self._known.speed(SoloProfile(key=self._kinds.get(job.key, job.key)), others, device)


def up(folder: Path) -> Sandbox:
    """One node of two CPUs."""
    return Sandbox(folder, SandboxSpec(nodes=1, cpus=2), temporary=True)


def makespan_s(ran: Sequence[Ran]) -> float:
    """From the first process's start to the last one's last step."""
    return max(run.ended_s for run in ran) - min(run.began_s for run in ran)


def idle_s(ran: Sequence[Ran], slots: int = 2) -> float:
    """Slot-seconds that nobody used until the last job's start."""
    last = max(run.began_s for run in ran)
    used = sum(min(run.ended_s, last) - run.began_s for run in ran)
    return slots * (last - min(run.began_s for run in ran)) - used


def together(ran: Sequence[Ran]) -> list[CorunMeasurement]:
    """Measured speeds of every two jobs of an order that overlapped."""
    measurements = []
    for run in ran:
        for other in ran:
            from_s, to_s = max(run.rows[0][0], other.rows[0][0]), min(run.ended_s, other.ended_s)
            speed = run.speed(from_s, to_s) if other is not run else None
            if speed is not None and speed > 0:
                seconds = to_s - from_s
                row = CorunMeasurement(
                    job=run.kind, partners=(other.kind,), speed=speed, seconds=seconds
                )
                measurements.append(row)
    return measurements
