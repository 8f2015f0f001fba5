"""The advisor from line to line: what is journalled, counted, kept and left alone."""

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurm_ext.advisor.evidence.calibrate import Factors
from slurm_ext.advisor.evidence.runs import COLUMNS, LEVELS, NO_KEY
from slurm_ext.advisor.limits.bounds import PartitionRules
from slurm_ext.advisor.limits.partition_limits import ClusterRules
from slurm_ext.advisor.pipeline import proposal as proposal_module
from slurm_ext.advisor.pipeline.journal import Journal, journals
from slurm_ext.advisor.pipeline.respond import held_out
from slurm_ext.advisor.service import advisor as advisor_module
from slurm_ext.advisor.service import requests as requests_module
from slurm_ext.advisor.service.advisor import Advisor
from slurm_ext.advisor.service.counters import BOUNDS_S, AdvisorCounters
from slurm_ext.advisor.service.warm_up import JOB, RUN
from slurm_ext.core.job_keys import keys_of
from slurm_ext.core.records import Level, Mode, Submission
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.wire import encode_request
from tests.advisor.service.service_examples import shares


def settings(**values: Any) -> Settings:
    """Settings of a site that acts; dots are written as __."""
    named = {key.replace("__", "."): value for key, value in values.items()}
    own = {"site.mode": "act", "policy.holdout_share": 0.0, "paths.kill_file": "/nonexistent/off"}
    return Settings(values={**own, **named})


def always(factor: float) -> Factors:
    """One factor for every level and user."""
    return {(level, None, beside): factor for level in (None, *Level) for beside in (False, True)}


def runs(advisor: Advisor, count: int) -> None:
    """Add `count` runs of JOB's user and name."""
    keys = keys_of(JOB)
    row = [np.nan if value is None else value for value in (getattr(RUN, n) for n in COLUMNS)]
    columns = [np.full(count, keys.get(level, NO_KEY), np.int64) for level in LEVELS]
    owners = np.zeros(count, np.int32)
    advisor.runs.extend(np.array([row] * count, np.float32), columns, owners)


@pytest.fixture
def advisor(tmp_path: Path) -> Iterator[Advisor]:
    """An advisor that acts on a partition of 8 CPUs, with three runs of JOB."""
    journal = Journal(tmp_path / "journal")
    made = Advisor(settings(), journal)
    made.rules = ClusterRules(partitions={"none": PartitionRules(cpus_per_node=8)})
    runs(made, 3)
    yield made
    journal.close()


def submit(advisor: Advisor, job: Submission = JOB) -> dict[str, Any]:
    """The reply to a submission."""
    line, stays = advisor.reply(encode_request("submit", job), trusted=True)
    assert stays
    reply: dict[str, Any] = json.loads(line)
    return reply


def journalled(folder: Path) -> list[dict[str, Any]]:
    """Every line of the journal."""
    lines = (
        line for path in journals(folder / "journal") for line in path.read_text().splitlines()
    )
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("bounds", [None, "1-8", "8-1", "many"])
@pytest.mark.parametrize("elastic", ["off", "shadow", "act"])
@pytest.mark.parametrize("holdout", [0.0, 1.0])
def test_the_journal_holds_the_message_as_it_was_sent(
    advisor: Advisor, tmp_path: Path, bounds: str | None, elastic: str, holdout: float
) -> None:
    """What `explain` shows is what `sbatch` printed, the word on DLQUEUE_ELASTIC included."""
    advisor.settings = settings(elastic__mode=elastic, policy__holdout_share=holdout)
    env = {} if bounds is None else {"DLQUEUE_ELASTIC": bounds}
    reply = submit(advisor, replace(JOB, env=env))
    (line,) = journalled(tmp_path)
    assert (line["token"], line["message"]) == (reply["decision"], reply["message"])
    assert line["elastic"] == bounds
    complains = elastic == "act" and bounds in ("8-1", "many")
    assert ("DLQUEUE_ELASTIC" in (reply["message"] or "")) == complains
    assert ("faster" in (reply["message"] or "")) == (holdout == 0)
    kept = {name: value for name, value in line["edits"].items() if value not in (None, {})}
    assert kept == reply["edits"]


