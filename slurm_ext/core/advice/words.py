"""Words of a bottleneck: the only place where they stand, with their names for people."""

from collections.abc import Mapping
from types import MappingProxyType

NAMES: Mapping[str, str] = MappingProxyType(
    {
        "accelerator": "accelerator",  # as it should be
        "step": "step on the CPUs",  # that of a training on CPUs
        "data": "data",  # its loader has too few workers, or too costly samples
        "cores": "cores",  # its workers wait for them
        "storage": "storage",
        "samples": "slow samples",  # a few of them hold up whole batches
        "start": "start of workers",  # again with each pass
        "memory": "memory",  # more workers would help and do not fit
        "network": "exposed communication",  # ranks wait for each other's messages
        "skew": "skew of ranks",  # ranks wait for a slower one
        "idle": "idle",  # nothing is busy
    }
)
"""Every word, by its name in JSON."""

LIMITS: Mapping[str, str] = MappingProxyType(
    {
        "accelerator": "the accelerator is",
        "storage": "storage is",
        "data": "the CPUs are",
        "network": "the network is",
        "memory": "memory is",
        "idle": "nothing is",
        "step": "its step on the CPUs is",
        "cores": "the cores that it shares or fills are",
        "samples": "its slow samples are",
        "start": "the start of its workers is",
        "skew": "its slowest rank is",
    }
)
"""`... the limit`: said of a job that is as fast as it gets."""

AT_BEST: Mapping[str, str] = MappingProxyType(
    {
        "accelerator": "nothing in its loader: mixed precision, or a faster GPU",
        "step": "a GPU, or more CPUs if its program computes on all of them",
        "cores": "cores of its own: other jobs want those that it has",
    }
)
"""Next step of a job from whose time no advice removes anything."""

CROWDED_BY_ITSELF = "more CPUs, or fewer workers: its own processes wait for each other"
"""The same where its cores are crowded and no other job has to be."""
