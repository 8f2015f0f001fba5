"""A site in one process: the advisor that acts, its journal, its history, as the server has them.

Submissions go in as slurmctld's do, records come in as an epilog's do.
"""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contrib.bench.promises.draws import Surroundings, Training
from contrib.bench.promises.run import Ran
from slurm_ext.advisor.limits.bounds import PartitionRules
from slurm_ext.advisor.limits.partition_limits import ClusterRules
from slurm_ext.advisor.pipeline.journal import Journal, journals
from slurm_ext.advisor.service.advisor import Advisor
from slurm_ext.advisor.service.refresh import Refresher
from slurm_ext.core.records import Submission
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.wire import encode_request
from slurm_ext.history.ingest.journal import record_journal
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store.store import open_history

USER, UID = "researcher", 1000
_RATES = ", ".join(
    f"d.ranks * iif(o.acted, d.after_{world}{name}, d.before_{world}{name})"
    for world in ("", "else_")
    for name in ("samples_per_s", "low", "high")
)
_PROMISED = (
    f"SELECT d.crowded, l.crowded, {_RATES} FROM outcomes o JOIN decisions d ON d.id = o.decision"
    " JOIN loader_runs l ON l.run = o.run WHERE o.token = ?"
)
_SETTINGS = {"site.mode": "act", "policy.holdout_share": 0.0, "policy.change_explicit": "any"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The advisor's reply: what it changes, and what it says of that."""

    token: str | None
    job: Submission
    cpus: int
    workers: int | None  # None: as the script has them
    env: dict[str, str]
    action: str
    message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Promise for the world that a run met; samples/s of the job."""

    predicted: float
    low: float
    high: float
    beside: bool  # others on its cores
    by_surroundings: bool  # two worlds were told, and its record does not say which it met


class Site:
    """One user's cluster of this machine."""

    def __init__(self, state: Path) -> None:
        """`state`: its folder; one of before goes on."""
        state.mkdir(parents=True, exist_ok=True)
        self._state = state
        settings = Settings(values={"paths.state_dir": str(state), **_SETTINGS})
        self._advisor = Advisor(settings, Journal(state / "journal"))
        cpus = len(os.sched_getaffinity(0))
        rules = {
            partition(kept): PartitionRules(cpus_per_node=cpus, keeps_cores=kept)
            for kept in (True, False)
        }
        self._advisor.rules = ClusterRules(partitions=rules, default=partition(False))
        self._history = open_history(state / "history.db")
        self._refresher = Refresher(self._advisor, None)
        self._refresher.refresh()
        self.jobs = int(self._history.conn.execute("SELECT count(*) FROM runs").fetchone()[0])

    def close(self) -> None:
        """Close the history."""
        self._history.close()

    def submit(self, number: int, training: Training, where: Surroundings) -> Told:
        """Submit the training with this number to the partition of its surroundings."""
        job = submission(number, training, where)
        advised = json.loads(self._advisor.reply(encode_request("predict", job), True)[0])
        reply = json.loads(self._advisor.reply(encode_request("submit", job), True)[0])
        edits, env = reply["edits"], reply["edits"].get("env", {})
        workers = env.get("DLQUEUE_NUM_WORKERS")
        return Told(
            token=reply["decision"],
            job=job,
            cpus=edits.get("cpus_per_task") or training.cpus,
            workers=None if workers is None else int(workers),
            env=env,
            action=advised["action"] if len(edits) > 1 or workers else "leave",
            message=reply["message"],
        )

    def ended(self, told: Told, ran: Ran) -> None:
        """Take in the record of a job, as the history writer and the refresher do."""
        self.jobs += 1
        spool = self._state / "spool"
        spool.mkdir(exist_ok=True)
        body = record(self.jobs, told.job, told.token, ran)
        (spool / f"{self.jobs}.json").write_text(json.dumps(body))
        for path in journals(self._state / "journal"):
            record_journal(self._history, path, now_s=time.time())
        report = ingest_folder(self._history, spool, now_s=time.time())
        if report.quarantined:
            raise SystemExit(f"the history takes no such record: {report}")
        self._refresher.refresh()

    def judged(self, told: Told, where: Surroundings) -> Judged | None:
        """The promise of an ended job; None: there was none, or nothing was measured.

        Of two worlds, the one that its record says it met. Where the record does not know, that of
        its surroundings: the nearer of two intervals would be chosen by what came.
        """
        row = self._history.conn.execute(_PROMISED, (told.token,)).fetchone()
        if row is None or told.message is None:
            return None
        world, met, *rates = row
        beside = bool(met) if met is not None else where.others > 0 and not where.constrained
        there = world is not None and beside != bool(world)
        predicted, low, high = rates[3:] if there else rates[:3]
        return Judged(
            predicted=predicted,
            low=low,
            high=high,
            beside=world is not None and beside,
            by_surroundings=world is not None and met is None,
        )


def partition(kept: bool) -> str:
    """The partition that keeps jobs on cores of their own, or the one that does not."""
    return "own" if kept else "shared"


def submission(number: int, training: Training, where: Surroundings) -> Submission:
    """The training as its user submits it, each in a folder of its own."""
    command = " ".join(["python3", "training.py", *training.arguments()])
    return Submission(
        name=f"training{number}",
        user_id=UID,
        user_name=USER,
        partition=partition(where.constrained),
        work_dir=f"/home/{USER}/{number}",
        script=f"#!/bin/bash\n#SBATCH -c {training.cpus}\n{command}\n",
        argv=("train.sh",),
        cpus_per_task=training.cpus,
        min_cpus=training.cpus,
        pn_min_cpus=training.cpus,
    )


def record(job_id: int, job: Submission, token: str | None, ran: Ran) -> dict[str, Any]:
    """The epilog's record of a run."""
    end_s = time.time()
    return {
        "v": 1,
        "kind": "run",
        "record_id": f"c-{job_id}-0-n1",
        "identity": {
            "cluster": "c",
            "job_id": job_id,
            "restart": 0,
            "node": "n1",
            "user": job.user_name,
            "uid": job.user_id,
            "partition": job.partition,
            "job_name": job.name,
            "work_dir": job.work_dir,
        },
        "allocation": {"cpus": ran.cpus, "cpus_per_task": ran.cpus, "num_tasks": 1, "num_nodes": 1},
        "times": {"start_s": end_s - ran.elapsed_s, "end_s": end_s, "elapsed_s": ran.elapsed_s},
        "outcome": {"state": "COMPLETED", "exit_code": 0, "signal": 0, "source": "epilog"},
        "host": {"cores": os.cpu_count()},
        "counters": [
            {"name": "cpu_user", "unit": "s", "source": "cgroup/v1", "value": ran.cpu_s},
            {"name": "cpu_system", "unit": "s", "source": "cgroup/v1", "value": 0.0},
        ],
        "corunners": [],
        "timeline": None,
        "decision": token,
        "probe": {"summaries": list(ran.summaries), "faults": []},
    }
