"""The row of MPS against the stand-ins of its programs and of libcuda."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contrib.bench.gpu import clients, mps_jobs
from contrib.bench.gpu.report import AbsentError, Report
from contrib.bench.gpu.rows import mps, mps_newer
from slurm_ext.node.mps import daemon as mps_daemon
from slurm_ext.node.mps.processes import running_processes
from tests import cuda_standin
from tests.bench.gpu.gpu_here import UUID, here
from tests.mps_standin import install, misbehave
from tests.node.by_hand import wait_for

Measure = Callable[..., Report]


@pytest.fixture
def measure(short_folder: Path, monkeypatch: pytest.MonkeyPatch, only_mps: None) -> Measure:
    """`measure(**faults)`: the row's report, by stand-ins that behave like that."""
    monkeypatch.setattr(mps_daemon, "TALK_S", 6.0)
    monkeypatch.setattr(mps_jobs, "BUDGET_S", 60.0)  # a busy machine is no fault
    monkeypatch.setattr(mps_newer, "START_S", 30.0)
    monkeypatch.setattr(mps_newer, "TRIES", 1)
    monkeypatch.setattr(mps, "repeats", lambda _: range(1))
    for name, text in cuda_standin.install(short_folder).items():
        monkeypatch.setenv(name, text)
    control = install(short_folder / "bin", [f"{UUID}, 81559, Disabled, Default"])

    def measured(**faults: Any) -> Report:
        misbehave(control.parent, **faults)
        report = Report()
        mps.measure(here(short_folder, control=str(control)), report)
        mine = [each for each in running_processes(lambda *_: True) if _ours(each, short_folder)]
        assert mine == []
        return report

    return measured


def _ours(each: Any, folder: Path) -> bool:
    return (each.pipe or "").startswith(f"{folder}/")


def test_a_whole_life_is_measured(measure: Measure) -> None:
    """Started, joined, limited, ended, also by force; a fault is in the record; newer parts too."""
    report = measure(newer=True)
    found = {name: one["value"] for name, one in report.figures().items()}
    assert report.absent == {}
    good = [
        *("joined_the_same", "lives_for_the_second", "ended", "ended_by_force", "not_in_fault"),
        *("memory_over_refused", "memory_within_given", "fault_in_the_record"),
    ]
    assert {name: found[name] for name in good} == dict.fromkeys(good, 1.0)
    assert found["sm_share_of_half"] == pytest.approx(0.5)
    assert (found["servers"], found["clients_listed"]) == (1, 2)
    assert found["neighbour_of_fault_works"] == 0.0  # the stand-in ends the server for all
    assert (found["static_sms_of_1"], found["static_sms_of_2"]) == (8, 16)
    assert found["protocol_3_ended"] == 1.0
    assert found["left_behind"] == 0
    assert "13010" in report.facts["version"]
    assert {"start", "join", "end", "end_by_force", "client_start_first"} <= found.keys()


def test_an_older_control_program_is_named(measure: Measure) -> None:
    """It takes neither -S nor -p 3; the life itself is measured."""
    report = measure()
    assert report.absent == {
        "static": "the control program does not take -S",
        "protocol 3": "the control program does not take -p 3",
    }
    assert report.figures()["ended"]["value"] == 1.0


def test_a_control_program_that_says_nothing_against_an_option_is_named(
    measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CUDA 13.0's ends well with -S, and no daemon comes: its own words are the reason."""
    monkeypatch.setattr(mps_newer, "START_S", 1.0)
    report = measure(unknown=0)
    assert "with -S no daemon came: nvidia-cuda-mps-control: unknown" in report.absent["static"]
    assert report.absent["protocol 3"].startswith("with -p 3 no daemon came")
    assert report.figures()["left_behind"]["value"] == 0


def test_without_a_device_the_daemons_life_is_measured(
    measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No client can be started: that is named, with the driver's own code."""
    monkeypatch.setenv("FAKE_CUDA_NONE", "1")
    report = measure()
    assert report.absent["clients"] == "cuInit gave 100"
    assert report.figures()["ended"]["value"] == 1.0
    assert "fault_in_the_record" not in report.figures()


def test_a_daemon_that_does_not_start_is_no_row(measure: Measure) -> None:
    """With the hooks' own reason."""
    with pytest.raises(AbsentError, match="did not start"):
        measure(start="fail")


def test_another_tools_daemon_is_left_alone(measure: Measure, short_folder: Path) -> None:
    """The row is absent, as the job's MPS would be, and the other daemon goes on."""
    control, pipe = short_folder / "bin" / "nvidia-cuda-mps-control", short_folder / "theirs"
    pipe.mkdir()
    env = {"CUDA_MPS_PIPE_DIRECTORY": str(pipe), "CUDA_MPS_LOG_DIRECTORY": str(pipe)}
    subprocess.run([control, "-d"], env=env, check=True)
    pid_file = pipe / "nvidia-cuda-mps-control.pid"
    wait_for(lambda: pid_file.exists() and pid_file.read_text())
    pid = int(pid_file.read_text())
    try:
        report = Report()
        with pytest.raises(AbsentError, match=f"another MPS control daemon serves it .pid {pid}"):
            mps.measure(here(short_folder, control=str(control)), report)
        assert Path(f"/proc/{pid}").exists()
    finally:
        os.kill(pid, 9)


def test_a_machine_without_mps_or_libcuda_says_so(tmp_path: Path) -> None:
    """The control program, and the library, by name."""
    with pytest.raises(AbsentError, match="nvidia-cuda-mps-control is not there"):
        mps.measure(here(tmp_path), Report())
    with pytest.raises(AbsentError, match=r"libcuda\.so\.1"), clients.client(here(tmp_path)):
        pass


def test_a_row_that_is_killed_leaves_no_daemon(measure: Measure, short_folder: Path) -> None:
    """Whoever killed it ends the daemons whose pipe folders lie in its own."""
    del measure  # its stand-ins
    control = str(short_folder / "bin" / "nvidia-cuda-mps-control")
    jobs = mps_jobs.MpsJobs(here(short_folder, control=control))
    daemon = jobs.daemon(jobs.start(1, 50.0))
    mps_jobs.end_left(f"{short_folder}/elsewhere")
    assert daemon.process() is not None
    mps_jobs.end_left(str(short_folder))
    wait_for(lambda: not daemon.processes())
