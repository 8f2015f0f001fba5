"""Which shapes of a job are worth a look, and which may not be: memory and stranded GPUs. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import ceil

from slurm_ext.advisor.evidence.summary import node_cores_of
from slurm_ext.advisor.limits.bounds import floor_for, limits_for
from slurm_ext.advisor.pipeline.context import DecisionContext
from slurm_ext.advisor.what_if.layout import JobLayout, with_gpus
from slurm_ext.advisor.what_if.speed import LayoutRate, LayoutSpeed
from slurm_ext.core.errors import UsageError
from slurm_ext.core.gpu_request import is_model
from slurm_ext.core.records import Decision, Level, LoaderRun, ShapeLimits, Submission
from slurm_ext.policy.loader import core_counts, worker_counts
from slurm_ext.policy.max_and_knee import NEAR, NO_BETTER

CORE_SLACK = 0.1  # of a core, in what a process is measured to need
MOST_CHOSEN = 48  # rows of chosen axes
MOST_GPU_ROWS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """The user's axes of comparison; empty: a small grid around the job as written."""

    cores: tuple[int, ...] = ()  # CPUs of each task
    workers: tuple[int, ...] = ()  # of each training process
    gpus: tuple[int, ...] = ()  # of the whole job
    gpu_types: tuple[str, ...] = ()  # as Slurm names them, or a part of the driver's name

    def __bool__(self) -> bool:
        return bool(self.cores or self.workers or self.gpus or self.gpu_types)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNodes:
    """Sizes of the cluster's nodes; all None: no Slurm at hand."""

    nodes: int | None = None
    cpus: int | None = None  # of the largest node
    gpus: int | None = None  # of the node with most
    gpu_types: tuple[str, ...] = ()  # as gres.conf names them

    def has(self, kind: str | None) -> bool:
        """True if Slurm can be asked for GPUs of this kind; None: of any."""
        return kind is None or kind in self.gpu_types


def size(layout: JobLayout) -> tuple[str, int, int, int]:
    """Smaller shapes are smaller by this."""
    return (layout.gpu_type or "", layout.gpus, layout.cpus_per_task, layout.num_workers)


