"""Holds jobs to CPU shares and worker counts: a cgroup quota (v1) and the probe's gate."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

CPU = Path("/sys/fs/cgroup/cpu")
PERIOD_US = 20_000  # short, so that a job that is throttled waits milliseconds
LOOK_EVERY_S = 0.1
NO_LIMIT = -1


@dataclass(frozen=True, slots=True)
class Grant:
    """Cores and workers that a job may use; None: all cores."""

    cores: float | None
    workers: int


Rule = Callable[[tuple[str, ...]], tuple[Grant, ...]]
"""From the kinds of the jobs that run (STARTING before the first batch) to what each may use."""

STARTING = "starting"


@dataclass(frozen=True, slots=True)
class Watched:
    """A submitted job: how it is held and looked at."""

    kind: str
    group: "Group"
    run_dir: Path
    log: Path

    @property
    def kind_now(self) -> str:
        """Its kind once it trains."""
        try:
            return self.kind if self.log.stat().st_size else STARTING
        except FileNotFoundError:
            return STARTING


class Group:
    """One job's cgroup; its batch script moves itself into it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(self) -> None:
        """Create it before any process can be in it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))

    def hold(self, cores: float | None) -> None:
        """Cap it at `cores`."""
        quota = NO_LIMIT if cores is None else max(1000, round(cores * PERIOD_US))
        (self.folder / "cpu.cfs_quota_us").write_text(str(quota))

    def lives(self) -> bool:
        """True if a process is in it."""
        with suppress(OSError):
            return bool((self.folder / "cgroup.procs").read_text())
        return False

    def remove(self) -> None:
        """Remove the cgroup once it is empty."""
        with suppress(OSError):
            self.folder.rmdir()


def open_workers(run_dir: Path, workers: int) -> None:
    """Have the probe open so many workers."""
    with suppress(FileNotFoundError):  # the job ended in this moment
        (run_dir / "workers.new").write_text(str(workers))
        (run_dir / "workers.new").replace(run_dir / "workers")


class Actuator:
    """Follows the jobs that run and applies a rule whenever they change."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.jobs: list[Watched] = []
        self.seen: list[tuple[Watched, str]] = []

    def look(self) -> None:
        """Apply the rule again if a job began, started to train or ended."""
        running = [(job, job.kind_now) for job in self.jobs if job.group.lives()]
        if running != self.seen:
            self.seen = running
            # Between two jobs of a busy machine none may run: there is nothing to divide.
            grants = self.rule(tuple(kind for _, kind in running)) if running else ()
            for (job, _), grant in zip(running, grants, strict=True):
                with suppress(OSError):  # the job ended in this moment
                    job.group.hold(grant.cores)
                    open_workers(job.run_dir, grant.workers)


def sleep_until(moment_s: float, meanwhile: Callable[[], None]) -> None:
    """Sleep until `moment_s` of the monotonic clock; call `meanwhile` every LOOK_EVERY_S."""
    while (left_s := moment_s - time.monotonic()) > 0:
        meanwhile()
        time.sleep(min(LOOK_EVERY_S, left_s))


def may_hold() -> bool:
    """True if this process may create CPU cgroups here."""
    return os.access(CPU / "cgroup.procs", os.W_OK)
