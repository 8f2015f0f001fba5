"""Random streams of the user's own workers, kept where seeds are pinned."""
