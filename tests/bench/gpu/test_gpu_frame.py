"""The frame of the benchmark `gpu`: rows that fail or hang, intervals, the page, what is absent."""

import importlib
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from contrib.bench.gpu import started
from contrib.bench.gpu.__main__ import measured
from contrib.bench.gpu.here import Here
from contrib.bench.gpu.machine import chosen
from contrib.bench.gpu.one import outcome
from contrib.bench.gpu.page import line, page
from contrib.bench.gpu.report import AbsentError, Report, figure, repeats
from contrib.bench.gpu.table import ROWS, RowKind, Wanted, wanted
from tests.bench.gpu.gpu_here import here, rows_are
from tests.bench.program import run_bench


def _row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measure: Any) -> dict[str, Any]:
    """What a row that does this becomes."""
    monkeypatch.setattr(RowKind, "measure", lambda _: measure)
    return outcome(ROWS[0], here(tmp_path))


def test_a_row_that_fails_keeps_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its error is one line with its place; the figures before it stay."""

    def measure(_: Here, report: Report) -> None:
        report.add("before", 1.0, "s")
        raise ValueError("two\nlines")

    found = _row(tmp_path, monkeypatch, measure)
    assert found["status"] == "failed"
    assert found["why"].startswith("ValueError: two lines (test_gpu_frame.py:")
    assert found["figures"]["before"]["value"] == 1.0


def test_a_row_without_what_it_needs_is_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the reason: its own, or the package that is not there."""

    def lacks(_: Here, report: Report) -> None:
        del report
        raise AbsentError("no second GPU")

    def imports(_: Here, report: Report) -> None:
        del report
        importlib.import_module("a_package_that_nobody_has")

    found = _row(tmp_path, monkeypatch, lacks)
    assert (found["status"], found["why"]) == ("absent", "no second GPU")
    found = _row(tmp_path, monkeypatch, imports)
    assert found["why"] == "a_package_that_nobody_has is not installed"


SLOW = """
import json, signal, sys, time
from pathlib import Path
def over(*_):
    Path(sys.argv[3]).write_text(json.dumps({"status": "cut", "why": "w", "figures": {},
                                             "absent": {}, "facts": {}}))
    sys.exit()
signal.signal(signal.SIGTERM, over)
print("began", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("program", "status", "why"),
    [
        ("raise SystemExit('the driver is gone')", "failed", "the driver is gone"),
        ("import os; os.abort()", "failed", "status -6"),
        ("import os, time; os.kill(os.getpid(), 19)", "failed", "did not end"),
        (SLOW, "cut", "w"),
    ],
)
def test_a_row_that_crashes_or_hangs_loses_itself_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, status: str, why: str
) -> None:
    """Its process is ended with all that it started, and the reason is one line."""
    rows_are(program, tmp_path, monkeypatch, clean_s=2.0, least_s=1.0)
    found = started.row_of(ROWS[0], here(tmp_path), 6.0)
    assert found["status"] == status
    assert why in found["why"]
    assert "\n" not in line("counters", found)


def test_no_row_begins_without_time(tmp_path: Path) -> None:
    """What is left of the seconds is named."""
    found = measured(ROWS[:1], here(tmp_path), 1.0)
    assert found[ROWS[0].name]["why"] == "1 s are left of --seconds"


def test_rows_share_the_seconds_by_weight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that needs nothing of its part leaves it to the others; together they keep to it."""
    parts: list[float] = []

    def took(_kind: RowKind, _here: Here, limit_s: float) -> dict[str, Any]:
        parts.append(limit_s)
        return {"status": "absent", "why": "", "figures": {}, "seconds": 0.0}

    monkeypatch.setattr("contrib.bench.gpu.__main__.row_of", took)
    rows = [RowKind("one", "", 10), RowKind("two", "", 30)]
    measured(rows, here(tmp_path), 100.0)
    assert parts == [pytest.approx(25.0, abs=1.0), pytest.approx(100.0, abs=1.0)]


def test_a_fact_of_several_lines_is_one_line_of_the_page() -> None:
    """A control program's version has its copyright below it."""
    row = {"status": "measured", "why": "", "figures": {}, "absent": {}, "facts": {"v": "13\n(C)"}}
    told = {"machine": {}, "note": "", "rows": {"mps": row}}
    assert "- v: 13 (C)\n" in page({"figures": told, "wanted": []})


