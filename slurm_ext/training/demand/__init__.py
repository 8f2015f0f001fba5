"""Fits the demand of nodes and has the fit challenge persistence."""
