"""Status rows and recorded actions of the co-scheduling loop. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from slurm_ext.control.coscheduling.jobs import id_of
from slurm_ext.core.actions import Action
from slurm_ext.policy.colocation.choose_pairs import Candidate
from slurm_ext.policy.colocation.co_scheduling import PlacementAction
from slurm_ext.policy.colocation.colocation_monitor import CoLocationState

UNTOUCHED = "True None"


def gist(step: PlacementAction) -> str:
    """Summary that changes when the action does; seconds in a pair's reason do not count."""
    if step.free and not step.start and step.place is None:
        return UNTOUCHED
    return f"{step.free} {step.place} {step.start} {'' if step.pair else step.reason}"


def row(step: PlacementAction) -> dict[str, Any]:
    """Status row of a waiting job: its action, the reason, and the speeds it relies on."""
    lows = {job: round(s.low, 3) for job, s in step.pair.speeds.items()} if step.pair else {}
    cells = {"job": step.job, "start": step.start, "free": step.free, "place": step.place}
    return {**cells, "reason": step.reason, "at_least": lows}


def moved(step: PlacementAction, now_s: float, mode: str, lease_s: float) -> Action:
    """Action for the action log."""
    cells = row(step)
    where = f" on {step.place}" if step.place else ""
    done = f"StartTime=now{where}" if step.free else f"StartTime=now+{lease_s:.0f}"
    after = {name: cells[name] for name in ("start", "free", "place", "at_least")}
    return replace(_of(step.job, done, step.reason, now_s, mode), after=after)


def parted(
    hurt: str,
    again: str | None,
    verdict: CoLocationState,
    beside: Sequence[str],
    now_s: float,
    mode: str,
) -> tuple[Action, ...]:
    """Actions for a pair that is too slow: one for the slowed job, one for a requeued `again`.

    `beside`: all jobs on the node.
    """
    others = ", ".join(str(id_of(job)) for job in beside if job != hurt)
    why = f"{verdict.value} beside job {others}"
    done = f"requeue {id_of(again)}" if again else "kept apart the next time"
    actions = [_of(hurt, done, why, now_s, mode)]
    if again is not None and again != hurt:
        actions.append(_of(again, "requeue", f"beside it job {id_of(hurt)} was {why}", now_s, mode))
    return tuple(actions)


def _of(job: str, done: str, why: str, now_s: float, mode: str) -> Action:
    return Action(
        at_s=round(now_s, 3),
        kind="pair",
        mode=mode,
        subject=str(id_of(job)),
        job_id=id_of(job),
        done=done,
        why=why,
    )


def running_rows(
    running: Iterable[Candidate], speeds: Mapping[str, float | None]
) -> list[dict[str, Any]]:
    """Jobs that agreed and run, with the speed measured in their present company."""
    return [
        {"job": candidate.job, "node": candidate.place, "speed": speeds.get(candidate.job)}
        for candidate in running
        if candidate.opted_in
    ]


def status(
    now_s: float,
    mode: str,
    steps: Sequence[PlacementAction],
    running: Sequence[Mapping[str, Any]],
    left_alone: Mapping[str, str],
    apart: Collection[frozenset[str]],
) -> dict[str, Any]:
    """All of one round."""
    return {
        "t_s": round(now_s, 3),
        "mode": mode,
        "waiting": [row(step) for step in steps],
        "running": list(running),
        "left_alone": dict(left_alone),
        "kept_apart": sorted(sorted(pair) for pair in apart),
    }
