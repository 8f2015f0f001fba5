"""Options, rows, metrics and measuring helpers that several benchmarks share."""
