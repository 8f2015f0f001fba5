"""Starts of jobs by Slurm's own accounting, which records are compared with."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slurm_ext.sandbox import Sandbox
from slurm_ext.slurm.hostlist import expand

_COLUMNS = ("JobIDRaw", "State", "Start", "End", "NodeList", "User", "Comment")
_NOWHERE = ("", "None assigned")
_NEVER = ("", "Unknown", "None")
_SEPARATOR = "\x1f"
_TAKEN = "Duplicate jobid"
_IN_VAIN = "REQUEST_LAUNCH_PROLOG notification failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One start of a job: the `start`-th, from 0, on these nodes."""

    job_id: int
    start: int
    nodes: tuple[str, ...]
    state: str  # Slurm's word for its end; empty while it runs
    opted_out: bool

    @property
    def over(self) -> bool:
        """True if it has ended."""
        return bool(self.state)


def ran(slurm: Sandbox) -> list[Ran]:
    """Every start of every job, those that Slurm requeued too. Raises SlurmError."""
    words = ["sacct", "-a", "-X", "-D", "-n", "-P", f"--delimiter={_SEPARATOR}", "-Snow-2days"]
    done = slurm.run([*words, f"--format={','.join(_COLUMNS)}"])
    return read(done.stdout.splitlines())


def read(lines: Iterable[str]) -> list[Ran]:
    """Starts in sacct's lines, in the order of their beginning."""
    rows = [line.split(_SEPARATOR) for line in lines]
    rows = [row for row in rows if len(row) == len(_COLUMNS) and row[0].isdecimal()]
    counts: dict[int, int] = {}
    found = []
    for number, state, start, end, nodes, _, comment in sorted(rows, key=lambda row: row[2]):
        if start in _NEVER or nodes in _NOWHERE:
            continue
        job_id = int(number)
        found.append(
            Ran(
                job_id=job_id,
                start=counts.get(job_id, 0),
                nodes=tuple(expand(nodes)),
                state="" if end in _NEVER else state.split()[0],
                opted_out="dlqueue=off" in comment,
            )
        )
        counts[job_id] = counts.get(job_id, 0) + 1
    return found


def drained(slurm: Sandbox, log: str, *, forgets: bool, in_vain: Sequence[str]) -> list[str]:
    """Nodes that Slurm took out of service because of us, with its reason."""
    words = ["sinfo", "-h", "-N", "-o", "%N %T %E"]
    nodes = sorted(set(slurm.run(words).stdout.splitlines()))
    return drained_lines(nodes, log.splitlines(), forgets=forgets, in_vain=in_vain)


def waited_in_vain(slurm: Sandbox) -> list[str]:
    """Nodes whose slurmd waited for a prolog's request that it had thrown away, and was drained.

    22.05 does so to a requeued job if any other began or ended on the node within the two seconds
    before (slurm_ext/slurm/requeued.py). No program of a prolog is started, ours neither.
    """
    return [name for name in slurm.status()["nodes"] if _IN_VAIN in slurm.log(name)]


def drained_lines(
    nodes: Sequence[str], log: Sequence[str], *, forgets: bool, in_vain: Sequence[str] = ()
) -> list[str]:
    """Lines of `sinfo` and of slurmctld's log, without what Slurm does by itself.

    A slurmctld that `forgets` gives a job's number again, and drains the node that knows the job;
    a slurmd that waited `in_vain` names the prolog.
    """
    own = [line.split(" ", 1)[0] for line in nodes if forgets and line.endswith(_TAKEN)]
    own += [node for line in log if forgets for node in _taken_nodes(line)]
    lines = [line for line in nodes if "drain" in line.split(" ", 1)[1]]
    lines += [line for line in log if _drains(line)]
    lines = [line for line in lines if not (set(own) & _words(line))]
    return [line for line in lines if "Epilog" in line or not (set(in_vain) & _words(line))]


def _words(line: str) -> set[str]:
    return set(line.replace(",", " ").split())


def _taken_nodes(line: str) -> Sequence[str]:
    """Nodes that a line of the log drains for a number that was given again."""
    found = re.search(rf"{_TAKEN} on nodes (\S+), set to state DRAIN", line)
    return expand(found[1]) if found else ()


def _drains(line: str) -> bool:
    return any(
        word in line for word in ("Prolog error", "Epilog error", "draining", "set to DRAIN")
    )
