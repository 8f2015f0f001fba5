"""GPU counters through NVML."""
