"""The Slurm of each policy, and one run of a mix on it."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from contrib.bench.adloader import dlqueue_policy as dlqueue
from contrib.bench.adloader.actuator import Actuator, Rule
from contrib.bench.adloader.curves import Table, sweep
from contrib.bench.adloader.parts import DLQUEUE, TABLES, Measured, Part
from contrib.bench.adloader.policies import Machine, best_fixed, even
from contrib.bench.adloader.site import GATED, Played, Site
from contrib.bench.adloader.training import KINDS, prepare
from contrib.bench.adloader.workload import MIXES, slots
from slurm_ext.sandbox import Sandbox, SandboxSpec

Row = dict[str, Any]


def measure(
    part: Part, folder: Path, cores: int, measured: Measured, settings: Mapping[str, Any]
) -> list[Row]:
    """One part's rows. Raises RunFailedError, SandboxError, OSError."""
    data = folder / "data"
    prepare(data)
    if part.policy == TABLES:
        return [{"tables": {kind: sweep(kind, data, cores).as_json() for kind in KINDS}}]
    mix = MIXES[part.mix](part.seed, slots(cores))
    if part.policy == DLQUEUE:
        spec = dlqueue.spec(cores, settings)
        cold, warm = dlqueue.cold_and_warm(folder / "slurm", spec, data, mix)
        return [_row("dlqueue_cold", cold, cores), _row("dlqueue_warm", warm, cores)]
    rule = _rule(part.policy, cores, measured)
    with Sandbox(folder / "slurm", _spec(part.policy, cores, gated=rule is not None)) as sandbox:
        site = Site(sandbox, data)
        played = site.play(mix, Actuator(rule), GATED) if rule else site.play(mix)
        return [_row(part.policy, played, cores)]


def _spec(policy: str, cores: int, *, gated: bool) -> SandboxSpec:
    """Slurm as it is has each job on cores of its own; the fixed policies have their own ways."""
    settings = {"node.probe": True} if gated else {}
    constrain = policy == "slurm"
    return SandboxSpec(
        cpus=cores, cgroup=True, constrain_cores=constrain, hooks=gated, settings=settings
    )


def _rule(policy: str, cores: int, measured: Measured) -> Rule | None:
    if policy == "even":
        return even(cores)
    if policy == "best_fixed":
        tables = {kind: Table.from_json(rows) for kind, rows in measured.tables().items()}
        return best_fixed(Machine(cores, tables))
    return None


def _row(policy: str, played: Played, cores: int) -> Row:
    jobs: Sequence[Mapping[str, Any]] = [asdict(job) for job in played.jobs]
    return {
        "policy": policy,
        "slots": slots(cores),
        "jobs": jobs,
        "emulated": played.emulated,
        "own_cpu_s": played.own_cpu_s,
        "decisions": played.decisions,
    }


def take_cores(count: int | None) -> int:
    """Have this process and all that it starts run on the first `count` cores, or on all.

    Raises SystemExit if there are fewer.
    """
    there = sorted(os.sched_getaffinity(0))
    if count is None:
        return len(there)
    if not 2 <= count <= len(there):
        raise SystemExit(f"--cores {count}: expected 2 to {len(there)}, the cores of this process")
    os.sched_setaffinity(0, there[:count])
    return count
