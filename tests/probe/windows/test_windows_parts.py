"""Batches that are kept, saves that are counted, files that stay the user's."""

import io
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from slurm_ext.probe.windows import cache, saving, writing
from slurm_ext.probe.windows.cache import BatchCache
from slurm_ext.probe.windows.writing import OwnFolder

ROOT = Path(__file__).parents[3]


def kept(*batches: Any) -> BatchCache:
    """A cache that holds these."""
    found = BatchCache(lambda _: 0)
    for batch in batches:
        found.keep(batch)
    return found


def test_batches_come_in_turn_with_the_tensors_of_the_loader() -> None:
    """No copy: what is measured is the training, not a copying that it would not do."""
    first, second = torch.zeros(2), torch.ones(2)
    found = kept([first], [second])
    handed = [found.hand()[0] for _ in range(4)]
    assert [one.data_ptr() for one in handed] == [t.data_ptr() for t in (first, second)] * 2


def test_a_training_that_empties_its_batch_gets_it_whole_again() -> None:
    """`batch.pop("labels")` is common: containers are the training's own."""
    found = kept({"x": torch.zeros(2), "labels": torch.ones(2)})
    for _ in range(3):
        batch = found.hand()
        assert set(batch) == {"x", "labels"}
        batch.pop("labels")


def test_a_training_that_writes_into_its_batch_gets_copies() -> None:
    """Else `x.div_(255)` would make zeros of it; the first change is seen and the last."""
    found = kept({"x": torch.full((2,), 255.0)})
    for _ in range(5):
        found.hand()["x"].div_(255)
    assert found.clones
    assert found.hand()["x"].tolist() == [1.0, 1.0]


def test_large_batches_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is the training's: two stay, whatever they weigh."""
    monkeypatch.setattr(cache, "MOST_BYTES", 100)
    found = BatchCache(lambda _: 60)
    for number in range(5):
        found.keep([number])
    assert len(found) == cache.LEAST
    assert [found.hand() for _ in range(2)] == [[3], [4]]


