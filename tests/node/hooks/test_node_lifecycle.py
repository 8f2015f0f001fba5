"""A job's way through the hooks, by hand: prolog, sampler, task prolog, epilog, transport."""

import contextlib
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_ext.node.record.compose import _ALLOCATED, _DIVIDED, _allocated
from slurm_ext.node.record.reader import read_record
from tests.node.by_hand import BURN, TOKEN, Node, cpu_s, wait_for


def test_a_job_becomes_one_valid_record(node: Node) -> None:
    """Prolog, job and epilog leave one record that the reader accepts, and nothing else."""
    node.squeue_says(job_name="train.sh", cpus="2", num_nodes="1", mem_bytes="cpu=2,mem=1.5G")
    node.prolog(7)
    job = node.job(7, BURN.format(0.4))
    run_dir = node.root / "spool/run/7.0"
    (run_dir / "decision").write_text(TOKEN)
    job.wait()
    node.epilog(7)
    (record,) = node.delivered()
    assert read_record(node.arrived()[0]) == record
    assert record["record_id"] == "c-7-0-n1"
    assert record["identity"]["job_name"] == "train.sh"
    assert record["allocation"]["mem_bytes"] == 1.5 * 1024**3
    assert record["outcome"] == {
        "state": "COMPLETED",
        "exit_code": 0,
        "signal": 0,
        "source": "epilog",
    }
    assert record["decision"] == TOKEN
    assert cpu_s(record) > 0.2
    assert not run_dir.exists()
    assert [path.name for path in Path(node.spool.state).iterdir()] == ["7.0.done"]


def test_a_jobs_nodes_are_those_it_had(node: Node) -> None:
    """Of a job that ends the controller tells only the nodes where it is still ending."""
    node.squeue_says(num_nodes="1", cpus="8")
    env = {"SLURM_JOB_NUM_NODES": "3", "SLURM_JOB_CPUS_PER_NODE": "4(x2),8"}
    node.prolog(7, **env, SLURM_NODELIST="n[1-3]")
    node.epilog(7, 0, **env, SLURM_NODELIST="n[1-3]")
    (record,) = node.delivered()
    assert (record["allocation"]["num_nodes"], record["allocation"]["cpus"]) == (3, 4)


@pytest.mark.parametrize("listed", ["32(x2)", ""])
def test_a_record_has_its_nodes_part_of_the_job(node: Node, listed: str) -> None:
    """The controller tells CPUs and memory of the whole job; each node's record has its own."""
    node.squeue_says(num_nodes="2", cpus="64", mem_bytes="cpu=64,mem=128G,node=2")
    env = {"SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_CPUS_PER_NODE": listed}
    node.prolog(7, **env, SLURM_NODELIST="n[1-2]")
    node.epilog(7, 0, **env, SLURM_NODELIST="n[1-2]")
    (record,) = node.delivered()
    assert (record["allocation"]["cpus"], record["allocation"]["mem_bytes"]) == (32, 64 << 30)


def test_a_job_that_ran_while_its_node_was_updated() -> None:
    """The prolog of before noted the CPUs of the whole job, which its epilog divides."""
    own, facts = {"cpus": 128, "num_nodes": 4}, dict.fromkeys(_ALLOCATED + _DIVIDED)
    assert _allocated(own, facts)["cpus"] == 32
    assert _allocated({**own, "of_node": True}, facts)["cpus"] == 128
    assert _allocated(own, None)["of_node"]


def test_short_lived_children_are_counted(node: Node) -> None:
    """CPU time of children that live between two samples reaches the totals through the parent."""
    node.prolog(8)
    spawn = (
        "import os, time\nfor _ in range(20):\n pid = os.fork()\n if pid == 0:\n"
        "  t = time.process_time()\n  while time.process_time() - t < 0.04: pass\n  os._exit(0)\n"
        " os.waitpid(pid, 0)\ntime.sleep(0.5)\n"
    )
    node.job(8, spawn).wait()
    node.epilog(8)
    (record,) = node.delivered()
    assert 0.6 < cpu_s(record) < 3


