"""Hardware counters through perf_event and the processor's uncore."""
