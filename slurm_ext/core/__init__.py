"""Records, units, files, statistics and settings that every room shares. Standard library only."""
