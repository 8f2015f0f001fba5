"""Sizes of elastic jobs in GPUs, and their places on nodes. Pure."""
