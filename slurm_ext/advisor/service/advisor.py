"""What stands behind the socket: a request line in, a reply line out, everything from memory."""

import logging
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b

from slurm_ext.advisor.evidence.prior import Priors
from slurm_ext.advisor.evidence.runs import RunTable
from slurm_ext.advisor.limits.partition_limits import ClusterRules
from slurm_ext.advisor.pipeline.decide import (
    DecisionContext,
    Recommendation,
    Response,
    apply_mode,
    decide,
)
from slurm_ext.advisor.pipeline.journal import Journal
from slurm_ext.advisor.pipeline.message import with_elastic
from slurm_ext.advisor.service.context_json import context_json
from slurm_ext.advisor.service.counters import AdvisorCounters
from slurm_ext.advisor.service.recommendation_json import recommendation_json
from slurm_ext.advisor.sharing.gpu_request import WholeGpuRequest, whole_gpu_request
from slurm_ext.advisor.sharing.memory import SharingMemory
from slurm_ext.advisor.sharing.terms import SharingDecision
from slurm_ext.advisor.what_if.runtime_estimates import RuntimeEstimator, runtime_json
from slurm_ext.core.elastic_requests import VARIABLE, requested_bounds
from slurm_ext.core.errors import WireError
from slurm_ext.core.job_keys import job_signature, keys_of
from slurm_ext.core.logs import DECISIONS
from slurm_ext.core.records import Decision, Edits, Level, Mode, Submission
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.wire import decode_request, encode_reply, rests_of
from slurm_ext.history.ingest.proposals import Proposal, line_of

_REMEMBERED = 4096  # requests
_REFUSED = Edits()
decisions = logging.getLogger(DECISIONS)


def refusal(why: str) -> bytes:
    """The reply to a line that cannot be answered: slurmctld takes it as "leave the job alone"."""
    return encode_reply(None, _REFUSED, None, error=why[:500])


@dataclass(slots=True)
class CachedRequest:
    """A request that was understood, and what was last thought of it."""

    kind: str
    job: Submission  # without its script, which may be large
    keys: Mapping[Level, int]
    whole: WholeGpuRequest | str | None = (
        None  # how it asks for a GPU; a text: why it cannot share one
    )
    known: DecisionContext | None = None
    thought: Recommendation | None = None


