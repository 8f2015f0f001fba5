"""Runs one mix on a private Slurm: submits, follows, reads the logs."""

import json
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from contrib.bench.adloader.actuator import CPU, Actuator, Group, Watched, sleep_until
from contrib.bench.adloader.metrics import Trained
from contrib.bench.adloader.own_cpu import OwnCpu
from contrib.bench.adloader.training import KINDS
from contrib.bench.adloader.workload import EPOCHS, Job, slots
from slurm_ext.sandbox import Sandbox

MOST_WORKERS = 10  # that a fixed policy may open in one job
GATED = {"DLQUEUE_NUM_WORKERS": str(MOST_WORKERS)}  # the probe starts them, and opens as told
RUN_S = 900
TRAINING = Path(__file__).with_name("training.py")

SCRIPT = """#!/bin/bash
#SBATCH --job-name={kind}
#SBATCH --cpus-per-task={cpus}
#SBATCH --time=15

[ -z "$ADLOADER_GROUP" ] || echo $$ > "$ADLOADER_GROUP/cgroup.procs"
python3 "$SLURM_SUBMIT_DIR/{program}" {kind} --epochs {epochs} --workers {workers} \\
    --data "$ADLOADER_DATA" --log "$ADLOADER_LOG" "$@"
"""


class RunFailedError(RuntimeError):
    """A job did not train all of its samples exactly once an epoch."""


@dataclass(slots=True)
class Site:
    """A sandbox that is up, and where its trainings find their files."""

    sandbox: Sandbox
    data: Path
    runs: int = 0

    def __post_init__(self) -> None:
        work = self.sandbox.path("work")
        work.mkdir(exist_ok=True)
        shutil.copy(TRAINING, work)
        cpus = self.sandbox.spec.cpus // slots(self.sandbox.spec.cpus)
        for name, kind in KINDS.items():
            fields = {"kind": name, "cpus": cpus, "workers": kind.user_workers, "epochs": EPOCHS}
            text = SCRIPT.format(program=TRAINING.name, **fields)
            (work / f"{name}.sbatch").write_text(text)

    def run_dir(self, job_id: int) -> Path:
        """The probe's folder of a job."""
        return self.node_folder / "run" / f"{job_id}.0"

    @property
    def node_folder(self) -> Path:
        """Dlqueue's folder on the node."""
        return self.sandbox.layout.node(self.sandbox.nodes[0]) / "dlqueue"

    def play(
        self,
        jobs: Sequence[Job],
        actuator: Actuator | None = None,
        env: Mapping[str, str] = MappingProxyType({}),
    ) -> "Played":
        """Run the mix to its end; the actuator holds its jobs, `env` is added to every job's.

        Raises RunFailedError.
        """
        self.runs += 1
        return _Run(self, self.runs, actuator, env).play(jobs)


@dataclass(frozen=True, slots=True)
class Played:
    """A mix's jobs in the order of submission."""

    jobs: list[Trained]
    emulated: bool
    own_cpu_s: dict[str, float]
    decisions: list[dict[str, Any]] = field(default_factory=list)  # of dlqueue control


class _Run:
    def __init__(
        self, site: Site, number: int, actuator: Actuator | None, env: Mapping[str, str]
    ) -> None:
        self.site, self.actuator, self.env = site, actuator, env
        self.top = CPU / f"adloader-{os.getpid()}-{number}"
        self.logs = site.sandbox.path("logs") / str(number)
        self.logs.mkdir(parents=True)
        self.groups: list[Group] = []
        self.job_ids: list[int] = []
        self.own_cpu = OwnCpu(site.sandbox.supervisor_pid())
        self.began_s = self.looked_s = time.monotonic()

    def play(self, jobs: Sequence[Job]) -> Played:
        try:
            for job in jobs:
                sleep_until(self.began_s + job.submit_s, self._look)
                self._submit(job)
            self._await(jobs)
            own_cpu_s = self.own_cpu.seconds()
            trained = [self._trained(job) for job in jobs]
            emulated = any(emulated for _, emulated in trained)
            return Played([job for job, _ in trained], emulated, own_cpu_s)
        finally:
            self._clean()

    def _submit(self, job: Job) -> None:
        env = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
            "ADLOADER_DATA": str(self.site.data),
            "ADLOADER_LOG": str(self.logs / f"{job.number}.log"),
            "ADLOADER_GROUP": "",
            **self.env,
        }
        group = Group(self.top / str(job.number))
        if self.actuator:
            group.make()
            self.groups.append(group)
            env["ADLOADER_GROUP"] = str(group.folder)
        work = self.site.sandbox.path("work")
        argv = (f"{job.kind}.sbatch", "--samples", str(job.samples))
        job_id, _ = self.site.sandbox.sbatch(*argv, env=env, cwd=work)
        self.job_ids.append(job_id)
        if self.actuator:
            log = Path(env["ADLOADER_LOG"])
            self.actuator.jobs.append(Watched(job.kind, group, self.site.run_dir(job_id), log))

    def _look(self) -> None:
        if self.actuator:
            self.actuator.look()
        if time.monotonic() - self.looked_s > 1:
            self.own_cpu.look()
            self.looked_s = time.monotonic()

    def _await(self, jobs: Sequence[Job]) -> None:
        deadline = time.monotonic() + RUN_S
        waiting = [self.logs / f"{job.number}.log" for job in jobs]
        while waiting:
            if time.monotonic() > deadline:
                raise RunFailedError(self._failure(int(waiting[0].stem)))
            sleep_until(time.monotonic() + 0.1, self._look)
            waiting = [path for path in waiting if not _ended(path)]
        for job_id in self.job_ids:
            self.site.sandbox.wait(job_id)

    def _failure(self, number: int) -> str:
        job_id = self.job_ids[number]
        state = self.site.sandbox.job(job_id).get("JobState")
        output = self.site.sandbox.output(job_id)[-2000:]
        return f"job {number} is {state} after {RUN_S} s: {output}"

    def _trained(self, job: Job) -> tuple[Trained, bool]:
        *rows, last = (self.logs / f"{job.number}.log").read_text().splitlines()
        summary: dict[str, Any] = json.loads(last)
        pairs = [row.split() for row in rows]
        batches = [(round(float(at) - self.began_s, 3), int(count)) for at, count in pairs]
        if not summary["each_once"] or batches[-1][1] != job.samples * EPOCHS:
            raise RunFailedError(f"job {job.number} ({job.kind}) lost or doubled samples")
        trained = Trained(
            kind=job.kind, submit_s=job.submit_s, batches=batches, cpu_s=summary["cpu_s"]
        )
        return trained, summary["emulated"]

    def _clean(self) -> None:
        for group in self.groups:
            group.remove()
        Group(self.top).remove()


def _ended(log: Path) -> bool:
    """True if the log has its last line."""
    try:
        with log.open("rb") as file:
            file.seek(-min(200, log.stat().st_size), os.SEEK_END)
            return file.read().endswith(b"}\n")
    except OSError:
        return False
