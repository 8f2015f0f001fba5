"""history.db itself: the only files that open it, its schema, its retention."""
