"""Measurements of layers and links, on crops and small messages."""
