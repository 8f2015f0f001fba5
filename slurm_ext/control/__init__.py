"""Control loops: the node's allocator, the queue, elastic jobs, energy and co-scheduling."""
