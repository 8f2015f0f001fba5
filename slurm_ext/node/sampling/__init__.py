"""The sampler, a process that reads one job's counters while it runs, and what starts it."""
