"""Waiting jobs of a real Slurm meet whom they go well with, and nobody is ever held."""

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from slurm_ext.control.coscheduling.co_scheduling_loop import CoScheduler
from slurm_ext.control.coscheduling.jobs import key_of
from slurm_ext.control.coscheduling.pair_memory import PairMemory, pair_state
from slurm_ext.control.coscheduling.speed_monitor import SpeedMonitor
from slurm_ext.control.loops.action_log import ActionLog
from slurm_ext.core.gpu_sharing import RelativeSpeed, SoloProfile, SpeedBasis
from slurm_ext.core.settings.document import Settings
from slurm_ext.policy.colocation.colocation_monitor import PairCooldown
from slurm_ext.sandbox import Sandbox
from slurm_ext.slurm import CommandClient
from tests.as_unit import dlqueue_as_unit
from tests.conftest import MakeSandbox
from tests.whole import until

pytestmark = pytest.mark.slurm

DISK = "#!/bin/sh\n# reads a disk\nread_disk=1\n"
CORE = "#!/bin/sh\n# needs its core alone\ncompute=1\n"


@pytest.fixture(scope="module")
def slurm(make_module_sandbox: MakeSandbox) -> Sandbox:
    """One node with room for two jobs of one CPU."""
    return make_module_sandbox(nodes=1, cpus=2)


@pytest.fixture
def client(slurm: Sandbox) -> CommandClient:
    """Slurm's own commands, speaking to the sandbox."""
    return CommandClient(slurm_conf=str(slurm.layout.slurm_conf))


class Disk:
    """Readers of one disk hurt each other."""

    def __init__(self, reader: str) -> None:
        self.reader = reader

    def speed(
        self, job: SoloProfile, beside: Sequence[SoloProfile], device: str = "cpu"
    ) -> RelativeSpeed:
        """By keys."""
        low = 0.4 if job.key == self.reader and any(o.key == self.reader for o in beside) else 0.97
        return RelativeSpeed(mean=low, low=low, high=1.0, evidence=SpeedBasis.PAIR)


def submit(slurm: Sandbox, script: str, gate: Path, *words: str) -> int:
    """A job of one CPU that agreed to share, and runs until its gate is there."""
    # The number of an output folder tells no two jobs apart.
    body = f"{script}output_dir={gate}\nwhile [ ! -e $output_dir ]; do sleep 0.05; done\n"
    return slurm.sbatch("-c1", "--mem=100", "--comment=dlqueue=share", *words, script=body)[0]


def state(slurm: Sandbox, job: int) -> str:
    """As Slurm has it."""
    return slurm.job(job).get("JobState", "gone")


def freed(slurm: Sandbox, job: int) -> bool:
    """Whether the job may start at any time."""
    eligible = time.strptime(slurm.job(job)["EligibleTime"], "%Y-%m-%dT%H:%M:%S")
    return time.mktime(eligible) <= time.time() + 1


def reader_key(client: CommandClient, reader: int) -> str:
    """What the product calls jobs like this one."""
    (info,) = [job for job in client.jobs() if job.job_id == reader]
    return key_of(info, client.script_of(reader))


def remember(state_dir: Path, key: str) -> None:
    """Two of these were found below their floor together just now."""
    folder = pair_state(state_dir)
    folder.path.mkdir(mode=0o700)
    folder.keep(PairMemory(cooldowns={frozenset({key}): PairCooldown(time.time())}).as_json())


def pairing_of(client: CommandClient, state_dir: Path, reader: int) -> CoScheduler:
    """The controller, knowing that jobs like `reader` hurt each other."""
    folder = pair_state(state_dir)
    folder.lock()
    key = reader_key(client, reader)
    values = {"sharing.pairing": "act", "sharing.lease_s": 60}
    return CoScheduler(
        Settings(values=values),
        client,
        folder,
        folder.load(PairMemory.from_json),
        slowdowns=lambda: Disk(key),
        monitor=SpeedMonitor(lambda _: {}, {}, 60.0),
        action_log=ActionLog(state_dir, "pair"),
    )


def rounds(controller: CoScheduler, done: Callable[[], object]) -> Callable[[], object]:
    """A round before each look."""

    def looked() -> object:
        controller.round()
        return done()

    return looked


