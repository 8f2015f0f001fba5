"""Clocks and counters of one process: its fetches, its steps, its turns, its cores and memory."""
