"""What is torn, killed or rebooted half-way on a node ends in exactly one record."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.node.common import state
from slurm_ext.node.counters.hardware import HardwareCounters
from slurm_ext.node.hooks import prolog
from slurm_ext.node.record import compose, squeue
from slurm_ext.node.sampling import sampler
from tests.node.by_hand import BURN, NODE, Node, cpu_s, wait_for


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


def test_a_sampler_that_delivers_is_an_ordinary_process(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may try for a day: it counts no more, and ends when it is told to."""
    node.squeue_says(state="NODE_FAIL")
    node.spool.prepare()
    first = prolog.first_state(node.config, node.env(63))
    state.save(node.spool, "63.0", "json", first, durable=False)
    closed, blocked = list[str](), list[set[int]]()
    monkeypatch.setattr(HardwareCounters, "close", lambda _: closed.append("all"))
    monkeypatch.setattr(sampler, "FIRST_GRACE_S", 0.05)

    def sampled() -> None:
        assert sampler.sample_job(node.config, "63.0", 0.1)
        blocked.append(signal.pthread_sigmask(signal.SIG_BLOCK, ()))

    thread = threading.Thread(target=sampled)
    thread.start()
    thread.join()
    assert closed == ["all"]
    assert [each & {signal.SIGTERM, signal.SIGINT, signal.SIGHUP} for each in blocked] == [set()]


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
