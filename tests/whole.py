"""The whole product in a private Slurm: what it is taught, and what must hold whatever breaks."""

import json
import socket
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from slurm_ext.core.errors import HistoryError
from slurm_ext.core.records import Submission
from slurm_ext.core.wire import encode_request
from slurm_ext.history.store.store import open_history
from slurm_ext.sandbox import Sandbox
from slurm_ext.sandbox.client import pause

ACTING: dict[str, Any] = {
    "site.mode": "act",
    "policy.holdout_share": 0.0,
    "policy.change_explicit": "any",
    "node.probe": True,
    "node.sample_s": 0.2,
    "advisor.reconcile_s": 0.5,
    "advisor.breaker_s": 1,
    "history.busy_timeout_ms": 200,
}
WHOLE: dict[str, Any] = {"hooks": True, "lua": True, "advisor": True, "cpus": 8}
"""For `make_sandbox(**WHOLE, settings=ACTING)`."""

QUICK_TORCH = """import gc
gc.disable()
import torch, torch._dynamo
gc.freeze()
gc.enable()
"""
"""Begins a training at half of its cost: at what a first optimiser imports, too, Python's collector
looks neither while it comes nor when Python ends."""

_WANTED: WeakKeyDictionary[Sandbox, dict[int, list[str]]] = WeakKeyDictionary()
ALIKE = 4  # runs that the advisor is taught by
GOLDEN = Path(__file__).parent / "golden" / "spool" / "v1.json"


def until(happened: Callable[[], Any], why: str, timeout_s: float = 100) -> Any:
    """What `happened` says as soon as that is true; fails with `why` where it never is."""
    began = time.monotonic()
    while not (found := happened()):
        assert time.monotonic() < began + timeout_s, why
        pause(began)
    return found


def asked(slurm: Sandbox, sql: str, *values: object) -> list[tuple[Any, ...]]:
    """Rows of the sandbox's history; none while it cannot be read."""
    try:
        with open_history(history_db(slurm), busy_timeout_ms=2000, read_only=True) as history:
            return history.conn.execute(sql, values).fetchall()
    except HistoryError:
        return []


def history_db(slurm: Sandbox) -> Path:
    """The sandbox's history."""
    return slurm.path("dlqueue/history.db")


def dlqueue(slurm: Sandbox, *argv: str) -> str:
    """What a command of ours prints in the sandbox; it has to succeed."""
    return slurm.run([sys.executable, "-m", "slurm_ext.cli", *argv]).stdout


def runs(slurm: Sandbox) -> dict[int, list[tuple[int, str]]]:
    """Restart and outcome of every recorded run, by job."""
    found: dict[int, list[tuple[int, str]]] = {}
    sql = "SELECT job_id, restart, state FROM runs ORDER BY job_id, restart, id"
    for job_id, restart, state in asked(slurm, sql):
        found.setdefault(job_id, []).append((restart, state))
    return found


def recorded(slurm: Sandbox, wanted: Mapping[int, list[str]]) -> None:
    """Waits until each job has exactly these runs, no node drained; `stay_recorded` looks again."""
    with suppress(AssertionError):
        until(lambda: outcomes(slurm, wanted) == wanted, "")
    assert outcomes(slurm, wanted) == wanted, slurm.log("advisor")[-3000:]
    _WANTED.setdefault(slurm, {}).update(wanted)
    said = slurm.run(["sinfo", "-h", "-N", "-o", "%T %E"]).stdout
    assert not any(word in said for word in ("drain", "down", "rolog", "pilog")), said


def stay_recorded(slurm: Sandbox) -> None:
    """At a sandbox's end: whatever `recorded` saw is still so, nothing has come twice since."""
    wanted = _WANTED.pop(slurm, {})
    if wanted and slurm.layout.manifest.exists():
        time.sleep(1.5)  # two rounds of the history writer and of its reconciling
        assert outcomes(slurm, wanted) == wanted, slurm.log("advisor")[-3000:]


def outcomes(slurm: Sandbox, job_ids: Iterable[int]) -> dict[int, list[str]]:
    """The outcome of every recorded run of these jobs."""
    found = runs(slurm)
    return {job_id: [state for _, state in found.get(job_id, [])] for job_id in job_ids}


def answers(slurm: Sandbox, wanted: list[tuple[Any, ...]], sql: str, *values: object) -> None:
    """Waits until the history answers so, and shows what it says where it does not."""
    with suppress(AssertionError):
        until(lambda: asked(slurm, sql, *values) == wanted, "")
    assert asked(slurm, sql, *values) == wanted


