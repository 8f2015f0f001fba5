"""The advisor behind the socket: a request line in, a reply line out, everything from memory."""

import logging
import os
import time
from dataclasses import replace

from slurm_ext.advisor.buckets.decision import BucketDecision, decide_buckets
from slurm_ext.advisor.buckets.memory import BucketMemory
from slurm_ext.advisor.evidence.calibrate import Factors, factor_for
from slurm_ext.advisor.evidence.prior import Priors
from slurm_ext.advisor.evidence.runs import LEVELS, RunTable
from slurm_ext.advisor.evidence.standing import Standings, standing_of
from slurm_ext.advisor.evidence.summary import ACTING_LEVELS
from slurm_ext.advisor.limits.bounds import PartitionRules
from slurm_ext.advisor.limits.eligible import words_of
from slurm_ext.advisor.limits.partition_limits import ClusterRules
from slurm_ext.advisor.pipeline.context import DecisionContext
from slurm_ext.advisor.pipeline.decide import Recommendation, decide
from slurm_ext.advisor.pipeline.journal import Journal
from slurm_ext.advisor.pipeline.proposal import outcome_of, proposal_of
from slurm_ext.advisor.pipeline.respond import Response, apply_mode
from slurm_ext.advisor.service.context_json import context_json
from slurm_ext.advisor.service.counters import AdvisorCounters
from slurm_ext.advisor.service.recommendation_json import recommendation_json
from slurm_ext.advisor.service.requests import CachedRequest, Requests
from slurm_ext.advisor.sharing.memory import SharingMemory
from slurm_ext.advisor.sharing.terms import SharingDecision
from slurm_ext.advisor.what_if.runtime_estimates import RuntimeEstimator, runtime_json
from slurm_ext.core.elastic_requests import VARIABLE, fault_in
from slurm_ext.core.errors import WireError
from slurm_ext.core.job_keys import job_signature
from slurm_ext.core.logs import DECISIONS
from slurm_ext.core.records import Decision, Edits, Mode, Submission
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.wire import encode_reply, rests_of
from slurm_ext.history.ingest.proposals import line_of

_MOST_RULES = 1024  # each under four texts of the job
_NO_EDITS = Edits()
decisions = logging.getLogger(DECISIONS)


def refusal(why: str) -> bytes:
    """The reply to a line that cannot be answered: slurmctld takes it as "leave the job alone"."""
    return encode_reply(None, _NO_EDITS, None, error=why[:500])


