"""One user's measurements, used against another user's next job, or shown to others."""

import json
import time
from collections.abc import Iterable
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from contrib.bench.borders.attack import ATTACKER, VICTIM, Attack, Happened, as_user
from slurm_ext.advisor.evidence.calibrate import NEWEST, factor_for, factors_of
from slurm_ext.core.errors import HistoryError
from slurm_ext.core.records import Submission
from slurm_ext.core.wire import encode_request
from slurm_ext.history.store.store import open_history
from slurm_ext.history.views.outcomes import fair_outcomes
from slurm_ext.sandbox import Sandbox, SandboxSpec

WAIT_S = 40.0
OTHERS = ("daemon", "bin", "mail")  # users of every Debian, who ran the same program
SETTINGS: dict[str, Any] = {
    "site.mode": "act",
    "policy.holdout_share": 0.0,
    "policy.change_explicit": "any",
    "node.sample_s": 0.2,
    "advisor.reconcile_s": 0.5,
    "advisor.deadline_ms": 1000,
    "advisor.socket_mode": 0o666,
}
# A loader that four cores and more would feed eight times faster, as a user can write it.
_PHASE = {
    "phase": "later",
    "epochs": 2,
    "samples": 2048,
    "batches": 64,
    "wall_s": 41.0,
    "wait_s": 39.0,
    "step_s": 2.0,
    "workers": 1.0,
    "fetch_samples": 2048,
    "fetch_wall_s": 40.0,
    "fetch_cpu_s": 40.0,
}
_LOADER = {
    "id": 0,
    "dataset": "D",
    "style": "map",
    "batch_size": 32,
    "length": 1024,
    "user_num_workers": 1,
    "started_workers": 1,
    "gate": 1,
    "most_workers": 1,
    "method": "gated",
    "left_alone": None,
    "fallback": None,
    "worker_rss_bytes": 1 << 20,
    "startup_s": 0.1,
    "phases": [_PHASE],
}
_SUMMARY = {
    "v": 1,
    "pid": 1,
    "rank": 0,
    "world_size": 1,
    "host": "n1",
    "python": "3.11.2",
    "torch": "2.13.0",
    "accelerator": None,
    "started_s": 1760000000.0,
    "ended_s": 1760000040.0,
    "finished": True,
    "cores": 16,
    "node_cores": 16,
    "main_cpu_s": 1.0,
    "directive": {},
    "loaders": [_LOADER],
    "faults": [],
}


PROJECT = "/opt/vision"  # a program is known by its path within its project, whoever runs it
_CLIENT = """
import socket, sys
client = socket.socket(socket.AF_UNIX)
client.settimeout(9)
client.connect(sys.argv[1])
client.sendall(sys.stdin.buffer.read())
print(client.makefile().readline())
"""


def script(program: str = "train.py", claims: bool = True) -> str:
    """A job of that program, which claims to have measured a starved loader."""
    claim = f"cat > $DLQUEUE_RUN_DIR/summary-1.json <<'E'\n{json.dumps(_SUMMARY)}\nE\n"
    return f"#!/bin/sh\n: python {PROJECT}/{program}\n{claim if claims else ''}"


def cluster(folder: Path, **more: Any) -> Sandbox:
    """A node of 16 CPUs with hooks, plugin and advisor, in mode act."""
    spec = SandboxSpec.dlqueue(cpus=16, settings=SETTINGS, **more)
    return Sandbox(folder / "s", spec, temporary=True)


def ran(sandbox: Sandbox, users: Iterable[str], program: str = "train.py") -> None:
    """One job of each, whose claims the advisor then knows."""
    jobs = [
        sandbox.sbatch("-c1", f"-J{user}s", script=script(program), **as_user(user))[0]
        for user in users
    ]
    for job in jobs:
        sandbox.wait(job)
    deadline = time.monotonic() + WAIT_S
    while _known(sandbox, jobs) < len(jobs) and time.monotonic() < deadline:
        time.sleep(0.2)
    time.sleep(2.5)  # the advisor and its child look every second


def _known(sandbox: Sandbox, jobs: list[int]) -> int:
    sql = "SELECT r.job_id FROM loader_runs l JOIN runs r ON r.id = l.run"
    try:
        with open_history(sandbox.path("dlqueue/history.db"), read_only=True) as history:
            known = {job for (job,) in history.conn.execute(sql)}
    except HistoryError:  # the advisor begins it with the first record
        return 0
    return len(known & set(jobs))


def _cpus(sandbox: Sandbox, user: str) -> tuple[int, str]:
    """CPUs that this user's next job of the program gets, and what sbatch said."""
    job, said = sandbox.sbatch("-c1", "-Jmine", script=script(claims=False), **as_user(user))
    return int(sandbox.job(job)["NumCPUs"]), said


def steer(folder: Path) -> Happened:
    """Two jobs of the attacker, then the victim's first job of a program of that name."""
    with cluster(folder) as sandbox:
        ran(sandbox, [ATTACKER, ATTACKER])
        ran(sandbox, [ATTACKER, ATTACKER])
        victims, said = _cpus(sandbox, VICTIM)
        own, _ = _cpus(sandbox, ATTACKER)
    what = f"the stranger's job has {victims} CPU(s), the attacker's own {own}"
    return Happened(held=victims == 1 and own > 1 and "dlqueue" not in said, what=what)


