"""What a user may put into the run folder: nothing of it is followed or felt by others."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.control.allocator import gate
from slurm_ext.control.allocator.cgroup.job_location import JobGoneError, UntrustedJobDirError
from slurm_ext.control.allocator.jobs import SpooledJobs
from slurm_ext.control.allocator.measure import WorkerBounds, difference, run_between, worker_bounds
from slurm_ext.control.allocator.undo_log import allocator_state, undo_left
from slurm_ext.control.lending.node_loop import KIND
from slurm_ext.control.loops import runner
from slurm_ext.core.errors import InputError
from slurm_ext.core.records import Level, LoaderRun
from slurm_ext.core.settings.document import Settings
from slurm_ext.model.throughput.estimate import estimate
from slurm_ext.model.throughput.estimate_codec import write
from slurm_ext.node.common import state
from slurm_ext.node.common.spool_layout import Spool, make_run_dir
from slurm_ext.slurm import MemoryClient
from tests.control.loop_sites import PHASE


def summary(**phase: Any) -> dict[str, Any]:
    """As the probe writes it of this very process."""
    loader = {
        "id": 0,
        "style": "map",
        "batch_size": 8,
        "user_num_workers": 2,
        "gate": 2,
        "most_workers": 8,
        "left_alone": None,
        "fallback": None,
        "phases": [{**PHASE, **phase}],
    }
    return {
        "v": 1,
        "pid": os.getpid(),
        "rank": 0,
        "world_size": 1,
        "cores": 2,
        "node_cores": 2,
        "finished": False,
        "accelerator": None,
        "loaders": [loader],
    }


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    """A node's spool."""
    spool = Spool(str(tmp_path / "spool"))
    spool.prepare()
    return spool


def job(spool: Spool, number: int, *summaries: Any, curve: str = "", cpus: int = 1) -> Path:
    """A job of `cpus` CPUs that has written these summaries; its run folder."""
    key = f"{number}.0"
    identity = {"job_id": number, "uid": os.geteuid(), "node": "n1"}
    facts = {"cpus": cpus, "num_nodes": 1, "gpus": []}
    known = {"identity": identity, "allocation": facts, "boot_id": state.boot_id()}
    state.save(spool, key, "json", known, durable=False)
    make_run_dir(spool, key, os.geteuid())
    folder = Path(spool.run_dir(key))
    for count, one in enumerate(summaries):
        (folder / f"summary-{count}.json").write_text(json.dumps(one))
    if curve:
        (folder / "curve").write_text(curve)
    return folder


def status(spool: Spool) -> dict[str, Any]:
    """What would be done on it: eight CPUs by Slurm's count."""
    settings = Settings(
        values={"node.spool_dir": spool.root, "control.mode": "act", "control.allocator": "divide"}
    )
    return runner.dry_run(KIND, settings, MemoryClient())


def controlled(spool: Spool) -> dict[str, dict[str, Any]]:
    """Rows by job."""
    return {row["job"]: row for row in status(spool)["jobs"]}


def test_the_gate_replaces_whatever_has_its_name(tmp_path: Path) -> None:
    """A link at its place, or at a temporary one, is not followed; the victim stays as it was."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "workers").symlink_to(victim)
    gate.set_gate(str(folder), 3, uid=os.geteuid())
    assert victim.read_text() == "mine"
    assert (folder / "workers").read_text() == "3\n"
    assert not (folder / "workers").is_symlink()
    (folder / "workers").unlink()
    os.mkfifo(folder / "workers")
    gate.set_gate(str(folder), 4)
    assert [p.name for p in folder.iterdir()] == ["workers"]
    gate.remove_gate(str(folder))
    assert list(folder.iterdir()) == []


def test_a_run_folder_that_is_none(tmp_path: Path) -> None:
    """Gone, a link, somebody else's, or with a folder in the gate's place: refused by name."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(JobGoneError):
        gate.set_gate(str(tmp_path / "none"), 2)
    with pytest.raises(UntrustedJobDirError):
        gate.set_gate(str(tmp_path / "link"), 2)
    with pytest.raises(UntrustedJobDirError, match="belongs to uid"):
        gate.set_gate(str(tmp_path / "real"), 2, uid=os.geteuid() + 1)
    (tmp_path / "real" / "workers" / "full").mkdir(parents=True)
    with pytest.raises(UntrustedJobDirError):
        gate.set_gate(str(tmp_path / "real"), 2)
    assert [p.name for p in (tmp_path / "real").iterdir()] == ["workers"]


