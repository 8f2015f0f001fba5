"""Number of data-parallel ranks of one job on each of its GPUs (AccDP). Pure."""
