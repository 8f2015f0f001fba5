"""The line of `dlqueue run` at a program's end: its throughput, and where its time went."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

WAITED = 0.1  # of the loop's time: less is not worth a word
UNKNOWN = "not measured: no training that dlqueue knows (PyTorch, TensorFlow, JAX)"


def end_json(
    number: int | str, document: dict[str, Any], advice: str | None, causes: list[dict[str, Any]]
) -> str:
    """JSON: run (number; null: not kept), samples_per_s, waited_share, advice, probe, stalls.

    `advice` is the clause of the end line, `all_advice` its origin (core/advice/from_record.py).
    """
    import json

    from slurm_ext.core.stalls.waited_share import waited_share
    from slurm_ext.questions.explain.probe import probe_of
    from slurm_ext.questions.explain.stalls import stalls_of_summaries

    probe = probe_of(document["record"])
    rate = probe["trainings"][0]["samples_per_s"] if probe and probe["trainings"] else None
    waited = waited_share(document["record"]["probe"]["summaries"])
    kept = number if isinstance(number, int) else None
    body = {"v": 1, "run": kept, "samples_per_s": rate, "waited_share": waited}
    stalls = stalls_of_summaries(document["record"]["probe"]["summaries"])
    more = {"advice": advice, "all_advice": causes, "probe": probe, "stalls": stalls}
    return json.dumps({**body, **more})


def end_line(number: int | str, document: dict[str, Any], advice: str | None) -> str:
    """`dlqueue: 512 samples/s with 2 workers, 38 % of it waiting for data; ...explain 12`."""
    kept = f"dlqueue explain {number}" if isinstance(number, int) else f"not kept: {number}"
    text = ", ".join(_parts(document["record"]))
    return f"dlqueue: {'; '.join(filter(None, (text, advice, kept)))}"


def _parts(record: dict[str, Any]) -> Iterator[str]:
    from slurm_ext.advisor.own_runs.settled import workers_of
    from slurm_ext.questions.explain.probe import measured, probe_of

    probe = probe_of(record)
    first = probe["trainings"][0] if probe and probe["trainings"] else {}
    if not first.get("samples_per_s"):
        yield measured({"probe": probe}) if probe else UNKNOWN
        return
    from slurm_ext.core.stalls.waited_share import waited_share

    workers = first["workers"]
    yield f"{first['samples_per_s']:.4g} samples/s with {workers} worker{'s' * (workers != 1)}"
    if first["ranks"] > 1:
        yield f"{first['ranks']} ranks"
    tuned = workers_of(record["probe"]["summaries"])
    if tuned is not None:
        yield f"tuned to {tuned}"
    waited = waited_share(record["probe"]["summaries"])
    if waited is not None and waited >= WAITED:
        yield f"{waited:.0%} of the time waiting for data"
    yield from _other_waits(record["probe"]["summaries"])


def _other_waits(summaries: list[dict[str, Any]]) -> Iterator[str]:
    """Waits for other ranks and for cores, where they are worth a word."""
    from slurm_ext.core.stalls.step_split import step_split

    split = step_split(summaries)
    if split is None or split.step_s <= 0:
        return
    if split.communicating_s >= WAITED * split.step_s:
        yield f"{split.communicating_s / split.step_s:.0%} communicating"
    if split.slow_rank_s >= WAITED * split.step_s:
        yield f"{split.slow_rank_s / split.step_s:.0%} waiting for a slower rank"
    if split.crowded_s >= WAITED * split.step_s:
        yield f"{split.crowded_s / split.step_s:.0%} waiting for a core"
