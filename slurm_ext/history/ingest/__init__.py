"""Run records, decisions and actions on their way into history.db, each exactly once."""
