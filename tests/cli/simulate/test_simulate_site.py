"""`dlqueue simulate` with a site's limits, and nodes that come and go: options, words, files."""

import json
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.cli import main
from tests.cli.test_schemas import faults

TRACE = """job,submit_s,duration_s,gpus,user,qos,limit_s,model
1,1000,100,4,ann,short,120,bert
2,1000,100,4,ann,short,120,gpt
3,1001,10,1,ben,,600,bert
4,1002,10,1,ann,short,3600,bert
5,1003,10,1,ann,short,60,bert
"""
QOS = """Name|Priority|PreemptMode|Flags|UsageFactor|MaxWall|MaxJobsPU|MaxSubmitPU
normal|0|cluster||1.000000|||
short|10|cluster|DenyOnLimit|1.000000|00:02:00|1|2
"""
SITE = """
AccountingStorageEnforce=associations
EnforcePartLimits=ALL
PriorityWeightQOS=1000
NodeName=n[1-2] Gres=gpu:4
PartitionName=p Nodes=n[1-2] MaxTime=30 MaxNodes=1 QOS=normal
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder."""
    (tmp_path / "t.csv").write_text(TRACE)
    (tmp_path / "qos.txt").write_text(QOS)
    (tmp_path / "slurm.conf").write_text(SITE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def simulated(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """The document of a replay; it has to be as the schema says."""
    assert main(["simulate", "t.csv", *words, "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert faults("simulate", document) == []
    return document


def rows(path: Path) -> dict[str, dict[str, str]]:
    """Lines of --jobs by job."""
    head, *lines = (line.split(",") for line in path.read_text().splitlines())
    return {row[1]: dict(zip(head, row, strict=True)) for row in lines}


def test_limits_of_qos_are_kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The job above MaxWall is left out, the one above MaxSubmitPU refused; both are named."""
    words = ["--nodes", "1", "--policy", "fifo", "--qos", "qos.txt", "--jobs", "jobs.csv"]
    document = simulated(capsys, *words)
    assert document["repairs"] == {"refused: MaxWall=2 minutes of QOS short (job 4)": 1}
    assert document["policies"][0]["unfinished"] == 1
    found = rows(folder / "jobs.csv")
    assert [found[job]["start_s"] for job in "1235"] == ["0.000", "100.000", "1.000", ""]
    assert found["5"]["state"] == "unfinished"
    assert found["5"]["why"] == "refused: MaxSubmitPU=2 of QOS short"
    assert main(["simulate", "t.csv", *words]) == 0
    said = capsys.readouterr().out
    assert "1 job: refused: MaxWall=2 minutes of QOS short (job 4)" in said
    assert "fifo: 1 job refused: MaxSubmitPU=2 of QOS short (job 5)" in said


def test_limits_of_partitions_are_kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """MaxTime and MaxNodes: refused where slurm.conf enforces them, else waiting for ever."""
    words = ["--slurm-conf", "slurm.conf", "--policy", "multifactor+backfill", "--qos", "qos.txt"]
    (folder / "t.csv").write_text(TRACE + "6,1004,10,8,ben,,60,bert\n")
    assert simulated(capsys, *words)["repairs"] == {
        "refused: MaxTime=30 minutes of partition p (job 4)": 1,
        "refused: MaxNodes=1 of partition p (job 6)": 1,
    }
    (folder / "slurm.conf").write_text(SITE.replace("ALL", "NO"))
    assert main(["simulate", "t.csv", *words]) == 0
    said = capsys.readouterr().out
    assert "1 job: would wait for ever: MaxTime=30 minutes of partition p (job 4)" in said
    assert "AccountingStorageEnforce=associations: Slurm itself would not keep" in said
    assert "PriorityWeightQOS" not in said


def test_the_usual_policies_are_those_that_keep_limits(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    """Those that preempt are left out of the usual ones, and refused when named."""
    document = simulated(capsys, "--nodes", "1", "--mtbf-days", "1000")
    assert "tiresias" not in [row["policy"] for row in document["policies"]]
    words = ["--nodes", "1", "--qos", "qos.txt", "--policy", "srtf"]
    assert main(["simulate", "t.csv", *words]) == 2
    assert "it preempts on equal nodes only, without limits" in capsys.readouterr().err


def test_failures_are_those_of_the_seed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lost work is told; seeds give the range of it; --on-failure fail ends jobs."""
    (folder / "t.csv").write_text(
        "job,submit_s,duration_s,gpus\n" + "".join(f"{job},0,40000,4\n" for job in range(20))
    )
    words = ["--nodes", "2", "--policy", "fifo", "--mtbf-days", "0.5", "--repair-hours", "1"]
    one = simulated(capsys, *words)["policies"][0]
    assert one == simulated(capsys, *words)["policies"][0]
    assert one["lost_gpu_s"] > 0
    assert one["restarts"] > 0
    several = simulated(capsys, *words, "--seeds", "3")["policies"][0]
    low, high = several["ranges"]["lost_gpu_s"]
    assert low < high
    failed = simulated(capsys, *words, "--on-failure", "fail")["policies"][0]
    assert failed["unfinished"] > 0 == failed["restarts"]
    saved = simulated(capsys, *words, "--checkpoint-minutes", "10")["policies"][0]
    assert saved["lost_gpu_s"] < one["lost_gpu_s"]
    assert main(["simulate", "t.csv", *words]) == 0
    assert "GPU-hours of work lost" in capsys.readouterr().out


def test_node_counts_have_the_traces_time(folder: Path) -> None:
    """Job 3 came at 1001 and finds one of two nodes, which is busy, until 1050."""
    (folder / "counts.csv").write_text("time,partition,nodes\n1000,,1\n1050,,2\n")
    words = ["--nodes", "2", "--policy", "fifo", "--node-counts", "counts.csv"]
    assert main(["simulate", "t.csv", *words, "--jobs", "jobs.csv", "--gpus-per-node", "8"]) == 0
    found = rows(folder / "jobs.csv")
    assert [found[job]["start_s"] for job in "123"] == ["0.000", "0.000", "50.000"]


DATED = """job,submit_s,duration_s,gpus
1,2026-01-01T00:00:00,100,8
2,2026-01-01T00:00:10,100,8
"""


@pytest.mark.parametrize(
    ("trace", "counts", "ranges"),
    [
        (DATED, ("0", "300"), "1767225600 to 1767225710 s; its own are 0 to 300 (dates as Unix"),
        (TRACE, ("2026-01-01", "2026-01-02"), "1000 to 1100 s; its own are 1767225600 to"),
        (TRACE, ("5000",), "1000 to 1100 s; its own are 5000 to 5000"),
    ],
)
def test_node_counts_of_another_time_are_refused(
    folder: Path,
    trace: str,
    counts: tuple[str, ...],
    ranges: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Lines that all came before the trace, or all after it, would change nothing."""
    (folder / "t.csv").write_text(trace)
    lines = "".join(f"{when},,1\n" for when in counts)
    (folder / "counts.csv").write_text(f"time,partition,nodes\n{lines}")
    words = ["--nodes", "2", "--policy", "fifo", "--node-counts", "counts.csv"]
    assert main(["simulate", "t.csv", *words]) == 1
    said = capsys.readouterr().err.replace("\n", " ")
    assert f"no line is within the trace's time, {ranges}" in said
    assert "times as in t.csv" in said


def test_dates_and_unix_time_are_one_time(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A trace in seconds since 1970 has counts by date; lines beside its time are told."""
    (folder / "t.csv").write_text(
        "job,submit_s,duration_s,gpus\n1,1767225600,100,8\n2,1767225610,100,8\n"
    )
    (folder / "counts.csv").write_text(
        "time,partition,nodes\n2025-12-31,,2\n2026-01-01,,1\n2026-01-01T00:00:40,,2\n2027-01-01,,1\n"
    )
    words = ["--nodes", "2", "--policy", "fifo", "--node-counts", "counts.csv"]
    assert main(["simulate", "t.csv", *words, "--jobs", "jobs.csv"]) == 0
    assert rows(folder / "jobs.csv")["2"]["start_s"] == "40.000"
    said = capsys.readouterr().out
    assert "lines of counts.csv before the trace's time: 1, after it: 1" in said


def test_limits_of_qos_are_given_to_jobs_that_ask_for_none(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """MaxWall is what Slurm plans with; such a job is not above it, and is told."""
    (folder / "t.csv").write_text(TRACE.replace("short,120,bert", "short,,bert"))
    words = ["--nodes", "1", "--policy", "fifo+backfill", "--qos", "qos.txt"]
    assert simulated(capsys, *words)["repairs"] == {
        "refused: MaxWall=2 minutes of QOS short (job 4)": 1,
        "without a time limit: replayed with the one that the site gives": 1,
    }


def test_a_policy_sees_every_column(folder: Path) -> None:
    """What a table has beside the known columns, but for what only an end tells."""
    lines = [
        f"{line},{note}" for line, note in zip(TRACE.splitlines(), ("state", *"abcde"), strict=True)
    ]
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    (folder / "mine.py").write_text(
        "def gpt_first(jobs):\n"
        "    assert set(jobs.more) == {'model'}\n"
        "    return [name != 'gpt' for name in jobs.more['model']]\n"
        "class Known:\n"
        "    def on_submit(self, job, now_s):\n"
        "        assert job.more['model'] in ('bert', 'gpt') and job.qos in ('short', '')\n"
        "    def keys(self, jobs):\n"
        "        return [name != 'gpt' for name in jobs.more['model']]\n"
    )
    words = ["--nodes", "1", "--gpus-per-node", "4", "--jobs", "jobs.csv", "--policy"]
    for name in ("gpt_first", "Known"):
        assert main(["simulate", "t.csv", *words, f"mine.py:{name}"]) == 0
        assert rows(folder / "jobs.csv")["2"]["start_s"] == "0.000"


@pytest.mark.parametrize(
    ("words", "status", "named"),
    [
        (["--nodes", "1", "--repair-hours", "1"], 2, "says nothing without --mtbf-days"),
        (["--nodes", "1", "--mtbf-days", "0"], 2, "--mtbf-days 0.0: a number from 0.01"),
        (["--nodes", "1", "--mtbf-days", "nan"], 2, "--mtbf-days nan"),
        (["--vc-nodes", "vc.csv", "--qos", "qos.txt"], 2, "--qos: its limits are of one cluster"),
        (["--nodes", "1", "--qos", "absent"], 1, "absent"),
        (["--nodes", "1", "--node-counts", "t.csv"], 1, "t.csv:1: expected the columns time"),
        (["--energy", "t.csv", "--qos", "qos.txt"], 2, "--qos says nothing with --energy"),
    ],
)
def test_wrong_usage_is_told(
    folder: Path, words: list[str], status: int, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line that names the option or the file."""
    (folder / "vc.csv").write_text("vc,nodes\n,1\n")
    trace = [] if "--energy" in words else ["t.csv"]
    assert main(["simulate", *trace, *words]) == status
    assert named in capsys.readouterr().err.replace("\n", " ")