HOSTILE = [
    {},
    {"loaders": 5},
    {"loaders": [5]},
    {"loaders": [{}]},
    {"v": 2},
    {"loaders": [{"id": [], "phases": {}}]},
    {"loaders": [{"id": 0, "phases": [{"samples": "many"}]}]},
    {"loaders": [{"id": 0, "gate": -5, "most_workers": 10**9, "phases": [{}]}]},
]


@pytest.mark.parametrize("lie", HOSTILE)
def test_no_summary_stops_the_round(spool: Spool, lie: Any) -> None:
    """Whatever one job writes, the others are looked after, and nothing is raised."""
    job(spool, 1, {**summary(), **lie} if lie else {})
    job(spool, 2, summary())
    assert controlled(spool)["2.0"]["wanted_units"] is not None


def test_files_that_are_none(spool: Spool) -> None:
    """FIFOs, links, endless files and folders in the places of summary and curve."""
    folder = job(spool, 1)
    os.mkfifo(folder / "summary-1.json")
    (folder / "summary-2.json").symlink_to("/dev/zero")
    (folder / "summary-3.json").write_bytes(b" " * (1 << 20))
    (folder / "summary-4.json").mkdir()
    os.mkfifo(folder / "curve")
    job(spool, 2, summary())
    said = status(spool)
    assert [row["job"] for row in said["jobs"]] == ["2.0"]
    assert "no training" in said["left_alone"]["1.0"]


def test_a_lie_gains_nothing_of_others(spool: Spool) -> None:
    """A curve of a thousandfold gain, and rates to match: the honest job keeps its share's rate."""
    run = LoaderRun(
        samples_per_s=1e6,
        workers=2,
        cores=1.0,
        batch_size=8,
        accel_samples_per_s=1e8,
        fetch_wall_s=1e-6,
        fetch_cpu_s=1e-6,
    )
    known = estimate({Level.SCRIPT_ARGS: [run]})
    assert known is not None
    job(spool, 1, summary(samples=10**9, fetch_samples=10**9), curve=write(known))
    job(spool, 2, summary())
    rows = controlled(spool)
    assert rows["2.0"]["wanted_units"] >= rows["2.0"]["share_units"]


def test_jobs_that_are_never_touched(spool: Spool) -> None:
    """Several nodes, the whole node, no probe, ended trainings: each with its reason."""
    real = os.cpu_count() or 1
    job(spool, 1, {**summary(), "finished": True})
    job(spool, 2, {**summary(), "pid": 1 << 30})
    folder = job(spool, 3, summary())
    facts = json.loads(Path(spool.state_file("3.0", "json")).read_text())
    facts["allocation"]["num_nodes"] = 2
    state.save(spool, "3.0", "json", facts, durable=False)
    job(spool, 4, summary(), cpus=real + 4)
    said = status(spool)
    assert said["jobs"] == []
    assert {key: why[:24] for key, why in said["left_alone"].items()} == {
        "1.0": "no training that the pro",
        "2.0": "no training that the pro",
        "3.0": "it runs on several nodes",
        "4.0": said["left_alone"]["4.0"][:24],
    }
    assert list(folder.iterdir()) == [folder / "summary-0.json"]


