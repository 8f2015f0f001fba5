"""Numbers to numbers: features, the throughput curve and its interval, the artifact."""
