"""Programs that were no part of the list by which the probe was built."""
