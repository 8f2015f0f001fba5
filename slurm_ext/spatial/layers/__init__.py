"""Layers of a network, each by its rule for slabs: convolutions, norms, pooling, dropout."""
