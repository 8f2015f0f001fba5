"""`dlqueue simulate --elastic` and `--energy`: table, JSON by its schema, page, clear errors."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.cli import main
from tests.cli.test_schemas import faults
from tests.simulate.elastic.pollux_folder import write_folder

DAYS = 2
ALL_ELASTIC = "static,tiresias,genetic,ours"
ALL_ENERGY = "always-on,vanilla,persistence,ours"


@pytest.fixture
def workload(tmp_path: Path) -> str:
    """Two jobs of one application."""
    return str(write_folder(tmp_path))


@pytest.fixture
def demand(tmp_path: Path) -> str:
    """Days of ten nodes, busy by day."""
    lines = ["time,needed,there"]
    for slot in range(144 * DAYS):
        need = round(5 + 4 * math.sin(slot / 144 * 2 * math.pi))
        lines.append(f"{1_700_000_400 + 600 * slot},{need},10")
    path = tmp_path / "demand-gpu.csv"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def simulated(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """The document of a replay; it has to be as the schema says."""
    assert main(["simulate", *words, "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert faults("simulate", document) == []
    return document


def test_elastic_policies_side_by_side(workload: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A row a policy, in the order of the command line."""
    words = ["--elastic", ALL_ELASTIC, "--nodes", "2", "--gpus-per-node", "4"]
    document = simulated(capsys, workload, *words)
    assert [row["policy"] for row in document["policies"]] == ALL_ELASTIC.split(",")
    assert (document["kind"], document["jobs"], document["gpus"]) == ("elastic", 2, 8)
    assert document["policies"][0]["jct_mean_s"] == pytest.approx(122.0)


def test_energy_policies_side_by_side(demand: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nodes are off under all policies but one; what jobs lacked is a share."""
    document = simulated(capsys, "--energy", demand, "--policy", ALL_ENERGY, "--learn", "0.25")
    rows = {row["policy"]: row for row in document["policies"]}
    assert (document["slots"], document["learned_slots"]) == (216, 72)
    assert document["forecast"].startswith("persistence: ")
    assert rows["always-on"] == {
        "policy": "always-on",
        "utilisation": pytest.approx(0.45, abs=0.05),
        "powered_mean": 10.0,
        "node_hours_off": 0.0,
        "wakes_per_day": 0.0,
        "woken_per_day": 0.0,
        "short": 0.0,
    }
    assert rows["vanilla"]["node_hours_off"] > rows["ours"]["node_hours_off"] >= 0
    assert rows["vanilla"]["wakes_per_day"] > rows["ours"]["wakes_per_day"]


def test_a_queue_is_as_the_schema_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The kind that there was before."""
    path = tmp_path / "trace.csv"
    path.write_text("job,submit_s,duration_s,gpus\n1,0,100,6\n")
    assert simulated(capsys, str(path), "--nodes", "1")["kind"] == "queue"


def test_suspend_time_is_vanillas(demand: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The longer nodes stay idle, the fewer hours they are off."""
    off = [
        simulated(capsys, "--energy", demand, "--policy", "vanilla", "--suspend-s", seconds)[
            "policies"
        ][0]["node_hours_off"]
        for seconds in ("0", "600", "7200")
    ]
    assert off == sorted(off, reverse=True)
    assert len(set(off)) == 3


def test_tables_for_people(workload: str, demand: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Figures and how far each policy is from the first."""
    words = ["--nodes", "2", "--gpus-per-node", "4", "--elastic", "static,ours"]
    assert main(["simulate", workload, *words]) == 0
    assert "than static" in capsys.readouterr().out
    assert main(["simulate", "--energy", demand, "--policy", "always-on,vanilla"]) == 0
    said = capsys.readouterr().out
    assert "vanilla: " in said
    assert "node-hours off than always-on" in said


def test_pages_with_plots(workload: str, demand: str, tmp_path: Path) -> None:
    """A page says which kind of replay it shows."""
    page = tmp_path / "page.html"
    words = ["--nodes", "2", "--gpus-per-node", "4", "--elastic", "static"]
    assert main(["simulate", workload, *words, "--html", str(page)]) == 0
    assert "Elastic policies on" in page.read_text()
    words = ["--energy", demand, "--policy", "always-on", "--html", str(page)]
    assert main(["simulate", *words]) == 0
    assert "Energy policies on" in page.read_text()
    assert page.read_text().count("<svg") == 1


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["W", "--elastic", "ours,lifo", "--nodes", "2"], "ours, genetic, static, tiresias"),
        (["W", "--elastic", "ours,ours", "--nodes", "2"], "twice"),
        (["W", "--elastic", "ours"], "--nodes N"),
        (["W", "--elastic", "ours", "--nodes", "2", "--policy", "fifo"], "--policy says nothing"),
        (["W", "--elastic", "ours", "--nodes", "2", "--vc-nodes", "x"], "--vc-nodes says nothing"),
        (["W", "--elastic", "ours", "--nodes", "2", "--interference", "1"], "from 0.0 to 0.99"),
        (["W", "--nodes", "2", "--learn", "0.5"], "--learn says nothing"),
        (["W", "--energy", "D"], "TRACE says nothing with --energy"),
        (["--energy", "D", "--nodes", "2"], "--nodes says nothing with --energy"),
        (["--energy", "D", "--policy", "fifo"], "ours, persistence, vanilla, always-on"),
        (["--energy", "D", "--policy", "ours,ours"], "twice"),
        (["--energy", "D", "--learn", "nan"], "from 0.0 to 0.95"),
        (["--energy", "D", "--suspend-s", "-1"], "--suspend-s -1"),
        (["--nodes", "1"], "name the TRACE"),
    ],
)
def test_wrong_usage_says_what_is_valid(
    workload: str,
    demand: str,
    words: list[str],
    named: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Status 2 and one line; an option of another kind is never silently without effect."""
    real = {"W": workload, "D": demand}
    assert main(["simulate", *(real.get(word, word) for word in words)]) == 2
    assert named in capsys.readouterr().err.replace("\n", " ")


def test_a_workload_that_does_not_fit(
    workload: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Job b asks for 4 GPUs: it is named, or left out where that is asked for."""
    small = ["--nodes", "1", "--gpus-per-node", "2", "--elastic", "static"]
    assert main(["simulate", workload, *small]) == 1
    assert "job b asks for 4 GPUs" in capsys.readouterr().err
    document = simulated(capsys, workload, *small, "--leave-out-larger")
    assert document["jobs"] == 1
    assert document["repairs"] == {"left out: larger than its cluster": 1}
    one = ["--nodes", "1", "--gpus-per-node", "4", "--elastic", "static"]
    assert main(["simulate", workload, *one, "--tables", str(tmp_path / "none")]) == 1
    assert "folder of tables" in capsys.readouterr().err


def test_larger_nodes_than_measured_are_told(
    workload: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody takes a figure for measured that is only near to one that was."""
    document = simulated(capsys, workload, "--nodes", "1", "--elastic", "static")
    (why,) = document["repairs"]
    assert "larger than those" in why


def test_an_application_without_tables_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the option that says where tables are."""
    path = write_folder(tmp_path, (("a", 0, "other", 1, 20),))
    assert main(["simulate", str(path), "--nodes", "1", "--elastic", "ours"]) == 1
    assert "no tables of other: see --tables" in capsys.readouterr().err.replace("\n", " ")
