"""A node without Slurm: the hooks are run as slurmd runs them, and jobs are plain processes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from slurm_ext.core.settings.document import Settings
from slurm_ext.core.settings.render import render_node_config
from slurm_ext.node.common.config import NodeConfig, load
from slurm_ext.node.common.spool_layout import Spool
from slurm_ext.node.record.squeue import _FIELDS

MAIN = Path(__file__).parents[2] / "slurm_ext" / "node" / "__main__.py"
NODE = "n1"
TOKEN = "d1-0123456789abcdef"
BURN = "import time\nt = time.process_time()\nwhile time.process_time() - t < {}: pass\n"
BURN += "time.sleep(0.4)\n"  # a sampler that is late on a busy machine has time to see it


class Node:
    """One node's spool, configuration and jobs, all under `root`."""

    def __init__(self, root: Path, **settings: Any) -> None:
        self.root = root
        self.bin, self.folder = root / "bin", root / "advisor"
        for folder in (self.bin, self.folder):
            folder.mkdir()
        values = {
            "site.cluster": "c",
            "paths.kill_file": str(root / "off"),
            "paths.slurm_bin": str(self.bin),
            "node.spool_dir": str(root / "spool"),
            "node.folder": str(self.folder),
            "node.sample_s": 0.1,
            "node.probe": True,
            "node.prolog_budget_s": 60.0,  # a busy machine is no fault
            "node.epilog_budget_s": 60.0,
            **settings,
        }
        self.json = root / "node.json"
        self.json.write_text(render_node_config(Settings("test", values)))
        self.children: list[subprocess.Popen[bytes]] = []

    @property
    def config(self) -> NodeConfig:
        """The configuration as the hooks load it."""
        return load(str(self.json))

    @property
    def spool(self) -> Spool:
        """Paths of the node's spool."""
        return Spool(str(self.root / "spool"))

    def env(self, job: int, context: str = "prolog_slurmd", **more: str) -> dict[str, str]:
        """What slurmd gives to a prolog or epilog: no PATH, no HOME."""
        return {
            "SLURM_SCRIPT_CONTEXT": context,
            "SLURMD_NODENAME": NODE,
            "SLURM_NODELIST": NODE,
            "SLURM_JOB_ID": str(job),
            "SLURM_JOB_UID": str(os.getuid()),
            "SLURM_JOB_USER": "ada",
            "SLURM_JOB_PARTITION": "main",
            "SLURM_JOB_CPUS_PER_NODE": "2",
            "SLURM_JOB_RESTART_COUNT": "0",
            "SLURM_JOB_WORK_DIR": "/",
            **more,
        }

    def hook(
        self, name: str, env: Mapping[str, str], *, python: str = sys.executable, config: str = ""
    ) -> "subprocess.CompletedProcess[bytes]":
        """Run one hook to its end as its launcher does."""
        argv = [python, "-I", "-S", str(MAIN), name, config or str(self.json)]
        return subprocess.run(argv, env=env, capture_output=True, timeout=100, cwd="/")

    def prolog(self, job: int, **more: str) -> None:
        """Run the prolog, which says nothing and succeeds."""
        done = self.hook("prolog", self.env(job, **more))
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")

    def epilog(self, job: int, status: int = 0, **more: str) -> None:
        """Run the epilog of a job that ended with the wait status `status`."""
        env = self.env(job, "epilog_slurmd", SLURM_JOB_EXIT_CODE=str(status), **more)
        done = self.hook("epilog", env)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")

    def job(self, job: int, code: str, **env: str) -> "subprocess.Popen[bytes]":
        """A process of the job, in Slurm's environment."""
        given = {"SLURM_JOB_ID": str(job), "SLURMD_NODENAME": NODE, **env}
        child = subprocess.Popen([sys.executable, "-I", "-S", "-c", code], env=given)
        self.children.append(child)
        return child

    def squeue_says(self, **facts: str) -> None:
        """Put a `squeue` in place that answers one job with `facts`, in its fixed columns."""
        said = {"state": "COMPLETING", "reason": "None", "restarts": "0", "exit_code": "0", **facts}
        line = "".join(f"{said.get(name, 'N/A'):<{width}}" for name, _, width in _FIELDS[1:])
        (self.root / "line").write_text(line)
        squeue = self.bin / "squeue"
        # It is asked -h -t all -j <job>: the id is the line's first column.
        width = _FIELDS[0][2]
        squeue.write_text(f"#!/bin/sh\nprintf '%-{width}s' \"$5\"\n/bin/cat '{self.root}/line'\n")
        squeue.chmod(0o755)

    def sampler(self, key: str) -> int | None:
        """Pid of the sampler that holds the job's lock, once there is one."""
        path = Path(self.spool.state_file(key, "lock"))
        wait_for(lambda: path.exists() and path.read_bytes())
        return int(path.read_bytes())

    def state(self, key: str) -> dict[str, Any]:
        """The sampler's state as it is on the disk."""
        state: dict[str, Any] = json.loads(Path(self.spool.state_file(key, "json")).read_text())
        return state

    def delivered(self, count: int = 1, timeout_s: float = 100.0) -> list[dict[str, Any]]:
        """All records at the advisor's, once there are `count` and the node is done."""
        wait_for(lambda: len(self.arrived()) >= count and not self.waiting(), timeout_s)
        return [json.loads(path.read_text()) for path in self.arrived()]

    def arrived(self) -> list[Path]:
        """Records in the advisor's folder."""
        return sorted(self.folder.glob("*.json"))

    def waiting(self) -> list[str]:
        """Records in the node's out folder."""
        return sorted(path.name for path in Path(self.spool.out).glob("[!.]*.json"))

    def ship(self) -> None:
        """One run of the transport worker in the foreground."""
        done = self.hook("ship", {})
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")

    def close(self) -> None:
        """End the jobs, samplers and workers of this node."""
        (self.root / "off").touch()
        for child in self.children:
            child.kill()
            child.wait()
        locks = [*self.root.glob("spool/state/*.lock"), *self.root.glob("spool/ship.lock")]
        for signed in locks:
            pid = signed.read_text().replace(str(os.getpid()), "")  # a test may work in person
            comm = Path(f"/proc/{pid}/comm")
            if pid and comm.exists() and comm.read_text().startswith(("dlqueue", "python")):
                os.kill(int(pid), signal.SIGKILL)


def wait_for(happened: Callable[[], object], timeout_s: float = 100.0) -> None:
    """Wait until `happened` is true; fail where it does not become so."""
    deadline = time.monotonic() + timeout_s
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def counters(record: Mapping[str, Any]) -> dict[str, float | None]:
    """Values of a record's counters by name."""
    return {counter["name"]: counter["value"] for counter in record["counters"]}


def cpu_s(record: Mapping[str, Any]) -> float:
    """CPU seconds of a record, user and system."""
    found = counters(record)
    return (found["cpu_user"] or 0.0) + (found["cpu_system"] or 0.0)
