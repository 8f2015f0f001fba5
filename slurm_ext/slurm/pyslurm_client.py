"""The SlurmClient that changes jobs through pyslurm: 2 ms a change, and no process for each.

pyslurm (25.11.2, its source) cannot do all that we ask, so the commands do the rest:

| what                | why by command                                                          |
|---------------------|-------------------------------------------------------------------------|
| listings            | `Job` has no GPUs that were asked by --gpus or --gpus-per-task          |
| nice 0              | `if self.nice:` takes 0 for "not told"                                  |
| nodes of an update  | an update leaves the number of nodes out; required nodes are not cleared |
| power, accounting   | no such call, or less than the commands tell                            |

It needs libslurm of the very same Slurm (INSTALL.md), so nothing imports it but `open_pyslurm`. The
contract of all clients was run with it on Slurm 26.05.5, its job calls ported to that release.
"""

import importlib
import os
from collections.abc import Callable
from typing import Any

from slurm_ext.core.errors import MissingError, SlurmError
from slurm_ext.slurm.commands import CommandClient


class PyslurmClient(CommandClient):
    """As CommandClient; what is overridden here goes to slurmctld directly."""

    def __init__(self, library: Any, *, bin_dir: str = "", slurm_conf: str = "") -> None:
        super().__init__(bin_dir=bin_dir, slurm_conf=slurm_conf)
        self._library = library

    def script_of(self, job_id: int) -> str | None:
        """By REQUEST_BATCH_SCRIPT, which root, operators and the owner may."""
        try:
            return str(self._asked("script", self._job(job_id).get_batch_script))
        except SlurmError:
            return None

    def bind(self, job_id: int, node: str | None) -> None:
        """By required_nodes."""
        if node is None:
            super().bind(job_id, node)
        else:
            self._modify(job_id, required_nodes=[node])

    def requeue(self, job_id: int, *, held: bool = False) -> None:
        """By slurm_requeue."""
        self._asked("requeue", lambda: self._job(job_id).requeue(hold=held))

    def hold(self, job_id: int) -> None:
        """By priority 0, as root's `scontrol hold` does."""
        self._asked("hold", self._job(job_id).hold)

    def release(self, job_id: int) -> None:
        """By an endless priority, as `scontrol release` does."""
        self._asked("release", self._job(job_id).release)

    def set_nice(self, job_id: int, nice: int) -> None:
        """By nice."""
        if nice == 0:
            super().set_nice(job_id, nice)
        else:
            self._modify(job_id, nice=nice)

    def _job(self, job_id: int) -> Any:
        return self._library.Job(job_id)

    def _modify(self, job_id: int, **changes: Any) -> None:
        wanted = self._library.JobSubmitDescription(**changes)
        self._asked(f"modify {changes}", lambda: self._job(job_id).modify(wanted))

    def _asked(self, what: str, call: Callable[[], Any]) -> Any:
        """Slurm's answer. Raises SlurmError in place of pyslurm's own errors."""
        try:
            return call()
        except self._library.RPCError as error:
            raise SlurmError(f"pyslurm {what}", None, str(error)) from None


def open_pyslurm(*, bin_dir: str = "", slurm_conf: str = "") -> PyslurmClient:
    """The client, with the library loaded now. Raises MissingError where it cannot be."""
    if slurm_conf:
        os.environ["SLURM_CONF"] = slurm_conf  # the library looks when it is loaded, never again
    try:
        library = importlib.import_module("pyslurm")
    except ImportError as error:
        how = "install the pyslurm of this very Slurm, or set site.slurm_client to commands"
        raise MissingError(
            f"site.slurm_client is pyslurm, which cannot be used: {error}", how
        ) from None
    return PyslurmClient(library, bin_dir=bin_dir, slurm_conf=slurm_conf)
