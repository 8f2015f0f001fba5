"""Client of a sandbox that is up: commands, jobs, logs, states."""

import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from slurm_ext.core.errors import SandboxError, SlurmError
from slurm_ext.sandbox import control
from slurm_ext.sandbox.layout import SandboxLayout
from slurm_ext.sandbox.manifest import read_manifest
from slurm_ext.sandbox.plan import SandboxPlan, daemons
from slurm_ext.sandbox.render import settings_of
from slurm_ext.sandbox.spec import search_path
from slurm_ext.slurm.records import ENDED_STATES

READY_S = 90.0  # a busy machine may be slow; a daemon that ends is noticed at once
LONGEST_PAUSE_S = 0.25  # between two looks at something that takes long
_SLURM_VARIABLES = ("SLURM_", "SLURMD_", "SBATCH_", "SALLOC_", "SRUN_", "SQUEUE_", "SINFO_")


class SandboxClient:
    """Commands, jobs and logs of a sandbox; `Sandbox` adds its start, end and faults."""

    layout: SandboxLayout
    _plan: SandboxPlan | None

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes."""
        return tuple(node.name for node in self.plan.nodes)

    @property
    def plan(self) -> SandboxPlan:
        """Decisions of `up`: ports, addresses, nodes."""
        if self._plan is None:
            raise SandboxError(f"the sandbox in {self.layout.root} is not up")
        return self._plan

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the sandbox's dlqueue.toml, by dotted key."""
        return settings_of(self.plan)

    @property
    def env(self) -> dict[str, str]:
        """Environment in which Slurm's commands use this sandbox and no other Slurm."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(_SLURM_VARIABLES)}
        return {
            **kept,
            "PATH": search_path(),
            "SLURM_CONF": str(self.layout.slurm_conf),
            "DLQUEUE_CONFIG": str(self.layout.settings),
            control.MARK: str(self.layout.root),
        }

    def path(self, name: str) -> Path:
        """Path of a file or folder, such as `etc/slurm.conf` or `nodes/n1/dlqueue`."""
        return self.layout.root / name

    def log(self, name: str) -> str:
        """Log of a daemon: munged, slurmctld, slurmdbd, mariadbd, advisor or a node's name."""
        for path in (self.layout.log / f"{name}.log", self.layout.log / f"{name}.out"):
            if path.exists() and (text := path.read_text(errors="replace")):
                return text
        return ""

    def run(
        self, argv: Sequence[str], *, timeout_s: float = 60, check: bool = True, **options: Any
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command inside; `options` are subprocess.run's (`env` is added to the sandbox's).

        Raises SlurmError if it takes longer than `timeout_s` or, with `check`, if it fails.
        """
        env = {**self.env, **(options.pop("env", None) or {})}
        command = " ".join(map(str, argv))
        try:
            done = subprocess.run(
                [str(word) for word in argv],
                env=env,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout_s,
                check=False,
                **options,
            )
        except subprocess.TimeoutExpired:
            raise SlurmError(command, None, f"no answer within {timeout_s:g} s") from None
        except FileNotFoundError:
            raise SandboxError(f"{argv[0]}: no such command") from None
        if check and done.returncode != 0:
            raise SlurmError(command, done.returncode, done.stderr or done.stdout)
        return done

    def sbatch(
        self,
        *argv: str,
        script: str | None = None,
        env: Mapping[str, str] | None = None,
        **options: Any,
    ) -> tuple[int, str]:
        """Submit (a `script` goes through stdin); return the job's id and sbatch's stderr.

        Without an --output of its own the job writes to `<root>/out/<job>.txt`.
        """
        out = self.layout.root / "out"
        out.mkdir(exist_ok=True)
        out.chmod(0o1777)
        done = self.run(
            ["sbatch", "--parsable", f"--output={out}/%A.txt", *argv],
            input=script,
            env=env,
            **{"cwd": out, **options},
        )
        return int(re.split(r"[;\n]", done.stdout)[0]), done.stderr

    def output(self, job_id: int) -> str:
        """Output of a job that `sbatch` submitted."""
        return (self.layout.root / "out" / f"{job_id}.txt").read_text(errors="replace")

    def job(self, job_id: int) -> dict[str, str]:
        """Return `scontrol show job` as name → value; empty if Slurm no longer knows the job."""
        done = self.run(["scontrol", "-o", "show", "job", str(job_id)], check=False)
        return dict(re.findall(r"(\S+?)=(.*?)(?= \S+?=|$)", done.stdout.strip()))

    def wait(self, job_id: int, timeout_s: float = 150) -> str:
        """Wait for a job's end and return its state, such as COMPLETED."""
        began = time.monotonic()
        while (state := self.job(job_id).get("JobState", "")) not in ENDED_STATES:
            if time.monotonic() > began + timeout_s:
                raise SandboxError(f"job {job_id} is {state or 'unknown'} after {timeout_s:g} s")
            pause(began)
        return state

    def status(self) -> dict[str, Any]:
        """Return `up`, the daemons' pids, and nodes with their states, as plain data."""
        wanted = [daemon.name for daemon in daemons(read_manifest(self.layout.root).plan)]
        answer = control.ask(self.layout, "status", quiet=True)
        running = answer["daemons"] if answer else {}
        return {
            "root": str(self.layout.root),
            "up": answer is not None and set(running) == set(wanted),
            "slurm_conf": str(self.layout.slurm_conf),
            "daemons": {name: running.get(name) for name in wanted},
            "nodes": self._node_states() if "slurmctld" in running else {},
        }

    def supervisor_pid(self) -> int:
        """Pid of the process that all daemons and jobs descend from."""
        return int(control.ask(self.layout, "status")["pid"])

    def wait_for_nodes(self, state: str = "idle", timeout_s: float = READY_S) -> None:
        """Wait until every node's state starts with `state`."""
        ready = lambda: all(s.startswith(state) for s in self._node_states().values())  # noqa: E731
        self.until(ready, f"nodes are not {state}", timeout_s)

    def until(
        self, done: Callable[[], bool], why: str, timeout_s: float = READY_S, *, name: str = ""
    ) -> None:
        """Poll `done`. Raises SandboxError after `timeout_s`, or once daemon `name` has ended."""
        began = time.monotonic()
        while not done():
            ended = control.ask(self.layout, "status")["exits"]
            if name in ended or time.monotonic() > began + timeout_s:
                tail = "\n".join(self.log(name or "slurmctld").splitlines()[-5:])
                raise SandboxError(
                    f"{why}: see {self.layout.log}/{name or 'slurmctld'}.log\n{tail}"
                )
            pause(began)

    def _running(self) -> dict[str, int]:
        return dict(control.ask(self.layout, "status")["daemons"])

    def _node_states(self) -> dict[str, str]:
        done = self.run(["sinfo", "-h", "-N", "-o", "%N %T"], check=False, timeout_s=15)
        states = dict(line.split() for line in done.stdout.splitlines())
        return {name: states.get(name, "unknown") for name in self.nodes}


def pause(began: float) -> None:
    """Sleep until the next look: longer, the longer it takes, as each look costs a process."""
    waited = time.monotonic() - began
    time.sleep(min(LONGEST_PAUSE_S, 0.02 + waited / 10))
