"""Buckets whose program asks for more after the construction: two real ranks over gloo."""

import json
from typing import Any

import pytest

from tests.probe.conftest import Environment
from tests.probe.programs_confirmed import CAPS
from tests.probe.several_ranks import ran_ranks

OWN, ASKED = [96], [16, 32, 32, 16]  # KiB
HOOKED = [
    "hook",
    "hook_on_views",
    "builtin_hook",
    "power_sgd",
    "compiled_with_a_hook",
    "accumulating",
]
FAILED = [
    "store_fails_before_the_vote",
    "store_fails_at_the_vote",
    "store_fails_after_the_vote",
    "store_fails_before_the_second_vote",
]
KEPT = [
    "untouched",
    "store_fails_for_a_while",
    "store_fails_after_the_second_vote",
    "tried_without_gradients",
    "a_copy",
    "joining",
]
DISAGREEING = "its ranks do not agree on buckets"
Told = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, environment: Environment) -> Told:
    """What both ranks did in each scenario of programs_confirmed.py."""
    path = tmp_path_factory.mktemp("confirmed") / "told"
    ran_ranks("tests.probe.programs_confirmed", path, environment(None))
    found: Told = json.loads(path.read_text(encoding="ascii"))
    return found


def test_every_scenario_has_the_losses_of_a_run_without_dlqueue(told: Told) -> None:
    """The same bits in both ranks, also where a hook makes something else of other buckets."""
    assert len(told) > 15
    for name, ranks in told.items():
        for rank in ranks:
            assert rank["ours"]["losses"] == rank["own"]["losses"], name
            assert rank["own"]["buckets"] == OWN, name


@pytest.mark.parametrize("name", KEPT)
def test_buckets_stay_where_nothing_is_against_them(told: Told, name: str) -> None:
    """A store that works again tells the verdict; a pass without gradients asks for no word."""
    assert [rank["ours"]["buckets"] for rank in told[name]] == [ASKED] * 2
    assert [rank["ours"]["made"]["caps"] for rank in told[name]] == [CAPS] * 2


@pytest.mark.parametrize("name", HOOKED)
def test_a_hook_meets_torchs_own_buckets(told: Told, name: str) -> None:
    """Whichever kind it is, and it is still there; the record says why."""
    assert [rank["ours"]["buckets"] for rank in told[name]] == [OWN] * 2
    said = [rank["ours"]["made"] for rank in told[name]]
    assert [one["caps"] for one in said] == [None] * 2
    assert [one["left_alone"] for one in said] == ["it has a communication hook"] * 2


def test_determinism_that_is_asked_for_later_is_heard(told: Told) -> None:
    """Both ranks go back, also where one alone asks for it."""
    exact = "its results must be the same bit for bit"
    both, one = told["deterministic"], told["deterministic_in_one_rank"]
    assert [rank["ours"]["buckets"] for rank in [*both, *one]] == [OWN] * 4
    assert [rank["ours"]["made"]["left_alone"] for rank in both] == [exact] * 2
    assert [rank["ours"]["made"]["left_alone"] for rank in one] == [DISAGREEING, exact]


@pytest.mark.parametrize("name", [*FAILED, "hook_of_one_rank"])
def test_a_rank_that_cannot_take_part_gets_torchs_own_for_all(told: Told, name: str) -> None:
    """Whenever its store fails before it gave its last word: no rank hangs, and all are alike."""
    assert [rank["ours"]["buckets"] for rank in told[name]] == [OWN] * 2
    assert [rank["ours"]["made"]["caps"] for rank in told[name]] == [None] * 2
