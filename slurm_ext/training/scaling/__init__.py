"""Fits how trainings scale with GPUs and has the fit challenge the serving model."""
