"""From all runs of the live proof to its figures and what was aimed at. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean
from typing import Any

from contrib.bench.adloader.metrics import Trained, figures, over_seeds
from contrib.bench.common.program import Result, at_least, at_most

BASE = "slurm"
OURS = ("dlqueue_cold", "dlqueue_warm")
MOST_SAMPLES, MOST_MAKESPAN = 1.289, 0.90  # of Slurm as it is
WORST_TO_UNCONSTRAINED, WORST, SAME, OF_BEST = 1.05, 0.98, 0.99, 0.95
Runs = dict[str, dict[str, list[dict[str, float]]]]
"""Figures of each run, by mix and policy, in the order of the seeds."""


def result(rows: Sequence[Mapping[str, Any]], cores: int) -> Result:
    """The benchmark's one JSON object."""
    runs = by_mix(rows)
    told: dict[str, Any] = {"cores": cores}
    told["emulated_accelerator"] = any(row.get("emulated") for row in rows)
    for mix, policies in runs.items():
        told[mix] = {policy: over_seeds(each) for policy, each in policies.items()}
        told[f"{mix}_to_slurm"] = {p: to(each, policies[BASE]) for p, each in policies.items()}
    told["own_cpu_s"] = own_cpu_s(rows)
    return {"bench": "adloader", "figures": told, "wanted": list(wanted(runs))}


def by_mix(rows: Sequence[Mapping[str, Any]]) -> Runs:
    """Every run held against Slurm as it is in its mix and seed; others are left out."""
    runs: Runs = {}
    for row in sorted((row for row in rows if "jobs" in row), key=lambda row: row["seed"]):
        base = [trained(other) for other in rows if _is_base(other, row)]
        if base:
            one = {"seed": row["seed"], **figures(trained(row), base, row["slots"])}
            runs.setdefault(row["mix"], {}).setdefault(row["policy"], []).append(one)
    return runs


def _is_base(other: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    same = (other["mix"], other["seed"]) == (row["mix"], row["seed"])
    return same and other.get("policy") == BASE


def trained(row: Mapping[str, Any]) -> list[Trained]:
    """The jobs of a kept run."""
    return [Trained(**job) for job in row["jobs"]]


def own_cpu_s(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """CPU seconds of dlqueue's daemons and hooks in a run, by policy: means over the runs."""
    found: dict[str, list[dict[str, float]]] = {}
    for row in rows:
        if row.get("own_cpu_s"):
            found.setdefault(row["policy"], []).append(row["own_cpu_s"])
    return {
        policy: {
            name: round(mean(each.get(name, 0.0) for each in runs), 2)
            for name in sorted({name for each in runs for name in each})
        }
        for policy, runs in found.items()
    }


def to(
    runs: Sequence[Mapping[str, float]], base: Sequence[Mapping[str, float]]
) -> dict[str, float]:
    """Mean over the seeds of each seed's ratio to the base; empty if no seed has both."""
    known = {one["seed"]: one for one in base}
    pairs = [(one, known[one["seed"]]) for one in runs if one["seed"] in known]
    keys = [key for key in runs[0] if key != "seed" and all(other[key] for _, other in pairs)]
    if not pairs:
        return {}
    return {key: round(mean(one[key] / other[key] for one, other in pairs), 4) for key in keys}


def wanted(runs: Runs) -> Iterator[Result]:
    """Targets of dlqueue without history (cold) and with it (warm)."""
    for ours in OURS:
        yield from _mixed(ours, runs.get("mixed", {}))
        same = runs.get("homogeneous", {})
        if ours in same:
            rate = to(same[ours], same[BASE])["samples_per_s"]
            yield at_least(f"{ours}: homogeneous samples/s of Slurm as it is", SAME, rate)


def _mixed(ours: str, policies: Mapping[str, list[dict[str, float]]]) -> Iterator[Result]:
    if ours not in policies:
        return
    runs = policies[ours]
    slurm = to(runs, policies[BASE])
    worst = min(one["worst_job_ratio"] for one in runs)
    yield at_least(f"{ours}: samples/s of Slurm as it is", MOST_SAMPLES, slurm["samples_per_s"])
    yield at_most(f"{ours}: makespan of Slurm as it is", MOST_MAKESPAN, slurm["makespan_s"])
    yield at_least(f"{ours}: every job's rate of Slurm as it is", WORST, worst)
    if ratio := to(runs, policies.get("unconstrained", [])):
        yield at_most(f"{ours}: makespan of unconstrained", 1.0, ratio["makespan_s"])
        got = ratio["worst_job_ratio"]
        yield at_least(f"{ours}: worst job of unconstrained's", WORST_TO_UNCONSTRAINED, got)
    if ratio := to(runs, policies.get("best_fixed", [])):
        got = ratio["samples_per_s"]
        yield at_least(f"{ours}: samples/s of the best fixed split", OF_BEST, got)


def table(told: Mapping[str, Any]) -> str:
    """For people: the mixes, a line a policy."""
    lines = []
    for mix in ("mixed", "homogeneous", "quick"):
        if mix in told:
            lines += [f"{mix:<15} samples/s  makespan s  worst job  mean job  of slurm  jobs CPU s"]
            lines += [_line(p, told[mix][p], told[f"{mix}_to_slurm"][p]) for p in told[mix]]
    return "\n".join([*lines, f"own CPU s: {told['own_cpu_s']}"])


def _line(policy: str, one: Mapping[str, float], to_slurm: Mapping[str, float]) -> str:
    return (
        f"{policy:<15} {one['samples_per_s']:9.1f} {one['makespan_s']:11.1f}"
        f" {one['worst_job_ratio']:10.3f} {one['mean_job_ratio']:9.3f}"
        f" {to_slurm['samples_per_s']:9.3f} {one['jobs_cpu_s']:11.1f}"
    )
