"""Which jobs share a node or a GPU, which start together, and when to part them. Pure."""
