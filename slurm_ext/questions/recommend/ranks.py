"""The document of `recommend`: ranks per GPU, batch and workers of each rank."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slurm_ext.core.settings.document import Settings
    from slurm_ext.history.store.store import History
    from slurm_ext.history.views.gpu_runs import GpuRun
    from slurm_ext.history.views.visible import Viewer
    from slurm_ext.policy.ranks.evidence import RanksEvidence, SingleRankRun


def document(settings: "Settings", viewer: "Viewer", fields: Mapping[str, Any]) -> dict[str, Any]:
    """`{v, job, level, runs, profile, room, recommendation, others, missing}`.

    `recommendation` is null where something is `missing`; units as in policy/ranks/choose.py, and
    null for a bound that there is not. Raises UsageError, HistoryError, RefusedError.
    """
    from slurm_ext.policy.ranks.choose import choose, packings

    level, evidence = _evidence(settings, viewer, fields)
    chosen: dict[str, Any] = {"v": 1, "job": fields.get("name"), "level": level}
    chosen["runs"] = [asdict(packing) for packing in evidence.runs]
    chosen |= {"profile": None, "room": None, "recommendation": None, "others": []}
    if evidence.profile is not None and evidence.room is not None:
        best = choose(evidence.profile, evidence.room)
        chosen["profile"] = {**asdict(evidence.profile), "busy": evidence.profile.busy}
        bounds = asdict(evidence.room)
        chosen["room"] = {n: None if v == float("inf") else v for n, v in bounds.items()}
        chosen["recommendation"] = asdict(best)
        others = [
            packing for packing in packings(evidence.profile, evidence.room) if packing != best
        ]
        chosen["others"] = [asdict(packing) for packing in others]
    return {**chosen, "missing": list(evidence.missing)}


def _evidence(
    settings: "Settings", viewer: "Viewer", fields: Mapping[str, Any]
) -> tuple[str | None, "RanksEvidence"]:
    """From the nearest level that has runs to rest on; else what is missing on the nearest."""
    from slurm_ext.history.views.gpu_runs import gpu_runs
    from slurm_ext.history.views.visible import open_visible
    from slurm_ext.policy.ranks.evidence import evidence_of
    from slurm_ext.questions.recommend.keys import own_keys

    room = (fields.get("gpu_mem_mib") or settings["sharing.gpu_mem_mib"]) * 2.0**20
    path, wait_ms = settings.state_dir / "history.db", settings["history.busy_timeout_ms"]
    first: tuple[str | None, RanksEvidence] | None = None
    with open_visible(path, viewer, busy_timeout_ms=wait_ms) as history:
        for level, key in own_keys(viewer, fields).items():
            measured = [_measured(run) for run in gpu_runs(history, level, key)]
            evidence = evidence_of(measured, room, fields.get("most_batch"))
            if evidence.runs:
                return level.value, evidence
            if measured and first is None:
                first = (level.value, evidence)
        return first or (None, _unmeasured(history, viewer, fields))


def _unmeasured(history: "History", viewer: "Viewer", fields: Mapping[str, Any]) -> "RanksEvidence":
    """No evidence, as no run of the name is there, or none that the probe could measure."""
    from slurm_ext.core.records import Level
    from slurm_ext.history.views.gpu_runs import newest_of_name
    from slurm_ext.policy.ranks.evidence import RanksEvidence, evidence_of
    from slurm_ext.questions.recommend.keys import own_keys

    key = own_keys(viewer, fields).get(Level.USER_NAME)
    user = fields.get("user") or viewer.user
    job_id = None if key is None else newest_of_name(history, user, key)
    if job_id is None:
        return evidence_of([], 0.0)
    what = f"a run of it that was measured: in job {job_id} the probe saw no training that it knows"
    return RanksEvidence(missing=(f"{what} (`dlqueue explain {job_id}`)",))


def _measured(run: "GpuRun") -> "SingleRankRun":
    from slurm_ext.policy.ranks.evidence import SingleRankRun

    loader: Mapping[str, Any] = run.loader
    return SingleRankRun(
        job_id=run.job_id,
        batch=loader["batch_size"] or 0.0,
        samples_per_s=loader["samples_per_s"] or 0.0,
        accel_samples_per_s=loader["accel_samples_per_s"] or 0.0,
        workers=loader["workers"] or 0,
        ranks=loader["ranks"],
        gpus=(loader["gpus"] or 0) * (loader["nodes"] or 1),
        cpus=None if run.cpus is None else run.cpus * (loader["nodes"] or 1),
        elapsed_s=run.elapsed_s,
        run_samples=loader["run_samples"],
        emulated=bool(loader["emulated"]),
        shared=run.shared,
        util=run.counters.get("gpu_util"),
        mem_bytes=run.counters.get("gpu_job_mem_peak", run.counters.get("gpu_mem_peak")),
    )
