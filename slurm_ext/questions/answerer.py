"""Answers the questions of one user each: from the advisor's memory, and from the history."""

import json
import logging
import threading
import time
from collections.abc import Callable, Collection
from typing import Any

from slurm_ext.advisor.service.advisor import Advisor, refusal
from slurm_ext.core.errors import DlqueueError, RefusedError, WireError
from slurm_ext.core.records import Submission
from slurm_ext.core.settings.document import TABLE
from slurm_ext.core.wire import encode_request
from slurm_ext.history.views.visible import Viewer
from slurm_ext.questions.answers import document_for
from slurm_ext.questions.predicted import past_of
from slurm_ext.questions.question import MOST_ANSWER_BYTES, Question, decode
from slurm_ext.questions.rate import TOO_MANY, AskRate
from slurm_ext.questions.sender import SenderRules

MOST_READING = 4  # documents that are made from the history at the same time
WAIT_S = 5.0  # for a turn among them
POLICY = tuple(setting.key for setting in TABLE if setting.key.startswith("policy."))
FEWER_JOBS = "ask for fewer jobs (--limit, --since)"
ONE_TASK = "ask for one task of its array (dlqueue explain 1042_7)"
FEWER = {"explain": ONE_TASK, "history_job": ONE_TASK}
FAULT = "the advisor has a fault; its log says which"
log = logging.getLogger(__name__)

Counting = Callable[[str, float], None]
"""Called with kind and seconds of each answer."""


class Answerer:
    """One advisor's memory and history, for many threads; each user not too often."""

    def __init__(self, advisor: Advisor, count: Counting) -> None:
        self._advisor, self._count = advisor, count
        self._senders = SenderRules(self._accounts)
        self.rate = AskRate()
        self._memory = threading.Lock()  # the advisor answers one at a time
        self._reading = threading.BoundedSemaphore(MOST_READING)

    def line(self, request: bytes, uid: int) -> tuple[bytes, bool]:
        """The reply to a line of the advisor's own socket, and True if the connection stays."""
        if not self.rate.may_ask(uid):
            return refusal(TOO_MANY), False
        began_s = time.perf_counter()
        try:
            own = self._senders.own(request, uid)
        except WireError as error:
            return refusal(str(error)), False
        with self._memory:
            reply, stays = self._advisor.reply(own, trusted=False)
        kind = json.loads(own.partition(b"\n")[0])["kind"] if stays else "refused"
        self._count(kind, time.perf_counter() - began_s)
        return reply, stays

    def question(self, raw: bytes, uid: int) -> bytes:
        """The answer to a question of the network, as JSON: `document`, or `error` and its kind."""
        began_s = time.perf_counter()
        try:
            question = decode(raw)
            answer = json.dumps({"v": 1, "document": self._document(question, uid)}).encode()
            if len(answer) > MOST_ANSWER_BYTES:
                size, fewer = f"{len(answer) >> 20} MiB", FEWER.get(question.kind, FEWER_JOBS)
                raise RefusedError(f"the answer has {size}: {fewer}")
        except DlqueueError as error:
            return self.refusal(error)
        except Exception:  # a fault of ours must cost one answer, never the service
            log.exception("no answer to a question of %d bytes", len(raw))
            return self.refusal(DlqueueError(FAULT))
        self._count(question.kind, time.perf_counter() - began_s)
        return answer

    def refusal(self, error: DlqueueError) -> bytes:
        """The answer to a question that gets none, with the reason."""
        self._count("refused", 0.0)
        return json.dumps(
            {"v": 1, "error": str(error)[:2000], "kind": type(error).__name__}
        ).encode()

    def viewer(self, uid: int) -> Viewer:
        """Operators, root and the advisor's own users see everything, others their own jobs."""
        name, rules = self._senders.name(uid), self._advisor.rules
        sees_all = uid in self._advisor.trusted_uids() or name in rules.operators
        hides = rules.hides_others and not sees_all
        return Viewer(user=name, uid=uid, sees_all=sees_all, hides_others=hides)

    def _document(self, question: Question, uid: int) -> dict[str, Any]:
        if question.kind == "ping":
            return {"v": 1, "runs": len(self._advisor.runs)}
        viewer, fields = self.viewer(uid), dict(question.fields)
        if "submission" in fields:
            fields["submission"] = self._senders.own_job(fields["submission"], uid)
        if question.kind in ("predict", "what_if"):
            return self._predicted(question.kind, fields["submission"], viewer)
        if not self._reading.acquire(timeout=WAIT_S):
            raise RefusedError("the advisor is busy with other questions; ask again")
        try:
            return document_for(self._advisor.settings, viewer, question.kind, fields)
        finally:
            self._reading.release()

    def _predicted(self, kind: str, job: Submission, viewer: Viewer) -> dict[str, Any]:
        """The reply from memory, with the past runs behind it and the policy that holds here."""
        with self._memory:
            reply, _ = self._advisor.reply(encode_request(kind, job), trusted=False)
        prediction: dict[str, Any] = json.loads(reply)
        if "error" in prediction:
            raise WireError(str(prediction["error"]))
        settings = self._advisor.settings
        prediction["policy"] = {key: settings[key] for key in POLICY}
        if kind == "predict":
            prediction["past"] = past_of(settings, viewer, prediction["level"], job)
        return prediction

    def _accounts(self, user: str) -> Collection[str] | None:
        allowances = self._advisor.rules.allowances
        return None if allowances is None else allowances.accounts_of(user)
