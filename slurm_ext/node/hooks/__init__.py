"""Prolog, task prolog, sampler and epilog, which slurmd starts. Every hook exits 0."""
