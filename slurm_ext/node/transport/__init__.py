"""Records on their way from the node's spool to the history; housekeeping of the spool."""
