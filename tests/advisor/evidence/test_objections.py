"""A job's own runs object to a change: refused workers stay, and busy cores are kept."""

from dataclasses import replace
from typing import Any

import pytest

from slurm_ext.advisor.evidence.objections import busy_cores, nearest_runs, refusal
from slurm_ext.core.findings.loader_refusal import LoaderRefusal
from slurm_ext.core.records import Level, LoaderRun
from tests.builders import STARVED

NOTHING, MOVED, SEEDS, STATE = (
    LoaderRefusal.NOTHING,
    LoaderRefusal.MOVED,
    LoaderRefusal.SEEDS,
    LoaderRefusal.STATE,
)


def run(refused: int | None, **values: Any) -> LoaderRun:
    """A run with one worker that the script asked for."""
    return replace(STARVED, refused=refused, **{"user_workers": 1, **values})


@pytest.mark.parametrize(
    ("newest_first", "holds"),
    [
        ([], None),
        ([None], None),
        ([SEEDS], SEEDS),
        ([None, SEEDS], SEEDS),
        ([MOVED, SEEDS], None),
        ([NOTHING, SEEDS], None),
        ([NOTHING, STATE], STATE),
        ([NOTHING, MOVED, STATE], None),
        ([NOTHING, SEEDS, STATE], STATE),
        ([STATE, MOVED], STATE),
    ],
)
def test_the_newest_run_that_can_know_decides(newest_first: list[int | None], holds: Any) -> None:
    """A run that was moved lifts everything; a mere look lifts what it would have found."""
    assert refusal({Level.SCRIPT_ARGS: [run(code) for code in newest_first]}) == holds


def test_seeds_of_a_loader_without_workers_are_found_by_a_trial_alone() -> None:
    """Each second submission would be cut for nothing if a mere look lifted them."""
    tried = run(SEEDS, user_workers=0)
    assert refusal({Level.SCRIPT: [run(NOTHING, user_workers=0), tried]}) == SEEDS


def test_it_is_a_property_of_the_script() -> None:
    """Where the script has runs, those of other scripts of the same name or kind do not count."""
    near, far = [run(NOTHING)], [run(STATE)]
    assert refusal({Level.SCRIPT: near, Level.USER_NAME: far, Level.OWN_KIND: far}) is None
    assert refusal({Level.USER_NAME: far, Level.OWN_KIND: near}) == STATE
    assert refusal({Level.SCRIPT_ARGS: near, Level.SCRIPT: far}) == STATE


def test_what_others_refuse_says_nothing() -> None:
    """No user's program keeps another's as it is."""
    assert refusal({Level.KIND: [run(STATE)], Level.CLUSTER: [run(STATE)]}) is None


def test_the_nearest_runs_are_the_scripts_own() -> None:
    """Runs with the same arguments first, then the script's; the cluster's are nobody's."""
    one, two, three = run(None), run(SEEDS), run(STATE)
    known = {Level.SCRIPT_ARGS: [one], Level.SCRIPT: [two], Level.USER_NAME: [three]}
    assert nearest_runs(known) == [one, two]
    assert nearest_runs({Level.USER_NAME: [], Level.OWN_KIND: [three]}) == [three]
    assert nearest_runs({Level.CLUSTER: [three]}) == []


@pytest.mark.parametrize(
    ("used_of", "busy"),
    [
        ([], None),
        ([(None, 4)], None),
        ([(2.0, 4)], 2),
        ([(2.05, 4)], 2),
        ([(2.2, 4)], 3),
        ([(0.01, 4)], 1),
        ([(2.0, 4), (None, 4)], 2),
        ([(2.0, 4), (1.0, 4)], 2),
        ([(3.9, 4)], None),
        ([(3.6, 4)], None),
        ([(3.5, 4)], 4),
        ([(4.0, 4), (5.0, 16)], 5),
        ([(8.0, 8), (2.0, 4)], 8),
    ],
)
def test_the_busiest_run_counts(used_of: list[tuple[float | None, int]], busy: Any) -> None:
    """A run that used all that it had does not tell how many cores it would have used."""
    runs = [replace(STARVED, used_cores=used, cores=cores) for used, cores in used_of]
    assert busy_cores(runs) == busy
