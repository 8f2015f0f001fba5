"""What the advisor tells of itself: counts that are right, and no way to stop it by asking."""

import json
import os
import re
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from slurm_ext.advisor.service.counters import BOUNDS_S, AdvisorCounters
from slurm_ext.advisor.service.metrics import MOST_CLIENTS
from slurm_ext.advisor.service.prometheus_collector import of_spool
from slurm_ext.core.errors import SettingsError
from slurm_ext.core.records import Level
from slurm_ext.core.settings.document import parse
from slurm_ext.core.settings.loops_and_metrics import address_of
from slurm_ext.core.wire import encode_request, rests_of
from slurm_ext.history.views.outcomes import Residual
from slurm_ext.history.views.self_metrics import accuracy_of
from tests.advisor.a_service import Service, a_job, deliver, ledger, until

Start = Callable[..., Service]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """An advisor with settings of a test's own, ended with it."""
    started: list[Service] = []

    def make(**settings: object) -> Service:
        started.append(Service(tmp_path / str(len(started)), **settings))
        return started[-1].start()

    (tmp_path / "0").mkdir()
    (tmp_path / "1").mkdir()
    yield make
    for service in started:
        if service.process is not None and service.process.poll() is None:
            service.stop()


def where(service: Service) -> tuple[str, int]:
    """Host and port that its log tells."""
    found = re.search(r"metrics at http://([\d.]+):(\d+)/metrics", service.said())
    assert found, service.said()
    return found[1], int(found[2])


def scraped(service: Service) -> dict[str, float]:
    """Every sample of one scrape, by name and labels."""
    host, port = where(service)
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    families = text_string_to_metric_families(text)
    return {_name(s.name, s.labels): s.value for family in families for s in family.samples}


def _name(name: str, labels: dict[str, str]) -> str:
    return name + "".join(f" {value}" for _, value in sorted(labels.items()))


def test_a_scrape_counts_what_was_answered(start: Start) -> None:
    """Decisions by action and outcome, answers by kind, records of the ledger, no job's name."""
    service = start(metrics__listen="0")
    first = service.submit(name="secret-name")
    service.submit(env={"DLQUEUE": "off"})
    service.say(encode_request("predict", a_job()))
    seen = scraped(service)
    assert seen["dlqueue_decisions_total leave kept"] == 1
    assert seen["dlqueue_decisions_total none left_alone"] == 1
    assert seen["dlqueue_answer_seconds_count submit"] == 2
    assert seen["dlqueue_answer_seconds_bucket submit +Inf"] == 2
    assert seen["dlqueue_answer_seconds_count predict"] == 1
    assert (seen["dlqueue_breaker_open"], seen["dlqueue_killed"]) == (0, 0)
    assert not [name for name in seen if "secret" in name or first["decision"] in name]


def test_the_breakers_rests_are_told_with_requests(start: Start) -> None:
    """Lua's count grows with each rest, and begins anew with slurmctld."""
    service = start(metrics__listen="0")
    for rests in (2, 3, 5, 1):
        line = encode_request("submit", a_job())[:-2] + f',"rests":{rests}}}\n'.encode()
        assert service.say(line)["decision"]
    assert scraped(service)["dlqueue_breaker_trips_total"] == 1 + 2 + 1


def test_who_reads_slowly_or_never_does_not_hold_up_submissions(start: Start) -> None:
    """Scrapes wait for each other; slurmctld waits for none of them."""
    service = start(metrics__listen="0")
    clients = [socket.create_connection(where(service)) for _ in range(6)]
    try:
        for client in clients:
            client.sendall(b"GET /metrics HT")
        assert all(service.submit()["decision"] for _ in range(5))
    finally:
        for client in clients:
            client.close()
    assert scraped(service)["dlqueue_answer_seconds_count submit"] == 5


def test_slow_clients_do_not_starve_a_scrape(start: Start) -> None:
    """More silent ones than there are places: the scrape is answered while they stay open."""
    service = start(metrics__listen="0")
    clients = [socket.create_connection(where(service)) for _ in range(3 * MOST_CLIENTS)]
    try:
        for client in clients[::2]:
            with suppress(OSError):  # it had to make room
                client.sendall(b"GET /metrics HT")
        host, port = where(service)
        with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=60) as answer:
            assert answer.status == 200
    finally:
        for client in clients:
            client.close()


