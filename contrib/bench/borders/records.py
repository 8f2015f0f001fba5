"""Records and tokens that name somebody else: forged over the stream, or copied."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from contrib.bench.borders.attack import ATTACKER, VICTIM, Attack, Happened, as_user
from contrib.bench.borders.run_folder import soon
from slurm_ext.core.errors import HistoryError
from slurm_ext.history.store.store import open_history
from slurm_ext.sandbox import Sandbox, SandboxSpec

TITLE = "train"  # of the victim's jobs
GOLDEN = Path(__file__).parents[3] / "tests" / "golden" / "spool" / "v1.json"
HELD = "#!/bin/sh\nexit 0\n"
SEND = """
import json, hashlib, socket, subprocess, sys
host, port, munge = sys.argv[1:]
for line in sys.stdin.buffer:
    raw = line.strip()
    digest = hashlib.sha256(raw).hexdigest()
    words = ["munge", "--socket=" + munge, "--string=" + digest]
    credential = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    header = {"v": 1, "kind": "record", "record_id": json.loads(raw)["record_id"],
              "bytes": len(raw), "sha256": digest, "credential": credential}
    with socket.create_connection((host, int(port)), timeout=20) as link:
        try:
            link.sendall(json.dumps(header).encode() + b"\\n" + raw)
            reply = link.makefile("rb").readline().decode()
        except OSError as error:
            reply = str(error)
    print(reply.strip())
"""
STREAM = {
    "node.transport": "stream",
    "advisor.reconcile_s": 0.5,
    "advisor.deadline_ms": 1000,
    "advisor.breaker_s": 1,
    "node.sample_s": 0.2,
}
"""Settings of a cluster whose nodes stream."""


@contextmanager
def cluster(folder: Path, **settings: object) -> Iterator[Sandbox]:
    """All of dlqueue, in shadow mode; its nodes stream their records."""
    spec = SandboxSpec.dlqueue(cpus=4, settings={**STREAM, **settings})
    with Sandbox(folder / "s", spec, temporary=True) as sandbox:
        yield sandbox


def asked(sandbox: Sandbox, sql: str, *values: object) -> list[tuple[Any, ...]]:
    """Rows of the sandbox's history; none while there is none."""
    try:
        path = sandbox.path("dlqueue/history.db")
        with open_history(path, busy_timeout_ms=2000, read_only=True) as history:
            return history.conn.execute(sql, values).fetchall()
    except HistoryError:
        return []


def send(sandbox: Sandbox, user: str, *records: dict[str, Any]) -> list[str]:
    """The advisor's replies to records that a user streams under munge's credential."""
    host, _, port = str(sandbox.settings["advisor.listen"]).rpartition(":")
    lines = "".join(json.dumps(record) + "\n" for record in records)
    words = ["python3", "-c", SEND, host, port, str(sandbox.layout.munge_socket)]
    return sandbox.run(words, input=lines, cwd="/", **as_user(user)).stdout.splitlines()


def forged(sandbox: Sandbox, job_id: int, uid: int, **identity: object) -> dict[str, Any]:
    """A run with good evidence, of the sender's own job, under any names."""
    record: dict[str, Any] = json.loads(GOLDEN.read_text())
    cluster_name = sandbox.settings["site.cluster"]
    record["record_id"] = f"{cluster_name}-{job_id}-0-n1"
    own = {"cluster": cluster_name, "job_id": job_id, "restart": 0, "node": "n1", "uid": uid}
    record["identity"] |= {**own, "array_job_id": None, "array_task_id": None, **identity}
    return {**record, "decision": None}


def _ended_job(sandbox: Sandbox, *argv: str, **options: Any) -> int:
    """Id of an attacker's job that ended without a record of the node's, which the stop hides."""
    job_id, _ = sandbox.sbatch("--comment=dlqueue=off", *argv, script=HELD, **options)
    sandbox.wait(job_id)
    return job_id


