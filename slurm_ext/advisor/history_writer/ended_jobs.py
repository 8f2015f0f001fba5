"""Ended jobs get the records that their nodes did not send, and their end in Slurm's word."""

import json
from collections.abc import Sequence

from slurm_ext.advisor.history_writer.requeued import RequeuedStarts
from slurm_ext.advisor.history_writer.slurm_record import outcome_of, put, record_of, submitted
from slurm_ext.advisor.limits.eligible import OPT_OUT, words_of
from slurm_ext.core.settings.document import Settings
from slurm_ext.history.ingest.insert import apply_final_state
from slurm_ext.history.ingest.job_decisions import decision_of
from slurm_ext.history.store.store import History
from slurm_ext.history.views.queries import epilogs_of, recorded_nodes
from slurm_ext.slurm import JobInfo, hostlist

LEAST_PATIENCE_S, PATIENCE_S = 5.0, 15.0  # for nodes' own records, which replace ours


class EndedJobs:
    """Remembers which starts were dealt with."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._done: set[tuple[int, int]] = set()
        self._requeued = RequeuedStarts()

    def complete(self, history: History, jobs: Sequence[JobInfo], now_s: float) -> None:
        """Complete starts that are over at this listing. Raises HistoryError, OSError."""
        ended = [job for job in jobs if job.ended and job.start_time_s and job.nodes]
        ended += self._requeued.look(jobs)
        for job in ended:
            if (job.job_id, job.restarts) not in self._done:
                self._complete(history, job, now_s)
        self._done &= {(job.job_id, job.restarts) for job in ended}
        for key in self._done:
            self._requeued.forget(*key)

    def _complete(self, history: History, job: JobInfo, now_s: float) -> None:
        """Write records of nodes that sent none, once they had time to; check the others' end."""
        rounds_s = 2 * self._settings["advisor.reconcile_s"]
        if now_s - (job.end_time_s or 0) < min(max(LEAST_PATIENCE_S, rounds_s), PATIENCE_S):
            return
        run = (job.job_id, job.restarts, job.start_time_s or 0)
        recorded = recorded_nodes(history, *run)
        if recorded:
            apply_final_state(history, *run, slurm=outcome_of(job.state))
        if OPT_OUT not in words_of(job):
            nodes = _nodes(job)
            for node in nodes:
                if node not in recorded:
                    self._write(history, job, node, len(nodes))
        self._done.add((job.job_id, job.restarts))

    def _write(self, history: History, job: JobInfo, node: str, nodes: int) -> None:
        """Put Slurm's word on a node's part of a job into the spool."""
        ledger = decision_of(history, submitted(job))
        token = None if ledger is None else str(ledger["token"])
        record = record_of(job, node, self._settings["site.cluster"], token, nodes=nodes)
        # A name of its own: the node's record may lie in the spool at this moment.
        name = f"{record['record_id']}.reconcile"
        put(self._settings.state_dir / "spool", name, json.dumps(record).encode())


def all_told(history: History, job: JobInfo) -> bool:
    """True if the job ended and the epilog of each of its nodes has reported."""
    reported = epilogs_of(history, job.job_id, job.restarts, job.start_time_s or 0)
    return job.ended and reported.issuperset(_nodes(job))


def _nodes(job: JobInfo) -> tuple[str, ...]:
    """All of the job's nodes; the first one's name where the list is none that we can read."""
    try:
        return hostlist.expand(job.nodes)
    except ValueError:
        return (hostlist.first(job.nodes),)
