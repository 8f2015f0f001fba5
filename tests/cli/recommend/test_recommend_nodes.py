"""`dlqueue recommend --nodes` as people start it."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.cli import main
from slurm_ext.cli.predict.script_file import submission
from slurm_ext.core.job_keys import keys_of
from slurm_ext.core.records import Level
from tests.cli.recommend.test_recommend import asked, ingest, record, site

__all__ = ["site"]  # a fixture

TABLE = """
[[node]]
name = "one"
gpu = "a100"
gpus = 1
cores = 8
price_per_hour = 2
speed = 2
[[node]]
name = "eight"
gpu = "a100"
gpus = 8
cores = 64
price_per_hour = 24
most_nodes = 2
[[node]]
name = "new"
gpu = "h100"
gpus = 1
cores = 8
price_per_hour = 3
speed = 4
[[node]]
name = "other"
gpu = "mi300"
gpus = 1
cores = 8
price_per_hour = 1
"""


def on_a100(job_id: int) -> dict[str, Any]:
    """My run of train.sh that came to its end on one A100, without waiting for data."""
    told = record(job_id, 0.9)
    for summary in told["probe"]["summaries"]:
        summary["accelerator"] = "NVIDIA A100-SXM4-40GB"
        for loader in summary["loaders"]:
            for phase in loader["phases"]:
                phase |= {"wait_s": 0.0, "step_s": phase["wall_s"], "fetch_wall_s": 0.1}
                phase |= {"fetch_cpu_s": 0.05}
    return told


@pytest.fixture
def nodes(site: Path) -> Path:
    """A history with one run, and a table of node types."""
    ingest(site, on_a100(1))
    table = site.parent / "nodes.toml"
    table.write_text(TABLE)
    return table


def test_the_cheapest_and_the_fastest_are_named(
    site: Path, nodes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With their evidence; a type that nobody measured is left out, and why is said."""
    document = asked(
        site,
        capsys,
        "--name",
        "train.sh",
        "--nodes",
        str(nodes),
        "--samples",
        "1e6",
        "--most-batch",
        "4096",
    )
    assert document["cheapest"]["node"] in ("one", "new")
    assert document["fastest"]["gpus"] >= 8
    assert document["fastest"]["cost"] > document["cheapest"]["cost"]
    assert document["front"][0] == document["fastest"]
    assert document["front"][-1] == document["cheapest"]
    assert document["missing"] == []
    assert document["left_out"].keys() == {"other"}
    assert "give both a speed" in document["left_out"]["other"]
    by_node = {one["node"]: one for one in document["shapes"] if one["nodes"] == 1}
    assert by_node["one"]["rests_on"] == "its own runs on these GPUs"
    assert "the table's speed of h100" in by_node["new"]["rests_on"]
    assert by_node["new"]["samples_per_s"] > 1.5 * by_node["one"]["samples_per_s"]
    assert not by_node["new"]["certain"]


