"""Questions to history.db, one file a question. Nothing here writes."""
