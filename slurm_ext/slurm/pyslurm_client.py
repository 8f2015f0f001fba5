"""The SlurmClient that changes jobs through pyslurm: 2 ms a change, and no process for each.

pyslurm (source of 25.11.2) cannot do everything, so that commands do the rest:

| call                | reason for the command                                                  |
|---------------------|-------------------------------------------------------------------------|
| listings            | `Job` has no GPUs that were asked by --gpus or --gpus-per-task          |
| nice 0              | `if self.nice:` takes 0 for "not given"                                 |
| nodes of an update  | an update leaves the number of nodes out; required nodes are not cleared |
| power, accounting   | no such call, or fewer fields than the commands have                    |

It needs libslurm of the very same Slurm (INSTALL.md), so that only `open_pyslurm` imports it. The
contract of all clients was tested with it on Slurm 26.05.5, its job calls ported to that release.
"""

import importlib
import os
from collections.abc import Callable
from typing import Any

from slurm_ext.core.errors import MissingError, SlurmError
from slurm_ext.slurm.commands import CommandClient


class PyslurmClient(CommandClient):
    """CommandClient whose methods below go to slurmctld directly."""

    def __init__(self, library: Any, *, bin_dir: str = "", slurm_conf: str = "") -> None:
        super().__init__(bin_dir=bin_dir, slurm_conf=slurm_conf)
        self._library = library

    def script_of(self, job_id: int) -> str | None:
        """Read it by REQUEST_BATCH_SCRIPT, which root, operators and the owner may."""
        try:
            return str(self._call("script", self._job(job_id).get_batch_script))
        except SlurmError:
            return None

    def bind(self, job_id: int, node: str | None) -> None:
        """Set required_nodes."""
        if node is None:
            super().bind(job_id, node)
        else:
            self._modify(job_id, required_nodes=[node])

    def requeue(self, job_id: int, *, held: bool = False) -> None:
        """Call slurm_requeue."""
        self._call("requeue", lambda: self._job(job_id).requeue(hold=held))

    def hold(self, job_id: int) -> None:
        """Set priority 0, as root's `scontrol hold` does."""
        self._call("hold", self._job(job_id).hold)

    def release(self, job_id: int) -> None:
        """Set an infinite priority, as `scontrol release` does."""
        self._call("release", self._job(job_id).release)

    def set_nice(self, job_id: int, nice: int) -> None:
        """Set nice."""
        if nice == 0:
            super().set_nice(job_id, nice)
        else:
            self._modify(job_id, nice=nice)

    def _job(self, job_id: int) -> Any:
        return self._library.Job(job_id)

    def _modify(self, job_id: int, **changes: Any) -> None:
        wanted = self._library.JobSubmitDescription(**changes)
        self._call(f"modify {changes}", lambda: self._job(job_id).modify(wanted))

    def _call(self, what: str, call: Callable[[], Any]) -> Any:
        """Call Slurm. Raises SlurmError in place of pyslurm's own errors."""
        try:
            return call()
        except self._library.RPCError as error:
            raise SlurmError(f"pyslurm {what}", None, str(error)) from None


def open_pyslurm(*, bin_dir: str = "", slurm_conf: str = "") -> PyslurmClient:
    """Load the library and return the client. Raises MissingError where that fails."""
    if slurm_conf:
        os.environ["SLURM_CONF"] = slurm_conf  # the library reads it when it is loaded
    try:
        library = importlib.import_module("pyslurm")
    except ImportError as error:
        how = "install the pyslurm of this very Slurm, or set site.slurm_client to commands"
        raise MissingError(
            f"site.slurm_client is pyslurm, which cannot be used: {error}", how
        ) from None
    return PyslurmClient(library, bin_dir=bin_dir, slurm_conf=slurm_conf)
