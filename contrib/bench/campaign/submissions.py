"""Submissions as users make them, and what became of each."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from random import Random
from threading import Thread

from contrib.bench.borders.attack import as_user
from contrib.bench.campaign.cluster import KNOWN, USERS, Cluster
from slurm_ext.core.errors import SlurmError

_TRUE = "#!/bin/sh\ntrue\n"
_LONG = "#!/bin/sh\n" + "# padding\n" * 20_000 + "true\n"
SBATCH_S = 60.0
MEANWHILE_S = 1.0
OPTED_OUT = "opted out"
HETEROGENEOUS = "heterogeneous"  # of two parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of submission; {earlier} in its words is a job that the same user submitted."""

    name: str
    words: tuple[str, ...]
    script: str = _TRUE
    held: bool = True
    refused: bool = False  # by Slurm itself, whatever else is there


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """One submission and its answer."""

    kind: str
    user: str
    seconds: float
    status: int | None  # None: sbatch did not end
    job_id: int | None
    said: str


KINDS = (
    Kind(name="known", words=(f"-J{KNOWN}",)),
    Kind(name="known, with CPUs", words=(f"-J{KNOWN}", "-c4")),
    Kind(name="unknown", words=("-Jnobody-ran-it",)),
    Kind(name="array", words=(f"-J{KNOWN}", "--array=0-3")),
    Kind(name="dependent", words=(f"-J{KNOWN}", "--dependency=afterany:{earlier}")),
    Kind(name="test only", words=(f"-J{KNOWN}", "--test-only"), held=False),
    Kind(name="tasks", words=("-n4", "-c2", "--mem-per-cpu=100")),
    Kind(name="nodes", words=("-N2", "--exclusive")),
    Kind(name=HETEROGENEOUS, words=("-n1", ":", "-n2")),
    Kind(name="hostile name", words=("--job-name='); DROP TABLE runs; --\n\x1b[2J$(reboot)",)),
    Kind(name="hostile comment", words=("--comment=\x1b]0;owned\x07 \u202e {0} %s %n",)),
    Kind(
        name="hostile environment", words=("--export=ALL,DLQUEUE_DECISION=d1-\n,DLQUEUE_SHARED=x",)
    ),
    Kind(name="long script", words=(f"-J{KNOWN}",), script=_LONG),
    Kind(name=OPTED_OUT, words=(f"-J{KNOWN}", "--comment=dlqueue=off")),
    Kind(name="no such partition", words=("-pnowhere",), refused=True),
    Kind(name="more than a node has", words=("-c4000",), refused=True),
)
REFUSED = frozenset(kind.name for kind in KINDS if kind.refused)


def submit(cluster: Cluster, kind: Kind, user: str, earlier: int = 1) -> Submitted:
    """Submit one job as its user would."""
    words = [word.replace("{earlier}", str(earlier)) for word in kind.words]
    argv = ["sbatch", "--parsable", "--output=/dev/null", *(["-H"] if kind.held else []), *words]
    began_s = time.monotonic()
    try:
        done = cluster.slurm.run(
            argv, check=False, timeout_s=SBATCH_S, input=kind.script, cwd="/", **as_user(user)
        )
    except SlurmError as error:
        status, said, text = None, str(error), ""
    else:
        status, said, text = done.returncode, done.stderr, done.stdout
    number = text.partition(";")[0].strip()
    return Submitted(
        kind=kind.name,
        user=user,
        seconds=time.monotonic() - began_s,
        status=status,
        job_id=int(number) if status == 0 and number.isdecimal() else None,
        said=said,
    )


class Crowd:
    """Users who submit `count` jobs at once, each from `shells`, in orders drawn by `seed`."""

    def __init__(self, cluster: Cluster, count: int, seed: int, shells: int = 1) -> None:
        self._cluster, self.submitted = cluster, list[Submitted]()
        each = -(-count // (len(USERS) * shells))
        self._threads = [
            Thread(
                target=self._submit, args=(user, each, Random(f"{seed} {user}{shell}")), daemon=True
            )
            for user in USERS
            for shell in ("", *range(1, shells))
        ]

    def start(self) -> "Crowd":
        """Begin."""
        for thread in self._threads:
            thread.start()
        return self

    def join(self, meanwhile: Callable[[], object]) -> list[Submitted]:
        """Wait until everybody is done, and do something `meanwhile`; all submissions."""
        while any(thread.is_alive() for thread in self._threads):
            meanwhile()
            for thread in self._threads:
                thread.join(MEANWHILE_S / len(self._threads))
        return self.submitted

    def _submit(self, user: str, count: int, random: Random) -> None:
        earlier = 1
        for number, kind in enumerate(islice(_drawn(random), count)):
            one = submit(self._cluster, kind, user, earlier)
            self.submitted.append(one)
            earlier = one.job_id or earlier
            if one.job_id and number % 7 == 0:
                self._cluster.slurm.run(["scancel", str(one.job_id)], check=False)


def _drawn(random: Random) -> Iterator[Kind]:
    """Every kind in each round, in an order of its own."""
    while True:
        yield from random.sample(KINDS, len(KINDS))
