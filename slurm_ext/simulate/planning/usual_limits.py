"""Time limits of jobs that ask for none, as Slurm gives them (acct_policy.c, node_scheduler.c).

A job has the longest that its QOS and accounts allow; where they say nothing, or more than the
partition allows, it has the partition's DefaultTime, else its MaxTime.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import inf

import numpy as np

from slurm_ext.simulate.planning.layout import Layout
from slurm_ext.simulate.trace.columns import Column, Trace

GIVEN = "without a time limit: replayed with the one that the site gives"
KNOWN = "without a time limit: backfill knows how long they run"


def with_usual_limits(trace: Trace, layout: Layout | None, most_s: Column) -> Trace:
    """The trace, in which jobs have a time limit where the site gives one; these are counted.

    `most_s`: what QOS and accounts allow to each job; inf: any time.
    """
    given_s = np.floor(most_s / 60) * 60  # Slurm has whole minutes
    if layout is not None:
        given_s = _of_partitions(trace, layout, given_s)
    given = np.isnan(trace.limit_s) & (given_s < inf)
    return replace(
        trace,
        limit_s=np.where(given, given_s, trace.limit_s),
        repairs=_counted(trace, GIVEN, given),
    )


def with_known_times(trace: Trace) -> Trace:
    """The trace; the jobs that have no time limit, so that backfill knows all, are counted."""
    return replace(trace, repairs=_counted(trace, KNOWN, np.isnan(trace.limit_s)))


def _of_partitions(trace: Trace, layout: Layout, given_s: Column) -> Column:
    """Time limits given, as far as partitions allow them; else those of the partitions."""
    allowed = [layout.allowed(name) for name in trace.vcs]
    most_s = np.array([one.most_s for one in allowed])[trace.vc]
    usual_s = np.array([one.usual_s for one in allowed])[trace.vc]
    return np.where((given_s < inf) & (given_s <= most_s), given_s, usual_s)


def _counted(trace: Trace, why: str, which: Column) -> Mapping[str, int]:
    """The trace's repairs, and how many jobs another one is of."""
    jobs = int(np.count_nonzero(which))
    return {**trace.repairs, why: jobs} if jobs else trace.repairs
