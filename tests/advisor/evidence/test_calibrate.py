"""The loop over intervals: outcomes that miss too often widen the next ones."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_ext.advisor.evidence.calibrate import factor_for, factors_of, usual
from slurm_ext.advisor.pipeline.journal import Journal
from slurm_ext.advisor.service.advisor import Advisor
from slurm_ext.advisor.service.refresh import Refresher
from slurm_ext.core.records import Decision, Interval, Level, Mode, Prediction, Shape
from slurm_ext.core.settings.document import Settings
from slurm_ext.history.ingest.decisions import record_proposals
from slurm_ext.history.ingest.proposals import Proposal
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store.store import open_history
from slurm_ext.history.views.outcomes import Residual, fair_outcomes
from slurm_ext.model.throughput.calibration import FEWEST
from tests.advisor.a_service import golden_record

ACHIEVED = 3072 / 23.8  # the golden record's whole run, with the start of its workers
HALF = 1.2  # half width, as a ratio, of what is believed without a factor


def happen(
    folder: Path, count: int, predicted: float, *, factor: float = 1.0, first: int, user: str = ""
) -> None:
    """So many claimed decisions, each with its run."""
    width = HALF**factor
    shape = Shape(cpus_per_task=2, num_workers=2)
    believed = Prediction(
        shape=shape,
        samples_per_s=predicted,
        interval=Interval(predicted / width, predicted * width),
        bottleneck="data",
        level=Level.SCRIPT,
        runs=1,
    )
    decision = Decision(
        action="leave",
        reason="",
        before=shape,
        after=shape,
        predicted_before=believed,
        predicted_after=believed,
    )
    with open_history(folder / "history.db") as history:
        for number in range(first, first + count):
            token = f"d1-{number:016x}"
            one = Proposal(
                token=token,
                decided_s=1.0,
                mode=Mode.SHADOW,
                decision=decision,
                factor=factor,
                user=user,
                uid=1000,
            )
            record_proposals(history, [one], "j", number)
            golden_record(folder / "spool", number, decision=token)
        ingest_folder(history, folder / "spool", now_s=2.0)


@pytest.fixture
def advisor(tmp_path: Path) -> Advisor:
    """An advisor's memory over an empty state folder."""
    return an_advisor(tmp_path)


def an_advisor(folder: Path) -> Advisor:
    """Another start of it over the same folder."""
    settings = Settings(values={"paths.state_dir": str(folder)})
    return Advisor(settings, Journal(folder / "journal"))


def test_outcomes_that_miss_widen_the_intervals(advisor: Advisor, tmp_path: Path) -> None:
    """Runs twice as far away as believed double the width, of fresh outcomes at every look."""
    refresher = Refresher(advisor, None)
    happen(tmp_path, FEWEST - 1, ACHIEVED / HALF**2, first=1)
    refresher.refresh()
    assert usual(advisor.factors) == 1.0  # too few to tell
    happen(tmp_path, 1, ACHIEVED / HALF**2, first=100)
    refresher.refresh()
    assert usual(advisor.factors) == pytest.approx(2.0, rel=0.01)


def test_a_factor_in_force_is_taken_out_before_the_next_is_made(
    advisor: Advisor, tmp_path: Path
) -> None:
    """Intervals that were widened by two and now hold keep the factor two: it does not compound."""
    happen(tmp_path, 30, ACHIEVED / HALF**2, factor=2.0, first=1)
    Refresher(advisor, None).refresh()
    assert usual(advisor.factors) == pytest.approx(2.0, rel=0.01)


def test_a_restart_gives_the_same_factor(advisor: Advisor, tmp_path: Path) -> None:
    """The factor follows from the ledger alone."""
    refresher = Refresher(advisor, None)
    for first, miss in ((1, 1.5), (100, 3.0)):
        happen(tmp_path, 25, ACHIEVED / HALF**miss, first=first)
        refresher.refresh()
    again = an_advisor(tmp_path)
    Refresher(again, None).refresh()
    assert usual(again.factors) == usual(advisor.factors)
    assert usual(advisor.factors) == pytest.approx(3.0, rel=0.01)