def test_a_port_that_is_taken_costs_the_metrics_alone(start: Start) -> None:
    """The advisor says so, and answers."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        service = start(metrics__listen=str(port))
        assert service.submit()["decision"]
        assert f"no metrics: {port} cannot be listened at" in service.said()


def test_off_by_default(service: Service) -> None:
    """Nothing is said of metrics, and no thread more is there."""
    assert service.submit()["decision"]
    assert "metrics" not in service.said()
    assert service.process is not None
    threads = Path(f"/proc/{service.process.pid}/task").glob("*/comm")
    assert "metrics\n" not in [thread.read_text() for thread in threads]


def test_a_log_of_json_names_each_decision(start: Start) -> None:
    """One object a line, and the id of every decision among them; text stays as it was."""
    service = start(log__format="json")
    tokens = [service.submit()["decision"] for _ in range(3)]
    until(lambda: tokens[-1] in service.said(), "the decision in the log")
    lines = [json.loads(line) for line in service.said().splitlines()]
    told = [line for line in lines if line["logger"] == "dlqueue.decisions"]
    assert [line["decision"] for line in told] == tokens
    assert {(line["action"], line["outcome"]) for line in told} == {("leave", "kept")}
    assert all(line["time"].endswith("+00:00") and line["level"] for line in lines)


def test_a_record_that_was_taken_waits_no_more(start: Start) -> None:
    """None is left once the history writer has taken it in."""
    service = start(metrics__listen="0")
    token = service.submit()["decision"]
    deliver(service, 7, decision=token)
    until(lambda: ledger(service) == [(token, "claimed")], "a claim")
    spool = service.folder / "state" / "spool"
    until(lambda: not list(spool.glob("*.json")), "the record is still there")
    seen = scraped(service)
    assert seen["dlqueue_ingest_waiting_records"] == 0
    assert seen["dlqueue_set_aside_records"] == 0


def test_a_record_that_waits_is_seen(tmp_path: Path) -> None:
    """The age of the oldest one, as long as nobody takes it in; other files are none."""
    for name, age_s in (("a.json", 500.0), ("b.json", 3.0), (".c.json", 9999.0), ("d", 9999.0)):
        path = tmp_path / "spool" / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
        os.utime(path, (time.time() - age_s,) * 2)
    told = {family.name: family.samples[0].value for family in of_spool(tmp_path)}
    assert told["dlqueue_ingest_waiting_records"] == 2
    assert told["dlqueue_ingest_lag_seconds"] >= 500
    assert all(family.samples[0].value == 0 for family in of_spool(tmp_path / "nowhere"))


# -- numbers ----------------------------------------------------------------------------------


def test_a_histogram_adds_up() -> None:
    """Every answer is in one bucket; one above all bounds in the last."""
    counters = AdvisorCounters()
    for seconds in (0.0, BOUNDS_S[0], 0.02, 99.0):
        counters.answered("predict", seconds, deadline_s=0.05, breaker_s=30)
    latency = counters.answers["predict"]
    assert (latency.counts[0], latency.counts[-1], sum(latency.counts)) == (2, 1, 4)
    assert latency.total_s == pytest.approx(99.0201)


def test_a_late_answer_opens_the_breaker_until_somebody_asks() -> None:
    """It asks nobody while it rests: whoever asks does not."""
    counters = AdvisorCounters()
    counters.answered("submit", 0.2, deadline_s=0.05, breaker_s=3600)
    assert counters.resting
    counters.answered("predict", 0.0, deadline_s=0.05, breaker_s=3600)
    assert counters.resting
    counters.answered("submit", 0.01, deadline_s=0.05, breaker_s=3600)
    assert not counters.resting


@pytest.mark.parametrize(
    ("line", "rests"),
    [
        (b'{"v":1,"rests":3,"job":{}}\n', 3),
        (b'{"v":1,"job":{},"rests":12}\n', 12),
        (b'{"job":{"script":"\\"rests\\":9,"}}\n', None),
        (b'{"rests":"3"}\n', None),
        (b'{"rests":-1}\n', None),
    ],
)
def test_rests_are_the_requests_own_word(line: bytes, rests: int | None) -> None:
    """A script cannot speak for slurmctld."""
    assert rests_of(line) == rests


def residual(predicted: float, achieved: float) -> Residual:
    """An outcome with an interval of 10 % on both sides."""
    return Residual(
        predicted=predicted,
        low=predicted * 0.9,
        high=predicted * 1.1,
        achieved=achieved,
        level=Level.SCRIPT,
        runs=3,
        factor=1.0,
        acted=True,
    )


def test_error_coverage_and_drift() -> None:
    """Medians over the newest, the share that intervals held, and the newest quarter apart."""
    newest = [residual(100, 140)] * 10
    before = [residual(100, 105)] * 30
    found = accuracy_of([*newest, *before])
    assert found is not None
    assert found.error == pytest.approx(0.05)
    assert found.coverage == 0.75
    assert found.drift == pytest.approx(8)
    assert accuracy_of([residual(0, 5)]) is None
    few = accuracy_of(before[:4])
    assert few is not None
    assert few.drift is None


@pytest.mark.parametrize(
    ("value", "address"),
    [
        ("9847", ("127.0.0.1", 9847)),
        (":9847", ("127.0.0.1", 9847)),
        ("0.0.0.0:9847", ("0.0.0.0", 9847)),
        ("[::1]:9847", ("::1", 9847)),
    ],
)
def test_where_to_listen(value: str, address: tuple[str, int]) -> None:
    """A port alone is for this machine."""
    assert parse(f'metrics.listen = "{value}"', "x")["metrics.listen"] == value
    assert address_of(value) == address


@pytest.mark.parametrize("value", ["x", "host:", "1:2:3", "99999", "host:port"])
def test_where_nobody_can_listen(value: str) -> None:
    """A clear error that says what is valid."""
    with pytest.raises(SettingsError, match="a port, or host:port"):
        parse(f'metrics.listen = "{value}"', "x")