def test_the_one_that_fits_starts_and_the_other_waits_for_its_turn(
    slurm: Sandbox, client: CommandClient, tmp_path: Path
) -> None:
    """Beside a reader the computing job starts although a reader came first; then that one too.

    What is put off is free again as soon as the controller ends.
    """
    gates = [tmp_path / f"gate{number}" for number in range(5)]
    first = submit(slurm, DISK, gates[4])
    until(lambda: state(slurm, first) == "RUNNING", "the first job does not run")
    filler, _ = slurm.sbatch(
        "-c1", "--mem=100", script=f"#!/bin/sh\nwhile [ ! -e {gates[3]} ]; do sleep 0.05; done\n"
    )
    until(lambda: state(slurm, filler) == "RUNNING", "the filler does not run")
    reader, computing = submit(slurm, DISK, gates[0]), submit(slurm, CORE, gates[1])
    controller = pairing_of(client, tmp_path / "pairs", first)
    controller.round()
    assert not freed(slurm, reader)
    gates[3].touch()
    slurm.wait(filler)
    until(rounds(controller, lambda: state(slurm, computing) == "RUNNING"), "it did not start")
    assert state(slurm, reader) == "PENDING"
    (ledger,) = (tmp_path / "pairs/moves").iterdir()
    told = [json.loads(line) for line in ledger.read_text().splitlines()]
    assert any(one["job_id"] == computing and one["after"]["start"] for one in told)
    assert controller.undo() >= 1
    until(lambda: freed(slurm, reader), "the reader is still put off")
    for gate in gates:
        gate.touch()
    for job in (first, reader, computing):
        assert slurm.wait(job) == "COMPLETED"


def test_a_lease_ends_by_itself(slurm: Sandbox, client: CommandClient) -> None:
    """Whoever put a job off may die: Slurm starts it when the time is over."""
    job, _ = slurm.sbatch("-c1", "--mem=100", "--hold", script="#!/bin/sh\ntrue\n")
    client.delay([job], 1)
    slurm.run(["scontrol", "release", str(job)])
    assert slurm.wait(job) == "COMPLETED"


def test_a_killed_controller_leaves_nobody_held(
    slurm: Sandbox, client: CommandClient, tmp_path: Path
) -> None:
    """The command puts off who was found a bad companion; after kill -9, `--restore` frees."""
    config = tmp_path / "dlqueue.toml"
    config.write_text(
        f'[paths]\nstate_dir = "{tmp_path}"\nslurm_conf = "{slurm.layout.slurm_conf}"\n'
        '[sharing]\npairing = "act"\ninterval_s = 0.2\nlease_s = 3600\n'
    )
    gates = [tmp_path / f"gate{number}" for number in range(3)]
    jobs = [
        submit(slurm, script, gate) for script, gate in zip((DISK, CORE, DISK), gates, strict=True)
    ]
    until(lambda: all(state(slurm, job) == "RUNNING" for job in jobs[:2]), "they do not run")
    remember(tmp_path, reader_key(client, jobs[0]))
    words = ["control", "--pairs", "--config", str(config)]
    argv = dlqueue_as_unit("dlqueue-pairs", [tmp_path, slurm.layout.root], *words)
    controller = subprocess.Popen(argv, env=slurm.env, stderr=subprocess.DEVNULL)
    try:
        until(lambda: not freed(slurm, jobs[2]), "the third is not put off")
    finally:
        controller.kill()
        controller.wait()
    assert "put back: 1" in slurm.run([*argv, "--restore"]).stdout
    assert freed(slurm, jobs[2])
    for gate in gates:
        gate.touch()
    assert {slurm.wait(job) for job in jobs} == {"COMPLETED"}


def test_a_job_is_not_bound_to_an_idle_node_of_another_partition(
    make_sandbox: MakeSandbox, tmp_path: Path
) -> None:
    """Slurm would answer BadConstraints; it waits, and starts where its partition has room."""
    slurm = make_sandbox(nodes=2, cpus=2, slurm_conf="PartitionName=late Nodes=n2")
    client = CommandClient(slurm_conf=str(slurm.layout.slurm_conf))
    gates, late = [tmp_path / f"gate{number}" for number in range(3)], "--partition=late"
    here = [submit(slurm, DISK, gates[0], late), submit(slurm, CORE, gates[1], late)]
    until(lambda: all(state(slurm, job) == "RUNNING" for job in here), "they do not run")
    reader = submit(slurm, DISK, gates[2], late)
    controller = pairing_of(client, tmp_path / "pairs", here[0])
    controller.round()
    assert slurm.job(reader)["ReqNodeList"] == "(null)"
    for gate in gates:
        gate.touch()
    until(rounds(controller, lambda: state(slurm, reader) == "COMPLETED"), "it did not start")
    assert slurm.job(reader)["NodeList"] == "n2"
