"""How the allocator changes a job's cores and reads: cgroup v1, v2 and affinity."""
