"""Replays of the energy policy over a recorded demand series. Nothing here powers a node."""
