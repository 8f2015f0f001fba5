"""The one room that opens history.db: schema, exactly-once ingest, queries, retention."""
