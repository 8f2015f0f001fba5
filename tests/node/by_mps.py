"""A node by hand that has one GPU and the stand-in for MPS."""

import hashlib
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from slurm_ext.node.common.spool_layout import make_run_dir
from slurm_ext.node.common.state import save
from slurm_ext.node.mps import processes as mps_processes
from slurm_ext.node.mps.acquire import acquire
from slurm_ext.node.mps.notes import read_notes
from slurm_ext.node.mps.release import release, sweep
from slurm_ext.node.mps.task import export_lines
from tests import mps_program, mps_standin
from tests.node.by_hand import Node, wait_for

HALF = {"CUDA_VISIBLE_DEVICES": "0", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"}


class MpsNode(Node):
    """A node whose GPU, by its UUID, no other test's node has."""

    def __init__(self, root: Path, **settings: Any) -> None:
        control = str(root / "bin" / mps_program.CONTROL)
        budgets = {"node.prolog_budget_s": 20.0, "node.epilog_budget_s": 20.0}
        mps = {"mps.mode": "act", "mps.control": control, **budgets}
        super().__init__(root, **{**mps, **settings})
        self.uuid = "GPU-" + hashlib.sha256(str(root).encode()).hexdigest()[:32]
        self.mps = root / "spool" / "mps"
        mps_standin.install(self.bin, [f"{self.uuid}, 81559, Disabled, Default"])

    def hurry(self, seconds: float) -> None:
        """From now on, hooks have this long; until then they had as long as they need."""
        known = json.loads(self.json.read_text())
        for name in ("node.prolog_budget_s", "node.epilog_budget_s"):
            known[name] = seconds
        self.json.write_text(json.dumps(known))

    def misbehave(self, **faults: Any) -> None:
        """What the stand-in does from now on."""
        mps_standin.misbehave(self.bin, **faults)

    def hooked(self, job: int, **env: str) -> dict[str, str]:
        """The real prolog of a job with half the GPU, and what its task prolog then says."""
        self.prolog(job, **{**HALF, **env})
        done = self.hook("task_prolog", {"SLURM_JOB_ID": str(job), **HALF})
        return _named(done.stdout.decode().splitlines())

    def start(self, job: int, **env: str) -> dict[str, str]:
        """As `hooked`, by the prolog's part that concerns MPS alone."""
        key, spool, budget_s = f"{job}.0", self.spool, self.config.prolog_budget_s
        spool.prepare()
        if not Path(spool.state_file(key, "json")).exists():
            save(spool, key, "json", {}, durable=False)
        make_run_dir(spool, key, os.getuid())
        given = self.env(job, **{**HALF, **env})
        acquire(self.config, spool, key, given, time.monotonic() + budget_s)
        return _named(export_lines(f"{spool.run_dir(key)}/mps", HALF))

    def end(self, job: int) -> list[str]:
        """The epilog's part that concerns MPS; what the record will say."""
        spool, key = self.spool, f"{job}.0"
        release(self.config, spool, key)
        said = read_notes(spool, key)[1]
        Path(spool.state_file(key, "end")).touch()
        sweep(self.config, spool, time.monotonic() + self.config.epilog_budget_s, wait_s=10.0)
        return said

    def ours(self) -> list[mps_processes.MpsProcess]:
        """Daemons and servers of this node."""
        return processes_below(self.mps)

    def daemons(self) -> list[int]:
        """Pids of its control daemons."""
        return [each.pid for each in self.ours() if not each.server]

    def remains(self) -> list[str]:
        """Daemons' folders that are left."""
        return [path.name for path in self.mps.glob("*") if path.is_dir()]

    def record(self, job: int) -> dict[str, Any]:
        """The job's record, once it is delivered."""
        path = self.folder / f"c-{job}-0-n1.json"
        wait_for(path.exists)
        record: dict[str, Any] = json.loads(path.read_text())
        return record

    def close(self) -> None:
        """As the node's, and no daemon stays."""
        super().close()
        for each in self.ours():
            os.kill(each.pid, signal.SIGKILL)


def processes_below(root: Path) -> list[mps_processes.MpsProcess]:
    """Daemons and servers whose pipe folder lies under `root`, whoever runs them."""
    running = mps_processes.running_processes(lambda *_: True)
    return [each for each in running if (each.pipe or "").startswith(f"{root}/")]


def _named(lines: list[str]) -> dict[str, str]:
    told = dict(line.removeprefix("export ").split("=", 1) for line in lines)
    return {name: value for name, value in told.items() if name.startswith("CUDA_")}
