"""Scaling of a training over GPUs, nodes and batch size, and its goodput. numpy only."""
