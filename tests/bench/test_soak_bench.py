"""The soak: growth that does not level off is found, noise is not, and it goes on where it was."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from contrib.bench.soak.looks import ROWS, read_rows, soaked
from contrib.bench.soak.page import write_page
from contrib.bench.soak.plots import PANELS, plot
from contrib.bench.soak.slopes import LEAST, findings, rising, slope
from slurm_ext.core.errors import UsageError
from tests.bench.program import run_bench


def _rows(count: int = 60, **figures: Any) -> list[dict[str, float]]:
    return [
        {"t_s": 10.0 * n, "records": 100.0 * n, **{k: f(n) for k, f in figures.items()}}
        for n in range(count)
    ]


def test_a_leak_is_found_and_noise_is_none() -> None:
    """A descriptor each minute; memory that rises by a tenth; waits that only scatter."""
    dice = random.Random(1)
    found = findings(
        _rows(
            writer_fds=lambda n: 10 + n // 6,
            writer_mib=lambda n: 50 + 0.1 * n + dice.gauss(0, 0.5),
            submit_p50_ms=lambda _: 2 + dice.gauss(0, 0.3),
            questions_fds=lambda _: 8,
            writer_cores=lambda n: n / 60,
            held_back=lambda n: n / 60,
        )
    )
    assert {name for name, one in found.items() if one["grows"]} == {"writer_fds", "writer_mib"}


def test_growth_that_levels_off_is_none() -> None:
    """A process that takes what it needs in its first minutes."""
    found = findings(_rows(writer_mib=lambda n: 80 - 30 * 0.8**n))
    assert not found["writer_mib"]["grows"]


def test_a_history_may_grow_by_the_record_and_no_faster() -> None:
    """The same bytes for each record are none; more and more of them are a finding."""
    found = findings(_rows(history_mib=lambda n: 0.2 * n, advisor_mib=lambda n: 40 + 0.001 * n**2))
    assert not found["history_mib"]["grows"]
    assert found["history_mib"]["bytes_each"] == pytest.approx(0.2 * 2**20 / 100)
    assert found["advisor_mib"]["grows"]


def test_journals_have_a_bound() -> None:
    """They grow until a new one is begun; old ones that stay are a finding."""
    assert not findings(_rows(journal_mib=lambda n: n))["journal_mib"]["grows"]
    assert findings(_rows(journal_mib=lambda n: 3 * n))["journal_mib"]["grows"]


def test_the_page_tells_each_figure_with_its_verdict(tmp_path: Path) -> None:
    """What grows in bold; what follows the rate without a verdict; the plot beside it."""
    rows = [{**row, "rate": 10.0} for row in _rows(writer_fds=lambda n: 10 + n)]
    path = tmp_path / "soak.md"
    write_page(path, rows, findings(rows), load=1.0, commit="abc")
    told = path.read_text()
    assert "**5,900 records in 10 minutes**, in the middle row\n10 a second" in told
    assert "| rate | 10 | 10 | 10 | 10 |  |" in told
    assert "| writer fds | 10 | 39.5 | 69 | 69 | **grows** |" in told
    assert "(soak.svg)" in told
    assert (tmp_path / "soak.svg").exists()


def test_too_few_rows_are_no_verdict() -> None:
    """Neither good nor bad."""
    found = findings(_rows(LEAST - 1, writer_mib=lambda n: 50 + n))
    assert found["writer_mib"] == {"grows": None, "why": f"{LEAST - 1} rows"}


def test_slope_and_chance_are_the_books() -> None:
    """One outlier does not move the slope; a row of ties is no trend."""
    assert slope([0, 1, 2, 3, 4], [0, 2, 4, 90, 8]) == 2.0
    assert rising([1.0] * 20) > 0.4
    assert rising([float(n) for n in range(20)]) < 1e-6 < 1 - 1e-6 < rising([-n for n in range(20)])


def test_it_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """The second start's time, jobs and history follow the first one's; a torn row is dropped."""
    state = tmp_path / "s"
    state.mkdir()
    first = soaked(state, 4.0, 1.0)
    with (state / ROWS).open("a") as file:
        file.write('{"t_s": 1')
    second = soaked(state, 4.0, 1.0)
    assert second[: len(first)] == first
    assert len(second) > len(first)
    assert [row["t_s"] for row in second] == sorted(row["t_s"] for row in second)
    assert second[-1]["records"] >= first[-1]["records"]
    assert {"advisor_mib", "advisor_fds", "history_mib", "submit_p99_ms"} <= second[-1].keys()
    assert read_rows(state / ROWS) == second
    assert {"feed_cores", "advisor_cores", "writer_cores", "held_back"} <= second[-1].keys()
    assert not list((state / "node-records").glob("*/*"))


def test_the_plot_names_every_figure_that_rows_have(tmp_path: Path) -> None:
    """Each panel's title, and the words of what was measured alone."""
    path = tmp_path / "soak.svg"
    plot(_rows(writer_mib=lambda n: 50 + n, submit_p50_ms=lambda _: 1.5), path)
    drawn = path.read_text()
    assert all(f">{title}</text>" in drawn for title, _, _ in PANELS)
    assert ">history writer</text>" in drawn
    assert ">training</text>" not in drawn


@pytest.mark.parametrize("line", ["1", "nothing"])
def test_a_file_that_is_none_is_named(tmp_path: Path, line: str) -> None:
    """With its line."""
    path = tmp_path / ROWS
    path.write_text(json.dumps({"t_s": 1}) + f"\n{line}\n")
    with pytest.raises(UsageError, match="line 2 is no row of a soak"):
        read_rows(path)


@pytest.mark.parametrize(("option", "value"), [("--hours", "0"), ("--every", "nan")])
def test_an_option_that_cannot_be_is_named(option: str, value: str) -> None:
    """Before anything starts."""
    done = run_bench("soak", option, value)
    assert done.returncode == 1
    assert f"{option} {value}" in done.stderr
