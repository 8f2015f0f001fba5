"""The option --limit of commands that list rows."""

from slurm_ext.core.errors import UsageError

MOST_ROWS = 1_000_000_000


def check_limit(limit: int) -> None:
    """Raise UsageError where no list can have so many rows."""
    if not 1 <= limit <= MOST_ROWS:
        raise UsageError(f"--limit {limit}: a number from 1 to {MOST_ROWS} is wanted")
