"""The SlurmClient of squeue, scontrol and sacctmgr; any Slurm from 22.05 on, without a library."""

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from slurm_ext.core.errors import SlurmError
from slurm_ext.slurm import accounting, job_json, listing, test_only
from slurm_ext.slurm import edits as slurm_edits
from slurm_ext.slurm.records import (
    Accounting,
    JobInfo,
    NodeInfo,
    PartitionInfo,
    PowerCommand,
    ReservationInfo,
    ResizeRequest,
    StartEstimate,
)

TIMEOUT_S = 15.0  # Slurm's own MessageTimeout is 10 s
# Time as Unix seconds; whatever the script exports, job_submit.lua has to see the opt-out.
_TRIAL = ("sbatch", "--test-only", "--export=ALL")
_TRIAL_ENV = {"DLQUEUE": "off", "SLURM_TIME_FORMAT": "%s"}
_SHOW = ("sacctmgr", "--noheader", "--parsable2", "show")
T = TypeVar("T")


class CommandClient:
    """Slurm's commands in `bin_dir` (or on PATH), speaking to `slurm_conf`'s cluster (or Slurm's).

    Both take the settings paths.slurm_bin and paths.slurm_conf as they are; empty means default.
    """

    def __init__(
        self, *, bin_dir: str = "", slurm_conf: str = "", timeout_s: float = TIMEOUT_S
    ) -> None:
        self._bin_dir, self._timeout_s = bin_dir, timeout_s
        self._env = {**os.environ, **({"SLURM_CONF": slurm_conf} if slurm_conf else {})}
        # A user's defaults (SQUEUE_STATES, SQUEUE_USERS, ...) must not narrow what we see.
        self._env = {k: v for k, v in self._env.items() if not k.startswith("SQUEUE_")}
        self._env["SLURM_TIME_FORMAT"] = "standard"

    def jobs(self) -> tuple[JobInfo, ...]:
        """Every job, from `squeue --json`, which lists ended ones too."""
        return self._read(job_json.read_jobs, "squeue", "--states=all", "--json")

    def partitions(self) -> tuple[PartitionInfo, ...]:
        """Every partition, from scontrol's text: 22.05 has no JSON for them."""
        config = self._run("scontrol", "show", "config")
        parse = partial(listing.read_partitions, config=config)
        return self._read(parse, "scontrol", "--oneliner", "show", "partition")

    def nodes(self) -> tuple[NodeInfo, ...]:
        """Every node, from scontrol's text."""
        return self._read(listing.read_nodes, "scontrol", "--oneliner", "show", "node")

    def reservations(self) -> tuple[ReservationInfo, ...]:
        """Every reservation, from scontrol's text."""
        argv = ("scontrol", "--oneliner", "show", "reservation")
        return self._read(listing.read_reservations, *argv)

    def config(self) -> dict[str, str]:
        """The configuration of slurmctld, from scontrol's text."""
        return self._read(listing.read_config, "scontrol", "show", "config")

    def accounting(self) -> Accounting | None:
        """Limits of associations and QOS, where slurmctld enforces any."""
        config = self.config()
        if not accounting.enforced(config):
            return None
        qos = self._run(*_SHOW, "qos", f"format={','.join(accounting.QOS_COLUMNS)}")
        of_cluster = f"cluster={config['ClusterName']}"
        columns = f"format={','.join(accounting.ASSOCIATION_COLUMNS)}"
        parse = partial(accounting.read_accounting, qos=qos)
        return self._read(parse, *_SHOW, "assoc", of_cluster, columns)

    def start_of(self, submission: Sequence[str], *, timeout_s: float) -> StartEstimate:
        """From `sbatch --test-only`, which has no JSON. Raises SlurmError where none answers."""
        argv = (*_TRIAL, *submission)
        env = {**self._env, **_TRIAL_ENV}
        done = self._finished(argv, "sbatch --test-only", timeout_s, env)
        said = done.stderr.decode(errors="replace")
        if done.returncode == 0:
            return test_only.read_start(said, time.time())
        refused = test_only.read_refusal(said)
        if refused is None:
            raise SlurmError("sbatch --test-only", done.returncode, said)
        return refused

    def script_of(self, job_id: int) -> str | None:
        """From `scontrol write batch_script`, which root, operators and the owner may."""
        try:
            return self._run("scontrol", "write", "batch_script", str(job_id), "-")
        except SlurmError:
            return None

    def delay(self, job_ids: Sequence[int], seconds: int) -> None:
        """By StartTime, in one command for all; an error names those that could not be changed."""
        if job_ids:
            when = f"StartTime=now+{seconds}" if seconds > 0 else "StartTime=now"
            self._run("scontrol", "update", _named(job_ids), when)

    def bind(self, job_id: int, node: str | None) -> None:
        """By ReqNodeList."""
        self._run("scontrol", "update", _named([job_id]), f"ReqNodeList={node or ''}")

    def requeue(self, job_id: int, *, held: bool = False) -> None:
        """By `scontrol requeue` or `requeuehold`."""
        self._run("scontrol", "requeuehold" if held else "requeue", str(job_id))

    def hold(self, job_id: int) -> None:
        """By `scontrol hold`."""
        self._run("scontrol", "hold", str(job_id))

    def release(self, job_id: int) -> None:
        """By `scontrol release`."""
        self._run("scontrol", "release", str(job_id))

    def set_nice(self, job_id: int, nice: int) -> None:
        """By Nice."""
        self._run("scontrol", "update", _named([job_id]), f"Nice={nice}")

    def resize(self, job_id: int, shape: ResizeRequest) -> None:
        """By NumNodes, Gres, NumTasks and CPUs/Task, in one command."""
        if words := slurm_edits.words(shape):
            self._run("scontrol", "update", _named([job_id]), *words)

    def power(self, nodes: Sequence[str], state: PowerCommand) -> None:
        """By State, in one command for all."""
        if nodes:
            names = f"NodeName={','.join(nodes)}"
            self._run("scontrol", "update", names, f"State={state.value}")

    def _read(self, parse: Callable[[str], T], *argv: str) -> T:
        """What `parse` makes of the command's output."""
        text = self._run(*argv)
        try:
            return parse(text)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            said = f"answered in a form that dlqueue does not know: {error!r}"
            raise SlurmError(" ".join(argv), 0, said) from None

    def _run(self, *argv: str) -> str:
        command = " ".join(argv)
        done = self._finished(argv, command, self._timeout_s, self._env)
        if done.returncode != 0:
            raise SlurmError(command, done.returncode, done.stderr.decode(errors="replace"))
        # Job names are bytes in any encoding.
        return done.stdout.decode("utf-8", "surrogateescape")

    def _finished(
        self, argv: Sequence[str], command: str, timeout_s: float, env: Mapping[str, str]
    ) -> subprocess.CompletedProcess[bytes]:
        """The command's end, whatever it was. Raises SlurmError, naming it `command`."""
        program = str(Path(self._bin_dir) / argv[0]) if self._bin_dir else argv[0]
        try:
            return subprocess.run(
                [program, *argv[1:]],
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SlurmError(command, None, f"no answer within {timeout_s:g} s") from None
        except OSError as error:
            raise SlurmError(command, None, f"{program}: {error.strerror}") from None
        except ValueError as error:  # a NUL byte among the words
            raise SlurmError(command, None, str(error)) from None


def _named(job_ids: Sequence[int]) -> str:
    return f"JobId={','.join(map(str, job_ids))}"
