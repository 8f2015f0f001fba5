"""A matching of maximum weight, by networkx (Edmonds' blossom, Galil 1986). Pure."""

from collections.abc import Mapping

from slurm_ext.core.errors import Extra

Edge = tuple[str, str]


def require() -> None:
    """Raise MissingError if nothing can be matched: the loop says so at its start."""
    with Extra("pairs"):
        import networkx as nx  # noqa: F401


def best_matching(weights: Mapping[Edge, float]) -> tuple[Edge, ...]:
    """Edges without a common end whose weights sum to the most; equal input in any order is equal.

    Cubic in the ends: the caller bounds them (32 ends take about 10 ms). Weights are positive.
    """
    if not weights:
        return ()
    with Extra("pairs"):
        from networkx import Graph, max_weight_matching  # a tenth of a second that few need

    graph = Graph()
    for a, b in sorted(weights):
        graph.add_edge(a, b, weight=weights[a, b])
    matching = max_weight_matching(graph)
    return tuple(sorted((a, b) if (a, b) in weights else (b, a) for a, b in matching))
