"""Passes over loaders: measured, and added up for each loader."""
