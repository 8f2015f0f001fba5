"""Facts of a run's record that forbid changing the next one."""