def completed(slurm: Sandbox, *job_ids: int) -> None:
    """Every job completed and has exactly one record, be it only Slurm's word (`reconcile`)."""
    states = {job_id: slurm.wait(job_id) for job_id in job_ids}
    assert set(states.values()) == {"COMPLETED"}, states
    recorded(slurm, {job_id: ["COMPLETED"] for job_id in job_ids})


def gated(slurm: Sandbox, name: str) -> tuple[Path, str]:
    """A file, and a line of shell that waits for it: a job that ends when its test says so."""
    gate = slurm.path(name)
    return gate, f"while [ ! -e {gate} ]; do sleep 0.1; done"


def out_of_time(slurm: Sandbox) -> int:
    """A running job whose time is over; its limit of a minute, Slurm's least, is shortened."""
    job_id, _ = slurm.sbatch("--time=1", "--wrap", "sleep 600")
    until(lambda: slurm.job(job_id).get("JobState") == "RUNNING", "the job does not start")
    slurm.run(["scontrol", "update", f"JobId={job_id}", "EndTime=now+1"])
    return job_id


def said_in_log(slurm: Sandbox, why: str, after: int) -> bool:
    """Whether the advisor's log has `why` since it was `after` characters long."""
    return why in slurm.log("advisor")[after:]


def advisor_says(slurm: Sandbox, request: bytes) -> dict[str, Any]:
    """The advisor's answer; empty while nobody answers."""
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(5)
            client.connect(slurm.settings["paths.socket"])
            client.sendall(request)
            answer: dict[str, Any] = json.loads(client.makefile().readline())
            return answer
    except (OSError, ValueError):
        return {}


def advisor_runs(slurm: Sandbox) -> int:
    """How many runs the advisor answers from; -1 while nobody answers, or knows no limits."""
    said = advisor_says(slurm, encode_request("ping"))
    return int(said["runs"]) if said.get("limits") else -1


def teach(slurm: Sandbox, job_name: str) -> None:
    """The advisor learns that root's jobs of this name wait for storage, one worker each."""
    learn(slurm, waiting_run(job_name, 900_000 + zlib.crc32(job_name.encode()) % 100_000))


def learn(slurm: Sandbox, record: Mapping[str, Any]) -> None:
    """The record comes in as of several jobs, and the advisor answers from all of them.

    By the job's name alone nothing is changed for one run.
    """
    for number in range(ALIKE):
        twin = json.loads(json.dumps(record))
        job_id = twin["identity"]["job_id"] = record["identity"]["job_id"] + number * 100_000
        twin["record_id"] = f"cluster-{job_id}-0-n1"
        put(slurm, f"{twin['record_id']}.json", json.dumps(twin).encode())
    who = {"name": record["identity"]["job_name"], "user_name": record["identity"]["user"]}
    like = Submission(**who, user_id=0, num_tasks=1, script="#!/bin/sh\ntrue\n")
    request = encode_request("predict", like)
    until(lambda: advisor_says(slurm, request).get("runs") == ALIKE, "the advisor has not learned")
    until(lambda: advisor_runs(slurm) >= 0, "the advisor knows no limits")


def waiting_run(job_name: str, job_id: int) -> dict[str, Any]:
    """A record of a run of root's that spent nearly all its time waiting for one worker."""
    record: dict[str, Any] = json.loads(GOLDEN.read_text())
    ident = {"user": "root", "uid": 0, "job_id": job_id, "job_name": job_name}
    record["identity"].update(ident)
    record["record_id"] = f"cluster-{job_id}-0-n1"
    record["decision"] = None
    record["times"]["end_s"] = time.time()
    (summary,) = record["probe"]["summaries"]
    summary.update({"cores": 2, "node_cores": 8, "main_cpu_s": 0.5})
    (loader,) = summary["loaders"]
    loader.update({"user_num_workers": 1, "started_workers": 1, "gate": 1, "startup_s": 0.06})
    for phase in loader["phases"]:
        phase.update({"samples": 1000, "batches": 50, "wall_s": 20.0, "wait_s": 19.0})
        phase.update({"step_s": 1.0, "workers": 1.0, "fetch_samples": 1000})
        phase.update({"fetch_wall_s": 20.0, "fetch_cpu_s": 0.5, "main_cpu_s": 0.2})
    return record


def put(slurm: Sandbox, name: str, content: bytes) -> None:
    """A file into the advisor's spool, whole at once."""
    spool = slurm.path("dlqueue/spool")
    hidden = spool / f".{name}"
    hidden.write_bytes(content)
    hidden.rename(spool / name)
