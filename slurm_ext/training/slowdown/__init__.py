"""Fits the slowdown of co-located jobs and has the fit challenge the serving model."""
