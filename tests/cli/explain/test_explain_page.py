"""`dlqueue explain --html` writes a page with what the terminal says, and more of it drawn."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.cli import main
from slurm_ext.cli.explain import page_step
from slurm_ext.cli.explain.page import page, sections
from slurm_ext.core.settings.document import load
from slurm_ext.questions.answers import document_of
from slurm_ext.questions.explain.stalls import WORDS
from slurm_ext.report.formatting import name
from tests.cli.explain.a_whole_job import JOB, NODES, whole_job
from tests.cli.explain.test_explain_sheet import Explain, explain, folder

__all__ = ["explain", "folder"]  # fixtures
HOSTILE = '"><script>hacked()</script><img src=x onerror=y>{{ 7 * 7 }}\u202egnp.exe\x1b[31m'


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Settings of a history with one job, whose user and script have a hostile name."""
    return whole_job(tmp_path_factory.mktemp("whole"), HOSTILE)


@pytest.fixture(scope="module")
def document(site: Path) -> dict[str, Any]:
    """Its document as it comes over the network."""
    found: dict[str, Any] = json.loads(json.dumps(document_of(load(site), "explain", job=str(JOB))))
    return found


def test_every_part_has_its_figures_and_its_plot(document: dict[str, Any]) -> None:
    """Asked against used, a line a node over time, the bar of a batch, and the two shapes."""
    found = {one.key: one for one in sections(document)}
    assert list(found) == ["use", "time", "step", "changes"]
    asked = {row[0]: row[1:] for row in found["use"].tables[0].rows}
    assert asked["memory"] == ("800 MiB", "488 MiB", pytest.approx(512 / 838.8608))
    assert asked["time"] == ("01:00:00", "00:10:00", pytest.approx(1 / 6))
    over_time = {table.key: table for table in found["time"].tables}
    assert list(over_time)[:6] == [
        *("cpus", "mem_bytes", "gpus", "gpu_mem_bytes", "read_bytes_per_s", "wait")
    ]
    for table in list(over_time.values())[:6]:
        assert table.chart is not None
        assert [series.name for series in table.chart.series] == list(NODES)
    assert over_time["cpus"].rows[0] == ("n1", pytest.approx(1.5), pytest.approx(1.5), 2)
    assert len(over_time["figures-1"].rows) == 60
    (batch,) = found["step"].tables  # ranks of both nodes are looked at together
    assert sum(row[-1] for row in batch.rows) == pytest.approx(1.0, abs=0.02)


def test_the_share_that_is_told_is_the_bars() -> None:
    """Communication is no computing there, though the accelerator utilisation counts it as busy."""
    parts = {**dict.fromkeys(WORDS, 0.0), "computing": 0.06, "communicating": 0.04}
    stalls = {"step_s": 0.1, "parts": parts, "au": 1.0}
    (step,) = page_step.sections([{"stalls": stalls, "node": "n1", "advice": ()}])
    assert step.answer == "60 % of it the training computed"


def test_what_was_changed_stands_beside_what_came_of_it(document: dict[str, Any]) -> None:
    """The shape that ran is the one that its rate is held against; 129.1 of 140 is 7.8 % less."""
    changes = list(sections(document))[-1]
    shapes, scores = changes.tables
    assert changes.answer == "changed"
    assert ("workers of each loader", "0", "4") in shapes.rows
    assert [row[0] for row in scores.rows] == [
        *("predicted as written", "predicted as chosen", "measured")
    ]
    assert "Its rate was -7.8 % against the one predicted as chosen: inside" in changes.lead[-1]
    ledger = {**document["decision"], "mode": "shadow"}
    left = list(sections({**document, "decision": ledger}))[-1]
    assert left.answer == "left as written (mode shadow)"
    assert "against the one predicted as written" in left.lead[-1]


@pytest.fixture(scope="module")
def output(site: Path) -> Path:
    """Its page, as the command writes it."""
    output = site.with_name("job.html")
    assert main(["explain", str(JOB), "--config", str(site), "--html", str(output)]) == 0
    return output


def test_a_hostile_name_is_text(output: Path) -> None:
    """Markup, templates, turned writing and terminal's escapes stand there as words."""
    text = output.read_text(encoding="utf-8")
    assert not re.search(r"<(script|img)\b", text)
    assert "{{ 7 * 7 }}" in text
    assert not {"\u202e", "\x1b"} & set(text)
    assert name(HOSTILE).replace("<", "&lt;").replace(">", "&gt;").replace('"', "&#34;") in text


def test_it_needs_nothing_else(output: Path) -> None:
    """One file without network or script, which others cannot read."""
    text = output.read_text(encoding="utf-8")
    assert not re.search(r"(src|href)=\"(?!#)", text)
    assert text.count("<svg") == 9
    assert output.stat().st_mode & 0o007 == 0


@pytest.mark.parametrize("named", ["70", "50"])
def test_an_array_and_jobs_of_which_less_is_known(
    explain: Explain, tmp_path: Path, named: str
) -> None:
    """Its tasks in a table; a job without a decision or a step has the other parts."""
    output = tmp_path / "job.html"
    assert explain(named, "--html", str(output)).startswith(("array:    70", "job:      50"))
    text = output.read_text(encoding="utf-8")
    assert ("25 tasks, 1 not completed" in text) == (named == "70")
    assert ('<section id="use"' in text) == (named != "70")
    assert '<section id="changes"' not in text


def test_a_job_that_waits_has_the_terminals_words() -> None:
    """Nothing is known of it but what Slurm says."""
    nothing = dict.fromkeys(("job", "tasks", "decision", "run_time", "stragglers", "gain"))
    running = {"state": "RUNNING", "nodes": "n[1-2]", "start_s": None, "end_s": None}
    lists: dict[str, Any] = {"past": [], "runs": [], "moves": []}
    text = page({"v": 1, "job_id": 7, **nothing, **lists, "queue": None, "running": running})
    assert "<h1>Job 7</h1>" in text
    assert "RUNNING on n[1-2]" in text


def test_the_page_of_before_stays_where_the_disk_is_full(
    explain: Explain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new one is whole, or it is not there."""
    output = tmp_path / "job.html"
    output.write_text("old")

    def full(_: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    said = explain("70", "--html", str(output), status=1)
    assert "No space left on device; what was there before is untouched" in said
    assert output.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["job.html"]
