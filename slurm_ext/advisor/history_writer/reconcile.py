"""Compares the ledger and the history with what Slurm knows.

* A proposal is tied to its job as soon as there is exactly one that it can mean; the job's own
  record, which carries the token, ties it for certain later.
* A proposal that no job can have come from (`sbatch --test-only`, a rejected job) is dropped, and
  so is one that none of the jobs names that it can mean, once all their nodes have spoken. One of
  several alike stays for as long as Slurm lists a job that it can mean.
* A job that ended, or was requeued, and of which a node sent no record (it is gone, its disk is
  full, its epilog was killed) gets one from here; a record that comes later replaces it.
* A job that Slurm ended, but whose node calls it failed or done, gets Slurm's word for its end.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from slurm_ext.advisor.history_writer.ended_jobs import EndedJobs, all_told
from slurm_ext.advisor.history_writer.telling import is_tied, tell_elastic, tell_sharers
from slurm_ext.advisor.history_writer.untied import candidates, certain, requeued, untied
from slurm_ext.advisor.limits.rules import client_of
from slurm_ext.core.settings.document import Settings
from slurm_ext.history.ingest.decisions import claim, drop_unclaimed, unclaimed_rows
from slurm_ext.history.store.store import History
from slurm_ext.slurm import JobInfo, SlurmClient

SETTLED_S = 3.0  # a moment whose other proposals have all arrived
SURE_S = 10.0  # a proposal older than this has become a job, or never will
KEEP_REQUEUED_S = 86400.0  # which of its owner's proposals a requeued job was, its record decides


class Reconciler:
    """One comparison at a time.

    `catch_up` enters what the journal holds: whoever stands in a listing was decided on before it.
    """

    def __init__(
        self,
        settings: Settings,
        client: SlurmClient | None = None,
        catch_up: Callable[[History, float], None] = lambda *_: None,
    ) -> None:
        self._settings = settings
        self._client = client or client_of(settings)
        self._catch_up = catch_up
        self._ended = EndedJobs(settings)

    def reconcile(self, history: History, now_s: float) -> None:
        """Compare now. Raises SlurmError, HistoryError, OSError; what is done stays done."""
        jobs, folder = self._client.jobs(), self._settings.state_dir
        self._catch_up(history, now_s)
        self._tie(history, jobs, now_s)
        if self._settings["sharing.mode"] != "off":
            tell_sharers(history, jobs, folder, now_s)
        if self._settings["elastic.mode"] != "off":
            tell_elastic(history, jobs, folder)
        self._ended.complete(history, jobs, now_s)

    def _tie(self, history: History, jobs: Sequence[JobInfo], now_s: float) -> None:
        """Claim what is certain, drop what became nothing, keep what is doubtful."""
        waiting = untied(unclaimed_rows(history))
        if not waiting:
            return
        matches = candidates(waiting, jobs)
        meant = {job for ids in matches.values() for job in ids}
        by_id = {job.job_id: job for job in jobs if job.job_id in meant}
        tied = {job for job in meant if is_tied(history, by_id[job])}
        if tied:
            matches = {
                token: [job for job in meant if job not in tied] for token, meant in matches.items()
            }
        settled = {
            proposal.token for proposal in waiting if proposal.decided_s <= now_s - SETTLED_S
        }
        for token, job_id in certain(matches).items():
            if token in settled:
                claim(history, token, job_id, uid=by_id[job_id].user_id, now_s=now_s)
        again = [job for job in jobs if job.restarts]
        doubtful = _doubtful(matches, _unheard(history, by_id.values()))
        back = requeued(waiting, _unheard(history, again))
        drop_unclaimed(history, before_s=now_s - SURE_S, keep=[*doubtful, *back])
        drop_unclaimed(history, before_s=now_s - KEEP_REQUEUED_S, keep=doubtful)


def _doubtful(matches: Mapping[str, Sequence[int]], unheard: Iterable[JobInfo]) -> list[str]:
    """Tokens that some job may name yet, in the record of its nodes: Slurm still lists it."""
    maybe = {job.job_id for job in unheard}
    return [token for token, meant in matches.items() if not maybe.isdisjoint(meant)]


def _unheard(history: History, jobs: Iterable[JobInfo]) -> list[JobInfo]:
    """Jobs whose nodes have not all spoken; of one that did not end there is nothing to ask."""
    return [job for job in jobs if not (job.ended and all_told(history, job))]