@pytest.fixture
def saver(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module with a function that saves."""
    module = ModuleType("safetensors.torch")
    module.save_file = lambda *_: pytest.fail("it saves")  # type: ignore[attr-defined]  # made up
    monkeypatch.setattr(saving, "_done", set())
    monkeypatch.setattr(saving, "counts", type(saving.counts)())
    saving.replace(module)
    return module


def test_a_save_is_counted_and_not_done(saver: ModuleType) -> None:
    """By the name that people know."""
    saver.save_file({}, "model.safetensors")
    saver.save_file({}, Path("model.safetensors"))
    assert saving.counts == {"safetensors.save_file": 2}


def test_a_buffer_in_memory_is_still_written() -> None:
    """torch.save copies and sends that way; what has a name is a file."""
    assert saving._is_buffer(io.BytesIO())
    with Path(os.devnull).open("wb") as file:
        assert not saving._is_buffer(file)
    assert not saving._is_buffer("model.pt")
    assert not saving._is_buffer(None)


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[OwnFolder, Path]:
    """A run's folder beside a user's; both within the temporary folder, as in a test."""
    (tmp_path / "run").mkdir()
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return OwnFolder(str(tmp_path / "run")), project


def test_what_is_the_runs_own_may_be_written(folders: tuple[OwnFolder, Path]) -> None:
    """Its folder, devices, caches; the project is not, though it lies in the temporary folder."""
    folder, project = folders
    free = [f"{folder.root}/x", "/dev/shm/x", os.path.expanduser("~/.cache/x")]  # noqa: PTH111 (as a user has it)
    assert all(map(folder.is_free, free))
    assert not folder.is_free(str(project / "x"))
    assert not folder.is_free(f"{Path(folder.root).parent}-other")


def test_a_large_file_is_not_copied(
    folders: tuple[OwnFolder, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A data set that is opened to be changed stays where it is, and the error says what to do."""
    folder, project = folders
    monkeypatch.setattr(writing, "MOST_KEPT", 3)
    (project / "tokens.bin").write_bytes(b"1234")
    with pytest.raises(OSError, match="mode='r'"):
        folder.to_write(str(project / "tokens.bin"), keep=True)
    assert not Path(folder.root).exists()
    assert folder.to_read(str(project / "tokens.bin")) == str(project / "tokens.bin")


def test_processes_of_a_run_share_one_copy(folders: tuple[OwnFolder, Path]) -> None:
    """A rank that opens a file later finds what another one has changed, and changes no bytes."""
    first, project = folders
    (project / "state.bin").write_bytes(b"old")
    path = str(project / "state.bin")
    Path(first.to_write(path, keep=True)).write_bytes(b"new")
    second = OwnFolder(str(Path(first.root).parent))
    assert Path(second.to_write(path, keep=True)).read_bytes() == b"new"
    writing._copy(path, first.place(path))
    assert Path(first.place(path)).read_bytes() == b"new"
    assert [one.name for one in Path(first.place(path)).parent.iterdir()] == ["state.bin"]


GUARDED = """
import os, shutil, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from slurm_ext.probe.windows import writing
folder = writing.OwnFolder(sys.argv[2])
writing.guard(folder)
Path("model.pt").write_text("new")
assert Path("model.pt").read_text() == "new"
with open("log.txt", "a") as log:
    log.write("two")
assert open("log.txt").read() == "onetwo"
os.makedirs("runs/1")
Path("runs/1/metrics.json").write_text("{}")
os.replace("runs/1/metrics.json", "runs/1/last.json")
assert open("runs/1/last.json").read() == "{}"
os.remove("model.pt.bak")
shutil.rmtree("old")
os.rename("log.txt.1", "log.txt.2")
os.utime("old/a.pt" if os.path.exists("old/a.pt") else "old")
folder.stand_in("best.pt")
shutil.copy("best.pt", "copy.pt")
assert os.path.getsize("copy.pt") == 0
try:
    os.remove("absent")
except FileNotFoundError:
    pass
else:
    raise SystemExit("a file that is not there was removed")
folder.tidy()
"""

# As a class of pathlib did it before Python 3.11.
BOUND = """
import io, os, pathlib, sys
sys.path.insert(0, sys.argv[1])
class _NormalAccessor:
    open, low, unlink, rename, stat = io.open, os.open, os.unlink, os.rename, os.stat
pathlib._NormalAccessor = _NormalAccessor
before = os.open
from slurm_ext.probe.windows import writing
folder = writing.OwnFolder(sys.argv[2])
writing.guard(folder)
accessor = _NormalAccessor()
with accessor.open("model.pt", "w") as file:
    file.write("the new one")
assert accessor.stat("model.pt").st_size == 11
os.close(accessor.low("old/a.pt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
accessor.unlink("model.pt.bak")
accessor.rename("log.txt.1", "log.txt.2")
with open("log.txt", "w", opener=lambda _, flags: before("log.txt", flags)) as log:
    log.write("two")
with open("log.txt", opener=lambda _, flags: before("log.txt", flags)) as log:
    assert log.read() == "two"
"""
OLDER = {  # Pythons that this machine has
    version: str(path)
    for version in ("3.8", "3.9", "3.10")
    for path in (
        *Path("/usr/bin").glob(f"python{version}"),
        *Path.home().glob(f".pyenv/versions/{version}.*/bin/python"),
    )
}
RUNS = {"this Python": (sys.executable, GUARDED), "bound before": (sys.executable, BOUND)}
RUNS |= {version: (python, GUARDED) for version, python in OLDER.items()}


@pytest.mark.parametrize("run_name", RUNS)
def test_a_users_files_stay_as_they_are(tmp_path: Path, run_name: str) -> None:
    """Nothing is written, appended, made, moved or removed, by whichever functions Python has."""
    python, code = RUNS[run_name]
    project, run = tmp_path / "project", tmp_path / "run"
    (project / "old" / "deep").mkdir(parents=True)
    run.mkdir()
    files = {"model.pt": "old", "log.txt": "one", "model.pt.bak": "b", "log.txt.1": "1"}
    files |= {"old/a.pt": "a", "old/deep/b.pt": "b"}
    for name, text in files.items():
        (project / name).write_text(text)
    before = state(project)
    done = subprocess.run(
        [python, "-Bc", code, str(ROOT), str(run)],
        cwd=project,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert state(project) == before


def state(folder: Path) -> dict[str, tuple[int, str]]:
    """Every file and folder, when it was changed, and what it holds."""
    return {
        str(path.relative_to(folder)): (
            path.stat().st_mtime_ns if path.is_file() else 0,
            path.read_text() if path.is_file() else "",
        )
        for path in sorted(folder.rglob("*"))
    }


def test_a_name_of_torchs_is_known_to_it() -> None:
    """Savers of torch that are replaced exist in this torch."""
    for module in saving._WITHIN_TORCH:
        if module in sys.modules:
            names = saving.SAVERS[module]
            assert any(hasattr(sys.modules[module], name.partition(".")[0]) for name in names)