def test_every_figure_has_its_interval() -> None:
    """The median's, by draws that are the same each time; of one repeat there is none."""
    one = figure([1.0, 2.0, 3.0, 4.0, 100.0], "s")
    assert one["value"] == 3.0
    assert 1.0 <= one["low"] <= 3.0 <= one["high"] <= 100.0
    assert one == figure([1.0, 2.0, 3.0, 4.0, 100.0], "s")
    assert figure([5.0])["low"] is None
    report = Report()
    for value in (None, float("nan"), 7.0):
        report.add("x", value)
    assert report.figures()["x"]["n"] == 1


def test_repeats_end_with_the_time() -> None:
    """At least so many; another one only where it fits."""
    moments = iter(range(100))
    assert len(list(repeats(5.0, least=2, clock=lambda: float(next(moments))))) == 3
    assert len(list(repeats(0.0, least=2, clock=time.monotonic))) == 2
    assert len(list(repeats(1e9, most=4))) == 4


def test_what_was_not_measured_is_not_met() -> None:
    """A bound on a figure holds for what was measured."""
    kind = RowKind("a", "", 1, (Wanted("x", 2.0), Wanted("y", 2.0, at_most=False), Wanted("z", 0)))
    figures = {"x": {"value": 1.0}, "y": {"value": 1.0}}
    found = wanted([kind], {"a": {"figures": figures}})
    assert [(one["got"], one["met"]) for one in found] == [(1.0, True), (1.0, False), (None, False)]


def test_gpus_are_those_that_the_environment_allows() -> None:
    """By UUID, in the order of the bus; a divided GPU, and what nobody lists, keep their names."""
    gpus: list[dict[str, Any]] = [
        {"uuid": "GPU-a", "mig": False},
        {"uuid": "GPU-b"},
        {"uuid": "GPU-c", "mig": True},
    ]
    assert chosen(gpus, {}) == ("GPU-a", "GPU-b", "2")
    assert chosen(gpus, {"CUDA_VISIBLE_DEVICES": "1, GPU-a"}) == ("GPU-b", "GPU-a")
    assert chosen(gpus, {"CUDA_VISIBLE_DEVICES": "MIG-1"}) == ("MIG-1",)
    assert chosen([], {"CUDA_VISIBLE_DEVICES": "0,1"}) == ("0", "1")
    assert chosen(gpus, {"CUDA_VISIBLE_DEVICES": ""}) == ()


def test_a_machine_without_cuda_is_told_so_in_one_line(tmp_path: Path) -> None:
    """Every row is named with its reason; the last line is one object, the page has the same."""
    told = tmp_path / "page.md"
    done = run_bench("gpu", "--only", "counters", "--seconds", "60", "--page", told)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    first = done.stderr.splitlines()[0]
    assert first.startswith("torch ")
    assert "no CUDA" in first
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["figures"]["rows"]["counters"]["status"] == "absent"
    assert "absent: torch " in told.read_text()
    assert page(found) == told.read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--seconds", "0"), "--seconds 0: more than 0"),
        (("--seconds", "nan"), "--seconds nan: more than 0"),
        (("--page", "/nowhere/page.md"), "there is no folder /nowhere"),
        (("--only", "nothing"), "invalid choice: 'nothing'"),
    ],
)
def test_a_wrong_option_is_named(arguments: tuple[str, ...], says: str) -> None:
    """Before anything is measured."""
    done = run_bench("gpu", *arguments)
    assert done.returncode != 0
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_programs_see_nothing_of_the_jobs_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither dlqueue's own words nor another MPS; the GPUs are the ones that were chosen."""
    for name in ("DLQUEUE_RUN_DIR", "CUDA_MPS_PIPE_DIRECTORY", "PYTHONPATH"):
        monkeypatch.setenv(name, "x")
    env = here(tmp_path, gpus=("GPU-a", "GPU-b")).environment({"MORE": "1"})
    assert not {"DLQUEUE_RUN_DIR", "CUDA_MPS_PIPE_DIRECTORY", "PYTHONPATH"} & env.keys()
    assert (env["CUDA_VISIBLE_DEVICES"], env["MORE"]) == ("GPU-a", "1")
    assert env["PATH"] == os.environ["PATH"]
