"""`dlqueue serve`: socket, threads, refresh, metrics and child processes."""
