"""From all runs of the live proof to its figures and what was aimed at. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean
from typing import Any

from contrib.bench.adloader.metrics import Trained, figures, over_seeds

SEARCHED = ("best_samples", "best_ratios")
OURS = ("dlqueue_warm", "dlqueue_cold")
Runs = dict[str, dict[str, list[dict[str, float]]]]
"""Figures of each run, by mix and policy, in the order of the seeds."""


def result(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The benchmark's one JSON object."""
    runs = by_mix(rows)
    main = runs.get("mixed") or runs.get("small") or {}
    figures: dict[str, Any] = {policy: over_seeds(each) for policy, each in main.items()}
    if "homogeneous" in runs:
        figures["homogeneous"] = {p: over_seeds(each) for p, each in runs["homogeneous"].items()}
    figures["to_even"] = {policy: to(each, main["even"]) for policy, each in main.items()}
    figures["emulated_accelerator"] = any(row.get("emulated") for row in rows)
    return {"bench": "adloader", "figures": figures, "wanted": list(wanted(runs))}


def by_mix(rows: Sequence[Mapping[str, Any]]) -> Runs:
    """Every run held against the even split of its mix and seed."""
    ran = [row for row in rows if "jobs" in row]
    runs: Runs = {}
    for row in ran:
        where = (row["mix"], row["seed"])
        even = [
            trained(other)
            for other in ran
            if (other["mix"], other["seed"]) == where and other["policy"] == "even"
        ]
        if even:
            one = {"seed": row["seed"], **figures(trained(row), even)}
            runs.setdefault(row["mix"], {}).setdefault(row["policy"], []).append(one)
    for policies in runs.values():
        for each in policies.values():
            each.sort(key=lambda one: one["seed"])
        if all(name in policies for name in SEARCHED):
            policies["exhaustive_best"] = list(_better(*(policies[n] for n in SEARCHED)))
    return runs


def trained(row: Mapping[str, Any]) -> list[Trained]:
    """The jobs of a kept run."""
    return [Trained(**job) for job in row["jobs"]]


def _better(*runs: Sequence[dict[str, float]]) -> Iterator[dict[str, float]]:
    """Of each seed the run with most samples/s."""
    for each in zip(*runs, strict=False):
        yield max(each, key=lambda one: one["samples_per_s"])


def to(runs: Sequence[Mapping[str, float]], base: Sequence[Mapping[str, float]]) -> Any:
    """Mean over the seeds of each seed's ratio to the base, for the two that have one."""
    known = {one["seed"]: one for one in base}
    pairs = [(one, known[one["seed"]]) for one in runs if one["seed"] in known]
    return {
        key: round(mean(one[key] / at_base[key] for one, at_base in pairs), 4)
        for key in ("samples_per_s", "makespan_s")
    }


def wanted(runs: Runs) -> Iterator[dict[str, Any]]:
    """Targets of the controller, with history (warm) and without (cold)."""
    main, same = runs.get("mixed", {}), runs.get("homogeneous", {})
    for ours in OURS:
        if ours in main:
            rate, span = to(main[ours], main["even"]).values()
            worst = min(one["worst_job_ratio"] for one in main[ours])
            yield _at_least(f"{ours}: samples_per_s to the even split's", 1.5, rate)
            yield _at_most(f"{ours}: makespan_s to the even split's", 0.9, span)
            yield _at_least(f"{ours}: worst job to its even share", 0.98, worst)
        if ours in main and "exhaustive_best" in main:
            rate = to(main[ours], main["exhaustive_best"])["samples_per_s"]
            yield _at_least(f"{ours}: samples_per_s to the exhaustive best's", 0.95, rate)
        if ours in same:
            rate = to(same[ours], same["even"])["samples_per_s"]
            yield _at_least(f"{ours}: homogeneous samples_per_s to the even split's", 0.98, rate)


def _at_least(what: str, target: float, got: float) -> dict[str, Any]:
    return {"what": f"{what}, at least", "target": target, "got": got, "met": got >= target}


def _at_most(what: str, target: float, got: float) -> dict[str, Any]:
    return {"what": f"{what}, at most", "target": target, "got": got, "met": got <= target}


def table(figures: Mapping[str, Any]) -> str:
    """For people."""
    lines = [f"{'policy':<16} samples/s  makespan s  worst job  mean job  to even"]
    for policy, ratio in figures["to_even"].items():
        one = figures[policy]
        lines.append(
            f"{policy:<16} {one['samples_per_s']:9.1f} {one['makespan_s']:11.1f}"
            f" {one['worst_job_ratio']:10.3f} {one['mean_job_ratio']:9.3f}"
            f" {ratio['samples_per_s']:8.3f}"
        )
    return "\n".join(lines)
