"""Rules that keep the results of a loader whose workers are moved: its indices, its dataset."""