def test_totals_never_go_down(node: Node) -> None:
    """The time line's CPU seconds rise monotonically although processes come and go."""
    node.prolog(9)
    for _ in range(3):
        node.job(9, BURN.format(0.4)).wait()
    node.epilog(9)
    (record,) = node.delivered()
    seconds = [row[1] for row in record["timeline"]["rows"] if row[1] is not None]
    assert seconds == sorted(seconds)
    assert seconds[-1] > 0


def test_a_second_prolog_and_a_second_epilog_change_nothing(node: Node) -> None:
    """Prolog and epilog may run twice for a job: one sampler, one record."""
    node.prolog(10)
    pid = node.sampler("10.0")
    started = node.state("10.0")["started_s"]
    node.prolog(10)
    assert node.sampler("10.0") == pid
    assert node.state("10.0")["started_s"] == started
    node.epilog(10)
    (first,) = node.delivered()
    node.arrived()[0].unlink()
    node.epilog(10, 256)
    node.ship()
    assert node.arrived() == []
    assert first["outcome"]["state"] == "UNKNOWN"  # status 0 alone proves nothing: no controller


def test_a_requeued_job_gets_a_record_for_each_run(node: Node) -> None:
    """The epilog is told the next run's restart count; the run that ended is found anyway."""
    node.squeue_says(restarts="1")
    node.prolog(11)
    node.epilog(11, SLURM_JOB_RESTART_COUNT="1")
    node.prolog(11, SLURM_JOB_RESTART_COUNT="1")
    assert (node.root / "spool/run/11.1").is_dir()
    node.epilog(11, SLURM_JOB_RESTART_COUNT="1")
    first, second = node.delivered(2)
    assert (first["identity"]["restart"], second["identity"]["restart"]) == (0, 1)
    assert first["outcome"]["state"] == "REQUEUED"
    assert second["outcome"]["state"] == "COMPLETED"


def test_corunners_are_told_with_their_overlap(node: Node) -> None:
    """Two jobs at once on a node each name the other."""
    node.prolog(20)
    node.prolog(21)
    node.job(21, "import time; time.sleep(0.6)").wait()
    node.epilog(20)
    node.epilog(21)
    first, second = node.delivered(2)
    assert [each["job_id"] for each in first["corunners"]] == [21]
    assert [each["job_id"] for each in second["corunners"]] == [20]
    assert first["corunners"][0]["overlap_s"] > 0.3


def test_an_opted_out_job_leaves_no_trace(node: Node) -> None:
    """--comment=dlqueue=off: no run folder, no sampler, no record."""
    node.prolog(30, SLURM_JOB_COMMENT="mine,dlqueue=off")
    node.epilog(30, SLURM_JOB_COMMENT="mine,dlqueue=off")
    assert not (node.root / "spool").exists()


def test_the_kill_file_stops_the_hooks_and_the_sampler(node: Node) -> None:
    """While the kill file exists nothing is prepared, and a running sampler ends."""
    node.prolog(31)
    pid = node.sampler("31.0")
    (node.root / "off").touch()
    wait_for(lambda: not Path(f"/proc/{pid}").exists())
    node.prolog(32)
    assert not (node.root / "spool/run/32.0").exists()


def test_the_prolog_leaves_nothing_open(node: Node) -> None:
    """The sampler stands alone: own session, no terminal, none of the hook's descriptors."""
    node.prolog(33)
    pid = node.sampler("33.0")
    watched = node.spool.run_dir("33.0")
    own = {"/dev/null", node.spool.state_file("33.0", "lock"), watched}
    wait_for(lambda: _open_files(pid) <= own)  # between two looks
    assert os.getsid(pid or 0) == pid
    assert Path(f"/proc/{pid}/comm").read_text() == "dlqueue-sampler\n"


def _open_files(pid: int | None) -> set[str]:
    links = []
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            links.append(str(path.readlink()))
    return set(links)


def test_the_run_folder_is_the_users_alone(node: Node) -> None:
    """0700 and owned by the job's uid, under folders that users cannot list or write."""
    node.prolog(34)
    found = (node.root / "spool/run/34.0").stat()
    assert (stat.S_IMODE(found.st_mode), found.st_uid) == (0o700, os.getuid())
    modes = {name: stat.S_IMODE((node.root / "spool" / name).stat().st_mode) for name in MODES}
    assert modes == MODES


