"""GPUs through nvidia-ml-py and a stand-in library: by UUID, shared, divided, lost and hanging.

The stand-in is tests/node/nvml/libnvidia-ml.c.
"""

from collections.abc import Collection, Iterator

import pytest

from slurm_ext.node.counters.columns import GPU_UNITS, MAX_WRITTEN, counter_rows
from slurm_ext.node.counters.gpu import nvml_reader
from slurm_ext.node.counters.gpu.job_gpus import JobGpus
from slurm_ext.node.counters.gpu.nvml import NvmlClient
from slurm_ext.node.counters.gpu.totals import GpuTotals, resolved
from slurm_ext.node.record.fields import MAX_COUNTERS
from tests.node.by_hand import Node, wait_for
from tests.nvml_standin import Gpu, StandIn

A, B = "GPU-aaaa", "GPU-bbbb"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    """The library, built once, in the place of NVIDIA's for this process and its children."""
    library = StandIn(tmp_path_factory.mktemp("nvml"))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in library.env.items():
            patch.setenv(name, value)
        library.load()
        yield library


@pytest.fixture
def gpus(library: StandIn) -> Iterator[JobGpus]:
    """What a job has that Slurm gave its GPU number 1."""
    found = JobGpus(["1"], {}, NvmlClient(hung_s=0.2))
    yield found
    found.close()


def _counted(gpus: JobGpus, name: str, pids: Collection[int] = ()) -> float | None:
    """One counter after one more sample."""
    gpus.sample(pids)
    return gpus.totals().get(name, ("", None))[1]


def test_a_gpu_is_counted_by_its_uuid_and_attributed_by_process(
    library: StandIn, gpus: JobGpus
) -> None:
    """Slurm's number 1 is minor 1, whatever NVML's order; a neighbour's part is not the job's."""
    mine = Gpu(uuid=A, minor=1, pci="2", pid=4, pid_mem=600, pid_sm=30)
    mine.other_pid, mine.other_mem, mine.other_sm = 5, 7000, 60
    library.say(Gpu(uuid=B, minor=0, pci="1", util=99), mine)
    wait_for(lambda: _counted(gpus, f"gpu_sm_active@{A}", {4}))
    mine.energy_mj += 5_000
    library.say(Gpu(uuid=B, minor=0, pci="1", util=99), mine)
    wait_for(lambda: _counted(gpus, f"gpu_energy@{A}", {4}))
    found = gpus.totals()
    assert found[f"gpu_util@{A}"][0] == f"nvml/{A}"
    assert found[f"gpu_util@{A}"][1] == pytest.approx(0.5)
    assert found[f"gpu_energy@{A}"][1] == 5.0
    assert found[f"gpu_sm_active@{A}"][1] == pytest.approx(0.4)
    assert found[f"gpu_job_mem_peak@{A}"] == (f"nvml/{A}/processes", 600)
    assert found[f"gpu_job_util@{A}"][1] == pytest.approx(0.3)
    assert f"gpu_nvlink_tx@{A}" not in found
    assert not any(B in name for name in found)
    assert gpus.place() == [A]


def test_an_older_gpu_tells_less_and_nothing_wrong(library: StandIn, gpus: JobGpus) -> None:
    """Neither energy nor GPM: those are absent, the others are there."""
    library.say(Gpu(uuid=A, minor=1, state="old"))
    wait_for(lambda: _counted(gpus, f"gpu_util@{A}"))
    assert not {f"gpu_energy@{A}", f"gpu_sm_active@{A}"} & gpus.totals().keys()
    assert gpus.faults() == []


def test_mig_is_said_and_nothing_is_attributed(library: StandIn, gpus: JobGpus) -> None:
    """A divided GPU's figures are nobody's."""
    library.say(Gpu(uuid=A, minor=1, mig=1))
    wait_for(lambda: _counted(gpus, "") or gpus.faults())
    assert gpus.totals() == {}
    assert gpus.faults() == [f"{A}: MIG is on: nothing is attributed"]


def test_a_call_that_hangs_is_left_behind(library: StandIn, gpus: JobGpus) -> None:
    """No sample waits for it; what was known stays, and why there is no more is told."""
    library.say(Gpu(uuid=A, minor=1))
    wait_for(lambda: _counted(gpus, f"gpu_util@{A}"))
    library.say(Gpu(uuid=A, minor=1, state="hang"))
    wait_for(lambda: _counted(gpus, "") or gpus.faults())
    assert "did not answer" in gpus.faults()[0]
    assert f"gpu_util@{A}" in gpus.totals()


