"""What was changed and how to undo it, on the disk before it is done: for whoever comes after."""

import fcntl
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from slurm_ext.control import gate
from slurm_ext.control.cpu import undo
from slurm_ext.control.errors import GoneError, HostileError
from slurm_ext.control.place import Place
from slurm_ext.facts.errors import InputError
from slurm_ext.node import state
from slurm_ext.node.files import read_bounded, write_whole
from slurm_ext.node.places import Spool

MAX_BYTES = 1 << 20
MAX_LEDGER_BYTES = 1 << 20


class Folder:
    """`<spool>/control`: root's own. Raises OSError."""

    def __init__(self, spool: Spool) -> None:
        spool.prepare()
        self.path = Path(spool.root, "control")
        self.path.mkdir(mode=0o700, exist_ok=True)

    def lock(self) -> int:
        """The right to control this node, until the process ends. Raises InputError."""
        held = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(held)
            raise InputError(str(self.path), "another `dlqueue control` works here") from None
        return held

    def keep(self, jobs: Mapping[str, Any]) -> None:
        """Note every job that was changed, or is about to be."""
        text = json.dumps({"boot_id": state.boot_id(), "jobs": jobs})
        write_whole(str(self.path / "kept.json"), text.encode(), durable=False)

    def restore(self) -> int:
        """Undo what another controller left; how many jobs were concerned."""
        path = self.path / "kept.json"
        try:
            kept = json.loads(read_bounded(str(path), MAX_BYTES))
        except FileNotFoundError:
            return 0
        except (OSError, ValueError) as error:
            raise InputError(str(path), f"cannot be read: {error}") from None
        jobs = kept["jobs"] if kept["boot_id"] == state.boot_id() else {}
        for entry in jobs.values():
            with suppress(GoneError, OSError):
                undo(Place(**entry["place"]), entry["share"])
            with suppress(GoneError, HostileError):
                gate.as_written(entry["run_dir"], uid=entry["place"]["uid"])
        path.unlink()
        return len(jobs)

    def note(self, entry: Mapping[str, Any]) -> None:
        """One line more in the ledger of decisions, which begins anew when it has grown."""
        path = self.path / "decisions.jsonl"
        with suppress(FileNotFoundError):
            if path.stat().st_size > MAX_LEDGER_BYTES:
                path.replace(path.with_suffix(".jsonl.1"))
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    def tell(self, status: Mapping[str, Any]) -> None:
        """What `dlqueue control status` shows."""
        write_whole(str(self.path / "status.json"), json.dumps(status).encode(), durable=False)

    def told(self) -> dict[str, Any] | None:
        """The last status; None: there is none."""
        try:
            found = json.loads(read_bounded(str(self.path / "status.json"), MAX_BYTES))
        except (OSError, ValueError):
            return None
        return dict(found)
