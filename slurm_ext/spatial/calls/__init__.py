"""Calls of torch's functions on slabs, between layers: which of them leave space alone. Pure."""
