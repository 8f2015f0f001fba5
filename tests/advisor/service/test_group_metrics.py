"""Metrics by partition and account: right, bounded, and all that dashboards and rules ask for."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.core import Metric

from slurm_ext.advisor.service import group_families
from slurm_ext.advisor.service.advisor import Advisor
from slurm_ext.advisor.service.group_families import GroupFamilies, of_groups
from slurm_ext.advisor.service.prometheus_collector import PrometheusCollector
from slurm_ext.history.store.store import History, open_history
from slurm_ext.history.views import group_figures
from slurm_ext.history.views.group_figures import OTHER
from tests.advisor.service.test_advisor_lines import settings
from tests.report.test_gain import decide, put_run
from tests.report.test_report_savings import JAN, put

SITE = Path(__file__).parents[3] / "site_config"
DASHBOARDS = sorted((SITE / "grafana").glob("*.json"))


def samples(families: list[Metric]) -> dict[tuple[str, ...], float]:
    """Values by family and labels."""
    return {
        (one.name.removeprefix("dlqueue_group_"), *one.labels.values()): one.value
        for family in families
        for one in family.samples
    }


def gained(history: History, first: int, rate: float, **columns: Any) -> None:
    """Twenty changed jobs at this rate, and twenty of the control group."""
    for job_id in range(first, first + 40):
        put(history, job_id, 1.0 if job_id % 2 else rate, 1.0, **columns)


def test_each_group_has_its_hours_its_waste_and_its_gain(tmp_path: Path) -> None:
    """One partition at twice the rate, one at an equal one; half of what a GPU could was done."""
    with open_history(tmp_path / "history.db") as history:
        gained(history, 1, 2.0, partition="a", account="x")
        gained(history, 41, 1.0, partition="b", account="x")
        history.conn.execute(
            "UPDATE loader_runs SET accel_samples_per_s = 2 * samples_per_s WHERE run <= 40"
        )
    found = samples(of_groups(tmp_path))
    assert found["runs", "partition", "a"] == 40
    assert found["held_hours", "account", "x", "gpu_hours"] == pytest.approx(80)
    assert found["waste_ratio", "partition", "a", "starved"] == pytest.approx(0.5)
    assert found["wasted_hours", "account", "x", "starved"] == pytest.approx(20)
    assert ("waste_ratio", "partition", "b", "starved") not in found  # nobody measured it
    assert found["gain_ratio", "partition", "a", "mean"] == pytest.approx(2)
    assert found["gain_ratio", "partition", "b", "mean"] == pytest.approx(1)
    assert found["gain_ratio", "account", "x", "mean"] == pytest.approx(2**0.5)
    assert found["gain_ratio", "account", "x", "low"] < 2**0.5


def test_a_run_of_two_nodes_is_one_decision(tmp_path: Path) -> None:
    """A decision counts once in the gain, as it does in the report's."""
    with open_history(tmp_path / "history.db") as history:
        gained(history, 1, 2.0, partition="a")
        decide(history, 50, before_cpus=1)
        for _ in range(30):
            put_run(history, 50, 16.0, partition="a", end_s=JAN)
    gain = samples(of_groups(tmp_path))["gain_ratio", "partition", "a", "mean"]
    assert gain == pytest.approx((2**20 * 16) ** (1 / 21))


def test_however_many_accounts_there_are_series_are_few(tmp_path: Path) -> None:
    """The largest are told apart, all others are one; nothing is lost, and no name comes twice."""
    hostile = ['a"} 1\nfake 2', "other", "", "x" * 300]
    with open_history(tmp_path / "history.db") as history:
        for number in range(100):
            account = hostile[number] if number < len(hostile) else f"account-{number}"
            put(history, number + 1, 1.0, 1000.0 - number, account=account, partition="p")
    families = of_groups(tmp_path)
    held = {
        name: value
        for (family, by, name, *more), value in samples(families).items()
        if family == "held_hours" and by == "account" and more == ["gpu_hours"]
    }
    assert len(held) == group_figures.NAMES  # one of the largest is itself called other
    assert sum(held.values()) == pytest.approx(sum(1000.0 - n for n in range(100)))
    assert max(len(name) for name in held) <= group_figures.LONGEST
    labels = [(one.name, *one.labels.values()) for f in families for one in f.samples]
    assert len(labels) == len(set(labels)) < 700


