"""The probe's parts that need no torch: machine, gate, directive, inspection of datasets, times."""

import hashlib
import math
import os
import random
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.probe.counters import batches, fetching, machine
from slurm_ext.probe.directive import Directive
from slurm_ext.probe.inspection.dataset_inspection import DatasetInspection
from slurm_ext.probe.passes.loader_meter import LoaderMeter
from slurm_ext.probe.passes.one_pass import Pass
from slurm_ext.probe.stalls import fetch_file
from slurm_ext.probe.workers import gate

MIB = 1 << 20


def _tree(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    ("membership", "files", "expected"),
    [
        ("0::/job/step", {"job/cpu.max": "50000 100000", "job/step/cpu.max": "max 100000"}, 0.5),
        ("0::/job", {"job/cpu.max": "max 100000"}, None),
        ("0::/job", {}, None),
        (
            "4:cpu,cpuacct:/job",
            {
                "cpu,cpuacct/job/cpu.cfs_quota_us": "75000",
                "cpu,cpuacct/job/cpu.cfs_period_us": "100000",
            },
            0.75,
        ),
        (
            "4:cpu,cpuacct:/job",
            {"cpu/job/cpu.cfs_quota_us": "-1", "cpu/job/cpu.cfs_period_us": "100000"},
            None,
        ),
        ("nonsense", {}, None),
    ],
)
def test_cores_are_bound_by_affinity_and_every_quota_above(
    tmp_path: Path, membership: str, files: dict[str, str], expected: float | None
) -> None:
    """Quotas of either cgroup version, own or inherited, bind; no quota leaves the affinity."""
    _tree(tmp_path, {"proc/cgroup": membership + "\n", "root/x": ""})
    _tree(tmp_path / "root", files)
    found = machine.cores(str(tmp_path / "proc"), str(tmp_path / "root"))
    assert found == (expected or len(os.sched_getaffinity(0)))


@pytest.mark.parametrize(
    ("membership", "files", "env", "expected"),
    [
        (
            "0::/job/step",
            {
                "job/memory.max": str(100 * MIB),
                "job/memory.current": str(60 * MIB),
                "job/memory.stat": f"anon 5\ninactive_file {10 * MIB}\n",
                "job/step/memory.max": "max",
                "job/step/memory.current": "5",
            },
            {},
            50 * MIB,
        ),
        (
            "9:memory:/job",
            {
                "memory/job/memory.limit_in_bytes": str(80 * MIB),
                "memory/job/memory.usage_in_bytes": str(70 * MIB),
                "memory/job/memory.stat": f"total_inactive_file {5 * MIB}\n",
            },
            {},
            15 * MIB,
        ),
        ("", {}, {"SLURM_MEM_PER_NODE": "100"}, 60 * MIB),
        ("", {}, {"SLURM_MEM_PER_NODE": "100", "SLURM_TASKS_PER_NODE": "2(x3)"}, 10 * MIB),
        ("", {}, {"SLURM_MEM_PER_CPU": "30", "SLURM_CPUS_ON_NODE": "4"}, 80 * MIB),
        ("", {}, {"SLURM_MEM_PER_NODE": "0"}, 900 * MIB),  # 0: the whole node
        ("", {}, {}, 900 * MIB),
    ],
)
def test_room_is_the_nearest_limit(
    tmp_path: Path, membership: str, files: dict[str, str], env: dict[str, str], expected: int
) -> None:
    """What may still be taken: of the cgroup, of Slurm's limit less our own, of the machine."""
    _tree(tmp_path, {"proc/cgroup": membership, "meminfo": f"MemAvailable: {900 * 1024} kB\n"})
    _tree(tmp_path / "root", files)
    found = machine.room_bytes(
        40 * MIB,
        env,
        str(tmp_path / "proc"),
        str(tmp_path / "root"),
        str(tmp_path / "meminfo"),
    )
    assert found == expected


@given(st.text() | st.integers(-5, 5000).map(str))
def test_only_a_count_is_a_directive(text: str) -> None:
    """DLQUEUE_NUM_WORKERS is a number from 1 to 1024; anything else asks for nothing."""
    found = Directive({"DLQUEUE_NUM_WORKERS": text.replace("\0", "")}).num_workers
    assert found is None or (1 <= found <= 1024 and str(found) == text.lstrip("0"))
    if text in ("1", "8", "1024"):
        assert found == int(text)


def _look(one: gate.Gate, path: Path, text: str) -> int:
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(path)
    one._next_look = 0.0
    return one.open()


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3", 3), ("3\n", 3), ("0", 4), ("-1", 4), ("99", 4), ("", 4), ("two", 4), ("9" * 50, 4)],
)
def test_the_gate_reads_a_number_within_bounds(tmp_path: Path, text: str, expected: int) -> None:
    """Between one and the limit; what is no number leaves the gate where it was."""
    one = gate.Gate(str(tmp_path / "workers"), 4)
    assert _look(one, tmp_path / "workers", text) == expected