def test_a_gpu_that_falls_off_the_bus_leaves_nulls_and_a_line(node: Node, library: StandIn) -> None:
    """Between prolog and epilog, which succeed; the record is whole and says what happened."""
    library.say(Gpu(uuid=A, minor=1))
    node.prolog(7, SLURM_JOB_GPUS="1", **library.env)
    node.job(7, "import time; time.sleep(60)")
    wait_for(lambda: node.state("7.0").get("place", {}).get("gpus"))
    library.say(Gpu(uuid=A, minor=1, state="lost"))
    wait_for(lambda: node.state("7.0").get("faults"))
    node.epilog(7, SLURM_JOB_GPUS="1")
    (record,) = node.delivered()
    counted = [c for c in record["counters"] if c["name"] in GPU_UNITS]
    assert {(c["source"], c["value"]) for c in counted} == {("none", None)}
    assert {c["name"] for c in counted} == set(GPU_UNITS)
    assert any("fell off the bus" in line for line in record["probe"]["faults"])
    assert record["allocation"]["gpu_uuids"] == [A]


def test_after_two_hangs_nobody_asks_again() -> None:
    """A reader that never answers is killed twice, and why is told."""
    nvml = _Silent(hung_s=0.0)
    for _ in range(2):
        nvml.ask({"list": True})
        wait_for(lambda: nvml.answer() is None and (nvml.idle() or nvml.why))
    assert not nvml.idle()
    assert "did not answer" in (nvml.why or "")


class _Silent(NvmlClient):
    """Its reader says nothing."""

    def _start(self) -> None:
        super()._start()
        self._line = lambda wait_s: None  # type: ignore[method-assign] # the pipe stays silent


def test_without_the_library_the_job_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """No driver, no nvidia-ml-py: no figure, no failure, and the reason by name."""
    monkeypatch.setattr(nvml_reader, "_library", _absent)
    gpus = JobGpus(["0"], {})
    wait_for(lambda: _counted(gpus, "") or gpus.faults())
    assert gpus.faults() == ["NVML: ImportError: No module named 'pynvml'"]
    assert gpus.place() is None


def _absent() -> None:
    raise ImportError("No module named 'pynvml'")


# -- pure -----------------------------------------------------------------------------------------


def test_slurms_numbers_are_minor_numbers_or_the_order_of_the_bus() -> None:
    """Never the order in which NVML happens to list them; an unknown name stays unknown."""
    listed = [{"uuid": A, "minor": 1, "pci": "1"}, {"uuid": B, "minor": 0, "pci": "2"}]
    assert resolved(["0", "1"], listed) == {"0": B, "1": A}
    assert resolved([A, "7"], listed) == {A: A}
    unnumbered = [{"uuid": A, "minor": None, "pci": "9"}, {"uuid": B, "minor": None, "pci": "2"}]
    assert resolved(["0"], unnumbered) == {"0": B}


def test_means_are_weighted_by_time_and_what_is_not_told_is_absent() -> None:
    """A GPU without energy meter and without per-process samples says nothing of them."""
    totals = GpuTotals()
    totals.see({"util": 100}, 1.0, ())
    totals.see({"util": 0}, 3.0, ())
    found = totals.totals(A)
    assert found == {f"gpu_util@{A}": (f"nvml/{A}", 0.25)}


def test_an_energy_meter_that_was_set_anew_is_no_energy() -> None:
    """A driver that was loaded again starts at zero: the job's joules are not known."""
    totals = GpuTotals()
    for energy in (9000, 9500, 20):
        totals.see({"energy_mj": energy}, 1.0, ())
    assert f"gpu_energy@{A}" not in totals.totals(A)


def test_processes_of_others_and_of_nobody_are_not_the_jobs() -> None:
    """No process of the job on the GPU is 0; a process without a memory figure is no figure."""
    totals = GpuTotals()
    totals.see({"processes": {"5": {"sm_util": 80, "mem_bytes": 10}}}, 1.0, {4})
    assert totals.totals(A)[f"gpu_job_mem_peak@{A}"][1] == 0
    assert totals.totals(A)[f"gpu_job_util@{A}"][1] == 0
    totals.see({"processes": {"4": {"sm_util": 80, "mem_bytes": None}}}, 1.0, {4})
    assert totals.totals(A)[f"gpu_job_mem_peak@{A}"][1] == 0


def test_a_node_of_many_gpus_fits_a_record() -> None:
    """However many: a record that its reader would refuse is never written."""
    uuids = {str(n): f"GPU-{n}" for n in range(40)}
    totals = {f"{name}@{u}": (f"nvml/{u}", 1.0) for u in uuids.values() for name in GPU_UNITS}
    assert len(counter_rows(totals, gpus=True)) <= MAX_WRITTEN < MAX_COUNTERS
    gpus = JobGpus(list(uuids), {"uuids": uuids, "totals": {u: {} for u in uuids.values()}})
    assert any("has room" in line for line in gpus.faults())
