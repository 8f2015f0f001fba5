"""The very runs that an answer rests on: jobs that people can look up. Light, as lookup.py is."""

import sqlite3
from collections.abc import Mapping
from math import inf
from typing import Any

from slurm_ext.core.records import Level
from slurm_ext.history.store.names import KEY_OF_LEVEL, OWNER_OF_LEVEL

MOST = 5
_PAST = """
SELECT r.job_id, r.node, r.end_s AS ended_s, l.cores AS cpus, l.workers AS num_workers,
    coalesce(l.whole_samples_per_s, l.samples_per_s * coalesce(l.ranks, 1)) AS samples_per_s,
    coalesce(l.ranks, 1) AS ranks, l.gpu_model, l.data_key
FROM loader_runs l CROSS JOIN runs r ON r.id = l.run
WHERE l.{key} = ? AND r.ingested_s <= ?{owned} ORDER BY l.id DESC LIMIT ?"""


def recent_runs(
    conn: sqlite3.Connection,
    level: str,
    keys: Mapping[Level, int],
    *,
    owner: str | None = None,
    known_by_s: float = inf,
) -> list[dict[str, Any]]:
    """At most MOST, newest first, which were in the history at `known_by_s` (epoch seconds).

    Each: job_id, node, ended_s (epoch), cpus (cores it had), num_workers, samples_per_s (of all its
    ranks, over its whole run), ranks, gpu_model, data_key (stands for its data set and batch).
    `owner`: the user or account whose runs of a program these are, where the level is of one.
    """
    owned = OWNER_OF_LEVEL.get(Level(level))
    near = Level.KIND if owned else Level(level)
    sql = _PAST.format(key=KEY_OF_LEVEL[near], owned=f" AND r.{owned} = ?" if owned else "")
    values = (keys.get(near), known_by_s, *([owner] if owned else []), MOST)
    cursor = conn.execute(sql, values)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]
