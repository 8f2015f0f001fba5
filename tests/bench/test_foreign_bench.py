"""The benchmark of other people's programs: one runs, and each verdict is reached."""

import json
from typing import Any

import pytest

from contrib.bench.foreign.__main__ import summed
from contrib.bench.foreign.catalogue import PROGRAMS
from contrib.bench.foreign.page import page
from contrib.bench.foreign.program import Program
from contrib.bench.foreign.runs import Ran
from contrib.bench.foreign.verdict import judged, reasons
from tests.bench.program import run_bench

TRUTH = {"samples": 1600, "steps": 100, "seconds": 10.0, "losses": "aa"}


@pytest.mark.journey
def test_the_probe_sees_what_the_program_counted() -> None:
    """A real training without a DataLoader: its steps are counted, its results stay."""
    done = run_bench("foreign", "--quick", "--json", "--only", "language.nanogpt")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])["figures"]
    (row,) = figures["rows"]
    assert (figures["n"], row["kind"], row["equal"]) == (1, "steps", True)
    assert row["statuses"] == [0, 0, 0]
    assert row["new_words"] == row["faults"] == []


def loader(samples: int, wall_s: float, **more: Any) -> dict[str, Any]:
    """A training loader's row of a summary, without workers."""
    phase = {
        "phase": "first_epoch", "workers": 1.5, "epochs": 1, "samples": samples, "batches": 100,
        "steps": 100, "wall_s": wall_s, "step_s": wall_s / 2, "fetch_samples": samples,
        "fetch_wall_s": 1.0, "fetch_cpu_s": 1.0,
    }  # fmt: skip
    told = {"left_alone": None, "fallback": None, "started_workers": 0, "startup_s": 0.0}
    return {**told, "phases": [phase], **more}


def ran(*loaders: dict[str, Any], **truth: Any) -> Ran:
    """A run of one process."""
    summary = {"loaders": list(loaders), "optimizer": None, "faults": [], "rank": 0}
    return Ran(0, [TRUTH | truth], [], [summary])


def verdict(off: Ran, on: Ran, moved: Ran, program: Program = PROGRAMS[0]) -> list[str]:
    """Why these runs are not as wanted."""
    return reasons(program, judged(program, off, on, moved))


def test_a_right_figure_has_no_reason() -> None:
    """1,600 samples in 10 s, by both clocks."""
    run = ran(loader(1600, 10.1))
    assert verdict(run, run, run) == []
    row = judged(PROGRAMS[0], run, run, run)
    assert (row["kind"], row["truth"], row["decision"]) == ("samples", 160.0, "moved to 0")
    assert row["error"] == pytest.approx(-0.01, abs=0.001)


def test_trainings_in_turn_are_compared_with_the_clock_around_all_of_them() -> None:
    """One of 1,600 samples in 10 s, one of 800 in 10 s: each is told, the program has one clock."""
    run = ran(loader(1600, 10.0, model=1), loader(800, 10.0, model=2), samples=2400, seconds=20.0)
    row = judged(PROGRAMS[0], run, run, run)
    assert (row["figure"], row["truth"]) == (120.0, 120.0)


def test_each_fault_is_a_reason() -> None:
    """A figure that is off, other results, another exit status, a new word on stderr."""
    good = ran(loader(1600, 10.0))
    assert verdict(good, ran(loader(1600, 8.0)), good) == ["samples/s +25% beside the truth"]
    assert verdict(good, good, ran(loader(1600, 10.0), losses="bb")) == ["results differ"]
    failed = Ran(1, good.truths, ["Warning: #"], good.summaries)
    assert verdict(good, good, failed) == ["exit statuses [0, 0, 1]", "says 'Warning: #'"]
    assert verdict(good, ran(), good) == ["no figure: no step that dlqueue knows"]


def test_a_refusal_is_the_decision() -> None:
    """Of the loader that the optimiser's steps belong to."""
    refused = ran(loader(1600, 10.0, left_alone="pinned seeds"), loader(10, 1.0))
    assert judged(PROGRAMS[0], refused, refused, refused)["decision"] == "pinned seeds"


def test_shares_leave_out_what_races_by_itself() -> None:
    """Processes that share a model, and draws that nobody seeded, differ without dlqueue, too."""
    good, other = ran(loader(1600, 10.0)), ran(loader(1600, 10.0), losses="bb")
    racing = Program("ranks.hogwild", races=True)
    rows = [judged(PROGRAMS[0], good, good, good), judged(racing, good, other, good)]
    figures = summed([PROGRAMS[0], racing], rows, {})["figures"]
    assert figures["share with equal results"] == 1.0
    assert figures["reasons"] == {"ranks.hogwild": ["two runs as written differ"]}


def test_the_page_has_each_program_and_what_is_not_as_wanted() -> None:
    """A program with a wrong figure and one without any stand in the table and in the list."""
    wrong, none = ran(loader(1600, 8.0)), ran()
    rows = [judged(PROGRAMS[n], run, run, run) for n, run in enumerate((wrong, none))]
    measured = summed(list(PROGRAMS[:2]), [{**row, "commit": "c0ffee"} for row in rows], {})
    lines = page(measured["figures"], measured["wanted"]).splitlines()
    assert "- share with a figure: 0.5 (wanted >= 0.95)" in lines
    (line,) = (line for line in lines if line.startswith(f"| {PROGRAMS[0].name} "))
    assert line.endswith("| 200.0 samples/s | 160.0 | +25.0% | yes | moved to 0 | 1.5 | c0ffee |")
    assert f"- {PROGRAMS[0].name}: samples/s +25% beside the truth" in lines
    assert f"- {PROGRAMS[1].name}: no figure: no step that dlqueue knows" in lines
