"""A history, a cluster made of records, and the comparison of both."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from slurm_ext.advisor.history_writer.reconcile import Reconciler
from slurm_ext.advisor.history_writer.slurm_record import put, record_of
from slurm_ext.core.records import Decision, Level, Mode, Shape
from slurm_ext.core.settings.document import Settings
from slurm_ext.history.ingest.decisions import decision, record_proposals
from slurm_ext.history.ingest.proposals import Proposal
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store.store import History, open_history
from slurm_ext.slurm import JobInfo, MemoryClient

NOW_S = 1_760_000_000.0
SHAPE = Shape(cpus_per_task=1, num_workers=0)
LEAVE = Decision(action="leave", reason="I do not know yet", before=SHAPE, after=SHAPE)
JOB = JobInfo(
    job_id=7,
    user_id=1000,
    user_name="ada",
    name="train.sh",
    state="RUNNING",
    submit_time_s=int(NOW_S),
    start_time_s=int(NOW_S) + 1,
    nodes="n1",
    cpus=2,
)
ENDED = replace(JOB, state="TIMEOUT", end_time_s=int(NOW_S) + 60, exit_code=0, exit_signal=15)


class World:
    """A history, a cluster and a reconciler over both."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.history: History = open_history(folder / "history.db")
        self.spool = folder / "spool"
        self.cluster = MemoryClient()
        values = {"paths.state_dir": str(folder), "advisor.reconcile_s": 1.0, **settings}
        self.journal: list[Proposal] = []  # not in the ledger yet
        self.reconciler = Reconciler(Settings(values=values), self.cluster, self.catch_up)

    def catch_up(self, history: History, now_s: float) -> None:
        """What lies in the journal comes into the ledger."""
        if self.journal:
            record_proposals(history, self.journal, f"{self.journal[0].token}.jsonl", 1)
        self.journal = []

    def propose(
        self,
        *tokens: str,
        decided_s: float = NOW_S - 0.5,
        name: str = "train.sh",
        elastic: str | None = None,
        script: int | None = None,
    ) -> None:
        """Proposals of ada's, in the journal until the next comparison."""
        self.journal += [
            Proposal(
                token=token,
                decided_s=decided_s,
                mode=Mode.SHADOW,
                uid=1000,
                user="ada",
                job_name=name,
                decision=LEAVE,
                elastic=elastic,
                keys={} if script is None else {Level.SCRIPT: script},
            )
            for token in tokens
        ]

    def look(self, *jobs: JobInfo, later_s: float = 0.0) -> None:
        """One comparison with these jobs, and what it put into the spool is taken in."""
        self.cluster.known_jobs = jobs
        self.reconciler.reconcile(self.history, NOW_S + later_s)
        ingest_folder(self.history, self.spool, now_s=NOW_S + later_s)

    def state(self, token: str) -> tuple[str, int | None] | None:
        """The entry's state and job."""
        row = decision(self.history, token=token)
        return None if row is None else (row["state"], row["job_id"])


def node_says(
    world: World, state: str, source: str, *, node: str = "n1", token: str | None = None
) -> None:
    """The node's own record of the job comes into the spool."""
    record = record_of(ENDED, node, "cluster", token)
    record["outcome"].update({"state": state, "source": source})
    put(world.spool, record["record_id"], json.dumps(record).encode())