def test_the_gate_follows_the_file(tmp_path: Path) -> None:
    """Each new number counts, memory's ceiling binds, and a removed file changes nothing."""
    path = tmp_path / "workers"
    one = gate.Gate(str(path), 6)
    assert [_look(one, path, text) for text in ("2", "5", "junk", "1")] == [2, 5, 5, 1]
    one.asked, one.ceiling = 6, 3
    path.unlink()
    one._next_look = 0.0
    assert one.open() == 3


def test_the_gate_looks_seldom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it is asked, the file is looked at once in a fifth of a second."""
    looks: list[int] = []
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    one = gate.Gate(str(tmp_path / "workers"), 4)
    monkeypatch.setattr(one, "_look", lambda: looks.append(1))
    for _ in range(1000):
        one.open()
        now[0] += 0.001
    assert len(looks) == 5


@given(st.lists(st.integers(1, 5), min_size=1, max_size=60))
def test_open_workers_are_the_first_ones_in_turn(counts: list[int]) -> None:
    """Only open workers are yielded, and at a steady gate each in its turn."""
    one = gate.Gate("/nowhere", 5)
    cycle = gate.OpenWorkers(one)
    for count in counts:
        one.asked = count
        assert next(cycle) < count
    one.asked = 3
    turns = [next(cycle) for _ in range(9)]
    assert [turns.count(worker) for worker in range(3)] == [3, 3, 3]


class Data:
    """A dataset of whatever it is given."""

    def __init__(self, **parts: Any) -> None:
        self.cache: dict[str, int] = {}
        self.items: list[int] = []
        self.next: Any = None
        self.rng: Any = random.Random(1)
        self.np: Any = np.random.default_rng(1)
        self.__dict__.update(parts)


def test_handles_are_found_wherever_they_are(tmp_path: Path) -> None:
    """Open files, threads, generators and connections, also deep inside and in closures."""
    with open(__file__, "rb") as file, sqlite3.connect(tmp_path / "x.db") as base:  # noqa: PTH123
        held: list[Any] = [file, base, threading.Thread(), (i for i in "x")]
        for item in held:
            for dataset in (
                Data(a=item),
                Data(a=[{"b": (Data(c=item),)}]),
                Data(a=lambda index, kept=item: (index, kept)),
            ):
                assert DatasetInspection(dataset).unfit is not None, type(item)
        base_close = base.close
    base_close()
    assert DatasetInspection(Data(a=[1, "x", np.zeros(3)], f=os.path.join, m=os)).unfit is None


def test_a_portrait_tells_what_was_written() -> None:
    """Rebinding, growth and drawn random numbers change it; reading does not."""
    data = Data(n=1000)
    acts: list[Any] = [
        lambda: setattr(data, "n", 2000),
        lambda: data.cache.update(a=1),
        lambda: data.items.append(2),
        data.rng.random,
        data.np.random,
    ]
    for act in acts:
        before = DatasetInspection(data).signature
        assert DatasetInspection(data).signature == before
        act()
        assert DatasetInspection(data).signature != before


def test_the_walk_is_bounded() -> None:
    """A dataset of a million things costs no more than a bounded look."""
    data = Data(rows=[[i] for i in range(10**6)])
    data.next = data
    assert len(DatasetInspection(data).signature) < 5001


def test_totals_outlive_their_process(tmp_path: Path) -> None:
    """A worker's numbers are read by path; one that never fetched counts as nothing."""

    class Fetcher:
        auto_collation = True

    meter = fetching.WorkerMeter(str(tmp_path), None)
    for size in (3, 4):
        meter.fetch(lambda _fetcher, index: index, Fetcher(), [0] * size)
    totals = fetch_file.read_totals(fetch_file.path_of(str(tmp_path), os.getpid()))
    assert totals[:2] == (7, 2)
    assert totals[2] >= 0 < totals[5]
    assert fetch_file.read_totals(str(tmp_path / "fetch-1")) == (0.0,) * 8


def test_waiting_for_a_core_is_told_apart_from_reading() -> None:
    """Three threads of one core: each waits for the others; a sleeper waits for nobody."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        began, queued = time.perf_counter(), machine.queued_s()
        while machine.queued_s() - queued < 0.05:  # what the kernel tells grows, or this never ends
            pass
        elapsed = time.perf_counter() - began
        assert machine.queued_s() - queued <= elapsed
    finally:
        os.sched_setaffinity(0, cores)
        for other in others:
            other.kill()
            other.wait()
    queued = machine.queued_s()
    time.sleep(0.2)
    assert machine.queued_s() - queued < 0.2


def test_each_thread_is_told_of_itself() -> None:
    """The statistics that were opened in one thread are not another's."""
    told: list[float] = []
    first = machine.queued_s()
    thread = threading.Thread(target=lambda: told.append(machine.queued_s()))
    thread.start()
    thread.join()
    assert told[0] >= 0
    assert machine.queued_s() >= first


