"""Gradient buckets from the history to the job: mode, control group, message and ledger."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.advisor.buckets.decision import BucketDecision, decide_buckets
from slurm_ext.advisor.buckets.memory import MOST_RUNS, BucketMemory
from slurm_ext.advisor.pipeline.journal import Journal
from slurm_ext.advisor.service.advisor import Advisor
from slurm_ext.advisor.service.refresh import Refresher
from slurm_ext.advisor.service.warm_up import JOB
from slurm_ext.core.job_keys import keys_of
from slurm_ext.core.records import Level, Mode, SyncRun
from slurm_ext.core.wire import encode_request
from slurm_ext.history.store.store import open_history
from slurm_ext.history.views.sync_rows import SyncRow
from slurm_ext.policy.buckets import plan_buckets
from tests.advisor.pipeline.pipeline_examples import decision
from tests.advisor.service.test_advisor_lines import journalled, settings, submit
from tests.builders import SYNCHRONISED
from tests.history.views.test_sync_rows import add

SCRIPT = keys_of(JOB)[Level.SCRIPT]
ASKED = "3f0c9a51be77:2:4096"


def known(*runs: SyncRun) -> BucketMemory:
    """A memory of these runs of JOB's script, the newest first."""
    memory = BucketMemory()
    count = len(runs)
    memory.add([SyncRow(count - n, SCRIPT, run) for n, run in enumerate(runs)], 0.05)
    return memory


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A state folder whose history has one run of JOB's script."""
    with open_history(tmp_path / "history.db") as history:
        add(history, 1, SCRIPT)
    return tmp_path


def advising(folder: Path, mode: str, **values: Any) -> Advisor:
    """An advisor that has read that history."""
    own = {"paths__state_dir": str(folder), "communication__mode": mode}
    advisor = Advisor(settings(**own, **values), Journal(folder / "journal"))
    Refresher(advisor, None).refresh()
    return advisor


def test_a_job_gets_the_plan_where_the_site_acts(folder: Path) -> None:
    """By one run of the same script; the message says it, and the ledger keeps it."""
    reply = submit(advising(folder, "act"))
    assert reply["edits"] == {
        "env": {"DLQUEUE_DECISION": reply["decision"], "DLQUEUE_BUCKETS": ASKED}
    }
    assert reply["message"] == (
        "dlqueue: other gradient buckets: about 1.32x faster (1 -> 1.32 steps/s)."
        " Opt out: --comment=dlqueue=off"
    )
    (line,) = journalled(folder)
    kept = line["buckets"]
    assert (kept["mode"], kept["change"], kept["caps"], kept["done"]) == ("act", True, "4096", True)


ADVICE = (
    "dlqueue advises DistributedDataParallel(bucket_cap_mb=4): about 1.32x faster"
    " (1 -> 1.32 steps/s). Nothing was changed."
)


@pytest.mark.parametrize(("mode", "message"), [("shadow", None), ("advise", ADVICE)])
def test_other_modes_only_measure(folder: Path, mode: str, message: str | None) -> None:
    """Advice is the argument that the program can set itself."""
    reply = submit(advising(folder, mode))
    assert reply["edits"]["env"]["DLQUEUE_BUCKETS"] == "measure"
    assert reply["message"] == message
    assert journalled(folder)[0]["buckets"]["done"] is False


def test_off_is_as_if_there_were_none_of_it(folder: Path) -> None:
    """Neither variable nor ledger; as it is until a site turns it on."""
    reply = submit(advising(folder, "off"))
    assert "DLQUEUE_BUCKETS" not in reply["edits"]["env"]
    assert journalled(folder)[0]["buckets"] is None
    assert settings()["communication.mode"] == "off"


def test_the_sites_own_mode_bounds_it(folder: Path) -> None:
    """A site in shadow mode changes nothing, whatever this one says."""
    reply = submit(advising(folder, "act", site__mode="shadow"))
    assert reply["edits"]["env"]["DLQUEUE_BUCKETS"] == "measure"
    assert reply["message"] is None


