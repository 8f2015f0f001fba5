"""Backfill as Slurm plans it: room for several waiting jobs, on nodes that need not be equal."""
