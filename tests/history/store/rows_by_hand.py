"""Rows of a history by hand."""

from typing import Any

from slurm_ext.history.store.store import History


def column(history: History, sql: str) -> list[Any]:
    """The first column of what a query gives."""
    return [row[0] for row in history.conn.execute(sql)]
