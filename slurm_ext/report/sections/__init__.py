"""The sections of a report, one a file, and the report of all of them."""
