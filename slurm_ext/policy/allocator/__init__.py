"""Divide a node's cores and storage bandwidth among its jobs. Pure."""
