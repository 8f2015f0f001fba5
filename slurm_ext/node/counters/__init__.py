"""What a node counts about one running job: cgroups, processes, power and time line."""
