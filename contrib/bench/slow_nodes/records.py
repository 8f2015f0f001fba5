"""Streams of runs on nodes: made up, and replayed from a published log of users and programs.

The noise of a run is drawn from published repetitions: the same step measured on two DGX-A100
clusters (Sia's tables `dgx` and `dgx-ext`), less what all configs of a model differ by. Nodes
differ for good by NODE_SD, trainings change now and then on all nodes at once (a new version of a
script), and some are noisier than others: what a detector must not hold against a node.
"""

import csv
import gzip
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from contrib.bench.common.arrays import Array
from contrib.bench.throughput.tables import read
from slurm_ext.core.errors import InputError
from slurm_ext.model.node_speed.residuals import UnitRun

DAY_S = 86400.0
NODE_SD = 0.01  # log, of healthy nodes: GPUs of one model differ
VERSION = 0.01  # chance that a run is the first one of a changed program
VERSION_SD = 0.15  # log, of what the change does to its rate
NOISIER = (0.5, 1.0, 2.0)  # factors on the noise of a training
NASA = "nasa_ipsc.csv.gz"


@dataclass(frozen=True, slots=True)
class Injected:
    """One node whose steps take longer from a moment on."""

    node: str
    from_s: float
    slower: float


def published_noise(folder: Path) -> Array:
    """Log differences of one run from its usual rate. Raises InputError."""
    by_config: dict[tuple[str, tuple[int, ...], float], dict[str, float]] = defaultdict(dict)
    for row in read(folder).rows:
        config = row.measured.config
        key = (row.model, config.layout, config.local_batch)
        by_config[key][row.cluster] = float(np.log(row.measured.samples_per_s))
    by_model: dict[str, list[float]] = defaultdict(list)
    for key, rates in by_config.items():
        if {"dgx", "dgx-ext"} <= rates.keys():
            by_model[key[0]].append(rates["dgx"] - rates["dgx-ext"])
    if not by_model:
        raise InputError(str(folder), "no config was measured on both dgx and dgx-ext")
    centred = [np.array(each) - float(np.median(each)) for each in by_model.values()]
    # Each difference has the noise of two runs.
    return np.asarray(np.concatenate(centred) / np.sqrt(2), dtype=np.float64)


def made_up(
    dice: np.random.Generator, *, nodes: int, days: int, a_day: float, users: int
) -> list[tuple[float, str, str]]:
    """(end, user, training) of so many runs a node and day; few users run most of them."""
    count = int(nodes * days * a_day)
    shares = 1 / np.arange(1, users + 1)
    owners = dice.choice(users, count, p=shares / shares.sum())
    programs = dice.integers(0, 4, count)
    ends = np.sort(dice.uniform(0, days * DAY_S, count))
    return [
        (float(at), f"u{user}", f"u{user}/p{program}")
        for at, user, program in zip(ends, owners, programs, strict=True)
    ]


def replayed(folder: Path) -> list[tuple[float, str, str]]:
    """The same of NASA's iPSC/860, whose log has users, programs and processors."""
    path = folder / NASA
    try:
        with gzip.open(path, "rt", newline="") as file:
            rows = [
                (
                    float(row["submit_s"]) + float(row["duration_s"]),
                    row["user"],
                    f"{row['user']}/{row['exe']}/{row['procs']}",
                )
                for row in csv.DictReader(file)
            ]
    except (OSError, EOFError, KeyError, ValueError) as error:
        raise InputError(str(path), f"cannot be read: {error}") from None
    return sorted(rows)


def on_nodes(
    dice: np.random.Generator,
    jobs: Sequence[tuple[float, str, str]],
    noise: Array,
    nodes: int,
    injected: Sequence[Injected] = (),
) -> list[UnitRun]:
    """Each job on a node drawn at random, with the rate that it has there."""
    names = [f"n{number}" for number in range(nodes)]
    usual = dict(zip(names, dice.normal(0, NODE_SD, nodes), strict=True))
    return list(_rated(dice, jobs, noise, names, usual, injected))


def _rated(
    dice: np.random.Generator,
    jobs: Sequence[tuple[float, str, str]],
    noise: Array,
    names: Sequence[str],
    usual: dict[str, float],
    injected: Sequence[Injected],
) -> Iterator[UnitRun]:
    level: dict[str, float] = {}
    noisier: dict[str, float] = {}
    for at_s, user, training in jobs:
        if training not in level:
            level[training] = float(dice.normal(5, 1))
            noisier[training] = float(dice.choice(NOISIER))
        if dice.random() < VERSION:
            level[training] += float(dice.normal(0, VERSION_SD))
        node = names[int(dice.integers(len(names)))]
        slower = sum(
            np.log1p(one.slower) for one in injected if one.node == node and at_s >= one.from_s
        )
        rate = level[training] + usual[node] - slower
        rate += noisier[training] * float(dice.choice(noise))
        yield UnitRun(at_s, node, training, user, float(rate))
