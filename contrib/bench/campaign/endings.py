"""Jobs that really run, and end in every way that jobs end."""

import time
from contextlib import suppress
from dataclasses import dataclass
from random import Random

from contrib.bench.campaign.cluster import KNOWN, USERS, Cluster
from contrib.bench.campaign.submissions import Kind, Submitted, submit
from slurm_ext.core.errors import DlqueueError
from slurm_ext.slurm.records import ENDED_STATES

APART_S = 4.0
SAME_S = 2.0  # Slurm's accounting keeps one start of a job that is requeued within its first second
_BEGUN = '#!/bin/bash\necho "$SLURM_RESTART_COUNT" >>{folder}/$SLURM_JOB_ID\nsleep {nap}\n'
_EAT = "python3 -S -c 'x = bytearray(400_000_000); import time; time.sleep(600)'\n"
_ONCE = '[ "${SLURM_RESTART_COUNT:-0}" -ge 1 ] || sleep 600\n'
_CANCEL = ("scancel", "{job}")
_REQUEUE = ("scontrol", "requeue", "{job}")
_TIME_IS_UP = ("scontrol", "update", "JobId={job}", "EndTime=now+1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """A way to end; `done` is the user's command to the {job} once it has begun."""

    name: str
    script: str
    words: tuple[str, ...] = ()
    done: tuple[str, ...] = ()


ENDINGS = (
    Ending(name="completes", script="true\n"),
    Ending(name="trains", script="exec python3 -c 'print(1)'\n", words=(f"-J{KNOWN}",)),
    Ending(name="fails", script="exit 3\n"),
    Ending(name="crashes", script="kill -SEGV $$\n"),
    Ending(name="is killed", script="kill -KILL $$\n"),
    Ending(name="is cancelled", script="sleep 600\n", done=_CANCEL),
    Ending(name="will not end", script="trap '' TERM\nsleep 600\n", done=_CANCEL),
    Ending(name="is requeued", script=_ONCE, words=("--requeue",), done=_REQUEUE),
    Ending(name="has steps", script="srun true\nsrun -n2 sleep 0.2\n", words=("-n2",)),
    Ending(name="has nodes", script="srun true\n", words=("-N2",)),
    Ending(name="is an array", script="true\n", words=("--array=0-2",)),
    Ending(name="runs out of memory", script=_EAT, words=("--mem=100",)),
    Ending(name="runs out of time", script="sleep 600\n", words=("--time=1",), done=_TIME_IS_UP),
)


class Batch:
    """Jobs that were submitted to run; `tend` does what their users do meanwhile."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self.submitted = cluster, list[Submitted]()
        self.starter = Starter(cluster)
        self._waiting: dict[int, tuple[str, ...]] = {}
        self._acted: dict[int, tuple[tuple[str, ...], int]] = {}  # by a job's user, at which start
        self._again: set[int] = set()
        self._folder = cluster.slurm.path("begun")
        self._folder.mkdir(exist_ok=True)
        self._folder.chmod(0o1777)

    def add(self, count: int, random: Random, longest_s: float) -> None:
        """Submit `count` jobs that sleep for up to `longest_s` before their end."""
        for number in range(count):
            ending = ENDINGS[(len(self.submitted)) % len(ENDINGS)]
            nap = round(random.uniform(0, longest_s), 1)
            one = submit(self._cluster, self.kind(ending, nap), USERS[number % len(USERS)])
            self.submitted.append(one)
            if one.job_id and ending.done:
                self.waits(one.job_id, ending)

    def waits(self, job_id: int, ending: Ending) -> None:
        """Do what this ending's user does, once the job has begun."""
        self._waiting[job_id] = ending.done

    def kind(self, ending: Ending, nap: float = 0.0) -> Kind:
        """The submission of such a job."""
        head = _BEGUN.format(folder=self._folder, nap=nap)
        return Kind(
            name=ending.name,
            words=("--mem=200", *ending.words),
            script=head + ending.script,
            held=False,
        )

    def tend(self) -> bool:
        """Cancel, requeue and cut short what has begun; True once nothing of that is left.

        What Slurm starts again after that is cancelled or cut short again.
        """
        self._waiting |= {
            job_id: done
            for job_id, (done, starts) in self._acted.items()
            if self._starts(job_id) > starts
        }
        for job_id, done in list(self._waiting.items()):
            with suppress(DlqueueError):
                self._end(job_id, done)
        self._again -= {job_id for job_id in self._again if self._starts_again(job_id)}
        return not self._waiting and not self._again

    def _end(self, job_id: int, done: tuple[str, ...]) -> None:
        begun = self._folder / str(job_id)
        if begun.exists():
            if time.time() - begun.stat().st_mtime < SAME_S:
                return
            if not self._ended(job_id):  # its time may be up by itself, while many submit
                self._act(job_id, done)
        elif not self._ended(job_id):
            return
        del self._waiting[job_id]

    def _act(self, job_id: int, done: tuple[str, ...]) -> None:
        starts = self._starts(job_id)
        self._cluster.slurm.run([word.format(job=job_id) for word in done])
        if done == _REQUEUE:
            self._again.add(job_id)
        else:
            self._acted[job_id] = done, starts

    def _ended(self, job_id: int) -> bool:
        return self._cluster.slurm.job(job_id).get("JobState", "PENDING") in ENDED_STATES

    def _starts(self, job_id: int) -> int:
        """Count the starts of a job."""
        return len((self._folder / str(job_id)).read_text().splitlines())

    def _starts_again(self, job_id: int) -> bool:
        """True once a requeued job has started again, which it may do at once."""
        if "1\n" in (self._folder / str(job_id)).read_text():
            return True
        job = self._cluster.slurm.job(job_id)
        if job.get("JobState") == "PENDING":
            self.starter.start(str(job_id))
        return job.get("JobState") not in ("PENDING", "RUNNING", "COMPLETING", None)


class Starter:
    """Has requeued jobs start, which Slurm lets wait for two minutes; one at a time.

    slurmd 22.05 runs no prolog for the second of two that begin again on it within two seconds, or
    waits for that prolog in vain and is drained.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._started_s = cluster, float("-inf")

    def start(self, job_id: str) -> None:
        """Have it start, if no other one was started just before."""
        if time.monotonic() - self._started_s >= APART_S:
            self._started_s = time.monotonic()
            words = ["scontrol", "update", f"JobId={job_id}", "StartTime=now"]
            self._cluster.slurm.run(words, check=False)
