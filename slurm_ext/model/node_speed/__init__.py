"""Speed of nodes, GPUs and ranks against their peers, by what jobs measured on them."""