class Advisor:
    """Evidence, rules, settings and model in memory; each is replaced whole by the refresher."""

    def __init__(self, settings: Settings, journal: Journal) -> None:
        self.settings = settings
        self.journal = journal
        self.runs = RunTable()
        self.rules = ClusterRules()
        self.knows_limits = True  # False until `rules` are read from a Slurm that is there
        self.priors = Priors()
        self.factors: Factors = {}
        self.standings = Standings()
        self.sharing = SharingMemory()
        self.buckets = BucketMemory()
        self.counters = AdvisorCounters()
        self.logs_decisions = True
        self.runtimes = RuntimeEstimator()
        self._requests = Requests()
        self._rules: dict[tuple[str | None, ...], PartitionRules | None] = {}
        self._rules_of: ClusterRules = self.rules  # from which `_rules` was read

    def trusted_uids(self) -> frozenset[int]:
        """Root, the advisor's own user and those of the settings (SlurmUser)."""
        return frozenset({0, os.getuid(), *self.settings["advisor.trusted_uids"]})

    def reply(self, line: bytes, trusted: bool) -> tuple[bytes, bool]:
        """The reply's line, and True if the connection stays open."""
        began_s = time.perf_counter()
        try:
            kind, reply = self._answer(line, trusted)
        except WireError as error:
            kind, reply = "refused", refusal(str(error))
        settings, took_s = self.settings, time.perf_counter() - began_s
        deadline_s = settings["advisor.deadline_ms"] / 1000
        rests = rests_of(line) if kind == "submit" else None
        self.counters.answered(kind, took_s, deadline_s, settings["advisor.breaker_s"])
        if rests is not None:
            self.counters.breaker_rests(rests)
        return reply, kind != "refused"

    def _answer(self, line: bytes, trusted: bool) -> tuple[str, bytes]:
        """The request's kind, and the reply. Raises WireError."""
        request = self._requests.of(line, self.settings)
        if request is None:
            about = {"runs": len(self.runs), "model": self.priors.name}
            about["limits"] = self.knows_limits
            return "ping", encode_reply(None, _NO_EDITS, None, **about)
        if request.kind == "submit":
            if not trusted:
                raise WireError("only slurmctld submits; ask with kind predict")
            return "submit", self._submit(request)
        return request.kind, self._explain(request)

    def _submit(self, request: CachedRequest) -> bytes:
        if os.path.exists(self.settings["paths.kill_file"]):  # noqa: PTH110 (a microsecond counts)
            self.counters.decisions["none", "switched_off"] += 1
            return encode_reply(None, _NO_EDITS, None)
        if not self.knows_limits:  # a worker too many is one that the job has no memory for
            self.counters.decisions["none", "limits_unknown"] += 1
            return encode_reply(None, _NO_EDITS, None)
        token = f"d1-{os.urandom(8).hex()}"
        response = self._respond(request, token)
        decision = response.recommendation.decision
        if decision is None:
            self.counters.decisions["none", "left_alone"] += 1
            return encode_reply(None, _NO_EDITS, None)
        try:
            proposal = proposal_of(
                request.job,
                response,
                decision,
                keys=request.keys,
                token=token,
                model=self.priors.name,
            )
            self.journal.append(line_of(proposal))
        except (OSError, ValueError) as error:
            # What cannot be recorded is not done: its outcome could never be explained.
            self._note(request, response, decision, "unrecorded", token)
            return encode_reply(None, _NO_EDITS, None, error=f"not recorded: {error}")
        self._note(request, response, decision, outcome_of(response), token)
        if response.edits.gres is not None:
            signature = job_signature(request.keys)
            self.sharing.remember(request.job, signature, token, response.edits, time.time())
        return encode_reply(token, response.edits, response.message)

    def _respond(self, request: CachedRequest, token: str) -> Response:
        """The decision, with what sharing and elastic add where they are on; the message once."""
        settings, job = request.settings, request.job
        _, recommendation = self._recommend(request)
        sharing = None if request.whole is None else self._share(request)
        fault = None
        if settings["elastic.mode"] == Mode.ACT:
            fault = fault_in(words_of(job), job.env.get(VARIABLE))
        buckets = self._buckets(request)
        return apply_mode(recommendation, settings, token, sharing, fault, buckets)

    def _note(
        self,
        request: CachedRequest,
        response: Response,
        decision: Decision,
        outcome: str,
        token: str,
    ) -> None:
        """Count one decision, and log it where the log wants decisions."""
        shares = response.sharing is not None and response.sharing.share
        action = "share" if shares else decision.action
        self.counters.decisions[action, outcome] += 1
        if self.logs_decisions and decisions.isEnabledFor(logging.INFO):
            mode = response.recommendation.mode.value
            job = {"partition": request.job.partition, "mode": mode}
            extra = {"decision": token, "action": action, "outcome": outcome, **job}
            decisions.info("%s", decision.reason, extra=extra)

    def _explain(self, request: CachedRequest) -> bytes:
        """Answer people: the recommendation, or the context that a what-if table is made of.

        Where Slurm hides other users' jobs, neither their run times nor their names are in it.
        """
        job, rules = request.job, self.rules
        hides = rules.hides_others
        runtime = self.runtimes.of(job, time.time(), rules.default, rules.minutes_of(job))
        if hides and runtime is not None and "user" not in runtime.like:
            runtime = None
        if request.kind == "what_if":
            body = {
                "known": context_json(self._context(request), request.job),
                "run_time": runtime_json(runtime),
            }
            return encode_reply(None, _NO_EDITS, None, **body)
        context, recommendation = self._recommend(request)
        shares = request.whole is not None and recommendation.decision is not None
        sharing = self._share(request) if shares else None
        if hides and sharing is not None and sharing.across:
            sharing = replace(sharing, beside=None, partners=())
        buckets = None if recommendation.decision is None else self._buckets(request)
        body = recommendation_json(context, recommendation, sharing, runtime, buckets)
        return encode_reply(None, _NO_EDITS, None, **body)

    def _recommend(self, request: CachedRequest) -> tuple[DecisionContext, Recommendation]:
        """The recommendation: the last one as long as everything it rests on is the same."""
        context = self._context(request)
        widths = (context.factor, context.factor_beside)
        basis = (context.summary, context.rules, *widths, context.stopped)
        if request.recommendation is None or request.basis != basis:
            request.basis, request.recommendation = basis, decide(request.job, context)
        return context, request.recommendation

    def _context(self, request: CachedRequest) -> DecisionContext:
        """Look up the job; nothing of other users is in it where Slurm hides their jobs."""
        runs, priors, job = self.runs, self.priors, request.job
        own, hides = ACTING_LEVELS[request.settings["policy.evidence_of"]], self.rules.hides_others
        evidence = runs.newest(request.keys, own if hides else LEVELS)
        prior = None
        if priors.name is not None and not hides:
            prior = priors.prior_of(job, request.keys)
        summary = runs.summary(evidence, prior, own, job)
        level = None if summary.estimate is None else summary.estimate.level
        user, factors = job.user_name, self.factors
        widths = [factor_for(factors, level, user, crowded=which) for which in (False, True)]
        standing = standing_of(self.standings, request.keys, user, job.partition, *widths)
        return DecisionContext(
            settings=request.settings,
            evidence=evidence,
            prior=prior,
            rules=self._rules_for(job),
            factor=standing.factor,
            factor_beside=standing.factor_beside,
            stopped=standing.stopped,
            receives=runs.receives.of(user),
            summary=summary,
        )

    def _rules_for(self, job: Submission) -> PartitionRules | None:
        """The rules that hold for the job, read once for all jobs like it."""
        if self._rules_of is not self.rules or len(self._rules) >= _MOST_RULES:
            self._rules_of, self._rules = self.rules, {}
        mark = (job.partition, job.account, job.user_name, job.qos)
        if mark not in self._rules:
            self._rules[mark] = self._rules_of.rules_for(job)
        return self._rules[mark]

    def _share(self, request: CachedRequest) -> SharingDecision | None:
        """Decided for each submission: who shares changes with every one."""
        return self.sharing.decide(
            request.job,
            request.whole,
            job_signature(request.keys),
            settings=request.settings,
            rules=self.rules,
            now_s=time.time(),
        )

    def _buckets(self, request: CachedRequest) -> BucketDecision | None:
        """The decision on gradient buckets; the plan is kept as long as no run arrives."""
        if request.settings["communication.mode"] == "off":
            return None
        plan = self.buckets.plan(request.keys, request.job, request.settings)
        return decide_buckets(request.job, plan, request.settings)
