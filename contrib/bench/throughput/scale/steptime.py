"""Published step times of other models and clusters, as series of counts to learn a prior from."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import log2
from pathlib import Path

from contrib.bench.throughput.scale.series import Key, Row, Series, Table, read_table, rows_of

ELSEWHERE = "placed in another way"
FEWEST_COUNTS = 3  # that a series has to have


def steptime(folder: Path) -> Table:
    """Samples/s of a fixed batch a GPU, where GPUs are on as few nodes as possible or one a node.

    Further jobs to learn from: nothing of this table is scored here.
    """
    path = folder / "pollux_sia_steptime.csv.gz"
    columns = ("model", "cluster", "placement", "num_nodes", "num_gpus", "local_bsz")
    largest: dict[str, int] = {}
    for _, row in rows_of(path, (*columns, "samples_per_s")):
        most = max((int(digit) for digit in row["placement"] if digit.isdigit()), default=1)
        largest[row["cluster"]] = max(most, largest.get(row["cluster"], 1))
    table = Table()
    for near in ("consolidated", "spread"):
        part = read_table(path, columns, partial(_steptime_key, near=near, largest=largest))
        table.series += _few_batches(part.series)
        table.skipped += [line for line in part.skipped if ELSEWHERE not in line]
    return table


def _steptime_key(row: Row, near: str, largest: Mapping[str, int]) -> Key:
    gpus, nodes = int(row["num_gpus"]), int(row["num_nodes"])
    fewest = -(-gpus // largest[row["cluster"]])
    if nodes != (fewest if near == "consolidated" else gpus):
        raise ValueError(ELSEWHERE)
    return Key(
        source="steptime",
        kind=f"gpus_each_{near}",
        job=f"steptime {row['cluster']} {row['model']}",
        label=f"{row['local_bsz']} {near}",
        batch=float(row["local_bsz"]),
        count=gpus,
        rate=float(row["samples_per_s"]),
    )


def _few_batches(every: list[Series]) -> list[Series]:
    jobs: dict[str, list[Series]] = {}
    for one in every:
        powers = tuple(p for p in one.points if log2(p.count).is_integer())
        if powers and powers[0].count == 1 and len(powers) >= FEWEST_COUNTS:
            jobs.setdefault(one.job, []).append(replace(one, points=powers))
    chosen = []
    for series in jobs.values():
        series.sort(key=lambda one: one.batch)
        # Smallest, middle and largest batch: more of one job would say the same again.
        chosen += [series[at] for at in sorted({0, len(series) // 2, len(series) - 1})]
    return chosen
