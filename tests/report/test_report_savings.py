"""What was saved, in hours and money, and the months: by hand, from a history of a few jobs."""

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.cli import main
from slurm_ext.core.errors import SettingsError
from slurm_ext.core.settings.document import parse
from slurm_ext.core.settings.prices import hour_of
from slurm_ext.core.stats import FEWEST, LogGroup, weighed, welch_ratio
from slurm_ext.history.store.store import History, open_history
from tests.report.conftest import site
from tests.report.test_gain import decide, put_run

JAN, MARCH = 1_768_000_000.0, 1_773_000_000.0  # 2026
A100, H100 = "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"
PRICED = '[report]\ngpu_hour_prices = ["h100 = 5", "A100 = 2"]\ncore_hour_price = 0.5\n'
Told = Callable[..., dict[str, Any]]


@pytest.fixture
def told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Told:
    """Sections of the report of a history that a function fills, by key."""

    def asked(fill: Callable[[History], None], settings: str = "") -> dict[str, Any]:
        config = site(tmp_path, settings=settings)
        with open_history(tmp_path / "history.db") as history:
            fill(history)
        assert main(["report", "--config", str(config), "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        return {section["key"]: section for section in document["sections"]}

    return asked


def rows(section: dict[str, Any], table: str) -> list[dict[str, Any]]:
    """Of one table."""
    (found,) = (one["rows"] for one in section["tables"] if one["key"] == table)
    return list(found)


def put(history: History, job_id: int, rate: float, hours: float, **columns: Any) -> None:
    """A decided job that ran so long on one GPU and two cores; even numbers were changed."""
    decision: dict[str, Any] = {
        name: columns.pop(name) for name in ("before_cpus", "sharing") if name in columns
    }
    shapes: dict[str, Any] = {"before_cpus": 2, "after_cpus": 2, **decision}
    decide(history, job_id, holdout=job_id % 2, **shapes)
    ran: dict[str, Any] = {
        "end_s": JAN,
        "elapsed_s": 3600 * hours,
        "gpus": 1,
        "cpus": 2,
        "node_gpu_model": A100,
    }
    put_run(history, job_id, rate, **{**ran, **columns})


def both(history: History, changed: float, hours: float, first: int = 1, **columns: Any) -> None:
    """Twenty changed jobs and twenty of the control group, which ran at one sample/s."""
    for job_id in range(first, first + 40):
        put(history, job_id, 1.0 if job_id % 2 else changed, hours, **columns)


def test_twice_the_rate_saves_what_was_held(told: Told) -> None:
    """20 jobs of 3 GPU-hours at twice the rate would have held 120; no noise, no interval."""
    found = told(lambda history: both(history, 2.0, 3.0))["saved"]
    gpus, cores = rows(found, "saved")
    assert gpus == {
        "what": "GPU-hours",
        "held": pytest.approx(60),
        "jobs": 20,
        **dict.fromkeys(("saved", "low", "high"), pytest.approx(60)),
    }
    assert (cores["what"], cores["saved"]) == ("core-hours", pytest.approx(120))
    assert found["answer"] == "60 GPU-hours (60 to 60)"
    assert [table["key"] for table in found["tables"]] == ["saved", "months"]


def test_hours_count_not_jobs(told: Told) -> None:
    """Short jobs that gain much do not make up for long ones that gain nothing."""

    def fill(history: History) -> None:
        both(history, 4.0, 1.0)
        both(history, 1.0, 9.0, first=41)

    found = told(fill)
    row = rows(found["saved"], "saved")[0]
    assert row["saved"] == pytest.approx(200 * (4**0.1 - 1))
    (gain,) = rows(found["gain"], "gain")
    assert gain["gain"] == pytest.approx(2.0)  # of a job, which is no figure to pay by
    assert row["low"] < row["saved"] < row["high"]


def test_cores_and_parts_of_gpus_that_were_given_back_are_saved(told: Told) -> None:
    """Four cores asked for and two given: at an equal rate half of them; control groups gave none.

    Half a GPU instead of a whole one is half of its hours, where dlqueue chose it.
    """

    def fill(history: History) -> None:
        both(history, 1.0, 1.0, before_cpus=4, sharing='{"done": true}')
        history.conn.execute(
            "INSERT INTO corunners (run, job_id, overlap_s, shared_cpus, shared_sockets,"
            " shared_gpus) SELECT id, 999, 3600, 0, 1, 'GPU-0' FROM runs WHERE job_id % 2 = 0"
        )

    gpus, cores = rows(told(fill)["saved"], "saved")
    assert (gpus["held"], gpus["saved"]) == (pytest.approx(10), pytest.approx(10))
    assert (cores["held"], cores["saved"]) == (pytest.approx(40), pytest.approx(40))


def test_money_by_type_of_gpu(told: Told) -> None:
    """The first price whose type is in the name, any case; what has none is told, not guessed."""

    def fill(history: History) -> None:
        both(history, 2.0, 1.0)
        both(history, 2.0, 1.0, first=41, node_gpu_model=H100)
        put(history, 81, 1.0, 7.0, node_gpu_model="Tesla V100")

    found = told(fill, PRICED + 'currency = "CHF"\n')["saved"]
    money = rows(found, "saved")[0]
    assert (money["what"], money["held"]) == ("CHF", pytest.approx(20 * (2 + 1) + 20 * (5 + 1)))
    assert money["saved"] == pytest.approx(money["held"])
    costs = {row["gpu_model"]: row for row in rows(found, "cost")}
    assert (costs[H100]["price"], costs[H100]["cost"]) == (5, pytest.approx(40 * 6))
    assert (costs["Tesla V100"]["price"], costs["Tesla V100"]["cost"]) == (None, pytest.approx(7))
    assert "has none for 7 GPU-hours" in found["tables"][-1]["note"]
    assert found["answer"].endswith("CHF (180 to 180)")


def test_too_few_jobs_save_nothing_that_can_be_told(told: Told) -> None:
    """One control job fewer than FEWEST: no row, no month, and no claim at the top."""

    def fill(history: History) -> None:
        both(history, 2.0, 1.0)
        history.conn.execute("DELETE FROM decisions WHERE holdout AND job_id >= ?", (2 * FEWEST,))
        history.conn.execute("DELETE FROM decisions WHERE holdout AND job_id = 1")

    found = told(fill)["saved"]
    assert (rows(found, "saved"), rows(found, "months")) == ([], [])
    assert found["answer"] == "not measured"


def test_months_have_no_gaps_and_one_control_group(told: Told) -> None:
    """A month without runs held 0 and measured nothing; one control group counts for all."""

    def fill(history: History) -> None:
        both(history, 2.0, 1.0)
        both(history, 3.0, 1.0, first=41, end_s=MARCH)
        history.conn.execute("DELETE FROM decisions WHERE holdout AND job_id > 41")

    found = told(fill)
    months = rows(found["saved"], "months")
    assert [(row["month"], row["jobs"]) for row in months] == [
        *(("2026-01", 20), ("2026-02", None), ("2026-03", 20))
    ]
    assert [row["saved"] for row in months[::2]] == [pytest.approx(20), pytest.approx(40)]
    held = rows(found["trends"], "held")
    assert [(row["runs"], row["gpu_hours"]) for row in held] == [
        *((40, pytest.approx(40)), (0, 0), (40, pytest.approx(40)))
    ]
    assert rows(found["trends"], "at_work")[1]["gpu"] is None


def test_the_newest_three_years_are_shown(told: Told) -> None:
    """A clock that was in 1970 does not make six hundred rows."""

    def fill(history: History) -> None:
        for job_id, end_s in enumerate((0.0, JAN, MARCH), 1):
            put(history, job_id, 1.0, 1.0, end_s=end_s)

    held = rows(told(fill)["trends"], "held")
    assert (len(held), held[0]["month"], held[-1]["month"]) == (36, "2023-04", "2026-03")


def test_shares_of_months_are_of_what_was_measured(told: Told) -> None:
    """Two hours half starved, one hour fed, one not measured: two thirds of three hours."""

    def fill(history: History) -> None:
        for job_id, (hours, able) in enumerate(((2.0, 2.0), (1.0, 1.0), (1.0, None)), 1):
            put(history, job_id, 1.0, hours)
            history.conn.execute(
                "UPDATE loader_runs SET accel_samples_per_s = ? WHERE run = ?", (able, job_id)
            )

    (row,) = rows(told(fill)["trends"], "at_work")
    assert row["fed"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("wrong", ["A100", "A100 = much", "= 2", "A100 = -1", "A100 = nan"])
def test_a_price_that_is_none_is_named(wrong: str) -> None:
    """The key, the value, and what is valid."""
    with pytest.raises(SettingsError, match=r"report\.gpu_hour_prices.*A100 = 1\.8"):
        parse(f'[report]\ngpu_hour_prices = ["{wrong}"]', "x")


def test_a_star_is_the_price_of_any_other() -> None:
    """Also of a GPU whose type nobody knows."""
    prices = ["A100-SXM4-80GB = 3", "a100 = 2", "* = 1"]
    models = (A100, "A100-PCIE-40GB", "V100", None)
    assert [hour_of(model, prices) for model in models] == [3, 2, 1, 1]
    assert hour_of("V100", prices[:2]) is None


def test_equal_weights_are_plain_logarithms() -> None:
    """`weighed` is the usual mean and variance then, and one heavy job alone tells nothing."""
    logs = [0.1, 0.5, -0.3, 0.8, 0.2]
    sums = (len(logs), math.fsum(logs), math.fsum(x * x for x in logs))
    plain, found = LogGroup(*sums), weighed(5, 10, 20, 2 * sums[1], 4 * sums[1], 4 * sums[2])
    assert found.n == pytest.approx(5)
    assert found.mean == pytest.approx(plain.mean)
    assert found.variance == pytest.approx(plain.variance)
    assert weighed(1, 1, 1, 0, 0, 0).n == 0
    assert weighed(100, 1e6 + 99, 1e12 + 99, 0, 0, 0).n < FEWEST


def test_intervals_of_weighed_ratios_hold_the_truth() -> None:
    """In at least 90 of 100 made-up months, of jobs whose hours differ by factors of a hundred."""
    rng = random.Random(5)

    def group(n: int, mean: float) -> LogGroup:
        drawn = [(rng.lognormvariate(0, 1), rng.gauss(mean, 0.3)) for _ in range(n)]
        powers = ((1, 0), (2, 0), (1, 1), (2, 1), (2, 2))
        return weighed(n, *(math.fsum(w**i * x**k for w, x in drawn) for i, k in powers))

    draws = 400
    found = [welch_ratio(group(200, math.log(1.3)), group(60, 0.0)) for _ in range(draws)]
    held = sum(one is not None and one.low <= 1.3 <= one.high for one in found)
    assert held >= 0.9 * draws
