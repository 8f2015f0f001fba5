"""The probe's figure of a run beside the program's own, and what dlqueue did to the program."""

from typing import Any

from contrib.bench.foreign.program import Program
from contrib.bench.foreign.runs import Ran
from slurm_ext.core.findings.strands import total
from slurm_ext.core.loader_run import loader_run
from slurm_ext.core.trainings import trainings

NEAR = 0.05
NO_STEP = "no step that dlqueue knows"


def figure(run: Ran) -> tuple[str, float] | None:
    """`samples` or `steps`, and how many a second the job made; None: the probe has neither."""
    in_turn, found = _in_turn(run), loader_run(_record(run))
    if in_turn is not None:
        return "samples", in_turn
    if found is not None:
        return "samples", found.whole_samples_per_s or _whole(run)
    clocks = [one["optimizer"] for one in run.summaries if one.get("optimizer")]
    best = max(clocks, key=lambda clock: int(clock["steps"]), default=None)
    if best is None or best["steps"] < 2 or not best["wall_s"]:
        return None
    return "steps", (best["steps"] - 1) / best["wall_s"]


def _in_turn(run: Ran) -> float | None:
    """Rate of all trainings that one process made one after the other; None: of only one."""
    found = list(trainings(run.summaries)) if len(run.summaries) == 1 else []
    read = [[loader for _, loader in (*one.members, *one.others)] for one in found]
    samples = [sum(total(loader, "samples") for loader in loaders) for loaders in read]
    rates = [one.samples_per_s for one in found]
    if len(found) < 2 or None in rates:
        return None
    return sum(samples) / sum(n / rate for n, rate in zip(samples, rates, strict=True) if rate)


def _whole(run: Ran) -> float:
    """Of all processes, over the longest one's training: each one's busiest loader."""
    busiest = [max(one["loaders"], key=_weight) for one in run.summaries if one["loaders"]]
    seconds = [
        loader["startup_s"] + sum(phase["wall_s"] for phase in loader["phases"])
        for loader in busiest
    ]
    return float(sum(_weight(loader)[1] for loader in busiest) / max(seconds))


def _record(run: Ran) -> dict[str, Any]:
    size = len(run.summaries) or 1
    return {
        "allocation": {"cpus_per_task": 2, "num_tasks": size, "num_nodes": 1, "gpus": 0},
        "host": {"cores": 2},
        "outcome": {"state": "COMPLETED"},
        "times": {},
        "probe": {"summaries": run.summaries},
        "counters": {},
    }


def truth(run: Ran, kind: str) -> float:
    """Rate by the program's own clock: samples of all processes, steps of one."""
    seconds = max(one["seconds"] for one in run.truths)
    counts = [one[kind] for one in run.truths]
    return float((sum(counts) if kind == "samples" else max(counts)) / seconds)


def decision(run: Ran) -> str:
    """The gate's act on the training's loader, or its reason to leave it alone."""
    loaders = [loader for one in run.summaries for loader in one["loaders"]]
    loader = max(loaders, key=_weight, default=None)
    if loader is None:
        return "no loader"
    reason = loader["left_alone"] or loader["fallback"]
    return str(reason or f"moved to {loader['started_workers']}")


def at_work(run: Ran) -> float | None:
    """Mean workers of the training's loader, its first pass left out where there are others."""
    loaders = [loader for one in run.summaries for loader in one["loaders"]]
    phases = max(loaders, key=_weight)["phases"] if loaders else []
    later = [phase for phase in phases if phase["phase"] == "later"] or phases
    seconds = sum(phase["wall_s"] for phase in later)
    busy = sum(phase["workers"] * phase["wall_s"] for phase in later)
    return round(busy / seconds, 2) if seconds else None


def _weight(loader: dict[str, Any]) -> tuple[float, float]:
    steps = sum(phase.get("steps") or 0 for phase in loader["phases"])
    return steps, sum(phase["samples"] for phase in loader["phases"])


def judged(program: Program, off: Ran, on: Ran, moved: Ran) -> dict[str, Any]:
    """One line of the table."""
    told: dict[str, Any] = dict.fromkeys(("kind", "figure", "truth", "error"))
    found = figure(on) if on.truths else None
    if found is not None:
        true = truth(on, found[0])
        told |= {"kind": found[0], "figure": round(found[1], 2), "truth": round(true, 2)}
        told["error"] = round(found[1] / true - 1, 4)
    runs = (off, on, moved)
    usual = set(off.said)
    faults = {fault for run in runs for one in run.summaries for fault in one["faults"]}
    return {
        "program": program.name,
        **told,
        "decision": decision(moved),
        "workers": at_work(moved),
        "equal": bool(off.losses) and all(run.losses == off.losses for run in runs),
        "statuses": [run.status for run in runs],
        "new_words": sorted({line for run in runs[1:] for line in run.said} - usual)[:5],
        "faults": sorted(faults),
    }


def reasons(program: Program, row: dict[str, Any]) -> list[str]:
    """Clauses that say why a line is not as wanted."""
    why: list[str] = []
    if row["figure"] is None:
        why.append(f"no figure: {NO_STEP}")
    elif abs(row["error"]) > NEAR:
        why.append(f"{row['kind']}/s {row['error']:+.0%} beside the truth")
    if not row["equal"]:
        why.append("two runs as written differ" if program.races else "results differ")
    if set(row["statuses"]) != {program.status}:
        why.append(f"exit statuses {row['statuses']}")
    return [*why, *(f"says {line!r}" for line in row["new_words"]), *row["faults"]]
