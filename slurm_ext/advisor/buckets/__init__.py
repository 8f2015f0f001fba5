"""Gradient buckets of jobs of several ranks: plans by earlier runs, and each job's part of them."""
