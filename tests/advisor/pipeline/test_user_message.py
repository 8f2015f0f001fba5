"""The one line that sbatch prints, word for word."""

from dataclasses import replace
from typing import Any

import pytest

from slurm_ext.advisor.pipeline.message import (
    changes,
    message,
    number,
    with_elastic_fault,
    with_sharing,
)
from slurm_ext.advisor.sharing.terms import slower
from slurm_ext.core.records import (
    Decision,
    Mode,
)
from slurm_ext.core.wire import MAX_MESSAGE_CHARS
from tests.advisor.pipeline.pipeline_examples import ONE, decision, sharing

OPT_OUT = "Opt out: --comment=dlqueue=off"


CHANGED = "cpus-per-task 1 -> 2, workers 0 -> 1"


@pytest.mark.parametrize(
    ("chosen", "mode", "emulated", "line"),
    [
        (decision(), Mode.OFF, False, None),
        (decision(), Mode.SHADOW, False, None),
        (decision(after=None), Mode.ACT, False, None),
        (
            decision(),
            Mode.ACT,
            False,
            f"dlqueue: {CHANGED}: about 2.0x faster (10 -> 20 samples/s, 18 to 22). {OPT_OUT}",
        ),
        (
            decision(),
            Mode.ADVISE,
            True,
            (
                f"dlqueue advises {CHANGED}: about 2.0x faster (10 -> 20 samples/s, 18 to 22,"
                " emulated accelerator). Nothing was changed."
            ),
        ),
        (
            decision(before=None),
            Mode.ACT,
            False,
            f"dlqueue: {CHANGED}: predicted 20 samples/s, 18 to 22. {OPT_OUT}",
        ),
        (
            decision(before=100.0, after=104.9),
            Mode.ACT,
            False,
            f"dlqueue: {CHANGED}: about as fast (105 samples/s, 18 to 22). {OPT_OUT}",
        ),
        (
            decision(before=100.0, after=105.1),
            Mode.ACT,
            False,
            f"dlqueue: {CHANGED}: about 1.1x faster (100 -> 105 samples/s, 18 to 22). {OPT_OUT}",
        ),
        (
            decision(action="leave"),
            Mode.ACT,
            False,
            "dlqueue: left as it is: it is so.",
        ),
        (
            decision(action="leave"),
            Mode.ADVISE,
            True,
            "dlqueue: left as it is: it is so, emulated accelerator.",
        ),
    ],
)
def test_the_line_of_each_mode(
    chosen: Decision, mode: Mode, emulated: bool, line: str | None
) -> None:
    """Change, gain with its bounds, and how to opt out; nothing where the mode shows nothing."""
    assert message(chosen, mode, emulated=emulated) == line


def test_the_line_of_a_job_that_its_outcomes_stop() -> None:
    """Advice, and the reason why the site did not act on it."""
    why = "its last 3 runs were not as predicted"
    line = message(decision(), Mode.ADVISE, emulated=False, stopped=why)
    assert line is not None
    assert line.startswith(f"dlqueue advises {CHANGED}: about 2.0x faster")
    assert line.endswith(f"18 to 22). Not changed: {why}.")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12345.6, "12346"),
        (100.0, "100"),
        (99.94, "99.9"),
        (1.234, "1.23"),
        (0.001, "0.001"),
        (0.00099, "9.9e-04"),
        (0.0, "0.0e+00"),
    ],
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    """No exponent but for rates that round to nothing."""
    assert number(value) == text


def test_changes_leave_out_what_stays() -> None:
    """Only what differs is named."""
    assert changes(decision()) == CHANGED
    assert changes(replace(decision(), after=replace(ONE, num_workers=4))) == ("workers 0 -> 4")


