"""Counters of one running job: cgroups, processes, power, GPUs and time line."""
