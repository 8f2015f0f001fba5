"""Names of columns that several files here use; light, because `predict` waits for it."""

from dataclasses import fields

from slurm_ext.core.records import Level, LoaderRun, SyncRun

LOADER_COLUMNS = tuple(field.name for field in fields(LoaderRun))
SYNC_LISTS = ("bucket_bytes", "ready_bytes", "ready_s")
SYNC_OF_LOADER = ("batch_size", "data_key")
"""Columns of loader_runs that belong to a SyncRun."""
SYNC_COLUMNS = tuple(
    field.name for field in fields(SyncRun) if field.name not in (*SYNC_LISTS, *SYNC_OF_LOADER)
)
OWNER_OF_LEVEL = {Level.OWN_KIND: "user", Level.ACCOUNT_KIND: "account"}
"""Columns of runs that tell these levels from KIND, so that they need no key of their own."""
STORED_LEVELS = tuple(level for level in Level if level not in OWNER_OF_LEVEL)
KEY_OF_LEVEL = {level: f"key_{level.name.lower()}" for level in STORED_LEVELS}
NEXT_S = 2.0  # two clocks' difference: what starts later than a run's end is another run
OVER_S = "max(end_s, coalesce(start_s, end_s))"
"""A run's end; its start where a clock was set back meanwhile."""
SINCE = f"(end_s IS NULL OR {OVER_S} + {NEXT_S} >= ?)"
"""Runs that did not end before a second in which Slurm started one of this number.

A slurmctld that lost its state, or its last seconds, gives numbers of jobs and restarts again.
"""
SACCT = "sacct"  # the source of runs that a site's accounting brought, not their nodes
KEY_COLUMNS = tuple(KEY_OF_LEVEL.values())
