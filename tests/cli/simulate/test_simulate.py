"""`dlqueue simulate`: a table, JSON and a page; wrong usage is 2, a wrong trace 1."""

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from slurm_ext.cli import main

TRACE = "job,submit_s,duration_s,gpus\n1,0,100,6\n2,1,50,4\n3,2,20,2\n4,3,0,1\n"
UNLIMITED = "without a time limit: backfill knows how long they run"


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """A small trace."""
    path = tmp_path / "a<b>.csv"
    path.write_text(TRACE)
    return str(path)


def test_policies_side_by_side_as_json(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One row a policy, with what was repaired in the trace."""
    words = ["simulate", trace, "--json", "--nodes", "1", "--policy", "fifo,fifo+backfill"]
    assert main(words) == 0
    said = json.loads(capsys.readouterr().out)
    strict, filled = said["policies"]
    assert (strict["policy"], filled["policy"]) == ("fifo", "fifo+backfill")
    assert filled["queue_mean_s"] < strict["queue_mean_s"]
    assert said["repairs"] == {"ran for 0 s: replayed as 1 s": 1, UNLIMITED: 4}
    assert said["gpus"] == 8


def test_a_table_for_people(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every usual policy has its row; repairs and gains are told below."""
    assert main(["simulate", trace, "--nodes", "1"]) == 0
    said = capsys.readouterr().out
    assert "tiresias" in said
    assert "1 job: ran for 0 s: replayed as 1 s" in said
    gains = [line for line in said.splitlines() if "mean JCT " in line and " than " in line]
    assert len(gains) == 4
    assert all(line.endswith(" than fifo+backfill") for line in gains)


def test_backfill_that_knows_run_times_is_told(
    tmp_path: Path, trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Jobs without a time limit are counted where a policy backfills, and nowhere else."""
    words = ["--nodes", "1", "--policy"]
    assert main(["simulate", trace, *words, "fewest+backfill"]) == 0
    assert f"4 jobs: {UNLIMITED}" in capsys.readouterr().out
    limited = tmp_path / "limited.csv"
    limited.write_text("job,submit_s,duration_s,gpus,limit_s\n1,0,100,6,200\n2,1,50,4,60\n")
    for path, policy in ((trace, "fifo"), (str(limited), "fifo+backfill")):
        assert main(["simulate", path, *words, policy]) == 0
        assert UNLIMITED not in capsys.readouterr().out


def test_seeds_give_a_range(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two jobs that come together: which goes first decides the mean, and both ends are told."""
    path = tmp_path / "trace.csv"
    path.write_text("job,submit_s,duration_s,gpus\n1,0,100,8\n2,0,10,8\n")
    words = ["simulate", str(path), "--nodes", "1", "--policy", "fifo", "--seeds", "9"]
    assert main([*words, "--json"]) == 0
    (policy,) = json.loads(capsys.readouterr().out)["policies"]
    assert policy["ranges"]["jct_mean_s"] == [60, 105]
    assert policy["ranges"]["makespan_s"] == [110, 110]
    assert main(words) == 0
    assert "fifo: mean JCT 1 min to 1.75 min over 9 seeds" in capsys.readouterr().out
    assert main([*words[:-1], "0"]) == 2


class Page(HTMLParser):
    """Counts the tags of a page and keeps what they fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        self.tags.append(tag)
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href")]


def test_a_page_with_plots_that_needs_nothing_else(trace: str, tmp_path: Path) -> None:
    """Three plots, no script, nothing fetched, and a file's name is no markup."""
    path = tmp_path / "page.html"
    assert main(["simulate", trace, "--nodes", "1", "--html", str(path), "--policy", "fifo"]) == 0
    text = path.read_text()
    page = Page()
    page.feed(text)
    assert page.tags.count("svg") == 3
    assert not page.fetched
    assert "script" not in page.tags
    assert "a<b>" not in text
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a<b>.csv", "page.html"]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--nodes", "1", "--policy", "lifo"], "fifo, fewest"),
        (["--nodes", "1", "--policy", "fifo,fifo"], "twice"),
        (["--nodes", "1", "--policy", "srtf+backfill"], "preempts"),
        (["--nodes", "1", "--policy", "fifo+ageing"], "order by size"),
        ([], "--nodes N"),
        (["--nodes", "0"], "from 1 to 100000"),
        (["--nodes", "1", "--seed", "-1"], "from 0 to"),
        (["--nodes", "1", "--format", "pbs"], "sacct"),
        (["--nodes", "1", "--timezone", "+2"], "+02:00"),
    ],
)
def test_wrong_usage_says_what_is_valid(
    trace: str, words: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2 and one line."""
    assert main(["simulate", trace, *words]) == 2
    assert named in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--nodes", "1", "--policy", "qssf"], "--estimates FILE"),
        (["--nodes", "1", "--gpus-per-node", "4"], "job 1 asks for 6 GPUs"),
        (["--nodes", "1", "--html", "/nowhere/page.html"], "cannot be written"),
    ],
)
def test_what_cannot_be_replayed_is_one_line(
    trace: str, words: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 1, and what to do."""
    assert main(["simulate", trace, *words]) == 1
    told = capsys.readouterr()
    assert named in told.err
    assert not told.out
