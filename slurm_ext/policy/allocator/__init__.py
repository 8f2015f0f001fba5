"""How a node's cores and storage bandwidth are divided among its jobs. Pure."""
