"""Names of columns that several files here use; light, because `predict` waits for it."""

from dataclasses import fields

from slurm_ext.core.records import Level, LoaderRun

LOADER_COLUMNS = tuple(field.name for field in fields(LoaderRun))
KEY_OF_LEVEL = {level: f"key_{level.name.lower()}" for level in Level}
SACCT = "sacct"  # the source of runs that a site's accounting brought, not their nodes
KEY_COLUMNS = tuple(KEY_OF_LEVEL.values())
