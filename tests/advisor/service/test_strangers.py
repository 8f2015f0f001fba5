"""What other users' jobs measured informs what is said, and never changes a job."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurm_ext.advisor.evidence.runs import COLUMNS, LEVELS, NO_KEY
from slurm_ext.advisor.evidence.summary import prior_of_others, summarize
from slurm_ext.advisor.limits.bounds import PartitionRules
from slurm_ext.advisor.limits.partition_limits import ClusterRules
from slurm_ext.advisor.limits.rules import read_rules
from slurm_ext.advisor.pipeline.journal import Journal, journals
from slurm_ext.advisor.service.advisor import Advisor
from slurm_ext.advisor.service.warm_up import JOB, RUN
from slurm_ext.core.job_keys import keys_of
from slurm_ext.core.records import OWN_LEVELS, Level, LoaderRun, Mode, Submission
from slurm_ext.core.wire import encode_request
from slurm_ext.model.duration.predictor import RuntimePrediction
from slurm_ext.model.throughput.estimate import Prior
from slurm_ext.model.throughput.inversion import LogNormal
from slurm_ext.slurm import MemoryClient
from tests.advisor.service.service_examples import shares
from tests.advisor.service.test_advisor_lines import settings

MEASURED = replace(RUN, data_key=7)
VICTIM = replace(JOB, user_name="victim", account="lab")
SURE = Prior(accel=LogNormal(4.6, 0.1), wall=LogNormal(-2.5, 0.1), cpu=LogNormal(-3.2, 0.1))
OPEN = ClusterRules(partitions={"none": PartitionRules(cpus_per_node=8)}, hides_others=False)


@pytest.fixture
def advisor(tmp_path: Path) -> Iterator[Advisor]:
    """An advisor that acts, on a cluster that hides nobody's jobs."""
    journal = Journal(tmp_path / "journal")
    made = Advisor(settings(control__mode="act"), journal)
    made.rules = OPEN
    yield made
    journal.close()


def ran(advisor: Advisor, user: str, count: int, account: str = "lab") -> None:
    """So many runs of the victim's program by a user, of another script and job name."""
    job = replace(VICTIM, user_name=user, account=account, name=f"of {user}", script="train.py 1")
    keys = keys_of(job)
    row = [np.nan if value is None else value for value in (getattr(MEASURED, n) for n in COLUMNS)]
    columns = [np.full(count, keys.get(level, NO_KEY), np.int64) for level in LEVELS]
    owners = np.full(count, advisor.runs.owner(user), np.int32)
    advisor.runs.extend(np.array([row] * count, np.float32), columns, owners)


def submitted(advisor: Advisor) -> tuple[dict[str, Any], dict[str, Any]]:
    """The reply to the victim's first submission, and the journal's last line."""
    reply = json.loads(advisor.reply(encode_request("submit", VICTIM), trusted=True)[0])
    line = journals(advisor.journal._folder)[-1].read_text().splitlines()[-1]
    return reply, json.loads(line)


def test_strangers_runs_change_nothing_and_are_told_as_advice(advisor: Advisor) -> None:
    """However many they are: no edit, no curve for the allocator, and the ledger says advise."""
    for user in ("ann", "bob", "cay"):
        ran(advisor, user, 8)
    reply, line = submitted(advisor)
    assert set(reply["edits"]["env"]) == {"DLQUEUE_DECISION"}
    assert reply["edits"].keys() == {"env"}
    assert "dlqueue advises" in reply["message"]
    assert "by other users' runs" in reply["message"]
    assert reply["message"].endswith("Nothing was changed.")
    assert (line["mode"], line["holdout"], line["decision"]["action"]) == (
        "advise",
        False,
        "change",
    )


@pytest.mark.parametrize(("users", "count"), [(("mallory",), 200), (("mallory", "ann"), 50)])
def test_fewer_than_three_users_say_nothing_of_a_strangers_job(
    advisor: Advisor, users: tuple[str, ...], count: int
) -> None:
    """One user's claims, however many, reach nobody; nor can it be told whose they were."""
    for user in users:
        ran(advisor, user, count)
    reply, line = submitted(advisor)
    assert reply.get("message") is None
    assert line["decision"]["predicted_after"] is None


def test_a_users_own_runs_of_a_program_change_its_next_job(advisor: Advisor) -> None:
    """Another script and another job name, but the same program in the same hand."""
    ran(advisor, "victim", 4)
    reply, line = submitted(advisor)
    assert reply["edits"]["env"]["DLQUEUE_NUM_WORKERS"]
    assert "DLQUEUE_CURVE" in reply["edits"]["env"]
    assert line["decision"]["predicted_after"]["level"] == "same user and kind of program"