def test_nothing_of_sharing_or_elastic_is_entered_where_they_are_off(
    advisor: Advisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU job that agreed to share is decided without either room."""

    def entered(*_: object, **__: object) -> None:
        raise AssertionError("entered")

    for module, name in (
        (requests_module, "whole_gpu_request"),
        (advisor_module, "job_signature"),
        (advisor_module, "fault_in"),
        (proposal_module, "requested_bounds"),
    ):
        monkeypatch.setattr(module, name, entered)
    monkeypatch.setattr(advisor.sharing, "decide", entered)
    monkeypatch.setattr(advisor.sharing, "remember", entered)
    job = replace(JOB, comment="dlqueue=share", tres_per_node="gres:gpu:1", gres="gpu:1")
    assert submit(advisor, job)["edits"]["env"]["DLQUEUE_NUM_WORKERS"]


def test_sharing_that_is_switched_on_reads_requests_again(advisor: Advisor) -> None:
    """A request that was decoded while sharing was off is decoded again with its script."""
    job = replace(JOB, comment="dlqueue=share", tres_per_node="gres:gpu:1", gres="gpu:1")
    line = encode_request("predict", job)
    assert json.loads(advisor.reply(line, trusted=False)[0])["sharing"] is None
    advisor.settings = settings(sharing__mode="act")
    assert json.loads(advisor.reply(line, trusted=False)[0])["sharing"]["share"] is False


def test_a_recommendation_lasts_as_long_as_what_it_rests_on(advisor: Advisor) -> None:
    """New runs, rules, settings or interval factors lead to a new one; repetition does not."""
    line = encode_request("predict", JOB)

    def recommended() -> dict[str, Any]:
        reply: dict[str, Any] = json.loads(advisor.reply(line, trusted=False)[0])
        return reply

    first = recommended()
    assert recommended() == first
    assert first["runs"] == 3
    runs(advisor, 1)
    assert recommended()["runs"] == 4
    advisor.factors = always(2.0)
    (low, high), (wider_low, wider_high) = (
        document["predicted_after"]["interval"] for document in (first, recommended())
    )
    assert wider_low < low < high < wider_high
    advisor.rules = ClusterRules(partitions={"none": PartitionRules(cpus_per_node=1)})
    assert recommended()["after"]["cpus_per_task"] == 1
    advisor.settings = settings(policy__min_runs=5)
    assert "4 runs like this one, 5 are wanted" in recommended()["why"]


def test_requests_and_rules_that_are_kept_are_bounded(
    advisor: Advisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many different jobs come, memory holds a fixed number."""
    monkeypatch.setattr(requests_module, "_MOST_REQUESTS", 3)
    monkeypatch.setattr(advisor_module, "_MOST_RULES", 3)
    for number in range(10):
        submit(advisor, replace(JOB, account=f"a{number}"))
        assert len(advisor._requests) <= 3
        assert len(advisor._rules) <= 3


def test_requests_that_are_kept_are_bounded_in_bytes(
    advisor: Advisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few large ones take the place of many small ones; the last one is always kept."""
    lines = [encode_request("predict", replace(JOB, comment=f"{n}" * 1000)) for n in range(9)]
    monkeypatch.setattr(requests_module, "_MOST_REQUEST_BYTES", 3 * len(lines[0]))
    kept = []
    for line in lines:
        advisor.reply(line, trusted=False)
        kept.append(len(advisor._requests))
    assert kept == [1, 2, 3] * 3


def test_decisions_are_counted_by_action_and_outcome(
    advisor: Advisor, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One count a submission, whatever becomes of it."""
    caplog.set_level(logging.INFO)
    submit(advisor)
    submit(advisor, replace(JOB, comment="dlqueue=off"))
    submit(advisor, replace(JOB, reservation="tonight"))
    advisor.settings = settings(paths__kill_file=str(tmp_path))
    assert submit(advisor)["decision"] is None
    assert advisor.counters.decisions == {
        ("change", "done"): 1,
        ("none", "left_alone"): 1,
        ("leave", "kept"): 1,
        ("none", "switched_off"): 1,
    }
    assert [record.getMessage() for record in caplog.records if "decision" in record.__dict__]


def test_a_part_of_a_gpu_is_counted_as_shared(
    advisor: Advisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under its own name, as dashboards and `dlqueue explain` read it."""
    advisor.settings = settings(sharing__mode="shadow")
    decided = iter((shares(Mode.SHADOW), shares(Mode.SHADOW, share=False)))
    monkeypatch.setattr(advisor.sharing, "decide", lambda *_, **__: next(decided))
    job = replace(JOB, tres_per_job="gres:gpu:1")
    submit(advisor, job)
    assert list(advisor.counters.decisions) == [("share", "shadow")]
    submit(advisor, job)
    assert list(advisor.counters.decisions)[1:] == [("change", "done")]


def test_rests_of_the_breaker_are_counted_from_one_report_to_the_next() -> None:
    """The first report is where counting begins; after a restart slurmctld counts from zero."""
    counters = AdvisorCounters()
    for reported, counted in ((7, 0), (7, 0), (9, 2), (9, 2), (0, 2), (1, 3), (4, 6), (3, 9)):
        counters.breaker_rests(reported)
        assert counters.rests == counted


def test_a_request_reports_rests_to_the_counters(advisor: Advisor) -> None:
    """Only submissions carry them, and a line without them changes nothing."""
    line = encode_request("submit", JOB).rstrip().removesuffix(b"}")
    for rests in (1, 4):
        advisor.reply(line + b',"rests":%d}' % rests, trusted=True)
    submit(advisor)
    assert advisor.counters.rests == 3


@pytest.mark.parametrize(("seconds", "bucket"), [(0.0001, 0), (0.00011, 1), (1.0, 11), (1.1, 12)])
def test_a_bucket_holds_its_upper_bound(seconds: float, bucket: int) -> None:
    """As Prometheus has it: less than or equal."""
    counters = AdvisorCounters()
    counters.answered("ping", seconds, deadline_s=0.05, breaker_s=30.0)
    counts = counters.answers["ping"].counts
    assert len(counts) == len(BOUNDS_S) + 1
    assert [number for number, count in enumerate(counts) if count] == [bucket]


def test_an_answer_at_the_deadline_is_in_time() -> None:
    """Only a later one lets slurmctld's breaker rest."""
    counters = AdvisorCounters()
    counters.answered("submit", 0.05, deadline_s=0.05, breaker_s=30.0)
    assert not counters.resting
    counters.answered("submit", 0.0501, deadline_s=0.05, breaker_s=30.0)
    assert counters.resting


def test_the_control_group_is_as_large_as_it_is_set() -> None:
    """None at 0, all at 1, and a share in between; whoever is in at 0.1 is in at 0.2."""
    tokens = [f"d1-{number:016x}" for number in range(2000)]
    assert not any(held_out(token, 0.0) for token in tokens)
    assert all(held_out(token, 1.0) for token in tokens)
    few, more = ({t for t in tokens if held_out(t, share)} for share in (0.1, 0.2))
    assert few < more
    assert 0.08 < len(few) / len(tokens) < 0.12