class ShapeGrid:
    """The shapes around one job as written."""

    def __init__(
        self,
        job: Submission,
        context: DecisionContext,
        written: JobLayout,
        speed: LayoutSpeed,
        machines: ClusterNodes,
        workers_stay: str | None = None,
    ) -> None:
        self._job, self._known, self._written = job, context, written
        self._speed, self._machines, self._stay = speed, machines, workers_stay

    def fault(self, layout: JobLayout) -> str | None:
        """Return the reason against a shape; None: it may be taken."""
        if self._stay is not None and layout.num_workers != self._written.num_workers:
            return self._stay
        most = self._speed.most_workers(layout)
        if most is not None and layout.num_workers > most:
            return f"its memory holds {most} workers at most"
        least = self._least_cpus(layout)
        if layout.cpus < least:
            return f"its {layout.gpus} GPUs need {least} CPUs"
        floor = floor_for(self._job, self._known.rules)
        if layout.gpus == self._written.gpus and layout.cpus_per_task < floor:
            return f"its limits and its memory need {floor} CPUs a task"
        return None

    def special(self, advice: Decision | None) -> Iterator[tuple[JobLayout, str]]:
        """The policy's choice (unmarked yet), the knee and the maximum."""
        rates = {layout: rate.samples_per_s for layout, rate in self._rates.items()}
        most = max(rates.values(), default=0.0)
        advised = None
        if advice is not None and advice.predicted_after is not None:
            advised = self._shaped(advice.after.cpus_per_task, advice.after.num_workers)
        if advised is not None and self.fault(advised) is None:
            yield advised, ""
        elif rates:
            yield self._frugal(), ""
        for mark, share in (("knee", NEAR), ("maximum", 1 / NO_BETTER)) if rates else ():
            reached = [layout for layout, rate in rates.items() if rate >= share * most]
            yield min(reached, key=size), mark

    def around(self, base: JobLayout) -> Iterator[JobLayout]:
        """A small grid, what matters most first: GPUs, their types, cores, workers."""
        yield from self._gpu_counts(base)
        kinds = self._kinds_seen()
        yield from (replace(base, gpu_type=kind) for kind in kinds if len(kinds) > 1)
        yield from (
            self._with_best_workers(cores) for cores in self._cores if cores & (cores - 1) == 0
        )
        for workers in (2 * base.num_workers, base.num_workers // 2) if not self._stay else ():
            yield self._shaped(self._written.cpus_per_task, workers)

    def chosen(self, axes: Axes, base: JobLayout) -> Iterator[JobLayout]:
        """Every combination of what was asked for. Raises UsageError."""
        kinds = tuple(self.kind(text) for text in axes.gpu_types) or (self._written.gpu_type,)
        gpus = axes.gpus or (self._written.gpus,)
        combined = list(product(gpus, kinds, axes.cores or (None,), axes.workers or (None,)))
        if len(combined) > MOST_CHOSEN:
            raise UsageError(
                f"the axes make {len(combined)} rows; at most {MOST_CHOSEN} can be shown"
            )
        for count, kind, cores, workers in combined:
            layout = replace(base if count == base.gpus else self._over(base, count), gpu_type=kind)
            if cores is not None:
                layout = replace(layout, cpus_per_task=cores)
            yield replace(layout, num_workers=self._workers(layout) if workers is None else workers)

    def kind(self, text: str) -> str:
        """A GPU type as Slurm names it, or else as runs know it. Raises UsageError."""
        models = self._models()
        for kind in self._machines.gpu_types:
            if kind.lower() == text.lower():
                return kind
        meant = [model for model in models if is_model(text, model)]
        if meant:
            return next((k for k in self._machines.gpu_types if is_model(k, meant[0])), text)
        names = ", ".join(dict.fromkeys((*self._machines.gpu_types, *models)))
        raise UsageError(
            f"--gpu-type {text}: no node and no run like this one has it; known: {names or 'none'}"
        )

    # -- inner works --------------------------------------------------------------------------

    def _shaped(self, cores: int, workers: int) -> JobLayout:
        return replace(self._written, cpus_per_task=cores, num_workers=workers)

    def _workers(self, layout: JobLayout) -> int:
        """The best ones; with other GPUs those of the shape that was scaled."""
        same = layout.gpus == self._written.gpus
        return self._best_workers(layout) if same else layout.num_workers

    def _over(self, base: JobLayout, gpus: int) -> JobLayout:
        """The shape over other GPUs, with no more cores and workers than a node and memory hold."""
        layout = with_gpus(base, gpus, self._machines.gpus)
        if self._machines.cpus is not None:
            cores = max(1, self._machines.cpus // layout.tasks_per_node)
            layout = replace(layout, cpus_per_task=min(cores, layout.cpus_per_task))
        most = self._speed.most_workers(layout)
        fewer = layout.num_workers if most is None else min(most, layout.num_workers)
        return replace(layout, num_workers=fewer)

    def _gpu_counts(self, base: JobLayout) -> Iterator[JobLayout]:
        """Half and twice the GPUs, and what its runs had; nearest to the written first."""
        mine = base.gpus
        if not mine:
            return
        counts = {run.gpus * (run.nodes or 1) for run in self._runs()}
        wanted = ({mine // 2, 2 * mine} | counts) - {0, mine}
        for count in sorted(wanted, key=lambda n: abs(n - mine))[:MOST_GPU_ROWS]:
            try:
                yield self._over(base, count)
            except UsageError:
                continue  # nobody asked for it

    @cached_property
    def _cores(self) -> list[int]:
        """CPUs of a task that its partition and account, or the machines that runs saw, allow."""
        job, written = self._job, self._written
        limits = self._limits
        roof = min(limits.max_cpus_per_task, limits.node_cores)
        if written.nodes > 1 or self._known.rules is None:
            cpus = node_cores_of(self._known.evidence) or 0
            rules = self._known.rules
            node = rules.cpus_per_node if rules else self._machines.cpus or cpus
            roof = max(written.cpus_per_task, node // written.tasks_per_node)
        least = floor_for(job, self._known.rules)
        return [
            n
            for n in core_counts(1, replace(limits, max_cpus_per_task=roof, node_cores=roof), "any")
            if n >= least
        ]

    @property
    def _limits(self) -> ShapeLimits:
        settings = self._known.settings
        return limits_for(self._job, self._known.rules, settings["policy.max_workers"])

    def _frugal(self) -> JobLayout:
        """The fewest cores, then workers, whose lower bound is nearly the best one."""
        lows = {layout: rate.interval.low for layout, rate in self._rates.items()}
        enough = self._known.settings["policy.target"] * max(lows.values())
        return min((layout for layout, low in lows.items() if low >= enough), key=size)

    @cached_property
    def _rates(self) -> dict[JobLayout, LayoutRate]:
        """The rate of every shape of the written GPUs that may be taken and is known."""
        rates = {}
        for cores in self._cores:
            for layout in self._by_workers(self._shaped(cores, 0)):
                rate = self._speed.at(layout)
                if not isinstance(rate, str) and self.fault(layout) is None:
                    rates[layout] = rate
        return rates

    def _by_workers(self, layout: JobLayout) -> Iterator[JobLayout]:
        if self._stay is not None:
            return iter((replace(layout, num_workers=self._written.num_workers),))
        limit = self._limits.max_workers
        most = self._speed.most_workers(layout)
        counts = worker_counts(limit if most is None else min(limit, most))
        return (replace(layout, num_workers=count) for count in counts)

    def _with_best_workers(self, cores: int) -> JobLayout:
        layout = self._shaped(cores, self._written.num_workers)
        return replace(layout, num_workers=self._best_workers(layout))

    def _best_workers(self, layout: JobLayout) -> int:
        """The fewest that reach nearly all that the cores allow; unknown: as written."""
        rates = {}
        for row in self._by_workers(layout):
            rate = self._speed.at(row)
            if not isinstance(rate, str):
                rates[row.num_workers] = rate.samples_per_s
        enough = self._known.settings["policy.target"] * max(rates.values(), default=0.0)
        return next((n for n, rate in rates.items() if rate >= enough), layout.num_workers)

    def _least_cpus(self, layout: JobLayout) -> int:
        """A core for each GPU, and what the ranks' own processes need."""
        if not layout.gpus:
            return 1
        return max(layout.gpus, ceil((self._speed.main_cores() - CORE_SLACK) * layout.ranks))

    def _kinds_seen(self) -> list[str]:
        measured = []
        for model in self._models():
            kinds = (kind for kind in self._machines.gpu_types if is_model(kind, model))
            measured.append(next(kinds, model))
        return list(dict.fromkeys(measured))

    def _models(self) -> list[str]:
        return list(dict.fromkeys(run.gpu_model for run in self._runs() if run.gpu_model))

    def _runs(self) -> Iterator[LoaderRun]:
        for level, runs in self._known.evidence.items():
            if level is not Level.CLUSTER:
                yield from runs
