"""Traces: formats, readers, and the columns that a replay is made of."""
