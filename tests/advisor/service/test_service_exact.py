"""The advisor's service in one process: replies, documents, metrics, files, clients, helpers."""

import json
import logging
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slurm_ext.advisor.evidence.prior import Priors, serving
from slurm_ext.advisor.evidence.runs import RunTable
from slurm_ext.advisor.evidence.summary import node_cores_of, summarize, usual_workers
from slurm_ext.advisor.limits.bounds import PartitionRules
from slurm_ext.advisor.limits.partition_limits import ClusterRules
from slurm_ext.advisor.pipeline.decide import DecisionContext, Recommendation, Response, decide
from slurm_ext.advisor.pipeline.journal import Journal, journals
from slurm_ext.advisor.service import prometheus_collector as collector
from slurm_ext.advisor.service import service
from slurm_ext.advisor.service.advisor import Advisor, outcome_of, refusal
from slurm_ext.advisor.service.child_process import HistoryWriterProcess
from slurm_ext.advisor.service.context_json import context_from_json, context_json
from slurm_ext.advisor.service.counters import AdvisorCounters
from slurm_ext.advisor.service.from_history import context_from_history, runtime_from_history
from slurm_ext.advisor.service.prometheus_collector import PrometheusCollector
from slurm_ext.advisor.service.recommendation_json import edits_json, recommendation_json
from slurm_ext.advisor.service.refresh import Refresher
from slurm_ext.advisor.service.server import MOST_CLIENTS, Client, Server
from slurm_ext.advisor.service.unix_socket import listener, peer_uid, remove
from slurm_ext.advisor.service.warm_up import JOB, RUN, warm_up
from slurm_ext.advisor.sharing.terms import SharingDecision
from slurm_ext.core.errors import AdvisorError
from slurm_ext.core.job_keys import keys_of
from slurm_ext.core.records import Decision, Edits, Level, Mode, Shape, Submission
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.wire import MAX_LINE_BYTES, encode_request
from slurm_ext.history.store.store import open_history
from slurm_ext.model.throughput.estimate import Prior
from slurm_ext.model.throughput.inversion import LogNormal
from slurm_ext.slurm.records import JobAllowance
from tests.advisor.service.test_advisor_lines import journalled, runs, settings, submit
from tests.builders import STARVED

KEPT = Decision(
    action="leave",
    reason="so",
    before=Shape(cpus_per_task=1, num_workers=0),
    after=Shape(cpus_per_task=1, num_workers=0),
)


@pytest.fixture
def advisor(tmp_path: Path) -> Iterator[Advisor]:
    """An advisor that acts on a partition of 8 CPUs, with three runs of JOB."""
    journal = Journal(tmp_path / "journal")
    made = Advisor(settings(paths__state_dir=str(tmp_path)), journal)
    made.rules = ClusterRules(partitions={"none": PartitionRules(cpus_per_node=8)})
    runs(made, 3)
    yield made
    journal.close()


def asked(advisor: Advisor, kind: str, job: Submission | None = JOB, **how: Any) -> dict[str, Any]:
    """The reply to one request of somebody who is not trusted."""
    line, _ = advisor.reply(encode_request(kind, job), trusted=how.get("trusted", False))
    reply: dict[str, Any] = json.loads(line)
    return reply


# -- replies --------------------------------------------------------------------------------------


def test_a_ping_tells_of_runs_and_model(advisor: Advisor) -> None:
    """And nothing else."""
    assert asked(advisor, "ping", None) == {
        "v": 1,
        "decision": None,
        "edits": {},
        "message": None,
        "runs": 3,
        "model": None,
    }


def test_only_the_trusted_submit(advisor: Advisor, tmp_path: Path) -> None:
    """Others are refused, and their connection ends."""
    reply, stays = advisor.reply(encode_request("submit", JOB), trusted=False)
    assert json.loads(reply)["error"] == "only slurmctld submits; ask with kind predict"
    assert not stays
    assert advisor.reply(encode_request("predict", JOB), trusted=False)[1]
    assert journalled(tmp_path) == []
    assert {name: sum(one.counts) for name, one in advisor.counters.answers.items()} == {
        "refused": 1,
        "predict": 1,
    }


def test_a_refusal_leaves_the_job_alone() -> None:
    """At most five hundred characters of reason."""
    assert json.loads(refusal("x" * 501)) == {
        "v": 1,
        "decision": None,
        "edits": {},
        "message": None,
        "error": "x" * 500,
    }


