"""Limits of one submission: partition, account, node and site rules."""
