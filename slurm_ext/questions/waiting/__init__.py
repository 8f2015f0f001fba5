"""Causes for which a job waits, in numbers: what it asks, what the limit is, who holds it."""
