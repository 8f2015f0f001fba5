"""One run record: composed at the end of a job, read and checked by the history."""