def crowd(folder: Path) -> Happened:
    """Three users' runs inform the victim, and change nothing."""
    with cluster(folder) as sandbox:
        ran(sandbox, [user for user in (ATTACKER, *OTHERS) for _ in range(3)])
        victims, said = _cpus(sandbox, VICTIM)
    told = "by other users' runs" in said and "Nothing was changed" in said
    what = f"the stranger's job has {victims} CPU(s), and is told advice: {told}"
    return Happened(held=victims == 1 and told, what=what)


def oracle(folder: Path) -> Happened:
    """The attacker asks in the victim's name, and in its own, for the victim's program."""
    with cluster(folder) as sandbox:
        ran(sandbox, [VICTIM] * 4, "secret.py")
        kinds, names = ("predict", "what_if"), (VICTIM, "")
        answers = [_ask(sandbox, kind, name) for kind in kinds for name in names]
        own = _ask(sandbox, "predict", "", asker=VICTIM)
    leaks = sum(map(_tells, answers))
    what = f"{leaks} of {len(answers)} answers told of its runs; its own did: {_tells(own)}"
    return Happened(held=leaks == 0 and _tells(own), what=what)


def private(folder: Path) -> Happened:
    """Runs of four users, in a cluster whose slurm.conf hides jobs from others."""
    with cluster(folder, slurm_conf="PrivateData=jobs\n") as sandbox:
        ran(sandbox, [user for user in (VICTIM, *OTHERS) for _ in range(3)])
        answers = [_ask(sandbox, kind, "", "train.py") for kind in ("predict", "what_if")]
        _, said = _cpus(sandbox, ATTACKER)
    leaks = sum(map(_tells, answers)) + ("dlqueue" in said)
    return Happened(held=leaks == 0, what=f"{leaks} of 3 answers told of hidden jobs")


def widen(folder: Path) -> Happened:
    """Of the newest 200 outcomes 20 are the attacker's; then all that can be."""
    told = []
    for hostile in (20, 2500):  # a window over all outcomes would hold the latter alone
        path = folder / f"{hostile}.db"
        with open_history(path) as history:
            conn = history.conn
            for number in range(180):
                _outcome(conn, number, f"user{number % 6}", 110.0)
            for number in range(180, 180 + hostile):
                _outcome(conn, number, ATTACKER, 1e6)
            factors = factors_of(fair_outcomes(conn, path, NEWEST))
        told.append(factor_for(factors, None, VICTIM))
    what = f"the victim's intervals are {told[0]:.2g} and {told[1]:.2g} times as wide"
    return Happened(held=max(told) <= 1.1, what=what)


def _outcome(conn: Connection, number: int, user: str, achieved: float) -> None:
    """A claimed decision that predicted 100 samples/s, and its run."""
    token, job = f"d1-{number:016x}", number + 1
    decision = {
        "token": token,
        "state": "claimed",
        "decided_s": 1.0,
        "job_id": job,
        "mode": "shadow",
        "holdout": 0,
        "action": "leave",
        "reason": "",
        "user": user,
        "factor": 1.0,
        "edits": "{}",
        "level": "same script",
        "runs": 1,
    }
    for when in ("before", "after"):
        rates = {"samples_per_s": 100.0, "low": 83.0, "high": 120.0}
        decision |= {f"{when}_{name}": rate for name, rate in rates.items()}
    run = {
        "id": job,
        "record_id": token,
        "cluster": "c",
        "job_id": job,
        "restart": 0,
        "node": "n1",
        "user": user,
        "state": "COMPLETED",
        "source": "epilog",
        "decision": token,
        "ingested_s": 1.0,
    }
    loader = {"run": job, "samples_per_s": achieved}
    for table, row in (("decisions", decision), ("runs", run), ("loader_runs", loader)):
        marks = ", ".join("?" * len(row))
        conn.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", [*row.values()])


def _ask(
    sandbox: Sandbox, kind: str, name: str, program: str = "secret.py", asker: str = ATTACKER
) -> str:
    """The advisor's answer to a user who calls itself `name`."""
    job = Submission(user_name=name, name="x", script=script(program, claims=False), num_tasks=1)
    argv = ["/usr/bin/python3", "-c", _CLIENT, sandbox.settings["paths.socket"]]
    asked = encode_request(kind, job).decode()
    return sandbox.run(argv, input=asked, **as_user(asker)).stdout


def _tells(answer: str) -> bool:
    """True if an answer has a figure of anybody's run."""
    document = json.loads(answer) if answer.strip() else {}
    known = document.get("known") or {}
    evidence = any((known.get("evidence") or {}).values()) or known.get("prior")
    return bool(document.get("predicted_after") or evidence)


ATTACKS = (
    Attack(
        name="steer_a_stranger",
        row=4,
        tried="jobs of the attacker claim a starved loader; a stranger submits a first train.py",
        before="two one-second jobs turned the stranger's first train.py from 1 into 16 CPUs",
        act=steer,
    ),
    Attack(
        name="steer_by_a_crowd",
        row=4,
        tried="four users' jobs claim it; a stranger submits a first train.py",
        before="the stranger's job was changed",
        act=crowd,
    ),
    Attack(
        name="widen_intervals",
        row=4,
        tried="20 of 200 outcomes, then 1,500, are a hostile user's and absurdly far away",
        before="20 took the interval factor of everybody to its cap of 5",
        act=widen,
    ),
    Attack(
        name="ask_for_anothers_runs",
        row=9,
        tried="the attacker asks predict and what_if in the victim's name, and of its program",
        before="both answered with the victim's own runs, figure by figure",
        act=oracle,
    ),
    Attack(
        name="ask_for_hidden_runs",
        row=9,
        tried="the attacker asks of a program that others ran, where PrivateData hides jobs",
        before="both answered with the others' runs",
        act=private,
    ),
)