MODES = {"run": 0o711, "state": 0o700, "out": 0o700}


@pytest.mark.root
def test_another_users_job_is_measured_and_owns_its_folder(node: Node) -> None:
    """The hooks are root, the job is not: the folder is the user's, his processes are counted."""
    node.prolog(35, SLURM_JOB_UID="65534")
    run_dir = node.root / "spool/run/35.0"
    assert run_dir.stat().st_uid == 65534
    code = BURN.format(0.5) + f"open({str(run_dir / 'workers')!r}, 'w').write('2')\n"
    env = {"SLURM_JOB_ID": "35", "SLURMD_NODENAME": "n1"}
    argv = ["/usr/bin/python3", "-I", "-S", "-c", code]
    assert subprocess.run(argv, env=env, user=65534, group=65534, cwd="/").returncode == 0
    node.epilog(35, SLURM_JOB_UID="65534")
    (record,) = node.delivered()
    assert cpu_s(record) > 0.1


def test_a_restarted_slurmd_finds_the_sampler_again(node: Node) -> None:
    """Hooks of another slurmd (another parent, another session) finish what the first began."""
    node.prolog(36)
    pid = node.sampler("36.0")
    node.job(36, BURN.format(0.5)).wait()
    node.prolog(37)  # anything may happen in between
    assert node.sampler("36.0") == pid
    node.epilog(36)
    records = node.delivered()
    assert [record["identity"]["job_id"] for record in records] == [36]
    assert cpu_s(records[0]) > 0.1


def test_a_killed_sampler_is_started_again_and_loses_nothing(node: Node) -> None:
    """After kill -9 the next hook starts another, and totals go on from the last flush."""
    node.prolog(38)
    pid = node.sampler("38.0")
    node.job(38, BURN.format(0.4)).wait()
    wait_for(lambda: node.state("38.0")["timeline"]["rows"][-1][1] and _flushed(node))
    before = _flushed_cpu_s(node)
    os.kill(pid or 0, signal.SIGKILL)
    node.prolog(39)
    wait_for(lambda: node.sampler("38.0") not in (None, pid))
    # On a slow machine its start costs more than it may spend, and it looks seconds later.
    job = node.job(38, BURN.format(0.4) + "time.sleep(600)\n")
    wait_for(lambda: _flushed_cpu_s(node) > before)
    job.kill()
    job.wait()
    node.epilog(38)
    (record,) = node.delivered()
    assert cpu_s(record) > before


def _flushed_cpu_s(node: Node) -> float:
    totals = node.state("38.0")["meter"]["totals"]
    return float(totals["cpu_user"][1] + totals["cpu_system"][1])


def _flushed(node: Node) -> bool:
    return bool(node.state("38.0")["seen_s"] > 1.0)


def test_a_sampler_killed_just_before_the_epilog_leaves_its_last_flush(node: Node) -> None:
    """Its state file is enough for a record with counters."""
    node.prolog(40)
    pid = node.sampler("40.0")
    node.job(40, BURN.format(1.2)).wait()
    os.kill(pid or 0, signal.SIGKILL)
    node.epilog(40)
    (record,) = node.delivered()
    assert cpu_s(record) > 0.05


def test_a_stopped_sampler_is_ended_by_force(make_node: Callable[..., Node]) -> None:
    """A sampler that does not react costs its share of the budget, and the record is complete."""
    node = make_node(**{"node.epilog_budget_s": 1.0})
    node.prolog(41)
    pid = node.sampler("41.0")
    os.kill(pid or 0, signal.SIGSTOP)
    node.epilog(41)
    (record,) = node.delivered()
    assert record["outcome"]["source"] == "epilog"


def test_the_oldest_python_still_runs_them() -> None:
    """No hook uses syntax that Python 3.9 lacks."""
    import ast

    folder = Path(sys.modules["slurm_ext.node"].__file__ or "").parent
    paths = [*folder.rglob("*.py")]
    assert len(paths) > 50
    for path in paths:
        ast.parse(path.read_text(), feature_version=(3, 9))
        assert "from __future__ import annotations" in path.read_text() or path.name.startswith("_")
