"""Shared by tests of what_if: examples and helpers."""

from dataclasses import replace
from typing import Any

from slurm_ext.advisor.what_if.layout import (
    JobLayout,
)
from tests.advisor.what_if.drafts import RUN

OTHER_GPU = replace(RUN, gpu_model="NVIDIA H100", accel_samples_per_s=200.0)


def layout(**values: Any) -> JobLayout:
    """One task of four CPUs and two workers."""
    return JobLayout(**{"cpus_per_task": 4, "num_workers": 2, **values})
