"""`dlqueue control`: the allocator and the cluster's loops."""