def _evidence_for_another(folder: Path, *, owners: bool) -> Happened:
    with cluster(folder, **({"advisor.accept_job_owners": True} if owners else {})) as sandbox:
        user = as_user(ATTACKER)
        jobs = [_ended_job(sandbox, **user) for _ in range(5)]
        names = {"user": VICTIM, "job_name": TITLE, "account": "root", "partition": "other"}
        records = [forged(sandbox, job_id, user["user"], **names) for job_id in jobs]
        replies = send(sandbox, ATTACKER, *records)
        taken = sum('"ack"' in reply for reply in replies)
        if taken:
            soon(lambda: asked(sandbox, "SELECT 1 FROM loader_runs"))
        of_victim = "SELECT count(*) FROM runs r JOIN loader_runs l ON l.run = r.id WHERE user = ?"
        ((found,),) = asked(sandbox, of_victim, VICTIM) or [(0,)]
    what = f"{taken} of 5 records were taken, {found} runs stand under {VICTIM}'s name"
    return Happened(held=found == 0, what=what)


def _doubtful(sandbox: Sandbox, user: str, script: str) -> list[tuple[int, str]]:
    """Id and token of two jobs that only their own records can tie: alike, and of one moment."""
    own = as_user(user)
    jobs = [sandbox.sbatch("-H", f"-J{TITLE}", script=script, **own)[0] for _ in range(2)]
    tokens = "SELECT token FROM decisions WHERE uid = ? ORDER BY decided_s"
    soon(lambda: len(asked(sandbox, tokens, own["user"])) == len(jobs))
    found = [token for (token,) in asked(sandbox, tokens, own["user"])]
    return list(zip(jobs, found, strict=True))


def _future_job(folder: Path) -> Happened:
    with cluster(folder) as sandbox:
        (own, token), (last, _) = _doubtful(sandbox, ATTACKER, "#!/bin/sh\nsleep 600\n")
        uid = as_user(ATTACKER)["user"]
        send(
            sandbox,
            ATTACKER,
            forged(sandbox, own, uid, array_job_id=last + 1) | {"decision": token},
        )
        victims, _ = sandbox.sbatch("-H", f"-J{TITLE}", script=HELD, **as_user(VICTIM))
        soon(lambda: asked(sandbox, "SELECT 1 FROM decisions WHERE job_id = ?", victims))
        words = [sys.executable, "-m", "slurm_ext.cli", "explain", str(victims)]
        told = sandbox.run(words, check=False).stdout
    what = f"explain of {VICTIM}'s job tells: {' '.join(told.split())[:90] or 'nothing'}"
    return Happened(held=token not in told and f"{VICTIM}'s" in told, what=what)


def _copied_token(folder: Path) -> Happened:
    with cluster(folder) as sandbox:
        (victims, token), _ = _doubtful(sandbox, VICTIM, HELD)
        copy = f'#!/bin/sh\nprintf %s {token} > "$DLQUEUE_RUN_DIR/decision"\n'
        thief, _ = sandbox.sbatch(script=copy, **as_user(ATTACKER))
        sandbox.wait(thief)
        run = "SELECT decision FROM runs WHERE job_id = ?"
        soon(lambda: asked(sandbox, run, thief))
        noted = asked(sandbox, run, thief)
        sandbox.run(["scontrol", "release", str(victims)])
        soon(lambda: asked(sandbox, run, victims))
        ((job_id,),) = asked(sandbox, "SELECT job_id FROM decisions WHERE token = ?", token)
    what = f"the token is job {job_id}'s ({VICTIM}'s is {victims}); the thief's run names {noted}"
    return Happened(held=job_id == victims and noted == [(None,)], what=what)


ATTACKS = (
    Attack(
        name="evidence_for_another",
        row=2,
        tried="five streamed records of own jobs carry another user's name, job name and account",
        before="five forged records changed another user's next job",
        act=lambda folder: _evidence_for_another(folder, owners=False),
    ),
    Attack(
        name="evidence_for_another_from_owners",
        row=2,
        tried="the same, where the site takes records from job owners",
        before="five forged records changed another user's next job",
        act=lambda folder: _evidence_for_another(folder, owners=True),
    ),
    Attack(
        name="decision_for_a_future_job",
        row=3,
        tried="a streamed record ties the sender's decision to the id that another user's job gets",
        before="explain of the victim's job told the attacker's words",
        act=_future_job,
    ),
    Attack(
        name="copied_token",
        row=3,
        tried="a job notes another user's token in its run folder and ends before that user's job",
        before="the decision was tied to the attacker's job and vanished from the victim's",
        act=_copied_token,
    ),
)