def test_only_the_newest_runs_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A history of years costs what its last runs cost."""
    monkeypatch.setattr(group_figures, "RUNS", 3)
    with open_history(tmp_path / "history.db") as history:
        for number in range(10):
            put(history, number + 1, 1.0, 1.0, partition=f"p{number}", end_s=JAN + number)
    found = samples(of_groups(tmp_path))
    assert {name[2] for name in found if name[:2] == ("runs", "partition")} == {"p7", "p8", "p9"}


def test_one_users_flood_hides_no_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While others have runs, one user's are a third of those that are looked at."""
    monkeypatch.setattr(group_figures, "RUNS", 9)
    with open_history(tmp_path / "history.db") as history:
        for number in range(40):
            user, partition = ("eve", "flood") if number >= 8 else (f"u{number}", f"p{number}")
            put(history, number + 1, 1.0, 1.0, user=user, partition=partition, end_s=JAN + number)
    found = samples(of_groups(tmp_path))
    counts = {name[2]: value for name, value in found.items() if name[:2] == ("runs", "partition")}
    assert counts == {"flood": 3.0, **{f"p{number}": 1.0 for number in range(2, 8)}}


def test_the_history_is_asked_every_five_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at each scrape; a look that fails is not repeated before its time either."""
    clock, looks = [100.0], list[Path]()

    def looked(state: Path) -> list[Metric]:
        looks.append(state)
        raise OSError(5, "disk")

    monkeypatch.setattr(group_families, "of_groups", looked)
    where = "slurm_ext.advisor.service.group_families.time.monotonic"
    monkeypatch.setattr(where, lambda: clock[0])
    made = GroupFamilies()
    for clock[0], wanted in ((100.0, 1), (399.0, 1), (400.0, 2)):
        try:
            assert made.of(tmp_path) == []
        except OSError:
            assert len(looks) == wanted
        assert len(looks) == wanted


def test_whatever_a_dashboard_or_a_rule_asks_for_is_told(advisor: Advisor, tmp_path: Path) -> None:
    """Each family's name, with a history in which everything was measured."""
    with open_history(tmp_path / "history.db") as history:
        gained(history, 1, 2.0, partition="a", account="x")
        history.conn.execute("UPDATE loader_runs SET accel_samples_per_s = 2 * samples_per_s")
        history.conn.execute("UPDATE decisions SET user = 'ada'")
    advisor.settings = settings(paths__state_dir=str(tmp_path))
    advisor.counters.decisions["leave", "kept"] += 1
    advisor.counters.answered("submit", 0.02, 0.05, 30.0)
    told = {
        name
        for family in PrometheusCollector(advisor).collect()
        for name in (family.name, *(one.name for one in family.samples))
    }
    texts = [path.read_text() for path in (*DASHBOARDS, *(SITE / "prometheus").glob("*rules.yml"))]
    asked = {name for text in texts for name in re.findall(r"\bdlqueue_\w+", text)}
    assert {name for name in asked if name.startswith("dlqueue_group_")}
    assert asked <= told


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: str(path.stem))
def test_a_dashboard_is_one_that_grafana_can_load(path: Path) -> None:
    """What Grafana's schema wants of a dashboard and of each panel; kinds that it has; own ids."""
    board = json.loads(path.read_text())
    assert isinstance(board["schemaVersion"], int)
    assert re.fullmatch(r"[\w-]{1,40}", board["uid"])
    assert [one["type"] for one in board["templating"]["list"]] == ["datasource"]
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    for panel in board["panels"]:
        assert panel["type"] in ("timeseries", "stat", "table", "bargauge")
        assert panel["datasource"] == {"type": "prometheus", "uid": "${source}"}
        refs = [target["refId"] for target in panel["targets"]]
        assert refs == sorted(set(refs))
        assert set(panel["gridPos"]) == {"x", "y", "w", "h"}


def test_labels_that_dashboards_select_exist(tmp_path: Path) -> None:
    """A typo in `kind="..."` would be an empty panel for ever."""
    with open_history(tmp_path / "history.db") as history:
        gained(history, 1, 2.0, partition="a", account="x", mem_bytes=1 << 30)
        history.conn.execute("UPDATE loader_runs SET accel_samples_per_s = 2 * samples_per_s")
    values = {
        value for family in of_groups(tmp_path) for one in family.samples
        for value in one.labels.values()
    }  # fmt: skip
    values |= set(group_figures.LOSSES)
    text = (SITE / "grafana" / "dlqueue-groups.json").read_text()
    asked = set(re.findall(r'\w+=\\"(\w+)\\"', text))
    assert asked
    assert asked <= values
    assert OTHER not in asked
