"""What breaks on a node: the hooks end well and in time, and exactly one record comes out."""

import json
import os
from pathlib import Path

import pytest

from slurm_ext.node.common import files
from slurm_ext.node.common.spool_layout import UnsafeFolderError, make_run_dir
from tests.node.by_hand import Node

GOLDEN = Path(__file__).parents[2] / "golden" / "probe" / "v1.json"
HOOKS = ("prolog", "epilog", "task_prolog", "ship", "sampler", "no-such-hook")


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("text", ["", "{", "[]", '{"site.cluster": 3}', None])
def test_a_broken_configuration_is_harmless(node: Node, hook: str, text: str | None) -> None:
    """Missing, torn or wrong node.json: exit 0, nothing said, nothing done."""
    broken = node.root / "broken.json"
    if text is not None:
        broken.write_text(text)
    done = node.hook(hook, node.env(1), config=str(broken))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert not (node.root / "spool").exists()


def test_what_a_killed_writer_left_stands_in_nobodys_way(tmp_path: Path) -> None:
    """Its temporary file has its pid in its name, and another process has that pid one day."""
    (tmp_path / f".record.{os.getpid()}.tmp").write_text("half a rec")
    files.write_whole(str(tmp_path / "record"), b"whole")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("record", b"whole")]


@pytest.mark.parametrize("hook", ["prolog", "epilog", "task_prolog"])
def test_hostile_environments_are_harmless(node: Node, hook: str) -> None:
    """Slurm's variables missing, absurd or hostile: exit 0 and no file outside the spool."""
    hostile = "\x1b[31m'; rm -rf /\n../../x\udcff"
    for job in ("", "-1", "../../etc", "9" * 400, "1.0", "٣"):
        env = {**dict.fromkeys(node.env(1), hostile), "SLURM_JOB_ID": job}
        done = node.hook(hook, {k: v for k, v in env.items() if "\0" not in v})
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert not (node.root / "spool").exists() or not any((node.root / "spool/run").iterdir())


def test_hostile_names_reach_the_record_as_data(node: Node) -> None:
    """Quotes, escapes, markup and bytes of another encoding are kept or marked, never obeyed."""
    name = "a'\"; DROP TABLE runs; <b>\x1b[2J"
    node.squeue_says(job_name=name)
    node.prolog(50, SLURM_JOB_ACCOUNT=name + "\n", SLURM_JOB_WORK_DIR="/caf\udce9")
    node.epilog(50)
    (record,) = node.delivered()
    assert record["identity"]["job_name"] == name
    assert record["identity"]["account"] == name + "\n"
    assert record["identity"]["work_dir"] == "/caf\N{REPLACEMENT CHARACTER}"


def test_a_hostile_node_name_is_no_path(node: Node) -> None:
    """The record's file name is made of harmless characters only."""
    node.prolog(51, SLURMD_NODENAME="../../n\n1")
    node.epilog(51, SLURMD_NODENAME="../../n\n1")
    (record,) = node.delivered()
    assert record["record_id"] == "c-51-0-.._.._n_1"


def test_a_hostile_run_folder(node: Node) -> None:
    """Links, FIFOs, floods, torn and absurd summaries are left out, each with its reason."""
    node.prolog(52)
    run = node.root / "spool/run/52.0"
    good = GOLDEN.read_text()
    (run / "summary-1.json").write_text(good)
    (run / "summary-2.json").symlink_to("/etc/shadow")
    os.mkfifo(run / "summary-3.json")
    (run / "summary-4.json").write_bytes(b"x" * 4_000_000)
    (run / "summary-5.json").write_text(good.replace("1024,", "1e300,", 1))
    (run / "summary-6.json").write_text(good.replace("15.0", "NaN", 1))
    (run / "summary-7.json").write_text(good[: len(good) // 2])
    (run / "summary-8.json").write_text(good.replace("15.0", "-15.0", 1))
    (run / "summary-9.json").write_text("[" * 100_000)
    (run / "summary-10.json").mkdir()
    (run / "decision").symlink_to("/etc/hostname")
    (run / "deep" / "er").mkdir(parents=True)
    (run / "deep" / "out").symlink_to(node.folder)
    (node.folder / "precious").touch()
    node.epilog(52)
    (record,) = node.delivered()
    assert record["probe"]["summaries"] == [json.loads(good)]
    assert [fault.partition(":")[0] for fault in record["probe"]["faults"]] == [
        f"summary-{n}.json" for n in range(2, 11)
    ]
    assert record["decision"] is None
    assert not run.exists()
    assert (node.folder / "precious").exists()


def test_a_flood_of_summaries_is_bounded(node: Node) -> None:
    """Ten thousand files cost the epilog no more than its budget; 64 are kept.

    So it is whether the sampler closed the folder before the end or not.
    """
    node.prolog(53)
    run = node.root / "spool/run/53.0"
    for number in range(10_000):
        (run / f"summary-{number}.json").write_text(GOLDEN.read_text() if number < 70 else "")
    node.epilog(53)
    (record,) = node.delivered()
    assert 0 < len(record["probe"]["summaries"]) <= 64
    assert any("files, 64 are read" in fault for fault in record["probe"]["faults"])


@pytest.mark.root
def test_another_users_summary_is_not_the_jobs(node: Node) -> None:
    """Only files of the job's user count."""
    node.prolog(54, SLURM_JOB_UID="65534")
    run = node.root / "spool/run/54.0"
    (run / "summary-1.json").write_text(GOLDEN.read_text())
    node.epilog(54, SLURM_JOB_UID="65534")
    (record,) = node.delivered()
    assert record["probe"]["summaries"] == []
    assert record["probe"]["faults"] == ["summary-1.json: belongs to uid 0, not 65534"]


def test_a_link_in_place_of_the_run_folder_is_refused(node: Node) -> None:
    """The prolog never hands somebody else's folder to the job's user."""
    node.spool.prepare()
    Path(node.spool.run_dir("55.0")).symlink_to("/etc")
    with pytest.raises(UnsafeFolderError):
        make_run_dir(node.spool, "55.0", 65534)
    node.prolog(55)
    assert Path("/etc").stat().st_uid == 0
    log = Path(node.spool.root, "hooks.log").read_text()
    assert "prolog: UnsafeFolderError: run/55.0 is not a folder" in log


def test_a_job_whose_folder_vanished_still_has_its_record(node: Node) -> None:
    """A user who removes the run folder loses his summaries, nothing else."""
    node.prolog(56)
    (node.root / "spool/run/56.0").rmdir()
    node.epilog(56)
    (record,) = node.delivered()
    assert record["probe"]["summaries"] == []
