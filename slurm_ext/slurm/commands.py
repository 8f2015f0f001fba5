"""The SlurmClient of squeue, scontrol and sacctmgr; any Slurm from 22.05 on, without a library."""

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from slurm_ext.core.errors import SlurmError
from slurm_ext.slurm import accounting, ends, enforced, job_json, listing, sacct
from slurm_ext.slurm.records import (
    AccountedEnd,
    Accounting,
    EnforcedLimits,
    JobInfo,
    NodeInfo,
    PartitionInfo,
    PowerCommand,
    ReservationInfo,
    ResizeRequest,
    StartEstimate,
    update_words,
)

TIMEOUT_S = 15.0  # Slurm's own MessageTimeout is 10 s
# Times as Unix seconds. job_submit.lua must see the opt-out, whatever the script exports.
_TRIAL = ("sbatch", "--test-only", "--export=ALL")
_TRIAL_ENV = {"DLQUEUE": "off", "SLURM_TIME_FORMAT": "%s"}
_SHOW = ("sacctmgr", "--noheader", "--parsable2", "show")
_LIMITS = ("scontrol", "--oneliner", "show", "assoc_mgr")
T = TypeVar("T")


class CommandClient:
    """Client by the commands in `bin_dir` (or on PATH), for the cluster of `slurm_conf`.

    These are the settings paths.slurm_bin and paths.slurm_conf; empty means Slurm's default.
    """

    def __init__(
        self, *, bin_dir: str = "", slurm_conf: str = "", timeout_s: float = TIMEOUT_S
    ) -> None:
        self._bin_dir, self._timeout_s = bin_dir, timeout_s
        self._env = {**os.environ, **({"SLURM_CONF": slurm_conf} if slurm_conf else {})}
        # A user's defaults (SQUEUE_STATES, SQUEUE_USERS, ...) must not filter our listings, nor
        # lead to another cluster; in a federation squeue may list the jobs of all its clusters.
        self._env = {k: v for k, v in self._env.items() if not k.startswith("SQUEUE_")}
        self._env.pop("SLURM_CLUSTERS", None)  # sbatch's too: who asks for a start asks of here
        self._env |= {"SQUEUE_LOCAL": "1", "SLURM_TIME_FORMAT": "standard"}

    def jobs(self) -> tuple[JobInfo, ...]:
        """List the jobs by `squeue --json`, ended ones included."""
        return self._read(job_json.read_jobs, "squeue", "--states=all", "--json")

    def partitions(self) -> tuple[PartitionInfo, ...]:
        """List the partitions by scontrol's text: 22.05 has no JSON for them."""
        config = self._run("scontrol", "show", "config")
        parse = partial(listing.read_partitions, config=config)
        return self._read(parse, "scontrol", "--oneliner", "show", "partition")

    def nodes(self) -> tuple[NodeInfo, ...]:
        """List the nodes by scontrol's text."""
        return self._read(listing.read_nodes, "scontrol", "--oneliner", "show", "node")

    def reservations(self) -> tuple[ReservationInfo, ...]:
        """List the reservations by scontrol's text."""
        argv = ("scontrol", "--oneliner", "show", "reservation")
        return self._read(listing.read_reservations, *argv)

    def config(self) -> dict[str, str]:
        """Return slurmctld's configuration by scontrol's text."""
        return self._read(listing.read_config, "scontrol", "show", "config")

    def accounting(self) -> Accounting | None:
        """Return limits of associations and QOS, if slurmctld enforces any."""
        config = self.config()
        if not accounting.enforced(config):
            return None
        qos = self._run(*_SHOW, "qos", f"format={','.join(accounting.QOS_COLUMNS)}")
        of_cluster = f"cluster={config['ClusterName']}"
        columns = f"format={','.join(accounting.ASSOCIATION_COLUMNS)}"
        parse = partial(accounting.read_accounting, qos=qos)
        return self._read(parse, *_SHOW, "assoc", of_cluster, columns)

    def limits(self, user: str, qos: Sequence[str]) -> tuple[EnforcedLimits, ...]:
        """List them by `scontrol show assoc_mgr`, as every user may."""
        which = [f"flags=assoc{',qos' if qos else ''}", f"users={user}"]
        which += [f"qos={','.join(qos)}"] if qos else []
        return self._read(enforced.read_limits, *_LIMITS, *which)

    def operators(self) -> frozenset[str]:
        """Return users with an AdminLevel, if slurmdbd keeps users."""
        if not accounting.by_slurmdbd(self.config()):
            return frozenset()
        return self._read(accounting.read_operators, *_SHOW, "user", "format=User,AdminLevel")

    def ends(self, job_ids: Sequence[int], since_s: float) -> tuple[AccountedEnd, ...]:
        """List them by `sacct --duplicates`, if slurmdbd keeps accounts."""
        if not job_ids or not accounting.by_slurmdbd(self.config()):
            return ()
        return self._read(ends.read, *ends.words(job_ids, since_s), env=sacct.ENV)

    def start_of(self, submission: Sequence[str], *, timeout_s: float) -> StartEstimate:
        """Estimate the start by `sbatch --test-only`. Raises SlurmError if slurmctld is away."""
        argv = (*_TRIAL, *submission)
        env = {**self._env, **_TRIAL_ENV}
        done = self._finished(argv, "sbatch --test-only", timeout_s, env)
        output = done.stderr.decode(errors="replace")
        if done.returncode == 0:
            return listing.read_start(output, time.time())
        refusal = listing.read_refusal(output)
        if refusal is None:
            raise SlurmError("sbatch --test-only", done.returncode, output)
        return refusal

    def script_of(self, job_id: int) -> str | None:
        """Read it by `scontrol write batch_script`, which root, operators and the owner may."""
        try:
            return self._run("scontrol", "write", "batch_script", str(job_id), "-")
        except SlurmError:
            return None

    def delay(self, job_ids: Sequence[int], seconds: int) -> None:
        """Set StartTime of all in one command; an error names the jobs that it refused."""
        if job_ids:
            start = f"StartTime=now+{seconds}" if seconds > 0 else "StartTime=now"
            self._run("scontrol", "update", _job_ids(job_ids), start)

    def bind(self, job_id: int, node: str | None) -> None:
        """Set ReqNodeList."""
        self._run("scontrol", "update", _job_ids([job_id]), f"ReqNodeList={node or ''}")

    def requeue(self, job_id: int, *, held: bool = False) -> None:
        """Run `scontrol requeue` or `requeuehold`."""
        self._run("scontrol", "requeuehold" if held else "requeue", str(job_id))

    def hold(self, job_id: int) -> None:
        """Run `scontrol hold`."""
        self._run("scontrol", "hold", str(job_id))

    def release(self, job_id: int) -> None:
        """Run `scontrol release`."""
        self._run("scontrol", "release", str(job_id))

    def set_nice(self, job_id: int, nice: int) -> None:
        """Set Nice."""
        self._run("scontrol", "update", _job_ids([job_id]), f"Nice={nice}")

    def resize(self, job_id: int, request: ResizeRequest) -> None:
        """Set NumNodes, Gres, NumTasks and CPUs/Task in one command."""
        if words := update_words(request):
            self._run("scontrol", "update", _job_ids([job_id]), *words)

    def power(self, nodes: Sequence[str], state: PowerCommand) -> None:
        """Set State of all in one command."""
        if nodes:
            names = f"NodeName={','.join(nodes)}"
            self._run("scontrol", "update", names, f"State={state.value}")

    def _read(
        self, parse: Callable[[str], T], *argv: str, env: Mapping[str, str] | None = None
    ) -> T:
        """Run the command and parse its output. Raises SlurmError where `parse` fails."""
        text = self._run(*argv, env=env)
        try:
            return parse(text)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            why = f"answered in a form that dlqueue does not know: {error!r}"
            raise SlurmError(" ".join(argv), 0, why) from None

    def _run(self, *argv: str, env: Mapping[str, str] | None = None) -> str:
        command = " ".join(argv)
        done = self._finished(argv, command, self._timeout_s, {**self._env, **(env or {})})
        if done.returncode != 0:
            raise SlurmError(command, done.returncode, done.stderr.decode(errors="replace"))
        # Job names are bytes in any encoding.
        return done.stdout.decode("utf-8", "surrogateescape")

    def _finished(
        self, argv: Sequence[str], command: str, timeout_s: float, env: Mapping[str, str]
    ) -> subprocess.CompletedProcess[bytes]:
        """Run it to its end, whatever its status. Raises SlurmError, which names it `command`."""
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
            raise SlurmError.not_started(command, program, error) from None
        except ValueError as error:  # a NUL byte among the words
            raise SlurmError(command, None, str(error)) from None


def _job_ids(job_ids: Sequence[int]) -> str:
    return f"JobId={','.join(map(str, job_ids))}"
