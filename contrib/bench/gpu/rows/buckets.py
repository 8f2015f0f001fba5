"""The schedule of gradient buckets over NVLink or PCIe, where there are two GPUs.

A first run with torch's own buckets tells when its gradients are ready; the product's model is made
of it, and all sizes are then measured by turns, torch's own among them.
"""

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from contrib.bench.buckets.measured import DEFAULT, OWN_KIB, evidence_of
from contrib.bench.buckets.runs import Ran
from contrib.bench.gpu.here import SITE, Here
from contrib.bench.gpu.report import AbsentError, Report
from contrib.bench.gpu.talker import START_S, Talker
from slurm_ext.core.stalls.bucket_caps import as_mib, as_text
from slurm_ext.model.communication.bucket_model import BucketModel
from slurm_ext.policy.buckets import model_of
from slurm_ext.ranks.free_port import free_port

RANKS = 2
FIRST, TURN, TURNS = 40, 15, 3
SIZES = (1, 4, 25, 100)  # MiB
STEP_S = 20.0  # the longest step that is waited for


def measure(here: Here, report: Report) -> None:
    """The first run, the plan, and all sizes."""
    here.needs_device()
    if here.device == "cuda" and len(here.gpus) < RANKS:
        raise AbsentError("there is no second GPU")
    model = _model(here, report)
    chosen = as_text(model.best(lists=True)) if model else ""
    sizes = {DEFAULT: "", **{f"{mib}": str(1024 * mib) for mib in SIZES}}
    sizes |= {"chosen": chosen} if chosen else {}
    steps = _by_turns(here, sizes)
    for name, seconds in steps.items():
        for one in seconds:
            report.add(f"step_{name}", one, "s")
    _judge(report, model, sizes, {name: median(each) for name, each in steps.items()})


def _judge(
    report: Report,
    model: BucketModel | None,
    sizes: Mapping[str, str],
    steps: Mapping[str, float],
) -> None:
    if model is None:
        report.lacks("plan", "no communication was exposed, or too little was told of it")
        return
    for name, caps in sizes.items():
        foretold = model.step_s([1024 * mib for mib in as_mib(caps)] if caps else OWN_KIB)
        report.add(f"error_{name}", abs(foretold / steps[name] - 1))
    report.facts["chosen (KiB)"] = sizes["chosen"]
    report.facts["link (latency s, bytes/s)"] = [model.link.latency_s, model.link.bytes_per_s]
    report.add("chosen_over_default", steps[DEFAULT] / steps["chosen"])
    report.add("chosen_over_worst", max(steps.values()) / steps["chosen"])


def _model(here: Here, report: Report) -> BucketModel | None:
    """The product's model of the first run; None where there is nothing to schedule."""
    runs = [Path(here.folder, f"run-{rank}") for rank in range(RANKS)]
    for run in runs:
        run.mkdir()
    probes = [
        {"PYTHONPATH": str(SITE), "DLQUEUE_RUN_DIR": str(run), "DLQUEUE_BUCKETS": "measure"}
        for run in runs
    ]
    first_s = _ran(here, FIRST, [], probes)[0]
    report.add("first_run", first_s, "s")
    found = [json.loads(path.read_text()) for run in runs for path in run.glob("summary-*")]
    try:
        told = evidence_of(Ran([], sorted(found, key=lambda one: int(one["rank"]))), RANKS)
    except ValueError as error:
        report.lacks("evidence", str(error))
        return None
    report.add("exposed_share", told.exposed_s * told.syncs / told.step_s)
    return model_of([told], [told])


def _by_turns(here: Here, sizes: Mapping[str, str]) -> dict[str, list[float]]:
    """Seconds of a step of each kind; every other round is in the opposite order."""
    names = [*sizes]
    order = [name for number in range(TURNS) for name in names[:: 1 if number % 2 else -1]]
    seconds = _ran(here, TURN, [sizes[name] for name in order], [{}] * RANKS)
    found: dict[str, list[float]] = {name: [] for name in names}
    for name, one in zip(order, seconds, strict=True):
        found[name].append(one)
    return found


def _ran(
    here: Here, steps: int, caps: Sequence[str], probes: Sequence[Mapping[str, str]]
) -> list[float]:
    """Seconds of a step of each turn, by its slower rank."""
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    turns: list[list[float]] = []
    with contextlib.ExitStack() as stack:
        talkers = []
        for rank, probe in enumerate(probes):
            env = here.environment({**probe, **address, **_place(here, rank)})
            words = (here.device, str(steps), json.dumps(list(caps)))
            said = f"{here.folder}/rank-{rank}-{len(caps)}"
            talkers.append(
                stack.enter_context(Talker(here.command("bucket_rank", *words), env, said))
            )
        for number in range(max(1, len(caps))):
            limit_s = START_S if number == 0 else STEP_S * steps
            turns.append([float(talker.hear(limit_s)["step_s"]) for talker in talkers])
        for talker in talkers:
            talker.ended(START_S)  # a summary is whole at its program's end
    return [max(each) for each in turns]


def _place(here: Here, rank: int) -> dict[str, Any]:
    """A rank's number and its GPU; gloo's interface, for a machine's name may have no address."""
    place = {"RANK": str(rank), "WORLD_SIZE": str(RANKS), "GLOO_SOCKET_IFNAME": "lo"}
    return place | ({"CUDA_VISIBLE_DEVICES": here.gpus[rank]} if here.device == "cuda" else {})
