"""dlqueue in the live proof, as a site has it: a mix without any history, and with that run's."""

import json
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from contrib.bench.adloader.site import Played, RunFailedError, Site
from contrib.bench.adloader.workload import Job
from slurm_ext.sandbox import Sandbox, SandboxSpec

LEARN_S = 60.0
READ_S = 3.0  # the advisor looks every second
STARTED_S = 4.0  # a node's daemons have started long before its jobs: that is not what is measured
MOST_DECISIONS = 200  # kept of a run
SETTINGS = {
    "site.mode": "act",
    "policy.autotune": True,
    "policy.holdout_share": 0.0,  # the control group is Slurm as it is, in the same run
    "advisor.deadline_ms": 1000,  # a busy machine is no fault
    "node.probe": True,
    "control.mode": "act",
    "control.allocator": "lend",
    "control.may_use_idle_cpus": True,
}


def spec(cores: int, more: Mapping[str, Any]) -> SandboxSpec:
    """A site with ConstrainCores=yes and all of dlqueue; `more` of its settings by room."""
    added = {f"{room}.{key}": value for room, keys in more.items() for key, value in keys.items()}
    return SandboxSpec.dlqueue(
        cpus=cores,
        cgroup=True,
        constrain_cores=True,
        control=True,
        settings={**SETTINGS, **added},
    )


def cold_and_warm(
    root: Path, spec: SandboxSpec, data: Path, mix: Sequence[Job]
) -> tuple[Played, Played]:
    """The mix twice in a row under `dlqueue serve` and `dlqueue control`. Raises RunFailedError."""
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
    ledger = site.node_folder / "control" / "decisions.jsonl"
    lines = ledger.read_text().splitlines() if ledger.exists() else []
    made = [one for one in map(json.loads, lines) if one["t_s"] >= began_s]
    return replace(played, decisions=[_since(one, began_s) for one in made[-MOST_DECISIONS:]])


def _since(decision: dict[str, Any], began_s: float) -> dict[str, Any]:
    return {**decision, "t_s": round(decision["t_s"] - began_s, 2)}


def _await_learned(sandbox: Sandbox, runs: int) -> None:
    """Wait until the history has so many runs, and the advisor has read them.

    Its own count may stay below: a run on lent cores tells nothing of cores of its own.
    """
    deadline = time.monotonic() + LEARN_S
    history = Path(sandbox.settings["paths.state_dir"]) / "history.db"
    while _recorded(history) < runs:
        if time.monotonic() > deadline:
            raise RunFailedError(f"the history has not taken {runs} runs in {LEARN_S:g} s")
        time.sleep(0.2)
    time.sleep(READ_S)


def _recorded(history: Path) -> int:
    try:
        with closing(sqlite3.connect(f"file:{history}?mode=ro", uri=True)) as conn:
            return int(conn.execute("SELECT count(*) FROM runs").fetchone()[0])
    except sqlite3.OperationalError:  # nobody has written it yet
        return 0
