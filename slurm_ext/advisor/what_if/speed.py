"""Samples/s of a whole job at any layout, from its own runs and runs like them.

One rank's throughput is the curve of model/throughput/estimate.py. Over other numbers of GPUs its
accelerator
ceiling changes with what gradients cost: model/scaling/model.py says how, from the runs' own
ceilings.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, hypot, log2
from typing import TYPE_CHECKING

from slurm_ext.advisor.evidence.summary import node_cores_of
from slurm_ext.advisor.pipeline.context import DecisionContext
from slurm_ext.advisor.what_if.layout import JobLayout
from slurm_ext.core.advice.advice import Advice
from slurm_ext.core.errors import DlqueueError
from slurm_ext.core.gpu_request import is_model
from slurm_ext.core.records import (
    SCRIPT_LEVELS,
    Interval,
    Level,
    LoaderRun,
    Prediction,
    Shape,
    ShapeLimits,
)
from slurm_ext.core.stats import NORMAL_90
from slurm_ext.core.units import MIB
from slurm_ext.model.scaling.multi_gpu_estimate import gpus_and_nodes, measurement_of
from slurm_ext.model.throughput.bottleneck import BottleneckSigns, diagnose
from slurm_ext.model.throughput.estimate import Estimate, estimate
from slurm_ext.model.throughput.evidence_checks import usable_runs, why_no_estimate
from slurm_ext.model.throughput.inversion import LogNormal
from slurm_ext.model.throughput.shape_predictor import core_predictor

if TYPE_CHECKING:
    from slurm_ext.model.scaling.family import Family
    from slurm_ext.model.scaling.multi_gpu_estimate import RankEstimate

WIDEST_RATIO = 9.0  # of an interval's ends: wider than a factor of three either way says nothing
# Log sd for each doubling of the GPUs beyond those that runs had: how their loaders share storage,
# nobody has seen. Of the size of model/throughput/spread.py's doubt for each doubling of workers.
DOUBLING_SD = 0.05
_OWN = (Level.SCRIPT_ARGS, Level.SCRIPT, Level.USER_NAME)
_ALIKE = (Level.OWN_KIND, Level.ACCOUNT_KIND, Level.KIND)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutRate:
    """Predicted rate of a layout: samples/s of the whole job."""

    samples_per_s: float
    interval: Interval
    bottleneck: str  # one of core/advice/words.py
    next: str  # what to do about it


@dataclass(frozen=True, slots=True)
class _Rank:
    """One rank at one number of GPUs: its estimate, and the network's share of its step."""

    believed: Estimate
    predict: Callable[[float, int], Prediction]
    network_share: float | None = None
    doublings: float = 0.0  # of the GPUs that runs had