def test_an_absurd_belief_counts_as_a_miss() -> None:
    """What no model believed (nothing, or less) widens, within bounds, and divides by nothing."""
    one = Residual(
        predicted=0.0,
        low=0.0,
        high=0.0,
        achieved=5.0,
        level=Level.SCRIPT,
        runs=1,
        factor=0.0,
        acted=False,
    )
    absurd = [one, replace(one, predicted=1.0, low=-1.0, high=2.0, factor=1.0)] * FEWEST
    assert usual(factors_of(absurd)) == 5.0


def ended(user: str, miss: float, count: int, level: Level = Level.SCRIPT) -> list[Residual]:
    """Outcomes of one user that lie so many half widths away from what was predicted."""
    one = Residual(
        predicted=100.0,
        low=100.0 / HALF,
        high=100.0 * HALF,
        achieved=100.0 * HALF**miss,
        level=level,
        runs=1,
        factor=1.0,
        acted=False,
        user=user,
    )
    return [one] * count


@pytest.mark.parametrize("count", [20, 60, 180])
def test_one_users_outcomes_move_nobody_elses_factor(count: int) -> None:
    """However many: absurd ones do not widen, perfect ones do not narrow what others have."""
    honest = [one for user in "abcd" for one in ended(user, 1.2, 10)]
    for miss in (50.0, 0.0):
        factors = factors_of([*honest, *ended("mallory", miss, count)])
        for user in ("a", "nobody"):
            assert 1.0 <= factor_for(factors, Level.SCRIPT, user) <= 1.2 * 1.001
    assert factor_for(factors_of(honest), Level.SCRIPT, "a") == pytest.approx(1.2)


def test_a_users_own_outcomes_teach_his_own_factor() -> None:
    """Where nobody else has any, and where others contradict."""
    alone = factors_of(ended("a", 2.0, 30))
    assert factor_for(alone, Level.SCRIPT, "a") == usual(alone) == pytest.approx(2.0)
    assert factor_for(alone, Level.SCRIPT, "b") == 1.0
    both = factors_of([*ended("a", 2.0, 60), *ended("b", 0.5, 10)])
    assert factor_for(both, Level.SCRIPT, "a") == pytest.approx(2.0)


def test_each_level_has_its_own_factor() -> None:
    """Far evidence that misses does not widen what near evidence says."""
    near = [one for user in "abc" for one in ended(user, 1.0, 15)]
    far = [one for user in "abc" for one in ended(user, 3.0, 15, Level.KIND)]
    factors = factors_of([*near, *far])
    assert factor_for(factors, Level.SCRIPT, "d") == pytest.approx(1.0)
    assert factor_for(factors, Level.KIND, "d") == pytest.approx(3.0)
    assert factor_for(factors, Level.USER_NAME, "d") == pytest.approx(
        3.0
    )  # nothing of its own: all


def test_each_world_has_its_own_factor() -> None:
    """Intervals beside others that miss widen those beside others."""
    own = [one for user in "abc" for one in ended(user, 1.0, 15)]
    beside = [replace(one, crowded=True) for user in "abc" for one in ended(user, 3.0, 15)]
    factors = factors_of([*own, *beside])
    assert factor_for(factors, Level.SCRIPT, "d") == pytest.approx(1.0)
    assert factor_for(factors, Level.SCRIPT, "d", crowded=True) == pytest.approx(3.0)
    assert factor_for(factors_of(own), Level.SCRIPT, "d", crowded=True) == 1.0


def test_a_flood_does_not_displace_others_outcomes(tmp_path: Path) -> None:
    """Of the outcomes that are looked at, one user's are a third where others have some."""
    with open_history(tmp_path / "history.db") as history:
        pass
    happen(tmp_path, 30, ACHIEVED, first=1, user="ada")
    happen(tmp_path, 90, ACHIEVED, first=100, user="mallory")
    with open_history(tmp_path / "history.db") as history:
        newest = fair_outcomes(history.conn, history.path, 60)
    assert Counter(one.user for one in newest) == {"ada": 20, "mallory": 40}
