"""The throughput curve of one job: what its runs say of it, and what it predicts. numpy only."""
