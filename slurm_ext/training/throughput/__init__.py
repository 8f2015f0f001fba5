"""Fits the throughput prior and has it challenge the serving one."""
