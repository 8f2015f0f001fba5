"""What breaks on a node: the hooks end well and in time, and exactly one record comes out."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.node.common import files, state
from slurm_ext.node.common.spool_layout import UnsafeFolderError, make_run_dir
from slurm_ext.node.hooks import prolog
from slurm_ext.node.record import compose, squeue
from slurm_ext.node.sampling import sampler
from tests.node.by_hand import BURN, NODE, TOKEN, Node, cpu_s, wait_for

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


@pytest.mark.parametrize("torn", ["json", "end"])
def test_a_torn_state_file_still_becomes_a_record(node: Node, torn: str) -> None:
    """After a power cut state files may be empty: the job keeps its record, with fewer facts."""
    node.prolog(57)
    os.kill(node.sampler("57.0") or 0, 9)
    Path(node.spool.state_file("57.0", "end")).write_text("{}" if torn == "json" else "")
    Path(node.spool.state_file("57.0", torn)).write_text("")
    node.ship()
    (record,) = node.delivered()
    assert record["identity"]["job_id"] == 57


def test_torn_notes_leave_the_record_its_name(node: Node) -> None:
    """Slurm's name of the node, not the host's: Slurm's word on the run has the same record."""
    node.prolog(60)
    os.kill(node.sampler("60.0") or 0, 9)
    for kind in ("json", "end"):
        Path(node.spool.state_file("60.0", kind)).write_text("")
    node.hook("ship", {"SLURMD_NODENAME": NODE})  # it has the environment of the hook before it
    (record,) = node.delivered()
    assert (record["identity"]["node"], record["identity"]["uid"]) == (NODE, None)
    assert record["record_id"].endswith(f"-60-0-{NODE}")


def test_a_clock_that_steps_back_changes_no_duration(node: Node) -> None:
    """The elapsed time is measured on a clock that nobody sets."""
    node.prolog(58)
    time.sleep(0.3)
    known = node.state("58.0")
    os.kill(node.sampler("58.0") or 0, 9)
    known["started_s"] += 7200.0  # as if the clock had been set back two hours since
    Path(node.spool.state_file("58.0", "json")).write_text(json.dumps(known))
    node.epilog(58)
    (record,) = node.delivered()
    assert 0.3 <= record["times"]["elapsed_s"] < 600


@pytest.mark.parametrize(
    ("said", "state_said"),
    [
        ({"state": "NODE_FAIL"}, "NODE_FAIL"),
        ({"state": "RUNNING", "restarts": "1"}, "REQUEUED"),  # elsewhere, by now
    ],
)
def test_a_job_without_epilog_is_recorded_by_its_sampler(
    node: Node, said: dict[str, str], state_said: str
) -> None:
    """When Slurm says that this start of the job is over, and no epilog came."""
    node.squeue_says(**said)
    node.spool.prepare()
    first = prolog.first_state(node.config, node.env(59))
    state.save(node.spool, "59.0", "json", first, durable=False)
    code = (
        "import sys; sys.path.append(sys.argv[1])\n"
        "from slurm_ext.node.common import config\n"
        "from slurm_ext.node.sampling import sampler, start\n"
        "sampler.FIRST_GRACE_S = 0.3\n"
        "from slurm_ext.node.transport.worker import deliver_records\n"
        "import time\n"
        "end = time.monotonic() + 60\n"
        "start.start_sampler(config.load(sys.argv[2]), '59.0', end, deliver_records)"
    )
    argv = [sys.executable, "-I", "-c", code, str(Path(__file__).parents[3]), str(node.json)]
    subprocess.run(argv, check=True, timeout=100)
    (record,) = node.delivered()  # by the sampler itself: no hook may come for hours
    assert record["outcome"]["state"] == state_said
    assert record["outcome"]["source"] == "node"


