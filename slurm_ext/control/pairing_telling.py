"""What the pairing says: rows for its status and its ledger. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from slurm_ext.policy.sharing import Candidate
from slurm_ext.policy.steering import Step


def row(step: Step) -> dict[str, Any]:
    """What becomes of a waiting job, why, and the speeds that are counted on."""
    lows = {job: round(s.low, 3) for job, s in step.pair.speeds.items()} if step.pair else {}
    told = {"job": step.job, "start": step.start, "place": step.place, "reason": step.reason}
    return {**told, "at_least": lows}


def running_rows(
    running: Iterable[Candidate], speeds: Mapping[str, float | None]
) -> list[dict[str, Any]]:
    """Jobs that agreed and run, with the speed measured in their present company."""
    return [
        {"job": one.job, "node": one.place, "speed": speeds.get(one.job)}
        for one in running
        if one.opted_in
    ]


def status(
    now_s: float,
    mode: str,
    steps: Sequence[Step],
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
