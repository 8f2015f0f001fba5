"""What keeps the results of a loader whose workers are moved: its indices and random numbers."""