def test_late_answers_are_counted_with_the_sites_deadline(
    advisor: Advisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Milliseconds of the settings, seconds of the counters."""
    calls: list[Any] = []
    monkeypatch.setattr(advisor.counters, "answered", lambda *words: calls.append(words))
    advisor.settings = settings(advisor__deadline_ms=250, advisor__breaker_s=7.0)
    asked(advisor, "predict")
    (kind, seconds, deadline_s, breaker_s) = calls[0]
    assert (kind, deadline_s, breaker_s) == ("predict", 0.25, 7.0)
    assert 0 < seconds < 60


def test_root_the_service_and_slurm_are_trusted(advisor: Advisor) -> None:
    """The settings' uids beside the two."""
    advisor.settings = settings(advisor__trusted_uids=[64030])
    assert advisor.trusted_uids() == {0, os.getuid(), 64030}


def test_a_submission_is_journalled_with_every_field(advisor: Advisor, tmp_path: Path) -> None:
    """Who, what, when, on what it rests, and the reply as it was sent."""
    advisor.factor = 1.5
    job = replace(JOB, account="a", user_id=7)
    before = time.time()
    reply = submit(advisor, job)
    (line,) = journalled(tmp_path)
    token = reply["decision"]
    assert token.startswith("d1-")
    assert len(token) == 19
    assert reply["edits"]["env"]["DLQUEUE_DECISION"] == token
    assert before <= line["decided_s"] <= time.time()
    fields = ("token", "mode", "holdout", "user", "uid", "job_name", "account", "partition")
    assert [line[name] for name in fields] == [
        token,
        "act",
        False,
        "dlqueue",
        7,
        "warm-up",
        "a",
        "none",
    ]
    assert (line["message"], line["factor"], line["model"]) == (reply["message"], 1.5, None)
    assert (line["sharing"], line["elastic"]) == (None, None)
    keys = {level.value: key for level, key in keys_of(job).items()}
    assert sorted(map(str, line["keys"].values())) == sorted(map(str, keys.values()))
    assert list(line["keys"])


def test_what_cannot_be_recorded_is_not_done(
    advisor: Advisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply has the reason; the decision is counted as unrecorded."""

    def full(_: str) -> None:
        raise OSError("the journal's disk is full")

    monkeypatch.setattr(advisor.journal, "append", full)
    reply = submit(advisor)
    assert reply == {
        "v": 1,
        "decision": None,
        "edits": {},
        "message": None,
        "error": "not recorded: the journal's disk is full",
    }
    assert advisor.counters.decisions == {("change", "unrecorded"): 1}


def test_a_decision_is_logged_with_its_fields(
    advisor: Advisor, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the log wants decisions, and not in rehearsals."""
    caplog.set_level(logging.INFO)
    token = submit(advisor)["decision"]
    (record,) = [one for one in caplog.records if hasattr(one, "decision")]
    fields = ("decision", "action", "outcome", "partition", "mode")
    assert [getattr(record, name) for name in fields] == [token, "change", "done", "none", "act"]
    assert record.getMessage() == "it waits for data with 1 worker, which costs 88% of its speed"
    caplog.clear()
    advisor.logs_decisions = False
    submit(advisor)
    assert not caplog.records


def response(mode: Mode = Mode.ACT, action: str = "change", **values: Any) -> Response:
    """A response in this mode."""
    decision = replace(KEPT, action=action)
    return Response(recommendation=Recommendation(mode=mode, why="", decision=decision), **values)


def shares(mode: Mode, share: bool = True) -> SharingDecision:
    """A decision of sharing."""
    return SharingDecision(mode=mode, share=share, why="", floor=0.8)


@pytest.mark.parametrize(
    ("made", "outcome"),
    [
        (response(), "done"),
        (response(Mode.ADVISE), "told"),
        (response(Mode.SHADOW), "shadow"),
        (response(holdout=True), "held_out"),
        (response(action="leave", holdout=True), "held_out"),
        (response(action="leave"), "kept"),
        (response(Mode.SHADOW, action="leave"), "kept"),
        (response(action="leave", sharing=shares(Mode.ADVISE)), "told"),
        (response(action="leave", sharing=shares(Mode.ACT)), "done"),
        (response(action="leave", sharing=shares(Mode.ACT, share=False)), "kept"),
        (response(Mode.ADVISE, sharing=shares(Mode.ACT, share=False)), "told"),
        (response(Mode.ACT, sharing=shares(Mode.SHADOW)), "shadow"),
    ],
)
def test_what_became_of_a_decision(made: Response, outcome: str) -> None:
    """One word each, as metrics and log have it."""
    assert outcome_of(made) == outcome


def test_the_context_of_a_what_if_table_is_told(advisor: Advisor) -> None:
    """Evidence, rules and factor; no run time without a model."""
    body = asked(advisor, "what_if")
    assert set(body) == {"v", "decision", "edits", "message", "known", "run_time"}
    assert body["run_time"] is None
    assert body["known"]["rules"]["cpus_per_node"] == 8
    assert len(body["known"]["evidence"][Level.USER_NAME.value]) == 3


# -- documents ------------------------------------------------------------------------------------


def context(**values: Any) -> DecisionContext:
    """Acting on two runs, eight CPUs a node."""
    chosen = Settings(values={"site.mode": "act", "policy.holdout_share": 0.0})
    known = DecisionContext(
        settings=chosen,
        evidence={Level.SCRIPT_ARGS: [STARVED, STARVED]},
        rules=PartitionRules(cpus_per_node=8),
    )
    return replace(known, **values)


PLAIN_JOB = Submission(script="#!/bin/sh\n", num_tasks=1)


def test_a_recommendation_as_json_has_every_field() -> None:
    """Decision, predictions, edits, evidence, curve and limits."""
    known = context()
    made = decide(PLAIN_JOB, known)
    decision, estimated = made.decision, made.estimate
    assert decision is not None
    assert estimated is not None
    before, after = decision.predicted_before, decision.predicted_after
    assert before is not None
    assert after is not None
    body = recommendation_json(known, made, shares(Mode.ADVISE))
    curve, maximum, knee = (body.pop(name) for name in ("curve", "maximum", "knee"))

    def rate(prediction: Any) -> dict[str, Any]:
        return {
            "samples_per_s": prediction.samples_per_s,
            "interval": [prediction.interval.low, prediction.interval.high],
            "interval_level": 0.9,
            "bottleneck": prediction.bottleneck,
        }

    assert body == {
        "mode": "act",
        "eligible": True,
        "action": "change",
        "why": decision.reason,
        "before": {"cpus_per_task": 1, "num_workers": 1},
        "after": asdict(decision.after),
        "predicted_before": rate(before),
        "predicted_after": rate(after),
        "proposed": edits_json(made.proposed),
        "level": "same script and arguments",
        "runs": 2,
        "emulated": True,
        "opt_out": "--comment=dlqueue=off",
        "sharing": shares(Mode.ADVISE).as_json(done=False),
        "run_time": None,
        "bottleneck": body["bottleneck"],
        "next": body["next"],
    }
    assert body["bottleneck"] == "data"
    assert body["next"]
    workers = decision.after.num_workers
    assert [point["num_workers"] for point in curve] == list(
        range(min(33, max(4, 2 * max(workers, decision.after.cpus_per_task)) + 1))
    )
    assert {point["cpus_per_task"] for point in curve} == {decision.after.cpus_per_task}
    assert curve[workers] == {
        **asdict(decision.after),
        "samples_per_s": after.samples_per_s,
        "low": after.interval.low,
        "high": after.interval.high,
    }
    assert maximum["samples_per_s"] >= knee["samples_per_s"] >= 0.95 * maximum["samples_per_s"]
    assert set(maximum) == set(knee) == set(curve[0])


@pytest.mark.parametrize(("most", "points"), [(3, 4), (64, 33)])
def test_a_curve_is_no_longer_than_the_sites_workers(most: int, points: int) -> None:
    """Thirty-three points at most."""
    chosen = Settings(values={"site.mode": "act", "policy.max_workers": most})
    known = context(settings=chosen, rules=PartitionRules(cpus_per_node=64))
    job = replace(PLAIN_JOB, cpus_per_task=32)
    assert len(recommendation_json(known, decide(job, known))["curve"]) == points


def test_a_recommendation_of_nothing_is_told() -> None:
    """Opted out: no decision, so no numbers; unknown: no estimate."""
    known = context()
    out = replace(PLAIN_JOB, comment="dlqueue=off")
    assert recommendation_json(known, decide(out, known)) == {
        "mode": "act",
        "eligible": False,
        "action": "none",
        "why": "opted out",
        "before": None,
        "after": None,
        "predicted_before": None,
        "predicted_after": None,
        "proposed": {},
        "level": None,
        "runs": 0,
        "emulated": None,
        "opt_out": "--comment=dlqueue=off",
        "sharing": None,
        "run_time": None,
        "curve": [],
        "maximum": None,
        "knee": None,
        "bottleneck": None,
        "next": None,
    }
    unknown = context(evidence={})
    body = recommendation_json(unknown, decide(PLAIN_JOB, unknown))
    assert (body["eligible"], body["action"], body["curve"]) == (True, "leave", [])
    assert body["before"] == {"cpus_per_task": 1, "num_workers": 0}


def test_edits_as_json_leave_out_what_is_left_alone() -> None:
    """An empty text clears a field, and zero is a number."""
    edits = Edits(cpus_per_task=0, tres_bind="", env={})
    assert edits_json(edits) == {"cpus_per_task": 0, "tres_bind": ""}
    assert edits_json(Edits(env={"A": "1"})) == {"env": {"A": "1"}}


def test_a_context_survives_json() -> None:
    """With a prior and limits of accounts, or without any of them."""
    prior = Prior(**{n: LogNormal(i + 0.5, i + 0.25) for i, n in enumerate(PRIOR_NAMES)})
    rules = PartitionRules(cpus_per_node=4, allowance=JobAllowance(max_cpus=3))
    known = context(prior=prior, rules=rules, factor=1.5)
    body = json.loads(json.dumps(context_json(known)))
    assert set(body) == {"evidence", "prior", "rules", "factor"}
    assert body["prior"] == {"accel": [0.5, 0.25], "wall": [1.5, 1.25], "cpu": [2.5, 2.25]}
    assert context_from_json(known.settings, body) == known
    bare = context(rules=None, evidence={})
    assert context_json(bare) == {"evidence": {}, "prior": None, "rules": None, "factor": 1.0}
    assert context_from_json(bare.settings, context_json(bare)) == bare
    endless = replace(STARVED, samples_per_s=float("inf"), main_cpu_s=float("nan"))
    body = context_json(context(evidence={Level.KIND: [endless]}))
    (run,) = body["evidence"]["same kind of program"]
    assert (run["samples_per_s"], run["main_cpu_s"]) == (0.0, None)


PRIOR_NAMES = ("accel", "wall", "cpu")


def test_without_a_history_nothing_is_known(tmp_path: Path) -> None:
    """No file, an empty one, and a context of none."""
    chosen = Settings(values={"paths.state_dir": str(tmp_path)})
    assert context_from_history(chosen, JOB) == DecisionContext(settings=chosen)
    assert runtime_from_history(chosen, JOB) is None
    open_history(tmp_path / "history.db").close()
    known = context_from_history(chosen, JOB)
    assert not any(known.evidence.values())
    assert replace(known, evidence={}) == DecisionContext(settings=chosen)


# -- evidence -------------------------------------------------------------------------------------


def test_the_workers_and_cores_of_the_nearest_run() -> None:
    """The user's own count where it is known; of the cluster's runs none."""
    ours = replace(STARVED, workers=8, user_workers=3)
    near = replace(STARVED, workers=5, user_workers=None, node_cores=None)
    assert usual_workers({Level.CLUSTER: [ours]}) == 0
    assert usual_workers({Level.KIND: [ours]}) == 3
    assert usual_workers({Level.KIND: [ours], Level.SCRIPT: [near, ours]}) == 5
    assert node_cores_of({Level.CLUSTER: [ours], Level.SCRIPT: [near]}) == 4
    assert node_cores_of({Level.SCRIPT: [replace(near, node_cores=0)]}) is None
    assert node_cores_of({}) is None


def test_a_summary_has_the_estimate_or_the_reason() -> None:
    """Never both."""
    known = summarize({Level.SCRIPT: [STARVED]}, None)
    assert (known.estimate is not None, known.why_none) == (True, "")
    assert (known.usual_workers, known.node_cores) == (1, 4)
    none = summarize({}, None)
    assert (none.estimate, none.usual_workers, none.node_cores) == (None, 0, None)
    assert none.why_none == "I do not know yet: no runs like this one"


def test_summaries_are_kept_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same runs and prior have the same summary."""
    from slurm_ext.advisor.evidence import runs as module

    monkeypatch.setattr(module, "_MOST_SUMMARIES", 2)
    table = RunTable()
    first = table.summary(table.newest({}), None)
    assert table.summary(table.newest({}), None) is first
    priors = [Prior(**dict.fromkeys(PRIOR_NAMES, LogNormal(0.0, n + 1.0))) for n in range(2)]
    for prior in priors:
        table.summary(table.newest({}), prior)
    assert len(table._summaries) == 1
    assert table.summary(table.newest({}), priors[1]) is not first


def test_priors_are_kept_by_job_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """User, partition, GPUs and keys; without a model there is none."""
    from slurm_ext.advisor.evidence import prior as module

    calls: list[Any] = []

    def told(known: Any) -> Any:
        calls.append(known)
        return len(calls)

    artifact: Any = SimpleNamespace(name="one", prior=told)
    monkeypatch.setattr(module, "_MOST_PRIORS", 2)
    priors = Priors(artifact)
    job = Submission(user_name="ada", partition="p", tres_per_node="gpu:2")
    keys = {Level.SCRIPT: 5}
    first, again = (priors.prior_of(job, keys) for _ in range(2))
    answers: list[Any] = [first, again, priors.name]
    assert answers == [1, 1, "one"]
    (known,) = calls
    assert (known.user, known.partition, known.gpus, known.keys) == ("ada", "p", 2, keys)
    others = [replace(job, user_name="bob"), replace(job, partition="q"), replace(job, num_tasks=9)]
    answers = [priors.prior_of(one, keys) for one in others]
    assert answers == [2, 3, 4]
    assert len(calls) == 4
    assert (Priors().name, Priors().prior_of(job, keys)) == (None, None)


def test_the_promoted_model_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept while it is promoted; without one, nobody has a prior."""
    from slurm_ext.advisor.evidence import prior as module

    monkeypatch.setattr(module, "load", lambda folder: SimpleNamespace(name=folder.name))
    none = Priors()
    assert serving(tmp_path, none) is none
    (tmp_path / "one").mkdir()
    (tmp_path / "current").symlink_to("one")
    made = serving(tmp_path, none)
    assert made.name == "one"
    assert serving(tmp_path, made) is made
    (tmp_path / "current").unlink()
    gone = serving(tmp_path, made)
    assert (gone.name, gone is made) == (None, False)


# -- metrics --------------------------------------------------------------------------------------


def samples(families: Any) -> dict[str, Any]:
    """Values by name and labels."""
    return {
        " ".join([one.name, *(f"{k}={v}" for k, v in one.labels.items())]): one.value
        for family in families
        for one in family.samples
    }


def test_a_scrape_has_these_families_and_texts(advisor: Advisor) -> None:
    """Name, kind and help of each, as dashboards and their readers know them."""
    found = {
        one.name: (one.type, one.documentation) for one in PrometheusCollector(advisor).collect()
    }
    assert found == {
        "dlqueue_decisions": ("counter", "Submissions decided on"),
        "dlqueue_answer_seconds": ("histogram", "From a line to its answer"),
        "dlqueue_breaker_trips": ("counter", "Rests that slurmctld's Lua told of"),
        "dlqueue_breaker_open": (
            "gauge",
            "Whether slurmctld probably rests after an answer that came too late",
        ),
        "dlqueue_runs": ("gauge", "Runs that answers rest on"),
        "dlqueue_interval_factor": ("gauge", "By which intervals are widened"),
        "dlqueue_killed": ("gauge", "Whether the kill file is there"),
        "dlqueue_deadline_seconds": ("gauge", "slurmctld's"),
        "dlqueue_serving": ("info", "Mode of the site and model"),
        "dlqueue_ingest_lag_seconds": ("gauge", "Age of the oldest record that waits"),
        "dlqueue_ingest_waiting_records": ("gauge", "Records that wait in the spool"),
        "dlqueue_looks_failed": (
            "counter",
            "Looks at the history or the spool that failed",
        ),
    }


def test_a_scrape_has_the_advisors_numbers(advisor: Advisor, tmp_path: Path) -> None:
    """Counters, what is in memory, and the settings."""
    advisor.settings = settings(
        paths__state_dir=str(tmp_path), paths__kill_file=str(tmp_path), advisor__deadline_ms=250
    )
    advisor.factor = 1.5
    advisor.counters.decisions = Counter({("leave", "kept"): 2, ("change", "done"): 1})
    advisor.counters.rests = 4
    advisor.counters.answered("submit", 0.02, 0.05, 30.0)
    advisor.counters.answered("submit", 9.0, 0.05, 30.0)
    found = samples(PrometheusCollector(advisor).collect())
    plain: dict[str, Any] = {k: value for k, value in found.items() if "answer" not in k}
    assert plain == {
        "dlqueue_decisions_total action=change outcome=done": 1,
        "dlqueue_decisions_total action=leave outcome=kept": 2,
        "dlqueue_breaker_trips_total": 4,
        "dlqueue_breaker_open": 1,
        "dlqueue_runs": 3,
        "dlqueue_interval_factor": 1.5,
        "dlqueue_killed": 1,
        "dlqueue_deadline_seconds": 0.25,
        "dlqueue_serving_info mode=act model=": 1,
        "dlqueue_ingest_lag_seconds": 0.0,
        "dlqueue_ingest_waiting_records": 0,
        "dlqueue_looks_failed_total": 0,
    }
    bucket = "dlqueue_answer_seconds_bucket kind=submit le="
    assert [found[f"{bucket}{bound}"] for bound in ("0.01", "0.025", "1.0", "+Inf")] == [0, 1, 1, 2]
    assert found["dlqueue_answer_seconds_sum kind=submit"] == pytest.approx(9.02)
    assert list(PrometheusCollector(advisor).describe()) == []


def test_the_disk_is_looked_at_every_fifteen_seconds(
    advisor: Advisor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A part that cannot be read is left out and counted; the others are there."""
    caplog.set_level(logging.DEBUG)
    clock, looks = [100.0], list[Path]()

    def failing(state: Path) -> Any:
        looks.append(state)
        raise OSError(5, "disk")

    monkeypatch.setattr(collector, "of_history", failing)
    monkeypatch.setattr(
        "slurm_ext.advisor.service.prometheus_collector.time.monotonic", lambda: clock[0]
    )
    made = PrometheusCollector(advisor)
    for clock_s, count in ((100.0, 1), (114.9, 1), (115.0, 2)):
        clock[0] = clock_s
        found = samples(made.collect())
        assert found["dlqueue_looks_failed_total"] == len(looks) == count
        assert "dlqueue_ingest_waiting_records" in found
    assert set(looks) == {advisor.settings.state_dir}
    assert caplog.messages == ["left out of the metrics: [Errno 5] disk"] * 2


def test_the_ledgers_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gain, accuracy, what was set aside, and the journal's bytes that wait."""
    assert collector.of_history(tmp_path) == []
    open_history(tmp_path / "history.db").close()
    (tmp_path / "journal").mkdir()
    for name, size in (("1.jsonl", 10), ("2.jsonl", 7), ("3.jsonl", 2)):
        (tmp_path / "journal" / name).write_bytes(b"x" * size)

    def standing(**values: Any) -> Any:
        group = SimpleNamespace
        gain = group(changed=group(n=5), control=group(n=6), ratio=None)
        plain: dict[str, Any] = {"gain": gain, "beliefs": None, "set_aside": 3, "journals": {}}
        return SimpleNamespace(**{**plain, **values})

    whole = standing(
        journals={"1.jsonl": 4, "2.jsonl": 9},
        gain=SimpleNamespace(
            changed=SimpleNamespace(n=5),
            control=SimpleNamespace(n=6),
            ratio=SimpleNamespace(value=1.2, low=1.1, high=1.3),
        ),
        beliefs=SimpleNamespace(outcomes=9, error=0.1, coverage=0.8, drift=2.0),
    )
    monkeypatch.setattr(collector, "read_self_metrics", lambda _conn, path: checked(path, whole))

    def checked(path: Path, made: Any) -> Any:
        assert path == tmp_path / "history.db"
        return made

    families = collector.of_history(tmp_path)
    assert samples(families) == {
        "dlqueue_set_aside_records": 3,
        "dlqueue_journal_lag_bytes": 8,
        "dlqueue_gain_runs group=changed": 5,
        "dlqueue_gain_runs group=control": 6,
        "dlqueue_gain_ratio bound=mean": 1.2,
        "dlqueue_gain_ratio bound=low": 1.1,
        "dlqueue_gain_ratio bound=high": 1.3,
        "dlqueue_model_outcomes": 9,
        "dlqueue_model_error_ratio": 0.1,
        "dlqueue_model_coverage_ratio": 0.8,
        "dlqueue_model_drift_ratio": 2.0,
    }
    assert {one.name: one.documentation for one in families} == {
        "dlqueue_set_aside_records": "Records that could not be read",
        "dlqueue_journal_lag_bytes": "Decisions that are not in the ledger yet",
        "dlqueue_gain_runs": "Decisions of each group",
        "dlqueue_gain_ratio": "Rate of changed jobs over the control group's, 95 % interval",
        "dlqueue_model_outcomes": "Newest outcomes looked at",
        "dlqueue_model_error_ratio": "Median error of predicted rates",
        "dlqueue_model_coverage_ratio": "Share that 90 % intervals held",
        "dlqueue_model_drift_ratio": "Error of the newest quarter over that of the rest",
    }
    whole = standing()
    assert set(samples(collector.of_history(tmp_path))) == {
        "dlqueue_set_aside_records",
        "dlqueue_journal_lag_bytes",
        "dlqueue_gain_runs group=changed",
        "dlqueue_gain_runs group=control",
    }
    whole = standing(beliefs=SimpleNamespace(outcomes=9, error=0.1, coverage=0.8, drift=None))
    assert "dlqueue_model_drift_ratio" not in samples(collector.of_history(tmp_path))


def test_a_record_of_the_future_has_no_age(tmp_path: Path) -> None:
    """Clocks differ."""
    (tmp_path / "spool").mkdir()
    path = tmp_path / "spool" / "a.json"
    path.touch()
    os.utime(path, (time.time() + 500,) * 2)
    assert samples(collector.of_spool(tmp_path)) == {
        "dlqueue_ingest_lag_seconds": 0.0,
        "dlqueue_ingest_waiting_records": 1,
    }


def test_counters_rest_as_long_as_the_breaker(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the late answer on."""
    clock = [100.0]
    monkeypatch.setattr("slurm_ext.advisor.service.counters.monotonic", lambda: clock[0])
    counters = AdvisorCounters()
    assert not counters.resting
    counters.answered("submit", 0.06, 0.05, 30.0)
    clock[0] = 129.9
    assert counters.resting
    clock[0] = 130.0
    assert not counters.resting


# -- the socket -----------------------------------------------------------------------------------


def test_a_socket_has_its_mode_and_is_removed_once(tmp_path: Path) -> None:
    """A stale one is replaced; one that another made is left."""
    path = tmp_path / "run" / "a.sock"
    with listener(path, 0o640) as first:
        made = path.lstat()
        assert made.st_mode & 0o777 == 0o640
        assert not first.getblocking()
        assert [one.name for one in path.parent.iterdir()] == ["a.sock"]
        with pytest.raises(AdvisorError) as caught:
            listener(path, 0o640)
        assert str(caught.value) == f"an advisor already answers at {path}; stop it first"
    with listener(path, 0o666):
        assert path.lstat().st_mode & 0o777 == 0o666
        remove(path, made)
        assert path.exists()
        remove(path, path.lstat())
        assert not path.exists()
        remove(path, made)


def test_what_is_in_the_sockets_way_is_named(tmp_path: Path) -> None:
    """A file, a link, a folder that cannot be."""
    path = tmp_path / "a"
    path.touch()
    why = f"{path} is in the way and is not a socket; see paths.socket"
    with pytest.raises(AdvisorError) as caught:
        listener(path, 0o600)
    assert str(caught.value) == why
    with pytest.raises(AdvisorError) as caught:
        listener(path / "b", 0o600)
    assert str(caught.value) in (
        f"{path / 'b'} cannot be made: File exists",
        f"{path / 'b'} cannot be made: Not a directory",
    )
    path.unlink()
    path.symlink_to("nowhere")
    with pytest.raises(AdvisorError) as caught:
        listener(path, 0o600)
    assert str(caught.value) == why


def test_the_kernel_vouches_for_the_peer() -> None:
    """The uid, not the process or the group."""
    one, other = socket.socketpair()
    with one, other:
        assert peer_uid(one) == os.getuid()


# -- clients --------------------------------------------------------------------------------------


class Rig:
    """A server over a pair of sockets, with a list of the lines that were answered."""

    def __init__(self, tmp_path: Path) -> None:
        self.listening = listener(tmp_path / "a.sock", 0o600)
        self.lines: list[tuple[bytes, bool]] = []
        self.stays = True
        self.ours: list[socket.socket] = []
        self.server = Server(self.listening, self.answer, lambda: frozenset({os.getuid()}), refusal)

    def answer(self, line: bytes, trusted: bool) -> tuple[bytes, bool]:
        """Say it again."""
        self.lines.append((line, trusted))
        if line == b"fault":
            raise ZeroDivisionError
        return line + b"!\n", self.stays

    def client(self, *, trusted: bool = True, uid: int = 5) -> tuple[Client, socket.socket]:
        """The server's end and ours."""
        one, other = socket.socketpair()
        other.settimeout(5.0)
        self.ours.append(other)
        client = Client(one, uid, trusted, 0.0)
        self.server._clients.add(client)
        self.server._selector.register(one, 1, client)
        return client, other


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """A server that answers nobody by itself."""
    made = Rig(tmp_path)
    yield made
    made.server._close_all()
    for one in (made.listening, *made.ours):
        one.close()


def test_lines_are_answered_in_whole_and_in_order(rig: Rig) -> None:
    """A part of one waits for its rest."""
    client, ours = rig.client()
    ours.sendall(b"a\nb\nc")
    rig.server._serve(client)
    assert ours.recv(99) == b"a!\nb!\n"
    assert bytes(client.buffer) == b"c"
    assert client.seen_s > 0
    ours.sendall(b"d\n")
    rig.server._serve(client)
    assert ours.recv(99) == b"cd!\n"
    assert rig.lines == [(b"a", True), (b"b", True), (b"cd", True)]
    ours.close()
    rig.server._serve(client)
    assert client not in rig.server._clients
    assert client.sock.fileno() == -1


def test_a_refused_line_ends_the_connection(rig: Rig) -> None:
    """What follows it is not answered."""
    client, ours = rig.client()
    rig.stays = False
    ours.sendall(b"a\nb\n")
    rig.server._serve(client)
    assert ours.recv(99) == b"a!\n"
    assert ours.recv(99) == b""
    assert rig.lines == [(b"a", True)]


def test_a_fault_of_ours_costs_one_answer(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """With the trace in the log."""
    client, ours = rig.client()
    ours.sendall(b"fault\n")
    rig.server._serve(client)
    assert json.loads(ours.recv(999))["error"] == "the advisor has a fault; its log says which"
    assert caplog.messages == ["no answer to a line of 5 bytes"]
    assert caplog.records[0].exc_info
    assert client not in rig.server._clients


def test_a_line_that_is_too_long_is_refused(rig: Rig) -> None:
    """Whole or in parts; the longest that may be is not."""
    why = f"a line is at most {MAX_LINE_BYTES} bytes"
    client, ours = rig.client()
    assert rig.server._take(client, b"x" * MAX_LINE_BYTES)
    client.buffer.clear()
    assert not rig.server._take(client, b"x" * (MAX_LINE_BYTES + 1))
    assert json.loads(ours.recv(9999))["error"] == why
    reply, stays = rig.server._reply(client, b"x" * (MAX_LINE_BYTES + 1))
    assert (json.loads(reply)["error"], stays) == (why, False)
    assert rig.server._reply(client, b"x" * MAX_LINE_BYTES)[1]


def test_who_is_not_trusted_asks_twenty_times_at_once(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And ten times a second from then on; each user has an allowance of its own."""
    clock = [100.0]
    monkeypatch.setattr("slurm_ext.advisor.service.server.time.monotonic", lambda: clock[0])
    stranger, _ = rig.client(trusted=False)
    answers = [rig.server._reply(stranger, b"a") for _ in range(21)]
    assert [stays for _, stays in answers] == [True] * 20 + [False]
    assert json.loads(answers[-1][0])["error"] == "too many questions; ask again in a second"
    clock[0] += 0.05
    assert not rig.server._reply(stranger, b"a")[1]
    clock[0] += 0.06
    assert rig.server._reply(stranger, b"a")[1]
    assert not rig.server._reply(stranger, b"a")[1]
    clock[0] += 1000.0
    assert sum(rig.server._reply(stranger, b"a")[1] for _ in range(30)) == 20
    trusted, _ = rig.client()
    assert all(rig.server._reply(trusted, b"a")[1] for _ in range(30))
    other, _ = rig.client(trusted=False, uid=6)
    assert rig.server._reply(other, b"a")[1]


def test_the_longest_silent_of_a_kind_makes_room(rig: Rig) -> None:
    """As many of each kind as there may be."""
    clients = [rig.client(trusted=n % 2 == 0)[0] for n in range(2 * MOST_CLIENTS - 2)]
    for number, client in enumerate(clients):
        client.seen_s = 1000.0 - number
    rig.server._make_room(True)
    assert len(rig.server._clients) == len(clients)
    more, _ = rig.client()
    more.seen_s = 2000.0
    rig.server._make_room(True)
    assert set(clients) - rig.server._clients == {clients[-2]}
    rig.server._make_room(False)
    assert len(rig.server._clients) == 2 * MOST_CLIENTS - 2


def test_a_newcomer_makes_room_among_its_own_kind(rig: Rig, tmp_path: Path) -> None:
    """Before it is counted itself."""
    ours = [rig.client()[0] for _ in range(MOST_CLIENTS)]
    stranger, _ = rig.client(trusted=False)
    for number, client in enumerate(ours):
        client.seen_s = 1.0 + number
    with socket.socket(socket.AF_UNIX) as newcomer:
        newcomer.connect(str(tmp_path / "a.sock"))
        rig.server._accept()
        assert set(ours) - rig.server._clients == {ours[0]}
        assert stranger in rig.server._clients
        assert len(rig.server._clients) == MOST_CLIENTS + 1


def test_a_client_that_does_not_read_its_replies_is_closed(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for it."""
    client, ours = rig.client()
    ours.sendall(b"a\n")

    def full(_client: Client, _line: bytes) -> tuple[bytes, bool]:
        raise BlockingIOError

    monkeypatch.setattr(rig.server, "_reply", full)
    rig.server._serve(client)
    assert client not in rig.server._clients


def test_a_server_serves_until_a_signal_says_so(rig: Rig, tmp_path: Path) -> None:
    """Clients are accepted with the kernel's word for them; all are closed at the end."""
    read, write = os.pipe()
    signals: list[bytes] = []

    def on_signal(raw: bytes) -> bool:
        signals.append(raw)
        return False

    with socket.socket(socket.AF_UNIX) as ours:
        ours.settimeout(5.0)
        ours.connect(str(tmp_path / "a.sock"))
        ours.sendall(b"hello\n")
        rig.server._accept()
        (client,) = rig.server._clients
        assert (client.uid, client.trusted) == (os.getuid(), True)
        os.write(write, b"\x0f")
        rig.server.run(read, on_signal)
        assert ours.recv(99) == b"hello!\n"
        assert ours.recv(99) == b""
    assert signals == [b"\x0f"]
    assert rig.server._clients == set()
    os.close(read)
    os.close(write)
    rig.server = Server(rig.listening, rig.answer, frozenset, refusal)


# -- helpers --------------------------------------------------------------------------------------


def test_one_advisor_for_a_folder(tmp_path: Path) -> None:
    """The folder is made; a second one is refused until the first ends."""
    state = tmp_path / "a" / "state"
    with service._alone(state):
        with pytest.raises(AdvisorError) as caught, service._alone(state):
            pass
        assert str(caught.value) == f"another advisor uses {state}; stop it first"
    with service._alone(state):
        pass
    (tmp_path / "file").touch()
    with pytest.raises(AdvisorError) as caught, service._alone(tmp_path / "file"):
        pass
    assert str(caught.value) == f"{tmp_path / 'file'} cannot be used: File exists"


def test_metrics_are_served_where_the_settings_want_them(advisor: Advisor) -> None:
    """Else nothing is started."""
    assert service._metrics(advisor) == []
    advisor.settings = settings(metrics__listen="127.0.0.1:0")
    assert len(service._metrics(advisor)) == 1


def test_a_signal_reloads_or_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGHUP reads settings again in each helper; SIGTERM and SIGINT end the service."""
    import gc
    import signal as signals

    calls: list[str] = []
    answers: list[bool] = []

    class Loop:
        def run(self, told: int, on_signal: Any) -> None:
            assert told == 7
            assert not gc.isenabled()
            numbers = (signals.SIGHUP, signals.SIGTERM, signals.SIGINT, signals.SIGUSR1)
            answers.extend(on_signal(bytes([number])) for number in numbers)
            answers.append(on_signal(bytes([signals.SIGHUP, signals.SIGTERM])))

    before = sys.getswitchinterval()
    monkeypatch.setattr(gc, "freeze", lambda: None)
    loop: Any = Loop()
    try:
        service._answer(loop, 7, (lambda: calls.append("a"), lambda: calls.append("b")))
        assert sys.getswitchinterval() == pytest.approx(0.0005)
    finally:
        sys.setswitchinterval(before)
    assert gc.isenabled()
    assert answers == [True, False, False, True, False]
    assert calls == ["a", "b", "a", "b"]


def test_the_history_writer_is_started_again_ever_more_slowly(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """From half a second to a minute; at once after a good end, and from the start if it worked."""
    made = HistoryWriterProcess(Path("/x.toml"))
    module = "slurm_ext.advisor.history_writer.writer"
    assert made._command == [sys.executable, "-P", "-m", module, "/x.toml"]
    assert HistoryWriterProcess(None)._command == [sys.executable, "-P", "-m", module]
    clock, waits = [0.0], list[float]()
    lives = [("ended with status 1", 1.0)] * 9 + [("", 1.0), ("x", 61.0), ("x", 60.0)]

    def lived() -> str:
        said, seconds = lives.pop(0)
        clock[0] += seconds
        return said

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        return not lives

    monkeypatch.setattr(made, "_lived", lived)
    monkeypatch.setattr(made, "_stopping", SimpleNamespace(is_set=lambda: False, wait=wait))
    monkeypatch.setattr("slurm_ext.advisor.service.child_process.time.monotonic", lambda: clock[0])
    made.run()
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 0, 0.5, 1.0]
    assert caplog.messages[0] == "the history writer ended with status 1 and is started again"
    assert caplog.messages[9] == "the history writer ended with status 0 and is started again"
    assert len(caplog.messages) == 11


def test_how_a_history_writer_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its status, nothing after a good end, or why it could not be started."""
    made = HistoryWriterProcess(None)
    for command, ended in ((["sh", "-c", "exit 3"], "ended with status 3"), (["true"], "")):
        made._command = command
        assert made._lived() == ended
        assert made._child is not None
        assert made._child.stdin is not None
        made._child.stdin.close()
    made._command = ["/nonexistent/program"]
    assert made._lived() == "could not be started (No such file or directory)"
    made = HistoryWriterProcess(None)
    made.reload_settings()
    made.stop()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        made._child = child
        made.reload_settings()
        assert child.stdout is not None
        assert child.stdout.read(1) == b"\n"
        made.stop()
        assert child.returncode == 0
        made.reload_settings()
        made.stop()
    assert made._stopping.is_set()


def test_new_settings_are_taken_with_the_next_look(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Those that need a restart are named."""
    caplog.set_level(logging.INFO)
    config = tmp_path / "dlqueue.toml"
    text = f'paths.state_dir = "{tmp_path}"\n'
    config.write_text(text)
    journal = Journal(tmp_path / "journal")
    made = Advisor(Settings(source=str(config), values={"paths.state_dir": str(tmp_path)}), journal)
    refresher = Refresher(made, config)
    config.write_text(f'{text}policy.min_runs = 7\npaths.socket = "/x"\n')
    refresher.refresh()
    assert made.settings["policy.min_runs"] != 7
    refresher.reload_settings()
    refresher.refresh()
    assert made.settings["policy.min_runs"] == 7
    assert caplog.messages == [
        f"settings read again from {config}",
        "paths.socket changed and will be used after a restart",
    ]
    config.write_text("nonsense")
    refresher.reload_settings()
    refresher.refresh()
    assert made.settings["policy.min_runs"] == 7
    assert caplog.messages[-1].startswith("settings stays as it was: ")
    journal.close()


def test_who_shares_is_looked_at_where_sharing_is_on(
    advisor: Advisor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In the state folder, as run times are."""
    calls: list[Any] = []
    monkeypatch.setattr(advisor.sharing, "look", lambda folder: calls.append(("shares", folder)))
    monkeypatch.setattr(advisor.runtimes, "look", lambda folder: calls.append(("times", folder)))
    refresher = Refresher(advisor, None)
    refresher.refresh()
    assert calls == [("times", tmp_path)]
    advisor.settings = settings(paths__state_dir=str(tmp_path), sharing__mode="shadow")
    refresher.refresh()
    assert calls == [("times", tmp_path)] * 2 + [("shares", tmp_path)]


def test_the_rehearsal_answers_as_a_real_one(advisor: Advisor, tmp_path: Path) -> None:
    """With a token, a change and its line; the advisor itself counts and records nothing."""
    reply = json.loads(warm_up(advisor))
    assert reply["decision"].startswith("d1-")
    assert reply["edits"]["cpus_per_task"] > 1
    assert reply["message"].startswith("dlqueue: ")
    assert "DLQUEUE_CURVE" in reply["edits"]["env"]
    assert advisor.counters.answers == {}
    assert journalled(tmp_path) == []
    assert len(journals(tmp_path / "journal")) == 1
    assert RUN.workers == 1
