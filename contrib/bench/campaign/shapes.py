"""Requests of jobs as slurmctld has them: as written, as dlqueue advises, or wrong."""

import json
import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contrib.bench.campaign.cluster import USERS, Cluster
from contrib.bench.campaign.submissions import KINDS, Kind, Submitted, submit
from slurm_ext.sandbox import Sandbox
from tests.whole import until

_FIELDS = (
    "name",
    "comment",
    "partition",
    "account",
    "tasks",
    "cpus_per_task",
    "minimum_cpus_per_node",
    "memory_per_cpu",
    "memory_per_node",
    "tres_per_job",
    "tres_per_node",
    "tres_per_task",
    "features",
    "nice",
    "requeue",
)
_LIVE = ("PENDING", "RUNNING")
_OURS = re.compile(rb"^(DLQUEUE_\w+|SLURM_CPUS_PER_TASK|SRUN_CPUS_PER_TASK)=")
_TOKEN = re.compile(rb"^DLQUEUE_DECISION=d1-[0-9a-f]{16}$")
Shape = str
"""A job's fields and variables as text; equal texts are equal jobs."""


@dataclass(frozen=True, slots=True)
class Shapes:
    """The shapes that a kind of submission may have."""

    by_kind: Mapping[str, set[Shape]] = field(default_factory=dict)

    def wrong(
        self,
        submitted: Iterable[Submitted],
        found: Mapping[int, Shape],
        unclear: Container[int] = (),
    ) -> list[str]:
        """Jobs of another shape than any that their kind may have; none of `unclear` ones."""
        return [
            f"{one.kind} job {one.job_id} of {one.user}: {_beside(shape, self.by_kind[one.kind])}"
            for one in submitted
            if one.job_id is not None
            and one.job_id not in unclear
            and (shape := found.get(one.job_id)) not in self.by_kind.get(one.kind, {shape})
            and shape is not None
        ]


def _beside(shape: Shape, known: Iterable[Shape]) -> str:
    """The difference to the known shape that is nearest: +more, -less, by words."""
    words = set(shape.split(" "))
    nearest = min((set(one.split(" ")) for one in known), key=lambda one: len(one ^ words))
    more, less = sorted(words - nearest), sorted(nearest - words)
    return " ".join([*(f"+{word}" for word in more), *(f"-{word}" for word in less)])


def shapes_of(slurm: Sandbox) -> dict[int, Shape]:
    """The shape of every job that has not ended; of others Slurm forgets. Raises SlurmError."""
    listed = json.loads(slurm.run(["squeue", "--json"]).stdout)["jobs"]
    return {
        int(job["job_id"]): _shape(job, environment(slurm.path("state"), int(job["job_id"])))
        for job in listed
        if any(state in job["job_state"] for state in _LIVE)  # a text, or a list of them
    }


def _shape(job: Mapping[str, Any], variables: Iterable[str]) -> Shape:
    fields = [f"{name}={job[name]}" for name in _FIELDS if job.get(name) not in (None, "", 0)]
    return " ".join([*fields, *sorted(variables)])


def environment(state: Path, job_id: int) -> set[str]:
    """The job's variables that dlqueue may have written, as slurmctld keeps them.

    Not the decision's token, which changes nothing.
    """
    path = state / f"hash.{job_id % 10}" / f"job.{job_id}" / "environment"
    try:
        raw = path.read_bytes()
    except OSError:  # the job is over
        return set()
    words = [word for word in raw.split(b"\0") if _OURS.match(word) and not _TOKEN.match(word)]
    return {word.decode("ascii", "backslashreplace") for word in words}


def learn_shapes(cluster: Cluster) -> Shapes:
    """Submit each kind while dlqueue is off, then while it advises: either shape is right."""
    found: dict[str, set[Shape]] = {}
    off = Path(cluster.slurm.settings["paths.kill_file"])
    off.touch()
    _add(cluster, found)
    off.unlink()
    until(lambda: advised(cluster), "dlqueue advises nobody")
    _add(cluster, found)
    return Shapes(found)


def advised(cluster: Cluster) -> bool:
    """True if root's next job of a known name gets its advice."""
    one = submit(cluster, KINDS[0], USERS[0])
    if one.job_id:
        cluster.slurm.run(["scancel", str(one.job_id)], check=False)
    return "x faster" in one.said


def _add(cluster: Cluster, found: dict[str, set[Shape]]) -> None:
    submitted = [submit(cluster, kind, user) for kind in _accepted() for user in USERS]
    shapes = shapes_of(cluster.slurm)
    for one in submitted:
        if one.job_id:
            found.setdefault(one.kind, set()).add(shapes[one.job_id])
    cluster.slurm.run(
        ["scancel", *(str(one.job_id) for one in submitted if one.job_id)], check=False
    )


def _accepted() -> list[Kind]:
    return [kind for kind in KINDS if not kind.refused]