@pytest.mark.parametrize(
    ("values", "line", "whole"),
    [
        ({"share": False}, "x", "x"),
        ({"worst": None}, None, None),
        ({"mode": Mode.SHADOW}, "x", "x"),
        ({"mode": Mode.OFF}, None, None),
        (
            {},
            None,
            (
                "dlqueue: shares its GPU with another job of yours, at most 12 % slower"
                f" (usually 4 %). {OPT_OUT}"
            ),
        ),
        (
            {"across": True, "usual": None},
            None,
            f"dlqueue: shares its GPU with another job, at most 12 % slower. {OPT_OUT}",
        ),
        (
            {"usual": 0.8},
            f"dlqueue: a. {OPT_OUT}",
            (
                "dlqueue: a. It shares its GPU with another job of yours, at most 12 % slower"
                f" (usually 12 %). {OPT_OUT}"
            ),
        ),
        (
            {"mode": Mode.ADVISE},
            None,
            (
                "dlqueue advises sharing its GPU (mps:50) with another such job: at most 12 %"
                " slower (usually 4 %). Nothing was changed."
            ),
        ),
        (
            {"mode": Mode.ADVISE},
            "dlqueue: a.",
            (
                "dlqueue: a. dlqueue advises sharing its GPU (mps:50) with another such job: at"
                " most 12 % slower (usually 4 %)."
            ),
        ),
    ],
)
def test_the_line_says_what_sharing_costs(
    values: dict[str, Any], line: str | None, whole: str | None
) -> None:
    """At most, and usually; whose job it may be; one opt-out for all."""
    assert with_sharing(line, sharing(**values)) == whole


def test_a_fault_of_an_elastic_job_is_told_in_the_line() -> None:
    """Alone, or after what else there is to say, and never longer than a line may be."""
    assert with_elastic_fault(None, "a is b") == "dlqueue: a is b: the job keeps its size."
    assert with_elastic_fault("x.", "a\nis b") == "x. dlqueue: a is b: the job keeps its size."
    assert len(with_elastic_fault("x" * 9999, "")) == MAX_MESSAGE_CHARS


def test_the_ledger_gets_every_field_of_a_sharing_decision() -> None:
    """But for the edits, which the journal keeps by themselves."""
    assert sharing(partners=("7",), beside="k", evidence="e").as_json(done=True) == {
        "v": 1,
        "mode": "act",
        "share": True,
        "why": "",
        "floor": 0.8,
        "gres": "mps:50",
        "worst": 0.88,
        "usual": 0.96,
        "evidence": "e",
        "beside": "k",
        "partners": ("7",),
        "across": False,
        "done": True,
    }


@pytest.mark.parametrize(
    ("speed", "percent"), [(1.01, 0), (0.99, 1), (0.9900000001, 1), (0.989, 2), (0.9, 10)]
)
def test_a_loss_is_rounded_up_to_whole_per_cents(speed: float, percent: int) -> None:
    """But for errors of the arithmetic."""
    assert slower(speed) == percent


def test_advice_by_other_users_runs_says_so() -> None:
    """And a job that shares all the same is not said to be unchanged."""
    line = message(decision(), Mode.ADVISE, emulated=True, why_advice="by other users' runs")
    assert line == (
        f"dlqueue advises {CHANGED}: about 2.0x faster (10 -> 20 samples/s, 18 to 22,"
        " emulated accelerator, by other users' runs). Nothing was changed."
    )
    shared = with_sharing(line, sharing())
    assert shared is not None
    assert "Nothing was changed" not in shared
    assert shared.endswith(OPT_OUT)


def test_rates_are_the_whole_jobs() -> None:
    """A prediction is of one process; a job of four ranks is told four times that."""
    one = message(decision(), Mode.ADVISE, emulated=False)
    four = message(decision(), Mode.ADVISE, emulated=False, ranks=4)
    before, after = decision().predicted_before, decision().predicted_after
    assert before is not None
    assert after is not None
    assert one is not None
    assert four is not None
    assert f"({number(4 * before.samples_per_s)} -> {number(4 * after.samples_per_s)} " in four
    assert one.partition("x faster")[0] == four.partition("x faster")[0]
