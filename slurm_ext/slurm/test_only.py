"""Parser of `sbatch --test-only` (stderr, 22.05 to 26.05; times as Unix seconds). Pure.

    sbatch: Job 24 to start at 1795262408 using 2 processors on nodes n1 in partition main
    allocation failure: Requested node configuration is not available

A job behind one without a time limit "starts" in some thousand years.
"""

import re

from slurm_ext.slurm.records import StartEstimate

FAR_S = 365 * 86400  # longer than any queue: Slurm's infinity in minutes
_STARTS = re.compile(r"Job \d+ to start at (\S{1,20}) using")
_ERRORS = re.compile(r"^(?:allocation failure|sbatch: (?:error|fatal)): (.*)$", re.MULTILINE)
# slurmctld is away, whatever the job asks for
_AWAY = re.compile(
    "unable to (contact|establish|open file)|timed out|connection|standby|zero bytes|munge"
    "|authentication|credential",
    re.IGNORECASE,
)
_CLAUSES = {
    "requested node configuration is not available": "no node has that many CPUs or GPUs, "
    "or that much memory",
    "invalid generic resource (gres) specification": "no node has such GPUs",
    "invalid partition name specified": "the partition does not exist",
}
MAX_CLAUSE = 120


def read_start(output: str, now_s: float) -> StartEstimate:
    """Start of an accepted job; of a heterogeneous one, its last component's."""
    times = _STARTS.findall(output)
    if not times or not all(text.isdecimal() for text in times):
        return StartEstimate(why="sbatch names no time")
    start_s = max(map(int, times))
    if start_s - now_s > FAR_S:
        return StartEstimate(why="a job before it has no time limit")
    return StartEstimate(start_s=start_s)


def read_refusal(output: str) -> StartEstimate | None:
    """Reason for which Slurm would refuse the job; None if slurmctld did not decide at all."""
    errors = [" ".join(text.split()).rstrip(".") for text in _ERRORS.findall(output)]
    if not errors or any(map(_AWAY.search, errors)):
        return None
    last = "".join(c for c in errors[-1] if c.isprintable())[:MAX_CLAUSE]
    return StartEstimate(refused=_CLAUSES.get(last.lower(), last[:1].lower() + last[1:]))
