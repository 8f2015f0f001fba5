"""Fits run times and has the fit challenge the serving model."""
