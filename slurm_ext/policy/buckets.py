"""Bucket sizes of gradients for the next run of a training, from its earlier ones. Pure.

The first run has torch's own buckets and tells when gradients are ready. Where the model of
all-reduces (model/communication) predicts enough, later runs try the best sizes; they stay only
while runs with them beat runs without by more than KEEP: first runs, and those that the control
group leaves as written. Runs of another model, number of ranks, nodes or GPU are not compared, nor
those whose batches take other times: of another size, of other data, or added up to more of a step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from slurm_ext.core.records import SyncRun
from slurm_ext.core.stalls.bucket_caps import as_text
from slurm_ext.model.communication.all_reduce import (
    ExposedRun,
    Gradient,
    as_built,
    fitted_link,
)
from slurm_ext.model.communication.bucket_model import BucketModel

KEEP = 0.03  # faster than runs without, or the sizes are dropped
MOST_TRIED = 2  # sizes that did not gain: then the training's buckets stay torch's own
MOST_FITTED = 4  # kinds of buckets that the link is fitted to
NEWEST = 8  # runs of each kind that are compared
MOST_WAITING = 0.05  # of the step for data: beyond, the data hides what buckets would gain


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketPlan:
    """The choice of sizes; without a change, `caps` and `after_s` are those of now."""

    change: bool
    reason: str  # one clause a researcher understands
    signature: str = ""
    ranks: int = 0
    caps: str = ""  # KiB, as a job's environment has them
    before_s: float = 0.0  # seconds of a batch with torch's own buckets
    after_s: float = 0.0  # with the chosen ones: predicted, or measured once they ran
    measured: bool = False  # `after_s`
    newest_s: float = 0.0  # of its newest run, whichever buckets it had

    @property
    def gain(self) -> float:
        """Times as fast, less 1."""
        return self.before_s / self.after_s - 1 if self.after_s > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Evidence:
    """Runs of which everything but the buckets is the same, the newest first."""

    alike: Sequence[SyncRun]
    usual: Sequence[SyncRun]  # with torch's own buckets
    tried: Mapping[str, float]  # seconds of a batch by the sizes that others had

    @property
    def newest(self) -> SyncRun:
        """The newest run, whichever buckets it had."""
        return self.alike[0]

    @property
    def before_s(self) -> float:
        """Seconds of a batch with torch's own buckets."""
        return median([run.step_s for run in self.usual])

    def plan(self, reason: str, caps: str, after_s: float, *, measured: bool) -> BucketPlan:
        """The plan of these sizes."""
        return BucketPlan(
            change=True,
            reason=reason,
            signature=self.newest.signature,
            ranks=self.newest.ranks,
            caps=caps,
            before_s=self.before_s,
            after_s=after_s,
            measured=measured,
            newest_s=self.tried.get(self.newest.caps or "", self.before_s),
        )

    def leave(self, reason: str) -> BucketPlan:
        """The plan that changes nothing."""
        newest = self.newest
        return BucketPlan(
            change=False, reason=reason, signature=newest.signature, ranks=newest.ranks
        )


def plan_buckets(runs: Sequence[SyncRun], nodes: int | None, min_gain: float) -> BucketPlan:
    """The plan for the next run on so many nodes; `runs` of the same script, the newest first."""
    here = [run for run in runs if nodes is None or run.nodes == nodes]
    if not here:
        return BucketPlan(change=False, reason="no run of it told when its gradients are ready")
    evidence = _evidence(here)
    why = _why_not(evidence)
    return evidence.leave(why) if why else _kept(evidence) or _trial(evidence, min_gain)


def _evidence(runs: Sequence[SyncRun]) -> _Evidence:
    alike = [run for run in runs if _kind(run) == _kind(runs[0])]
    by_caps: dict[str, list[float]] = {}
    for run in alike:
        if run.caps is not None:
            by_caps.setdefault(run.caps, []).append(run.step_s)
    return _Evidence(
        alike=alike,
        usual=[run for run in alike if run.caps is None and not run.user_caps][:NEWEST],
        tried={caps: median(steps_s[:NEWEST]) for caps, steps_s in by_caps.items()},
    )


def _kind(run: SyncRun) -> tuple[object, ...]:
    work = round(run.batch_size), run.data_key, round(run.syncs), round(1 / run.syncs)
    return run.signature, run.ranks, run.nodes, run.accelerator, run.backend, *work


def _why_not(evidence: _Evidence) -> str:
    """The reason to leave them alone, whatever might be gained; empty: none."""
    newest = evidence.newest
    if newest.user_caps:
        return "its program sets its own bucket size"
    if newest.comm_hook:
        return "its program has a communication hook of its own"
    refused = next((run.left_alone for run in evidence.alike[:NEWEST] if run.left_alone), None)
    if refused:
        return refused
    if newest.ranks < 2:
        return "it has one rank"
    if not evidence.usual:
        return "no run of it with torch's own buckets is known"
    if evidence.usual[0].waiting > MOST_WAITING:
        return f"it waits for data {evidence.usual[0].waiting:.0%} of the time"
    return ""


def _kept(evidence: _Evidence) -> BucketPlan | None:
    """The fastest sizes of earlier runs, if they gained enough."""
    caps, after_s = min(evidence.tried.items(), key=lambda trial: trial[1], default=("", 0.0))
    reason = "its runs with these bucket sizes were faster"
    plan = evidence.plan(reason, caps, after_s, measured=True)
    return plan if plan.gain > KEEP else None


def _trial(evidence: _Evidence, min_gain: float) -> BucketPlan:
    """The best sizes by the model, if they are predicted to gain enough and were not tried."""
    if len(evidence.tried) >= MOST_TRIED:
        count = len(evidence.tried)
        return evidence.leave(f"{count} other bucket sizes made it less than {KEEP:.0%} faster")
    model = model_of(evidence.alike, evidence.usual)
    if model is None:
        return evidence.leave("nothing of its communication is exposed")
    caps = model.best(lists=evidence.newest.takes_lists)
    waits = model.exposed_s * model.syncs / evidence.before_s
    reason = f"{waits:.0%} of its step waits for gradients"
    plan = evidence.plan(reason, as_text(caps), model.step_s(caps), measured=False)
    if plan.caps in evidence.tried or plan.gain < min_gain:
        most = max(0.0, plan.gain)
        return evidence.leave(f"other bucket sizes would make it {most:.0%} faster at most")
    return plan


def model_of(alike: Sequence[SyncRun], usual: Sequence[SyncRun]) -> BucketModel | None:
    """The model by these runs; `usual`: those with torch's own buckets, which others are held to.

    None where nothing of their communication was exposed.
    """
    link = fitted_link(_exposed(alike), usual[0].backend)
    if link is None:
        return None
    return BucketModel(
        gradients=_gradients(usual[0]),
        link=link,
        before_s=median([run.step_s for run in usual]),
        exposed_s=median([run.exposed_s for run in usual]),
        syncs=usual[0].syncs,
    )


def _gradients(run: SyncRun) -> list[Gradient]:
    return [Gradient(*pair) for pair in zip(run.ready_bytes, run.ready_s, strict=True)]


def _exposed(alike: Sequence[SyncRun]) -> list[ExposedRun]:
    """The newest run of each kind of buckets, of a few kinds."""
    by_buckets: dict[tuple[float, ...], SyncRun] = {}
    for run in alike:
        by_buckets.setdefault(run.bucket_bytes, run)
    newest = [*by_buckets.values()][:MOST_FITTED]
    return [
        ExposedRun(as_built(_gradients(run), run.bucket_bytes), run.exposed_s) for run in newest
    ]
