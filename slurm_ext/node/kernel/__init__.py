"""Readers of /proc and cgroupfs: processes, control groups and cores."""
