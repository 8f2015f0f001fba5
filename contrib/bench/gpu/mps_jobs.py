"""MPS for processes of this benchmark, by the code of the hooks: jobs come, share it and go."""

import json
import os
import signal
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from contrib.bench.gpu.here import Here
from contrib.bench.gpu.report import AbsentError
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.settings.render import render_node_config
from slurm_ext.node.common.config import NodeConfig
from slurm_ext.node.common.signals import send
from slurm_ext.node.common.spool_layout import Spool, make_run_dir
from slurm_ext.node.common.state import save
from slurm_ext.node.mps import registry
from slurm_ext.node.mps.acquire import acquire
from slurm_ext.node.mps.child import Owner
from slurm_ext.node.mps.daemon import MpsDaemon
from slurm_ext.node.mps.notes import read_notes
from slurm_ext.node.mps.processes import is_alive, running_processes
from slurm_ext.node.mps.release import release, sweep
from slurm_ext.node.mps.rules import DEVICES, PERCENT, PIPE
from slurm_ext.node.mps.task import export_lines

BUDGET_S = 10.0  # of a hook


def end_left(folder: str) -> None:
    """Kill daemons and servers of a row that was killed itself: their pipe folders are in its."""
    for process in running_processes(lambda _, uid: uid == os.getuid()):
        if (process.pipe or "").startswith(f"{folder}/"):
            send(process.pid, signal.SIGKILL, partial(is_alive, process.pid, process.start))


class MpsJobs:
    """A spool of its own, with at most one daemon; closed, none is left."""

    def __init__(self, here: Here) -> None:
        if not os.access(here.control, os.X_OK):
            raise AbsentError(f"{here.control} is not there")
        self._here = here
        folder = Path(here.folder, "mps")
        folder.mkdir(exist_ok=True)
        values = {"mps.mode": "act", "mps.control": here.control, "mps.jobs": "mps"}
        values |= {"node.spool_dir": str(folder)}
        rendered = json.loads(render_node_config(Settings("contrib.bench.gpu", values)))
        self.config, self.spool = NodeConfig(rendered), Spool(str(folder))
        self.spool.prepare()

    def start(self, job: int, percent: float, gpu: str = "") -> dict[str, str]:
        """A job's prolog and task prolog: its environment. Raises AbsentError with the reason.

        `gpu` is Slurm's name of it: its index, or (from 26.05 on) its UUID.
        """
        key, given = f"{job}.0", self._slurms(percent, gpu or self._here.index)
        save(self.spool, key, "json", {}, durable=False)
        make_run_dir(self.spool, key, os.getuid())
        acquire(self.config, self.spool, key, given, time.monotonic() + BUDGET_S)
        lines = export_lines(f"{self.spool.run_dir(key)}/mps", given)
        if not lines:
            said = read_notes(self.spool, key)[1] or ["MPS: none, and no reason"]
            raise AbsentError("; ".join(said))
        told = dict(line.removeprefix("export ").split("=", 1) for line in lines)
        # Slurm's own variables stand beside those of the task prolog.
        return {**({PERCENT: given[PERCENT]} if percent < 100 else {}), **told}

    def end(self, job: int) -> list[str]:
        """The job's epilog; what its record says of MPS."""
        key = f"{job}.0"
        release(self.config, self.spool, key)
        said = read_notes(self.spool, key)[1]
        Path(self.spool.state_file(key, "end")).touch()
        sweep(self.config, self.spool, time.monotonic() + BUDGET_S, wait_s=5.0)
        return said

    def daemon(self, env: Mapping[str, str]) -> MpsDaemon:
        """The daemon that a job's environment names."""
        number = int(Path(env[PIPE]).parent.name)
        slot = registry.MpsSlot(registry.mps_root(self.spool), Path(env[PIPE]).parents[1].name)
        return MpsDaemon(slot, number, self.owner, self._here.control)

    def own_daemon(self, number: int) -> MpsDaemon:
        """One that no job uses, with its folders, not started."""
        slot = registry.MpsSlot(registry.mps_root(self.spool), f"own-{self.owner.uid}")
        registry.make(self.spool, slot)
        registry.make_numbered(slot, number, self.owner.uid, self.owner.gid)
        return MpsDaemon(slot, number, self.owner, self._here.control)

    @property
    def owner(self) -> Owner:
        """This process's user."""
        return Owner(os.getuid(), os.getgid(), None)

    def remains(self) -> int:
        """Folders of daemons that are left."""
        return len(registry.slots(self.spool))

    def _slurms(self, percent: float, gpu: str) -> dict[str, str]:
        return {
            "SLURM_JOB_ID": "1",
            "SLURM_JOB_UID": str(os.getuid()),
            "SLURM_JOB_GID": str(os.getgid()),
            DEVICES: gpu,
            PERCENT: f"{percent:g}",
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        """End every daemon, also one in use."""
        for slot in registry.slots(self.spool):
            for number in slot.numbers():
                daemon = MpsDaemon(slot, number, self.owner, self._here.control)
                daemon.end(0.5, time.monotonic() + BUDGET_S)