class LayoutSpeed:
    """Rates of many layouts; each number of GPUs and each GPU model is estimated once.

    `mem_mib`: what one task of a layout may use, None: not limited by the job. `gpus`: of the job
    as it is written.
    """

    def __init__(
        self, context: DecisionContext, mem_mib: Callable[[JobLayout], int | None], gpus: int
    ) -> None:
        self._known, self._mem_mib, self._gpus = context, mem_mib, gpus
        self._node_cores = node_cores_of(context.evidence)
        self._ranks: dict[tuple[int, int, str | None], _Rank | str] = {}
        self._told: dict[JobLayout, LayoutRate | str] = {}
        self.believed = estimate(context.evidence, context.prior, context.receives)

    def at(self, layout: JobLayout) -> LayoutRate | str:
        """The rate, or why it is unknown."""
        if layout not in self._told:
            self._told[layout] = self._at(layout)
        return self._told[layout]

    def most_workers(self, layout: JobLayout) -> int | None:
        """Workers of each process that its task's memory holds; None: not known to be limited."""
        rss = self.believed.worker_rss_bytes if self.believed else None
        mem_mib = self._mem_mib(layout)
        if not rss or mem_mib is None:
            return None
        return mem_mib * MIB // (rss * layout.ranks_per_task)

    def main_cores(self) -> float:
        """Cores that one rank's own process keeps busy while its accelerator never waits."""
        if self.believed is None:
            return 0.0
        return self.believed.main_cpu_s * exp(self.believed.accel.log_mean)

    def _at(self, layout: JobLayout) -> LayoutRate | str:
        key = (layout.gpus, layout.nodes, layout.gpu_type)
        if key not in self._ranks:
            self._ranks[key] = self._rank(layout)
        rank = self._ranks[key]
        if isinstance(rank, str):
            return rank
        predicted = rank.predict(self._cores(layout), layout.num_workers)
        wider = exp(NORMAL_90 * DOUBLING_SD * rank.doublings)
        low, high = predicted.interval.low / wider, predicted.interval.high * wider
        if not high <= WIDEST_RATIO * low:
            return "its interval would be wider than a factor of three either way"
        advice = self._diagnosed(rank, predicted.shape, layout)
        return LayoutRate(
            samples_per_s=predicted.samples_per_s * layout.ranks,
            interval=Interval(low * layout.ranks, high * layout.ranks, predicted.interval.level),
            bottleneck=advice.word,
            next=advice.next,
        )

    def _cores(self, layout: JobLayout) -> float:
        """Cores of one rank: what Slurm gives, and what the machine really has for each."""
        cores = layout.cpus / layout.ranks
        if self._node_cores is None:
            return cores
        return min(cores, self._node_cores * layout.nodes / layout.ranks)

    def _diagnosed(self, rank: _Rank, shape: Shape, layout: JobLayout) -> Advice:
        """Diagnose the rank's bottleneck; only Slurm can say that a node has no more cores."""
        mem_mib = self._mem_mib(layout)
        limits = ShapeLimits(
            max_cpus_per_task=shape.cpus_per_task + 1,
            node_cores=shape.cpus_per_task + 1,
            mem_bytes=None if mem_mib is None else mem_mib * MIB // layout.ranks_per_task,
        )
        signs = BottleneckSigns(network_share=rank.network_share)
        return diagnose(rank.believed, shape, limits, signs=signs)

    def _rank(self, layout: JobLayout) -> _Rank | str:
        evidence = of_model(self._known.evidence, layout.gpu_type)
        prior = self._known.prior if layout.gpu_type is None else None
        believed = estimate(evidence, prior, self._known.receives)
        if believed is None:
            if layout.gpu_type is not None:
                return f"no runs like this one on {layout.gpu_type}"
            return why_no_estimate(self._known.evidence)
        sound = {level: usable_runs(runs) for level, runs in evidence.items()}
        placed = [run for run in _nearest(sound) if gpus_and_nodes(run) is not None]
        if not placed and layout.gpus != self._gpus:
            return "no run like this one says how many GPUs it had"
        share, doublings = None, 0.0
        if any(gpus_and_nodes(run) != (layout.gpus, layout.nodes) for run in placed):
            joint = _joined(believed, placed, layout, self._known.family)
            if isinstance(joint, str):
                return joint
            believed, share = _as_unsure(joint.believed, believed), joint.network_share
            counts = [at[0] for at in map(gpus_and_nodes, placed) if at and at[0]]
            doublings = min(abs(log2(layout.gpus / count)) for count in counts)
        predict = core_predictor(believed, factor=self._known.factor)
        return _Rank(believed, predict, share, doublings)


def _joined(
    believed: Estimate, runs: Sequence[LoaderRun], layout: JobLayout, family: "Family | None"
) -> "RankEstimate | str":
    """Estimate one rank at this number of GPUs, or return why that is impossible.

    Without a learned family the interval is as wide as nothing but physics leaves it.
    """
    from slurm_ext.model.scaling.gpu_count_series import gpu_count_series
    from slurm_ext.model.scaling.model import TrainingConfig, fit
    from slurm_ext.model.scaling.multi_gpu_estimate import RankGroup, estimate_rank

    if layout.gpus == 0 or not any(run.gpus for run in runs):
        return f"no run with {'GPUs' if layout.gpus else 'no GPU'}"
    newest = runs[0]
    ranks = newest.ranks / (newest.nodes or 1) if newest.ranks else None
    points = [point for point in map(measurement_of, runs) if point is not None]
    prior = family.prior(model="", cluster=newest.gpu_model or "") if family else None
    here = TrainingConfig(gpus=layout.gpus, nodes=layout.nodes, local_batch=newest.batch_size)
    try:
        return estimate_rank(
            believed,
            gpu_count_series(points, here) or fit(points, prior),
            here,
            ranks=RankGroup(of_job=layout.ranks, on_node=layout.ranks / layout.nodes),
            seen_on_node=ranks,
        )
    except DlqueueError as error:
        return str(error)


def _as_unsure(elsewhere: Estimate, here: Estimate) -> Estimate:
    """The estimate elsewhere, no surer of the accelerator than runs of other scripts are here."""
    if here.level in SCRIPT_LEVELS:
        return elsewhere
    accel = elsewhere.accel
    wider = LogNormal(accel.log_mean, hypot(accel.log_sd, here.accel.log_sd))
    return replace(elsewhere, accel=wider)


def of_model(
    evidence: Mapping[Level, Sequence[LoaderRun]], kind: str | None
) -> dict[Level, list[LoaderRun]]:
    """The runs on GPUs of one kind (`a100`, or the driver's whole name); None: all of them."""
    alike = {
        level: [run for run in runs if kind is None or is_model(kind, run.gpu_model)]
        for level, runs in evidence.items()
    }
    return {level: runs for level, runs in alike.items() if runs}


def _nearest(evidence: Mapping[Level, Sequence[LoaderRun]]) -> Sequence[LoaderRun]:
    """This training's own runs, newest first; where there are none, the nearest of its kind."""
    own = dict.fromkeys(run for level in _OWN for run in evidence.get(level, ()))
    return list(own) or next((runs for level in _ALIKE if (runs := evidence.get(level))), ())
