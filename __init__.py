"""dlqueue: right-sizes deep-learning jobs on Slurm from what earlier jobs measured."""

__version__ = "0.1.0"
