"""The loop of one node: cores and loader workers for the jobs that run on it."""
