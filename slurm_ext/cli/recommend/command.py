"""`dlqueue recommend`: ranks per GPU, batch and workers of each rank, from what runs measured."""

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slurm_ext.core.settings.document import Settings
    from slurm_ext.history.views.gpu_runs import GpuRun
    from slurm_ext.policy.ranks.evidence import RanksEvidence, SingleRankRun

HELP = (
    "Say how many ranks of a training should share each GPU, with which batch and workers, from"
    " what its runs measured; with --nodes, which nodes are cheapest and fastest for it. Changes"
    " and records nothing."
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("script", metavar="SCRIPT", nargs="?", help="a batch script; or --name")
    parser.add_argument("args", nargs="*", metavar="ARGS", help="its arguments (after --)")
    parser.add_argument("--name", metavar="JOB", help="a job name in the history, not a script")
    parser.add_argument("--user", metavar="USER", help="whose job of that name (default: yours)")
    parser.add_argument("--gpu-mem-mib", type=_count, metavar="N", help="memory of one GPU")
    parser.add_argument(
        "--most-batch",
        type=_count,
        metavar="N",
        help="largest global batch you allow (default: as it is)",
    )

    from slurm_ext.cli.recommend.nodes import configure as configure_nodes
    from slurm_ext.cli.recommend.spatial import configure as configure_spatial

    configure_nodes(parser)
    configure_spatial(parser)


def run(args: argparse.Namespace) -> int:
    """Print the recommendation; raises UsageError, InputError, HistoryError."""
    from slurm_ext.cli.common.output import tell
    from slurm_ext.cli.common.settings import load_for_history
    from slurm_ext.cli.recommend import nodes, spatial
    from slurm_ext.cli.recommend.text import lines

    if args.spatial is not None:
        tell(spatial.recommended(args), spatial.lines, as_json=args.json)
        return 0
    settings = load_for_history(args.config)
    if nodes.asked(args):
        return nodes.run(args, settings)
    tell(recommended(args, settings), lines, as_json=args.json)
    return 0


def recommended(args: argparse.Namespace, settings: "Settings") -> dict[str, Any]:
    """`{v, job, level, runs, profile, room, recommendation, others, missing}`.

    `recommendation` is null where something is `missing`; units as in policy/ranks/choose.py, and
    null
    for a bound that there is not.
    """
    from slurm_ext.policy.ranks.choose import choose, packings

    level, found = _evidence(args, settings)
    document: dict[str, Any] = {"v": 1, "job": args.script or args.name, "level": level}
    document["runs"] = [asdict(one) for one in found.runs]
    document |= {"profile": None, "room": None, "recommendation": None, "others": []}
    if found.profile is not None and found.room is not None:
        best = choose(found.profile, found.room)
        document["profile"] = {**asdict(found.profile), "busy": found.profile.busy}
        bounds = asdict(found.room)
        document["room"] = {n: None if v == float("inf") else v for n, v in bounds.items()}
        document["recommendation"] = asdict(best)
        others = [one for one in packings(found.profile, found.room) if one != best]
        document["others"] = [asdict(one) for one in others]
    return {**document, "missing": list(found.missing)}


def _evidence(args: argparse.Namespace, settings: "Settings") -> tuple[str | None, "RanksEvidence"]:
    """From the nearest level that has runs to rest on; else what is missing on the nearest."""
    from slurm_ext.cli.recommend.keys import keys_asked
    from slurm_ext.history.store.store import open_history
    from slurm_ext.history.views.gpu_runs import gpu_runs
    from slurm_ext.policy.ranks.evidence import evidence_of

    room = (args.gpu_mem_mib or settings["sharing.gpu_mem_mib"]) * 2.0**20
    path, wait_ms = settings.state_dir / "history.db", settings["history.busy_timeout_ms"]
    first: tuple[str | None, RanksEvidence] | None = None
    with open_history(path, busy_timeout_ms=wait_ms, read_only=True) as history:
        for level, key in keys_asked(args).items():
            measured = [_measured(one) for one in gpu_runs(history, level, key)]
            found = evidence_of(measured, room, args.most_batch)
            if found.runs:
                return level.value, found
            if measured and first is None:
                first = (level.value, found)
    return first or (None, evidence_of([], room))


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


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 10**9):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)
