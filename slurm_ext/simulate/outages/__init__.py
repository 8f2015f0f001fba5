"""Nodes that fail, and nodes that come and go: when each is there for jobs."""
