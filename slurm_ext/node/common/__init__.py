"""Used by every hook: files, log, configuration, spool layout, and the state of one job."""
