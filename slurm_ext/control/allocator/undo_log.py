"""What was changed and how to undo it, on the disk before it is done: for whoever comes after."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from slurm_ext.control.allocator import gate
from slurm_ext.control.allocator.cgroup.cpu import undo
from slurm_ext.control.allocator.cgroup.errors import JobGoneError, UntrustedJobDirError
from slurm_ext.control.allocator.cgroup.job_location import JobLocation
from slurm_ext.control.loops.loop_state import KeptFolder
from slurm_ext.node.common import state
from slurm_ext.node.common.spool_layout import Spool

MAX_LEDGER_BYTES = 1 << 20


class Folder(KeptFolder):
    """`<spool>/control`: root's own. Raises OSError."""

    given = False

    def __init__(self, spool: Spool) -> None:
        super().__init__(Path(spool.root, "control"), "dlqueue control")
        self._spool = spool

    def _prepare(self) -> None:
        self._spool.prepare()
        super()._prepare()

    def keep(self, jobs: Mapping[str, Any]) -> None:
        """Note every job that was changed, or is about to be; no boot outlives it."""
        self._write("kept.json", {"boot_id": state.boot_id(), "jobs": jobs}, durable=False)

    def restore(self) -> int:
        """Undo what another controller left; how many jobs were concerned. Raises InputError."""
        jobs: dict[str, Any] = self._kept(_of_this_boot, dict)
        for entry in jobs.values():
            with suppress(JobGoneError, OSError):
                undo(JobLocation(**entry["place"]), entry["share"])
            with suppress(JobGoneError, UntrustedJobDirError):
                gate.remove_gate(entry["run_dir"], uid=entry["place"]["uid"])
        (self.path / "kept.json").unlink(missing_ok=True)
        return len(jobs)

    def note(self, entry: Mapping[str, Any]) -> None:
        """One line more in the ledger of decisions, which begins anew when it has grown."""
        path = self.path / "decisions.jsonl"
        with suppress(FileNotFoundError):
            if path.stat().st_size > MAX_LEDGER_BYTES:
                path.replace(path.with_suffix(".jsonl.1"))
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")


def _of_this_boot(kept: Any) -> dict[str, Any]:
    return dict(kept["jobs"]) if kept["boot_id"] == state.boot_id() else {}
