"""One submission from script or request to decision, edits, message. Pure but for the journal."""