class Advisor:
    """Evidence, rules, settings and model in memory; each is replaced whole by the refresher."""

    def __init__(self, settings: Settings, journal: Journal) -> None:
        self.settings = settings
        self.journal = journal
        self.runs = RunTable()
        self.rules = ClusterRules()
        self.priors = Priors()
        self.factor = 1.0
        self.sharing = SharingMemory()
        self.tally = AdvisorCounters()
        self.tells = True  # the log of each decision
        self.run_times = RuntimeEstimator()
        self._asked: dict[bytes, CachedRequest] = {}

    def trusted_uids(self) -> frozenset[int]:
        """Root, the advisor's own user and whom the settings name (SlurmUser)."""
        return frozenset({0, os.getuid(), *self.settings["advisor.trusted_uids"]})

    def reply(self, line: bytes, trusted: bool) -> tuple[bytes, bool]:
        """The reply's line, and whether the connection stays open."""
        began_s = time.perf_counter()
        kind, recommendation_json, stays = self._told(line, trusted)
        settings, took_s = self.settings, time.perf_counter() - began_s
        deadline_s = settings["advisor.deadline_ms"] / 1000
        self.tally.answered(kind, took_s, deadline_s, settings["advisor.breaker_s"])
        if kind == "submit" and (rests := rests_of(line)) is not None:
            self.tally.told(rests)
        return recommendation_json, stays

    def _told(self, line: bytes, trusted: bool) -> tuple[str, bytes, bool]:
        """The request's kind, the reply, and whether the connection stays open."""
        try:
            asked = self._understood(line)
            if asked is None:
                return "ping", self._pong(), True
            if asked.kind == "submit" and not trusted:
                raise WireError("only slurmctld submits; ask with kind predict")
        except WireError as error:
            return "refused", refusal(str(error)), False
        answer = {"submit": self._submit, "predict": self._predict, "what_if": self._what_if}
        return asked.kind, answer[asked.kind](asked), True

    def _understood(self, line: bytes) -> CachedRequest | None:
        """The request, None for a ping; remembered, as users submit the same job again and again.

        Raises WireError.
        """
        mark = blake2b(line, digest_size=16).digest()
        asked = self._asked.get(mark)
        if asked is not None:
            return asked
        kind, job = decode_request(line)
        if job is None:
            return None
        slim = replace(job, script=None if job.script is None else "")
        if len(self._asked) >= _REMEMBERED:
            self._asked.clear()
        asked = self._asked[mark] = CachedRequest(kind, slim, keys_of(job), whole_gpu_request(job))
        return asked

    def _pong(self) -> bytes:
        return encode_reply(None, _REFUSED, None, runs=len(self.runs), model=self.priors.name)

    def _submit(self, asked: CachedRequest) -> bytes:
        if os.path.exists(self.settings["paths.kill_file"]):  # noqa: PTH110 (a microsecond counts)
            self.tally.decided("none", "switched_off")
            return encode_reply(None, _REFUSED, None)
        settings = self.settings
        token = f"d1-{os.urandom(8).hex()}"
        known, thought = self._thought(asked)
        given = apply_mode(thought, settings, token, self._shared(asked))
        if given.decision is None:
            self.tally.decided("none", "left_alone")
            return encode_reply(None, _REFUSED, None)
        try:
            self.journal.append(line_of(self._proposal(asked, known, given, given.decision, token)))
        except (OSError, ValueError) as error:
            # What cannot be recorded is not done: its outcome could never be explained.
            self._note(given, given.decision, "unrecorded", token, asked)
            return encode_reply(None, _REFUSED, None, error=f"not recorded: {error}")
        self._note(given, given.decision, outcome_of(given), token, asked)
        key = job_signature(asked.keys)
        self.sharing.remember(asked.job, key, token, given.edits, time.time())
        runtime_json = with_elastic(given.message, asked.job, settings["elastic.mode"])
        return encode_reply(token, given.edits, runtime_json)

    def _note(
        self, given: Response, decision: Decision, outcome: str, token: str, asked: CachedRequest
    ) -> None:
        """One decision for the counters, and for a log that wants them."""
        shares = given.shared is not None and given.shared.share
        action = "share" if shares else decision.action
        self.tally.decided(action, outcome)
        if self.tells and decisions.isEnabledFor(logging.INFO):
            recommendation_json = {"decision": token, "action": action, "outcome": outcome}
            job = {"partition": asked.job.partition, "mode": given.thought.mode.value}
            decisions.info("%s", decision.reason, extra={**recommendation_json, **job})

    def _predict(self, asked: CachedRequest) -> bytes:
        known, thought = self._thought(asked)
        shared = None if thought.decision is None else self._shared(asked)
        length = self.run_times.of(asked.job, time.time(), self.rules.default)
        return encode_reply(
            None, _REFUSED, None, **recommendation_json(known, thought, shared, length)
        )

    def _what_if(self, asked: CachedRequest) -> bytes:
        """What is known; thinking about many shapes is the asker's own time."""
        known = context_json(self._known(asked))
        run_time = runtime_json(self.run_times.of(asked.job, time.time(), self.rules.default))
        return encode_reply(None, _REFUSED, None, known=known, run_time=run_time)

    def _thought(self, asked: CachedRequest) -> tuple[DecisionContext, Recommendation]:
        """Thought anew only where something that it rests on has changed."""
        known = self._known(asked)
        if asked.thought is None or asked.known is None or not _same(asked.known, known):
            asked.known, asked.thought = known, decide(asked.job, known)
        return asked.known, asked.thought

    def _shared(self, asked: CachedRequest) -> SharingDecision | None:
        """Thought anew each time: who shares changes with every submission."""
        return self.sharing.think(
            asked.job,
            asked.whole,
            job_signature(asked.keys),
            settings=self.settings,
            rules=self.rules,
            now_s=time.time(),
        )

    def _known(self, asked: CachedRequest) -> DecisionContext:
        return DecisionContext(
            settings=self.settings,
            evidence=self.runs.newest(asked.keys),
            prior=self.priors.prior_of(asked.job, asked.keys),
            rules=self.rules.rules_for(asked.job),
            factor=self.factor,
        )

    def _proposal(
        self,
        asked: CachedRequest,
        known: DecisionContext,
        given: Response,
        decision: Decision,
        token: str,
    ) -> Proposal:
        job, shared = asked.job, given.shared
        done = given.edits.gres is not None
        return Proposal(
            token=token,
            decided_s=time.time(),
            mode=given.thought.mode,
            holdout=given.holdout,
            user=job.user_name,
            uid=job.user_id,
            job_name=job.name,
            account=job.account,
            partition=job.partition,
            decision=decision,
            edits=given.edits,
            message=given.message,
            keys=asked.keys,
            factor=known.factor,
            model=self.priors.name,
            sharing=None if shared is None else shared.as_json(done=done),
            elastic=requested_bounds((), job.env.get(VARIABLE)),
        )


def outcome_of(given: Response) -> str:
    """What became of a recorded decision: held_out, kept (as written), done, told or shadow."""
    shared = given.shared
    shares = shared is not None and shared.share
    if given.holdout:
        return "held_out"
    if not shares and (given.decision is None or given.decision.action == "leave"):
        return "kept"
    mode = shared.mode if shared is not None and shares else given.thought.mode
    return {Mode.ACT: "done", Mode.ADVISE: "told"}.get(mode, "shadow")


def _same(one: DecisionContext, other: DecisionContext) -> bool:
    """Whether nothing was replaced; of runs identity is enough, and quicker than to compare."""
    return (
        one.settings is other.settings
        and one.prior is other.prior
        and one.rules == other.rules
        and one.factor == other.factor
        and one.evidence.keys() == other.evidence.keys()
        and all(one.evidence[level] is runs for level, runs in other.evidence.items())
    )
