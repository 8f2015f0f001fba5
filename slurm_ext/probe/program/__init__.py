"""Reads the program's own code: its names, what can still run, and what that writes to."""