@pytest.mark.parametrize("said", ["RUNNING", "COMPLETING"])
def test_a_sampler_asks_ever_more_rarely(
    node: Node, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    """An allocation without processes may wait for its user for hours, a job for its epilog."""
    node.squeue_says(state=said)
    node.spool.prepare()
    first = prolog.first_state(node.config, node.env(61))
    state.save(node.spool, "61.0", "json", first, durable=False)
    asked, query = [], squeue.query_job

    def counted(*words: Any, **more: Any) -> Any:
        asked.append(state.uptime_s())
        if len(asked) == 5:
            node.squeue_says(state="FAILED")
        return query(*words, **more)

    monkeypatch.setattr(squeue, "query_job", counted)
    monkeypatch.setattr(sampler, "FIRST_GRACE_S", 0.05)
    blocks_signals = threading.Thread(target=sampler.sample_job, args=(node.config, "61.0", 0.4))
    blocks_signals.start()
    blocks_signals.join()
    pauses = [after - before for before, after in pairwise(asked[:5])]
    assert [pause >= least for pause, least in zip(pauses, (0.1, 0.2, 0.4, 0.4), strict=True)] == (
        [True] * 4
    )
    node.ship()
    assert [record["outcome"]["state"] for record in node.delivered()] == ["FAILED"]


def test_a_rebooted_node_delivers_what_it_knew(node: Node) -> None:
    """State of another boot is finished at once: its processes are gone, the node failed."""
    node.prolog(60)
    node.job(60, BURN.format(1.5)).wait()
    os.kill(node.sampler("60.0") or 0, 9)
    known = {**node.state("60.0"), "boot_id": "another"}
    Path(node.spool.state_file("60.0", "json")).write_text(json.dumps(known))
    node.ship()
    (record,) = node.delivered()
    assert record["outcome"]["state"] == "NODE_FAIL"
    assert cpu_s(record) > 0


# -- killed half-way ----------------------------------------------------------------------------


STEPS = ("rename", "unlink", "close", "open")


def _finish_dying_at(node: Node, key: str, step: int) -> bool:
    """Finish a job in a child that dies, as by kill -9, at its `step`-th change on the disk."""
    pid = os.fork()
    if pid == 0:
        left = [step]
        for name in STEPS:
            setattr(os, name, _dying(getattr(os, name), left))
        try:
            held = state.lock(node.spool.state_file(key, "lock"), 5.0)
            if held is not None:
                compose.compose_record(node.config, node.spool, key, time.monotonic() + 5)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def _dying(act: Callable[..., object], left: list[int]) -> Callable[..., object]:
    def either(*args: object, **options: object) -> object:
        left[0] -= 1
        if left[0] < 0:
            os._exit(9)
        return act(*args, **options)

    return either


def test_an_epilog_killed_at_any_step_ends_in_exactly_one_record(node: Node) -> None:
    """Whatever was done by then, the next hook completes it: never none, never two."""
    node.spool.prepare()
    survived, step = False, 0
    while not survived:
        key = f"{1000 + step}.0"
        first = prolog.first_state(node.config, node.env(1000 + step))
        state.save(node.spool, key, "json", first, durable=False)
        end = {**first, "status": 256, "ended_s": 1.0, "uptime_s": state.uptime_s()}
        state.save(node.spool, key, "end", end, durable=False)
        survived = _finish_dying_at(node, key, step)
        node.ship()
        (arrived,) = node.arrived()
        record = json.loads(arrived.read_text())
        assert record["identity"]["job_id"] == 1000 + step
        assert record["outcome"] == {
            "state": "FAILED",
            "exit_code": 1,
            "signal": 0,
            "source": "epilog",
        }
        arrived.unlink()
        node.ship()
        assert node.arrived() == []
        step += 1
    assert step > 20
    assert not node.spool.unfinished()


def test_an_epilog_killed_before_it_took_over_is_completed_by_the_next_hook(node: Node) -> None:
    """What the epilog was told is on the disk first, so that the outcome survives it."""
    node.prolog(61)
    # A sampler that starts after the end was told leaves at once, and there is none to kill.
    sampler = node.sampler("61.0") or 0
    end = {**prolog.first_state(node.config, node.env(61)), "status": 768}
    end |= {"ended_s": time.time(), "uptime_s": state.uptime_s()}
    state.save(node.spool, "61.0", "end", end, durable=False)
    os.kill(sampler, 9)
    wait_for(lambda: _free(node.spool.state_file("61.0", "lock")))
    node.prolog(62)
    (record,) = node.delivered()
    assert (record["identity"]["job_id"], record["outcome"]["exit_code"]) == (61, 3)


def _free(path: str) -> bool:
    """Whether nobody holds it: a signal is delivered in its own time."""
    held = state.lock(path)
    if held is None:
        return False
    with held:
        return True


# -- full and read-only disks -------------------------------------------------------------------


@pytest.fixture
def small_disk(node: Node) -> Iterator[Path]:
    """A tmpfs of 1 MiB under the node's spool."""
    spool = node.root / "spool"
    spool.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(spool)], check=True)
    yield spool
    node.close()
    subprocess.run(["umount", "-l", str(spool)], check=True)


def _fill(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            pass


@pytest.mark.root
def test_a_disk_that_fills_up_during_the_job_keeps_room_for_its_record(
    node: Node, small_disk: Path
) -> None:
    """The prolog's reserve is enough for the record, the token and the counters in it."""
    node.prolog(70)
    (small_disk / "run/70.0/decision").write_text(TOKEN)
    node.job(70, BURN.format(0.5)).wait()
    wait_for(lambda: node.state("70.0").get("meter", {}).get("totals", {}).get("cpu_user"))
    _fill(small_disk)
    node.epilog(70, 256)
    (record,) = node.delivered()
    assert (record["outcome"]["exit_code"], record["decision"]) == (1, TOKEN)
    assert cpu_s(record) > 0


@pytest.mark.root
def test_a_full_disk_costs_the_measurement_and_nothing_else(node: Node, small_disk: Path) -> None:
    """Prolog and epilog on a disk without a single free block: exit 0, silent; later jobs work."""
    _fill(small_disk)
    node.prolog(71)
    node.epilog(71)
    (small_disk / "filler").unlink()
    node.prolog(72)
    node.epilog(72)
    records = node.delivered()
    assert 72 in [record["identity"]["job_id"] for record in records]


@pytest.mark.root
def test_a_read_only_spool_is_harmless(node: Node, small_disk: Path) -> None:
    """Exit 0 and silent from every hook."""
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for hook in ("prolog", "task_prolog", "epilog", "ship"):
        done = node.hook(hook, node.env(73))
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
