"""The one process that writes history.db: ingest, reconcile, receive, retrain."""