def test_strangers_do_not_move_what_a_users_own_runs_say(advisor: Advisor) -> None:
    """The edits and the figures are the same with and without their runs."""
    ran(advisor, "victim", 4)
    _, alone = submitted(advisor)
    for user in ("mallory", "ann", "bob", "cay"):
        ran(advisor, user, 40)
    _, among = submitted(advisor)
    assert among["decision"] == alone["decision"]


def test_an_accounts_runs_act_where_the_site_says_so(advisor: Advisor) -> None:
    """policy.evidence_of = account: colleagues count, other accounts do not."""
    ran(advisor, "ann", 4)
    assert submitted(advisor)[1]["decision"]["action"] == "leave"
    advisor.settings = settings(policy__evidence_of="account")
    reply, line = submitted(advisor)
    assert "DLQUEUE_NUM_WORKERS" in reply["edits"]["env"]
    assert line["decision"]["predicted_after"]["level"] == "same account and kind of program"


def test_another_accounts_runs_do_not_act(advisor: Advisor) -> None:
    """Whatever the setting."""
    advisor.settings = settings(policy__evidence_of="account")
    ran(advisor, "ann", 9, account="physics")
    assert submitted(advisor)[1]["decision"]["action"] == "leave"


def test_the_prior_alone_is_advice() -> None:
    """It learned from everybody; with runs of the user's own it is not asked."""
    assert summarize({}, SURE).of_others
    own: dict[Level, list[LoaderRun]] = {Level.SCRIPT_ARGS: [RUN]}
    assert not summarize(own, SURE).of_others
    assert summarize(own, SURE) == summarize(own, None)


def test_nothing_of_others_is_told_where_slurm_hides_their_jobs(advisor: Advisor) -> None:
    """PrivateData: neither prediction nor context has anything of their runs."""
    for user in ("ann", "bob", "cay"):
        ran(advisor, user, 8)
    known = _asked(advisor, "predict"), _asked(advisor, "what_if")
    advisor.rules = replace(OPEN, hides_others=True)
    hidden = _asked(advisor, "predict"), _asked(advisor, "what_if")
    assert known[0]["predicted_after"]
    assert known[0]["of_others"]
    assert known[1]["known"]["prior"]
    assert hidden[0]["predicted_after"] is None
    assert hidden[1]["known"]["prior"] is None


@pytest.mark.parametrize("hides", [True, False])
def test_others_run_times_and_jobs_are_hidden_too(
    advisor: Advisor, monkeypatch: pytest.MonkeyPatch, hides: bool
) -> None:
    """A run time of a job name that strangers used, and whom the job may share a GPU with."""
    advisor.rules = replace(OPEN, hides_others=hides)
    ran(advisor, "victim", 4)
    known = RuntimePrediction(
        median_s=9.0, mean_s=9.0, low_s=8.0, high_s=10.0, runs=2, like=("job_name",)
    )
    monkeypatch.setattr(advisor.runtimes, "of", lambda *_: known)
    met = replace(shares(Mode.ACT), beside="key", partners=("7",), across=True)
    monkeypatch.setattr(advisor, "_share", lambda _: met)
    advisor.settings = settings(sharing__mode="act")
    answer = _asked(advisor, "predict", replace(VICTIM, tres_per_node="gres/gpu:1"))
    assert (answer["run_time"] is None) is hides
    assert (answer["sharing"]["partners"], answer["sharing"]["beside"]) == (
        ([], None) if hides else (["7"], "key")
    )


def test_rows_of_other_users_are_ranges(advisor: Advisor) -> None:
    """The context of a what-if table holds the user's own runs, and a prior for all others."""
    for user in ("victim", "ann", "bob", "cay"):
        ran(advisor, user, 8)
    known = _asked(advisor, "what_if")["known"]
    assert set(known["evidence"]) <= {level.value for level in OWN_LEVELS}
    assert {len(pair) for pair in known["prior"].values()} == {2}
    assert prior_of_others({Level.KIND: []}, None, OWN_LEVELS) is None


@pytest.mark.parametrize(
    ("private", "hides"),
    [
        ("none", False),
        ("", False),
        ("nodes,reservations", False),
        ("jobs", True),
        ("accounts,Usage", True),
    ],
)
def test_slurms_private_data_is_kept(private: str, hides: bool) -> None:
    """Jobs or their usage; as long as nobody has looked, they are hidden."""
    rules = read_rules(MemoryClient(known_config={"PrivateData": private}))
    assert rules.hides_others is hides
    assert ClusterRules().hides_others


def _asked(advisor: Advisor, kind: str, job: Submission = VICTIM) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(advisor.reply(encode_request(kind, job), trusted=False)[0])
    return answer