def test_a_gpu_is_not_known_by_another_whose_name_its_own_begins(
    site: Path, nodes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Runs on an A100 say nothing of an A10, which is left out as any GPU that nobody ran on."""
    nodes.write_text(TABLE.replace("mi300", "a10"))
    words = ["--name", "train.sh", "--nodes", str(nodes), "--samples", "1e6"]
    left_out = asked(site, capsys, *words)["left_out"]
    assert left_out.keys() == {"other"}
    assert "and a10: give both a speed" in left_out["other"]


def test_a_longer_training_validates_and_saves_more(
    site: Path, nodes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A hundred times the samples take a hundred times as long, not in the training loop alone."""
    run, script = on_a100(2), tmp_path / "train.sh"
    script.write_text("#!/bin/bash\npython3 train.py\n")
    run["times"]["elapsed_s"] = 323.0  # of which 23 in the loop
    ingest(site, run)
    key = keys_of(submission(str(script), ()))[Level.SCRIPT_ARGS]
    with closing(sqlite3.connect(tmp_path / "state" / "history.db")) as conn, conn:
        conn.execute("UPDATE loader_runs SET key_script_args = ? WHERE outside_s > 299", (key,))
    words = [str(script), "--nodes", str(nodes)]
    once = asked(site, capsys, *words)
    assert once["startup_s"] == pytest.approx(300.0)
    more = asked(site, capsys, *words, "--samples", str(100 * once["samples"]))
    assert more["startup_s"] == pytest.approx(100 * 300.0)
    assert more["fastest"]["time_s"] == pytest.approx(100 * once["fastest"]["time_s"])


def test_the_batch_stays_as_it_was_unless_more_is_allowed(
    site: Path, nodes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Eight GPUs have an eighth of it each, and sixteen a sixteenth."""
    words = ["--name", "train.sh", "--nodes", str(nodes), "--samples", "1e6"]
    document = asked(site, capsys, *words)
    assert {one["gpus"] * one["batch"] for one in document["shapes"]} == {32.0}


def test_a_deadline_that_nothing_meets_is_said(
    site: Path, nodes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The fastest is still named, and exit is 0."""
    words = ["--name", "train.sh", "--nodes", str(nodes), "--deadline", "0:01", "--samples", "1e9"]
    document = asked(site, capsys, *words)
    assert document["cheapest"] is None
    assert document["deadline_s"] == 1
    assert document["likeliest"]["chance"] < 0.01
    assert main(["recommend", *words, "--config", str(site)]) == 0
    assert "no shape is sure to meet the deadline" in capsys.readouterr().out


def test_the_page_has_the_front_as_a_plot(
    site: Path, nodes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Cost over time, and the words of the terminal."""
    page = tmp_path / "nodes.html"
    words = ["--nodes", str(nodes), "--samples", "1e6", "--html", str(page)]
    assert main(["recommend", "--name", "train.sh", *words, "--config", str(site)]) == 0
    assert "cheapest: 1 x " in capsys.readouterr().out
    text = page.read_text(encoding="utf-8")
    assert "<svg" in text
    assert "Cost over time" in text
    assert "dlqueue recommend" in text


def test_without_runs_nothing_is_recommended(
    site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every type is left out with its reason, and what is missing is said."""
    ingest(site)
    table = tmp_path / "nodes.toml"
    table.write_text(TABLE)
    words = ["--name", "train.sh", "--nodes", str(table)]
    document = asked(site, capsys, *words)
    assert document["cheapest"] is document["fastest"] is None
    assert "--samples" in document["missing"][0]
    assert asked(site, capsys, *words, "--samples", "5")["missing"][0].startswith("a rate")
    assert len(document["left_out"]) == 4


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--deadline", "1:00:00"], 2, "--deadline goes with --nodes"),
        (["--nodes", "absent.toml"], 1, "absent.toml: cannot be read"),
    ],
)
def test_half_a_question_is_told(
    site: Path, words: list[str], status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line."""
    ingest(site)
    assert main(["recommend", "--name", "x", *words, "--config", str(site)]) == status
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value"),
    [("deadline", "soon"), ("deadline", "0"), ("budget", "-1"), ("samples", "nan")],
)
def test_limits_are_times_and_numbers(
    site: Path, option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The option that is wrong is named."""
    words = ["--nodes", "x.toml", f"--{option}={value}"]
    with pytest.raises(SystemExit):
        main(["recommend", "--name", "x", *words, "--config", str(site)])
    assert f"--{option}" in capsys.readouterr().err


def test_the_document_is_json(site: Path, nodes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No number that JSON lacks."""
    line = ["recommend", "--name", "train.sh", "--nodes", str(nodes), "--json"]
    assert main([*line, "--config", str(site)]) == 0
    json.loads(capsys.readouterr().out, parse_constant=pytest.fail)


def test_the_shape_to_try_first_is_named(
    site: Path, nodes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A GPU that only a benchmark tells of may save much: its chance and saving are told."""
    nodes.write_text(TABLE.replace("price_per_hour = 3", "price_per_hour = 4"))
    words = ["--name", "train.sh", "--nodes", str(nodes), "--samples", "1e6"]
    trial = asked(site, capsys, *words)["trial"]
    assert trial["node"] == "new"
    assert 0 < trial["saving"] < trial["chance"] < 1
    assert main(["recommend", *words, "--config", str(site)]) == 0
    said = capsys.readouterr().out
    assert "a run of some minutes on 1 x new first" in said
    assert "cheaper to expect" in said


def test_more_numbers_of_nodes_than_can_be_rated_soon_are_refused(
    site: Path, nodes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A question may come from anybody, and the advisor answers others beside it."""
    many = "".join(
        TABLE.replace('"eight"', f'"n{number}"').split("[[node]]")[2].join(["[[node]]", ""])
        for number in range(3)
    ).replace("most_nodes = 2", "most_nodes = 4096")
    nodes.write_text(many)
    line = ["recommend", "--name", "train.sh", "--nodes", str(nodes), "--samples", "1e6"]
    assert main([*line, "--most-batch", "100000", "--config", str(site)]) == 2
    assert "more than 5000 numbers of nodes to rate" in capsys.readouterr().err