def test_a_window_is_the_difference_of_two_summaries() -> None:
    """Only what came since; nothing where no sample came, or workers changed meanwhile."""
    whole = {"samples": 900, "batches": 112, "wall_s": 9.0, "wait_s": 4.0, "step_s": 5.0}
    fetched = {"fetch_samples": 900, "fetch_wall_s": 17.1, "fetch_cpu_s": 16.6}
    later = summary(**whole, **fetched, main_cpu_s=0.45)
    run = run_between([summary()], [later], cpus=2, gpus=0, cores=1.5)
    assert run is not None
    assert (run.samples_per_s, run.workers, run.cores) == (100.0, 2, 1.5)
    assert run_between([later], [later], cpus=2, gpus=0, cores=1.5) is None
    moved = summary(**{**later["loaders"][0]["phases"][0], "workers": 2.28})
    assert difference([summary()], [moved]) == []
    assert difference([{**summary(), "pid": 1}], [later]) == []


def test_the_knob() -> None:
    """What waits may be opened, what is the user's own stays."""
    assert worker_bounds([summary()], 16) == WorkerBounds(now=2, least=1, most=8, baseline=2)
    own = summary()
    own["loaders"][0].update(gate=None, most_workers=None)
    assert worker_bounds([own], 16) == WorkerBounds(now=2, least=2, most=2, baseline=2)
    waiting = summary()
    waiting["loaders"][0].update(gate=0)
    assert worker_bounds([waiting], 4) == WorkerBounds(now=0, least=0, most=4, baseline=2)


@pytest.mark.parametrize("name", ["undo.json", "kept.json"])
def test_an_undo_log_of_another_boot_is_nothing_to_undo(spool: Spool, name: str) -> None:
    """A reboot has undone it; a torn log is named, not guessed at."""
    folder = allocator_state(spool)
    os.close(folder.lock())
    path = folder.path / name
    jobs = {"1.0": {"share": {}, "place": {}, "run_dir": "/nonexistent"}}
    body = {"boot_id": "another", "jobs": jobs}
    path.write_text(json.dumps({"v": 1, "kept": body} if name == "undo.json" else body))
    assert undo_left(folder) == 0
    assert not path.exists()
    assert undo_left(folder) == 0
    for torn in ("{", "[]", "{}"):
        path.write_text(torn)
        with pytest.raises(InputError, match=rf"{name}: cannot be used"):
            undo_left(folder)


def test_who_agrees_to_lend(spool: Spool) -> None:
    """By its comment, or by its environment; a link or another word is none."""
    said = job(spool, 1, summary())
    facts = json.loads(Path(spool.state_file("1.0", "json")).read_text())
    state.save(spool, "1.0", "json", {**facts, "lends": True}, durable=False)
    (job(spool, 2, summary()) / "lend").write_text("1")
    (job(spool, 3, summary()) / "lend").write_text("yes")
    (job(spool, 4, summary()) / "lend").symlink_to(said / "lend")
    job(spool, 5, summary())
    agreed = {one.job.key for one in SpooledJobs(spool).look() if one.agreed}
    assert agreed == {"1.0", "2.0"}


def test_a_job_that_nothing_is_known_of_is_learnt_from_at_once() -> None:
    """Half a second and four batches are enough; less is not."""
    early = {"samples": 40, "batches": 5, "wall_s": 0.5, "step_s": 0.3, "wait_s": 0.2}
    fetched = {"fetch_samples": 48, "fetch_wall_s": 0.9, "fetch_cpu_s": 0.8, "main_cpu_s": 0.02}
    run = run_between([], [summary(**early, **fetched)], cpus=2, gpus=0, cores=1.0)
    assert run is not None
    assert run.samples_per_s == 80
    assert run_between([], [summary(**{**early, "batches": 3})], cpus=2, gpus=0, cores=1.0) is None
    assert run_between([], [summary(**{**early, "wall_s": 0.4})], cpus=2, gpus=0, cores=1.0) is None