def test_a_job_in_a_reservation_is_advised_only(folder: Path) -> None:
    """As it gets no other edit there: somebody planned that time."""
    advisor = advising(folder, "act")
    plan = advisor.buckets.plan(keys_of(JOB), JOB, advisor.settings)
    modes = []
    for job in (JOB, replace(JOB, reservation="maintenance")):
        made = decide_buckets(job, plan, advisor.settings)
        assert made is not None
        modes.append((made.mode, made.acts))
    assert modes == [(Mode.ACT, True), (Mode.ADVISE, False)]


def test_the_control_group_keeps_torchs_own(folder: Path) -> None:
    """It measures, reads nothing of it, and its runs are what others are compared with."""
    advisor = advising(folder, "act", policy__holdout_share=0.5)
    replies = [submit(advisor) for _ in range(40)]
    asked = [reply["edits"]["env"]["DLQUEUE_BUCKETS"] for reply in replies]
    assert {*asked} == {"measure", ASKED}
    assert all(
        (one == ASKED) is bool(reply["message"]) for one, reply in zip(asked, replies, strict=True)
    )


def test_people_may_ask(folder: Path) -> None:
    """`dlqueue predict` tells the plan; it is no submission."""
    line, _ = advising(folder, "act").reply(encode_request("predict", JOB), trusted=False)
    told = json.loads(line)["buckets"]
    assert (told["change"], told["caps"], told["done"]) == (True, "4096", False)
    assert told["gain"] == pytest.approx(0.316, abs=0.01)


def test_plans_are_of_the_nodes_that_a_job_asks_for() -> None:
    """Runs on one node tell nothing of two."""
    memory, keys = known(SYNCHRONISED), keys_of(JOB)
    assert memory.plan(keys, JOB, settings()).change
    assert memory.plan(keys, replace(JOB, min_nodes=1), settings()).change
    assert not memory.plan(keys, replace(JOB, min_nodes=2), settings()).change
    assert not memory.plan({}, JOB, settings()).change


def test_runs_of_another_user_change_nothing() -> None:
    """The same script, folder and model: its key has the user in it."""
    memory, stranger = known(SYNCHRONISED), replace(JOB, user_name="stranger", user_id=4711)
    assert memory.plan(keys_of(JOB), JOB, settings()).change
    assert not memory.plan(keys_of(stranger), stranger, settings()).change


def test_new_runs_make_new_plans_and_old_ones_are_forgotten() -> None:
    """A script's newest runs are kept, in their order."""
    memory = known(SYNCHRONISED)
    faster = replace(SYNCHRONISED, caps="4096", step_s=0.8)
    for number in range(2, MOST_RUNS + 1):
        memory.add([SyncRow(number, SCRIPT, faster)], 0.05)
        assert memory.plan(keys_of(JOB), JOB, settings()).measured
    memory.add([SyncRow(MOST_RUNS + 1, SCRIPT, faster)], 0.05)
    why = memory.plan(keys_of(JOB), JOB, settings()).reason
    assert why == "no run of it with torch's own buckets is known"


def test_predictions_are_of_the_buckets_that_the_run_will_have() -> None:
    """Else a run that gained would count as one that was not as predicted."""
    fresh = BucketDecision(mode=Mode.ACT, plan=plan_buckets([SYNCHRONISED], None, 0.05))
    faster = fresh.of_its_run(decision(), holdout=False)
    assert faster.predicted_after is not None
    assert faster.predicted_after.samples_per_s == pytest.approx(20.0 / fresh.plan.after_s)
    assert faster.predicted_after.interval.low == pytest.approx(18.0 / fresh.plan.after_s)
    assert fresh.of_its_run(decision(), holdout=True) == decision()
    runs = [replace(SYNCHRONISED, caps="4096", step_s=0.8), SYNCHRONISED]
    later = BucketDecision(mode=Mode.ACT, plan=plan_buckets(runs, None, 0.05))
    assert later.of_its_run(decision(), holdout=False) == decision()
    slower = later.of_its_run(decision(), holdout=True).predicted_after
    assert slower is not None
    assert slower.samples_per_s == pytest.approx(16.0)
