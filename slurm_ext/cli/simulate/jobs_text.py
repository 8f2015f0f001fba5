"""Replays of jobs for people and programs: a table, what was repaired, a page, a document."""

import csv
import io
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import Any

from slurm_ext.cli.simulate.page import Page, Plots
from slurm_ext.report.formatting import counted, seconds
from slurm_ext.report.plots import Points, shares_by_time, shares_over_time
from slurm_ext.simulate.limits.limited_trace import named
from slurm_ext.simulate.replay_result import ReplayResult, distribution
from slurm_ext.simulate.trace.columns import Trace

SLICES = 240  # of a curve
# Column of the table, key of the figures, how it is written.
TIMES = {
    "mean JCT": "jct_mean_s",
    "median": "jct_median_s",
    "p99": "jct_p99_s",
    "mean queue": "queue_mean_s",
    "median ": "queue_median_s",
    "p99 ": "queue_p99_s",
    "p99.9": "queue_p999_s",
}
JOB_COLUMNS = (
    "policy",
    "job",
    "user",
    "account",
    "vc",
    "gpus",
    "submit_s",
    "start_s",
    "end_s",
    "restarts",
    "state",
    "why",
)
HEADER = ("policy", *(name.strip() for name in TIMES), "in use", "restarts")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsReplayed:
    """A trace of jobs under several policies."""

    kind: str
    title: str
    source: str
    nodes: int
    gpus: int
    repairs: Mapping[str, int]
    results: Sequence[ReplayResult]
    other_seeds: Mapping[str, Sequence[Mapping[str, float]]] = field(default_factory=dict)
    left_out: Sequence[str] = ()  # of slurm.conf
    notes: Sequence[str] = ()
    jobs: Sequence[str] = ()  # ids, where results name some

    @property
    def document(self) -> dict[str, Any]:
        """The document of --json."""
        return {
            "v": 1,
            "kind": self.kind,
            "source": self.source,
            "jobs": len(self.results[0].submit_s),
            "nodes": self.nodes,
            "gpus": self.gpus,
            "repairs": dict(self.repairs),
            "policies": [self._figures(result) for result in self.results],
        }

    def _figures(self, result: ReplayResult) -> dict[str, Any]:
        """The figures of a policy, with the range of each where there are several seeds."""
        figures = result.figures()
        others = self.other_seeds.get(result.policy, ())
        ranges = {
            name: [min(all_of), max(all_of)]
            for name, value in figures.items()
            if (all_of := [value, *(other[name] for other in others)])
        }
        return {"policy": result.policy, **figures, **({"ranges": ranges} if others else {})}

    def page(self) -> Page:
        """The table and what is to be said below it."""
        jobs = len(self.results[0].submit_s)
        nodes, gpus = counted(self.nodes, "node"), counted(self.gpus, "GPU")
        return Page(
            title=self.title,
            source=self.source,
            about=f"{counted(jobs, 'job')} on {nodes}, {gpus}",
            caption="Times of jobs",
            header=HEADER,
            rows=[_row(result) for result in self.results],
            remarks=list(self._remarks()),
        )

    def _remarks(self) -> Iterator[str]:
        """Changes of the file, jobs left out, and the gain over the first policy."""
        for why, jobs in self.repairs.items():
            yield f"{counted(jobs, 'job')}: {why}"
        for name in self.left_out:
            yield f"{name} is set in slurm.conf and is not replayed"
        yield from self.notes
        for result in self.results:
            yield from self._losses(result)
        yield from self._ranges()
        first, *others = self.results
        for result in others:
            yield from _gain(first, result)

    def _losses(self, result: ReplayResult) -> Iterator[str]:
        """Jobs that did not complete, by why, and the work that was lost with them."""
        jobs_of = defaultdict[str, list[str]](list)
        for place, why in sorted(result.unfinished.items()):
            jobs_of[why].append(self.jobs[place])
        for why, jobs in jobs_of.items():
            yield f"{result.policy}: {counted(len(jobs), 'job')} {why} ({named(jobs)})"
        if result.lost_gpu_s:
            share = result.lost_gpu_s / result.used_gpu_s
            hours = f"{result.lost_gpu_s / 3600:,.1f} GPU-hours of work lost"
            yield f"{result.policy}: {hours}, {share:.1%} of the time that GPUs were in use"

    def _ranges(self) -> Iterator[str]:
        for result in self.results:
            others = self.other_seeds.get(result.policy, ())
            every = [result.figures(), *others]
            means = [figures["jct_mean_s"] for figures in every if "jct_mean_s" in figures]
            if others and means:
                low, high = seconds(min(means)), seconds(max(means))
                yield f"{result.policy}: mean JCT {low} to {high} over {len(means)} seeds"

    def plots(self) -> Plots:
        """Plots of the page, by title."""
        jct = {result.policy: _distribution(result.jct_s) for result in self.results}
        queue = {result.policy: _distribution(result.queue_s) for result in self.results}
        used = {result.policy: _pairs(*result.utilisation(SLICES)) for result in self.results}
        done = "Share of jobs that completed within a time of their submission; left is sooner."
        waited = "Share of jobs that waited no longer than a time; further left is sooner."
        busy = "Share of all GPUs that ran a job, from the first submission on."
        yield "Completion", shares_by_time(done, "jobs completed", jct)
        yield "Waiting", shares_by_time(waited, "jobs started", queue)
        yield "GPUs in use", shares_over_time(busy, "GPUs in use", used)


def jobs_csv(trace: Trace, results: Sequence[ReplayResult]) -> str:
    """A line for each policy and job: when it started and ended; seconds as in the trace."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(JOB_COLUMNS)
    for result in results:
        for place, job in enumerate(trace.job):
            names = trace.users[trace.user[place]], trace.accounts[trace.account[place]]
            times = (
                "" if isnan(column[place]) else f"{column[place]:.3f}"
                for column in (result.submit_s, result.start_s, result.end_s)
            )
            vc, restarts = trace.vcs[trace.vc[place]], result.restarts.get(job, 0)
            why = result.unfinished.get(place, "")
            end = restarts, "unfinished" if why else "completed", why
            writer.writerow((result.policy, job, *names, vc, trace.gpus[place], *times, *end))
    return text.getvalue()


def _row(result: ReplayResult) -> list[str]:
    figures = result.figures()
    times = (seconds(figures[key]) for key in TIMES.values())
    return [
        result.policy,
        *times,
        f"{figures['utilisation']:.1%}",
        f"{figures['restarts']:,.0f}",
    ]


def _gain(first: ReplayResult, result: ReplayResult) -> Iterator[str]:
    """The mean over that of the first policy, of jobs that complete under both."""
    both = first.completed & result.completed
    if not both.any():
        return
    base, mean = (float((one.end_s - one.submit_s)[both].mean()) for one in (first, result))
    ahead = f"{base / mean:.2f}x better" if base >= mean else f"{mean / base:.2f}x worse"
    some = "" if both.all() else f" over the jobs that complete under both ({both.sum():,})"
    yield f"{result.policy}: mean JCT {ahead} than {first.policy}{some}"


def _distribution(column: Any) -> Points:
    """(seconds, share of jobs that took no longer)."""
    return _pairs(*distribution(column, SLICES))


def _pairs(across: Any, up: Any) -> Points:
    return list(zip(across.tolist(), up.tolist(), strict=True))
