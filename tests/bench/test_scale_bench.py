"""The benchmark of scale: laws of costs that are known, what breaks first, and its parts."""

import json
from pathlib import Path

import pytest

from contrib.bench.common import synthetic_history
from contrib.bench.scale import __main__ as program
from contrib.bench.scale.demand import Cluster, demands
from contrib.bench.scale.laws import Law, bounded_law, law_of
from contrib.bench.scale.pages import page
from contrib.bench.scale.parts import PARTS
from tests.bench.program import run_bench


def test_a_line_with_a_base_is_found() -> None:
    """Memory: what a process takes anyway, and so much for each run."""
    law = law_of([(size, 40e6 + 600 * size) for size in (1e3, 1e4, 1e5)])
    assert (law.base, law.slope, law.power) == pytest.approx((40e6, 600, 1.0))
    assert law.at(1e6) == pytest.approx(640e6)
    assert law.size_of(640e6) == pytest.approx(1e6)
    assert law.size_of(1e6) == 0.0
    assert law.error < 1e-6


def test_a_power_of_the_size_is_found() -> None:
    """A cost that is quadratic is no line, and what comes next is far beyond one."""
    law = law_of([(size, 3e-6 * size**2) for size in (10.0, 100.0, 1000.0)])
    assert (law.base, law.power) == pytest.approx((0.0, 2.0))
    assert law.at(1e4) == pytest.approx(300.0)


def test_what_does_not_grow_holds_for_ever() -> None:
    """An answer that takes the same whatever the history has."""
    assert law_of([(1e3, 0.5), (1e4, 0.5), (1e5, 0.5)]).size_of(0.6) == float("inf")


def test_noise_is_not_taken_far() -> None:
    """Five percent more at the largest size are no slope; the same cost is told at any size."""
    law = law_of([(1e3, 1.0), (1e4, 1.02), (3e4, 0.99), (1e5, 1.05)])
    assert law.at(3.6e6) == pytest.approx(1.01)
    assert law.error == pytest.approx(0.05 / 1.05)


def test_a_bounded_cost_is_its_largest() -> None:
    """An answer reads sixteen runs of a script, however many there are."""
    law = bounded_law([(1e3, 0.6), (1e5, 1.1), (3e4, 1.0)])
    assert (law.at(1e6), law.size_of(2.0)) == (1.1, float("inf"))
    assert law.error == pytest.approx(0.1 / 1.1)


def test_two_sizes_are_no_law() -> None:
    """Nothing says how far it errs."""
    assert law_of([(1.0, 1.0), (2.0, 2.0)]).error == float("inf")


def _law(base: float, slope: float = 0.0) -> Law:
    return Law(base=base, slope=slope, power=1.0, error=0.0)


def _laws(**changed: Law) -> dict[str, dict[str, Law]]:
    """A service that holds everything easily."""
    known = {
        "advisor.answer_cpu_s": _law(1e-4),
        "advisor.memory_b": _law(4e7, 600),
        "advisor.journal_b": _law(900),
        "ingest.cpu_s": _law(1e-4),
        "ingest.disk_b": _law(1000),
        "listed_jobs.cpu_s": _law(0.0, 1e-6),
        "listed_jobs.memory_b": _law(0.0, 100),
        "listed_nodes.cpu_s": _law(0.0, 1e-6),
    }
    laws: dict[str, dict[str, Law]] = {}
    for name, law in {**known, **{key.replace("__", "."): v for key, v in changed.items()}}.items():
        part, _, cost = name.partition(".")
        laws.setdefault(part, {})[cost] = law
    return laws


def test_what_breaks_first_is_the_first_row() -> None:
    """By the part of what is asked that it holds; what holds is told with its size, too."""
    rows = demands(_laws(listed_jobs__cpu_s=_law(0.0, 3e-4), ingest__cpu_s=_law(0.002)), Cluster())
    assert [row["part"] for row in rows if row["breaks"]] == ["squeue, time", "ingest"]
    assert (rows[0]["asked"], rows[0]["holds"]) == pytest.approx((400_000, 100_000))
    assert (rows[1]["asked"], rows[1]["holds"]) == pytest.approx((1000, 500))
    assert next(row for row in rows if row["part"] == "answers")["holds"] == pytest.approx(10_000)
    assert not any(row["breaks"] for row in demands(_laws(), Cluster()))


def test_the_disk_is_asked_for_all_runs() -> None:
    """An hour of a thousand a second is 3.6 million runs."""
    rows = {row["part"]: row for row in demands(_laws(ingest__disk_b=_law(99_100)), Cluster())}
    assert rows["disk"]["asked"] == 3_600_000
    assert rows["disk"]["holds"] == pytest.approx(100 * 2**30 / 100_000)
    assert rows["disk"]["breaks"]
    assert not rows["descriptors"]["breaks"]


@pytest.mark.parametrize("part", PARTS)
def test_each_part_is_measured(part: str, tmp_path: Path) -> None:
    """No cost is below zero, as a law's points have to be; a used process may give memory back."""
    if part in program.WITH_HISTORY:
        synthetic_history.fill(tmp_path / "history.db", 3)
    found = PARTS[part](3, tmp_path)
    assert {"cpu_s", "answer_cpu_s"} & found.keys()
    assert all(cost >= 0 for name, cost in found.items() if name != "memory_b")


def test_the_whole_is_one_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Points, laws, demands and their page; a size that fails ends it with the part's name."""
    monkeypatch.setattr(program, "SIZES", dict.fromkeys(PARTS, (1, 2, 3)))
    costs = {"cpu_s": 1.0, "memory_b": 1.0, "answer_cpu_s": 1.0, "disk_b": 1.0, "journal_b": 1.0}
    monkeypatch.setattr(program, "_one", lambda *_: costs)
    points = program.measured(quick=False)
    found = program.laws(points)
    figures = {"load": 0.0, "points": points, "demands": demands(found, Cluster())}
    figures |= {
        "laws": {part: {n: str(law) for n, law in each.items()} for part, each in found.items()}
    }
    figures |= {
        "errors": {part: {n: law.error for n, law in each.items()} for part, each in found.items()}
    }
    told = page(json.loads(json.dumps(figures)))
    assert "| advisor | answer_cpu_s | 1, 2, 3 | 1 |" in told
    assert "**breaks**" in told


def test_a_page_without_a_folder_is_named() -> None:
    """Before anything is measured."""
    done = run_bench("scale", "--page", "/nowhere/page.md")
    assert done.returncode == 1
    assert "there is no folder /nowhere" in done.stderr
