"""Changes of a job's cores and reads by cgroup v1, cgroup v2 and CPU affinity."""