def test_threads_that_ask_at_once_leave_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread opens a file of its own, which is closed when the thread ends."""
    together, really = threading.Barrier(2, timeout=20), os.open
    told: list[float] = []

    def opened(path: str, *words: int) -> int:
        if "schedstat" in path:
            together.wait()
        return really(path, *words)

    machine.queued_s()
    before = sorted(Path("/proc/self/fd").iterdir())
    monkeypatch.setattr(os, "open", opened)
    threads = [threading.Thread(target=lambda: told.append(machine.queued_s())) for _ in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told) == 2
    assert sorted(Path("/proc/self/fd").iterdir()) == before


def test_a_silent_kernel_is_not_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without scheduler statistics the answer is unknown, and a phase's figure is null."""
    monkeypatch.setattr(machine._OWN.schedstat, "text", lambda: b"0 0 0\n")
    assert math.isnan(machine.queued_s())
    meter = fetching.WorkerMeter(str(tmp_path), None)
    meter.fetch(lambda _fetcher, index: index, type("F", (), {"auto_collation": True})(), [0])
    assert math.isnan(meter.totals()[6])


@pytest.fixture
def passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pass:
    """A pass of ten seconds, eight of them waits; 3 s in the queue, 1 s before each reading."""
    readings = iter([0.0, 1.0, 2.0, 3.0])
    monkeypatch.setattr(machine, "queued_s", lambda: next(readings))
    iterator = Directive({})
    facts = {"batch_size": 4, "persistent": False}
    current = Pass(iterator, LoaderMeter(0, facts, str(tmp_path)))
    current.batches, current.wait_s, current.step_s = 5, 8.0, 2.0
    return current


def test_all_time_in_the_queue_counts_split_as_in_the_batches_read_closely(passed: Pass) -> None:
    """Few batches are read closely; what fell between them belongs to waits and steps alike."""
    passed.step_queued_s += 0.25 * passed.queued()
    passed.wait_queued_s += 0.75 * passed.queued()
    passed.queued()
    totals = passed.totals()
    assert (totals["wait_queued_s"], totals["step_queued_s"]) == (2.25, 0.75)


def test_time_in_the_queue_is_split_by_time_where_no_batch_was_read(passed: Pass) -> None:
    """A pass that ends before its first close batch: eight tenths of it were waits."""
    for _ in range(3):
        passed.queued()
    totals = passed.totals()
    assert totals["wait_queued_s"] == pytest.approx(2.4)
    assert totals["step_queued_s"] == pytest.approx(0.6)


def test_waits_hold_no_more_queueing_than_they_lasted(passed: Pass) -> None:
    """Whatever the close batches showed, a part is not larger than the whole."""
    passed.wait_s = 1.0
    passed.wait_queued_s += passed.queued() + passed.queued() + passed.queued()
    totals = passed.totals()
    assert (totals["wait_queued_s"], totals["step_queued_s"]) == (1.0, 2.0)


def test_the_next_batches_after_a_look_are_read_closely(passed: Pass) -> None:
    """A few, as each reading costs as much as all the rest of the probe."""
    assert passed.closely == 0
    passed.look(time.perf_counter())
    assert 0 < passed.closely < 10


def test_queueing_is_read_around_few_fetches_and_stands_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fetches that follow within a tenth of a second are not read, and count by their time."""
    readings = iter([1.0, 1.5])
    monkeypatch.setattr(machine, "queued_s", lambda: next(readings))
    meter, fetcher = fetching.FetchMeter(), type("F", (), {"auto_collation": True})()
    meter.fetch(lambda *_: time.sleep(0.002), fetcher, [0])
    first_s = meter.wall_s
    for _ in range(3):
        meter.fetch(lambda *_: time.sleep(0.002), fetcher, [0])
    assert meter.totals()[6] == pytest.approx(0.5 * meter.wall_s / first_s)


def test_other_threads_that_compute_during_a_fetch_are_told_apart() -> None:
    """A library's own threads help, or spin: the thread's clock does not see them."""
    meter, fetcher = fetching.HomeMeter(), type("F", (), {"auto_collation": True})()
    data = bytes(1 << 24)

    def fetch(*_: Any) -> None:
        helper = threading.Thread(target=hashlib.sha256, args=(data,))
        helper.start()
        helper.join()

    meter.fetch(fetch, fetcher, [0])
    assert meter.process_cpu_s() > 2 * meter.cpu_s


def test_a_batch_is_weighed_by_its_tensors() -> None:
    """Whatever plain containers hold them; what holds none weighs nothing."""
    import torch

    image = torch.zeros(4, 3, 8, 8)
    assert batches.tensor_bytes([image, {"label": torch.zeros(4, dtype=torch.int64)}]) == 3104
    assert batches.tensor_bytes(("text", 7, None)) == 0
