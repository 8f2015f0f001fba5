"""Slowdown of co-located jobs. numpy only."""
