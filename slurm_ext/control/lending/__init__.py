"""The loop of one node that lends idle cores to extra loader workers."""
