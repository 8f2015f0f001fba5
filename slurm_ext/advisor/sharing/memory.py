"""The advisor's memory of jobs that share GPUs; the refresher replaces it whole."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from slurm_ext.advisor.limits.partition_limits import ClusterRules
from slurm_ext.advisor.sharing import gpu_sharers
from slurm_ext.advisor.sharing.context import SharingContext, as_shared_gpu_job, stale_after_s
from slurm_ext.advisor.sharing.decide_sharing import decide_sharing
from slurm_ext.advisor.sharing.gpu_request import WholeGpuRequest
from slurm_ext.advisor.sharing.gpu_sharers import SharedGpuQueue
from slurm_ext.advisor.sharing.pair_blocklist import PairBlocklist
from slurm_ext.advisor.sharing.serving_slowdown import SlowdownSnapshot, serving
from slurm_ext.advisor.sharing.terms import SharingDecision
from slurm_ext.core.files import file_version
from slurm_ext.core.records import Edits, Submission
from slurm_ext.core.settings.document import Settings
from slurm_ext.policy.colocation.colocation_monitor import kept_apart

THINKS = 0.5  # of the time that slurmctld waits, at most; the model keeps what it predicted
SEEN_S = 3.0  # a job that was answered longer than this before a listing stands in it
MOST_RECENT = 4096


class SharingMemory:
    """Jobs that share GPUs, the model of slowdowns, and pairs to keep apart."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.queue = SharedGpuQueue()
        self.snapshot: SlowdownSnapshot | None = None
        self.cooldowns = PairBlocklist()
        self._recent: deque[tuple[float, gpu_sharers.SharedGpuJob]] = deque(maxlen=MOST_RECENT)
        self._version: tuple[int, int, int] | None = None

    def decide(
        self,
        job: Submission,
        whole: WholeGpuRequest | str | None,
        key: str | None,
        *,
        settings: Settings,
        rules: ClusterRules,
        now_s: float,
    ) -> SharingDecision | None:
        """The decision on one submission; None where sharing is none of its business."""
        if whole is None or settings["sharing.mode"] == "off":
            return None
        self._forget(settings, now_s)
        job = replace(job, partition=job.partition or rules.default)
        partition_rules = rules.rules_for(job)
        until_s = self._clock() + THINKS * settings["advisor.deadline_ms"] / 1000
        context = SharingContext(
            settings=settings,
            now_s=now_s,
            pool=rules.pool_for(job.partition),
            allowance=None if partition_rules is None else partition_rules.allowance,
            pools=rules.pools,
            task_prolog=rules.task_prolog,
            queue=self.queue,
            recent=[sharer for _, sharer in self._recent],
            snapshot=self.snapshot,
            blocked=kept_apart(self.cooldowns.known, now_s),
            in_time=lambda: self._clock() < until_s,
        )
        return decide_sharing(job, whole, key, context)

    def remember(
        self, job: Submission, key: str | None, token: str, edits: Edits, now_s: float
    ) -> None:
        """That the job was given a part of a GPU, until a listing shows it."""
        sharer = as_shared_gpu_job(job, key, token, edits)
        if sharer is not None:
            self._recent.append((now_s, sharer))

    def look(self, folder: Path) -> None:
        """Read what is new: model, listing, blocked pairs. Raises ModelError, InputError."""
        self._look_at_queue(folder)
        self.snapshot = serving(folder / "models", self.snapshot)
        self.cooldowns.look(folder)

    def _look_at_queue(self, folder: Path) -> None:
        try:
            version = file_version(folder / gpu_sharers.NAME)
        except OSError:  # as good as none: the next look may find it
            version = None
        if version is None:
            self.queue = SharedGpuQueue()
        elif version != self._version:
            self.queue = gpu_sharers.read(folder)
        self._version = version

    def _forget(self, settings: Settings, now_s: float) -> None:
        """Drop what a listing shows by now, and what became no job at all."""
        after_s = max(self.queue.at_s - SEEN_S, now_s - 2 * stale_after_s(settings))
        while self._recent and self._recent[0][0] < after_s:
            self._recent.popleft()
