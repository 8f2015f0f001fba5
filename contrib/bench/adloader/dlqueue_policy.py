"""dlqueue itself in the live proof: the mix without any history, and with what that run left."""

import json
import socket
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from contrib.bench.adloader.live import MOST_WORKERS, NODE_CPUS, Played, RunFailedError, Site
from contrib.bench.adloader.workload import Job
from slurm_ext.core.wire import encode_request
from slurm_ext.sandbox import Sandbox, SandboxSpec

LEARN_S = 30.0
STARTED_S = 4.0  # a node's daemons have started long before its jobs: that is not what is measured
SETTINGS = {
    "site.mode": "shadow",  # submissions stay as written: what is shown is the running jobs' gain
    "policy.holdout_share": 0.0,
    "advisor.deadline_ms": 1000,  # a busy machine is no fault
    "advisor.reconcile_s": 1.0,
    "node.probe": True,
    "control.mode": "act",
    "control.max_workers": MOST_WORKERS,
    "control.grain_cores": 0.25,
    "control.may_use_idle_cpus": True,
    # Jobs live for seconds here, not for hours.
    "control.interval_s": 0.5,
    "control.window_s": 1.0,
    "control.settle_s": 0.6,
    "control.cooldown_s": 2.0,
    "control.switch_cost_s": 0.2,
}


def cold_and_warm(root: Path, data: Path, mix: Sequence[Job]) -> tuple[Played, Played]:
    """The mix twice in a row under `dlqueue control`. Raises RunFailedError."""
    spec = SandboxSpec.dlqueue(cpus=NODE_CPUS, control=True, settings=SETTINGS)
    with Sandbox(root, spec) as sandbox:
        site = Site(sandbox, data)
        time.sleep(STARTED_S)
        cold = _played(site, mix)
        _await_learned(sandbox, len(mix))
        return cold, _played(site, mix)


def _played(site: Site, mix: Sequence[Job]) -> Played:
    """The mix, with what the controller decided meanwhile."""
    began_s = time.time()
    played = site.play(mix)
    ledger = site.run_dir(0).parent.parent / "control" / "decisions.jsonl"
    lines = ledger.read_text().splitlines() if ledger.exists() else []
    made = [one for one in map(json.loads, lines) if one["t_s"] >= began_s]
    return replace(played, decisions=[_short(one, began_s) for one in made])


def _short(decision: dict[str, Any], began_s: float) -> dict[str, Any]:
    offers = decision["offers"].items()
    return {
        "at_s": round(decision["t_s"] - began_s, 2),
        "reason": decision["reason"],
        "units": decision["units"],
        "given": {job: [one["units"], one["workers"]] for job, one in offers},
    }


def _await_learned(sandbox: Sandbox, runs: int) -> None:
    """Until the advisor answers from so many runs."""
    deadline = time.monotonic() + LEARN_S
    while _advisor_runs(sandbox) < runs:
        if time.monotonic() > deadline:
            raise RunFailedError(f"the advisor has not learned from {runs} runs in {LEARN_S} s")
        time.sleep(0.2)


def _advisor_runs(sandbox: Sandbox) -> int:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        client.connect(sandbox.settings["paths.socket"])
        client.sendall(encode_request("ping"))
        return int(json.loads(client.makefile().readline())["runs"])
