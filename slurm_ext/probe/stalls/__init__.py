"""Accounts of where a step's time goes, beside its waits: gradients' way, spread of the fetches."""
