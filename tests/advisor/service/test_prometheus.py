"""The shipped rules and dashboard, against Debian's real Prometheus and a real advisor."""

import json
import re
import shutil
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.advisor.a_service import Service, until

SITE = Path(__file__).parents[3] / "site_config"
RULES = SITE / "prometheus"
NEEDED = ("prometheus", "promtool")
pytestmark = pytest.mark.skipif(
    any(shutil.which(name) is None for name in NEEDED),
    reason="needs Prometheus (contrib/packaging/setup.sh)",
)


def promtool(*words: str, cwd: Path = RULES) -> str:
    """What promtool prints; it has to succeed."""
    done = subprocess.run(
        ["promtool", *words], cwd=cwd, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def boards() -> list[list[dict[str, Any]]]:
    """Panels of each dashboard."""
    paths = sorted((SITE / "grafana").glob("*.json"))
    return [json.loads(path.read_text())["panels"] for path in paths]


def panels() -> list[dict[str, Any]]:
    """Those of all dashboards."""
    return [panel for board in boards() for panel in board]


def expressions() -> list[str]:
    """Everything that the dashboards ask."""
    return [target["expr"] for panel in panels() for target in panel["targets"]]


def test_prometheus_takes_the_rules_and_they_tell_well_from_ill() -> None:
    """Syntax by `check`, meaning by `test`: each alert fires where it should and nowhere else."""
    assert "10 rules found" in promtool("check", "rules", "dlqueue.rules.yml")
    assert "SUCCESS" in promtool("test", "rules", "dlqueue.tests.yml")
    promtool("check", "config", "prometheus.yml")


def test_every_alert_is_tested() -> None:
    """No rule without a case in which it stays silent."""
    alerts = set(re.findall(r"- alert: (\w+)", (RULES / "dlqueue.rules.yml").read_text()))
    assert alerts == set(
        re.findall(r"eval_time: 60m, alertname: (\w+)", (RULES / "dlqueue.tests.yml").read_text())
    )


@pytest.mark.parametrize("number", range(len(boards())))
def test_panels_do_not_overlap_and_have_names(number: int) -> None:
    """Each has a title, a description and a place of its own on Grafana's 24 columns."""
    taken: set[tuple[int, int]] = set()
    for panel in boards()[number]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert panel["title"]
        assert panel["description"]
        assert max(x for x, _ in cells) < 24
        assert not cells & taken
        taken |= cells


class Prometheus:
    """The real one, on the loopback, with everything under one folder."""

    def __init__(self, folder: Path, target: str) -> None:
        for path in RULES.glob("*.yml"):
            text = path.read_text().replace("localhost:9847", target)
            (folder / path.name).write_text(
                text.replace("scrape_interval: 30s", "scrape_interval: 1s")
            )
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.where = f"127.0.0.1:{free.getsockname()[1]}"
        options = {
            "config.file": folder / "prometheus.yml",
            "storage.tsdb.path": folder / "data",
            "web.listen-address": self.where,
        }
        with (folder / "prometheus.log").open("wb") as log:
            self.process = subprocess.Popen(
                ["prometheus", *(f"--{name}={value}" for name, value in options.items())],
                stdout=log,
                stderr=log,
            )

    def asked(self, expression: str) -> list[dict[str, Any]] | None:
        """The answer to a query; None while it does not serve yet."""
        query = urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(
                f"http://{self.where}/api/v1/query?{query}", timeout=60
            ) as said:
                body = json.load(said)
        except urllib.error.HTTPError as error:
            if error.code == 503:  # it has not read its disk yet
                return None
            raise AssertionError(f"{expression}: {error.read()!r}") from None
        except OSError:
            assert self.process.poll() is None, "Prometheus ended"
            return None
        assert body["status"] == "success"
        found: list[dict[str, Any]] = body["data"]["result"]
        return found

    def stop(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()


@pytest.fixture
def scraping(tmp_path: Path) -> Iterator[tuple[Service, Prometheus]]:
    """An advisor, and a Prometheus that scrapes it every second."""
    (tmp_path / "advisor").mkdir()
    (tmp_path / "prometheus").mkdir()
    service = Service(tmp_path / "advisor", metrics__listen="0").start()
    found = re.search(r"metrics at http://([\d.]+:\d+)/", service.said())
    assert found
    prometheus = Prometheus(tmp_path / "prometheus", found[1])
    yield service, prometheus
    prometheus.stop()
    service.stop()


def test_a_real_scrape(scraping: tuple[Service, Prometheus]) -> None:
    """What was submitted is counted there; rules and dashboard ask only for what is told."""
    service, prometheus = scraping
    for _ in range(3):
        service.submit()
    counted = 'dlqueue_decisions_total{action="leave",outcome="kept"} == 3'
    until(lambda: prometheus.asked(counted), "a scrape")
    assert prometheus.asked('up{job="dlqueue"} == 1')
    for expression in expressions():
        assert prometheus.asked(expression) is not None
    later = {
        f"dlqueue_{name}"
        for name in (
            "gain_ratio",
            "model_error_ratio",
            "model_coverage_ratio",
            "model_drift_ratio",
            "model_outcomes",
        )
    }
    later |= {name for e in expressions() for name in re.findall(r"\bdlqueue_group_\w+", e)}
    texts = [*expressions(), (RULES / "dlqueue.rules.yml").read_text()]
    wanted = {name for text in texts for name in re.findall(r"\bdlqueue_\w+", text)}

    def told() -> set[str]:
        found = prometheus.asked('{__name__=~"dlqueue_.*"}') or ()
        return {one["metric"]["__name__"] for one in found}

    until(lambda: wanted - later <= told(), "all that is asked for: some comes with the history")
    assert prometheus.asked('ALERTS{alertstate="firing"}') == []
