"""Traces for tests: small ones from rows, random ones from hypothesis."""

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from slurm_ext.simulate.trace.columns import Trace

Job = tuple[float, float, int]  # submitted (s), runs for (s), GPUs


def trace_of(jobs: Sequence[Job], *, limits: Sequence[float] | None = None) -> Trace:
    """A trace of (submit_s, duration_s, gpus) rows; estimates are the durations."""
    jobs = sorted(jobs, key=lambda job: job[0])
    count = len(jobs)
    submit_s, duration_s, gpus = (np.array(column) for column in zip(*jobs, strict=True))
    return Trace(
        source="test",
        job=tuple(str(number) for number in range(count)),
        submit_s=submit_s.astype(float),
        duration_s=duration_s.astype(float),
        gpus=gpus.astype(int),
        cpus=np.zeros(count, dtype=int),
        user=np.zeros(count, dtype=int),
        vc=np.zeros(count, dtype=int),
        account=np.zeros(count, dtype=int),
        gpu_type=np.zeros(count, dtype=int),
        qos=np.zeros(count, dtype=int),
        limit_s=np.full(count, np.nan) if limits is None else np.array(limits, dtype=float),
        estimate_s=duration_s.astype(float),
    )


def jobs(most_gpus: int, *, longest: int = 30) -> st.SearchStrategy[list[Job]]:
    """Up to 14 jobs in whole seconds, so that events meet often."""
    job = st.tuples(
        st.integers(0, 30).map(float), st.integers(1, longest).map(float), st.integers(1, most_gpus)
    )
    return st.lists(job, min_size=1, max_size=14)
