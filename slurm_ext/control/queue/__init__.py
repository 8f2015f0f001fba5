"""The loop that orders Slurm's queue by `nice`."""
