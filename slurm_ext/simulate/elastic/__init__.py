"""Replays of elastic jobs, whose GPUs change while they run, from measured tables. No Slurm."""
