"""Whatever stands in the place of a file that a command reads: one line says so.

No traceback, no exit status but 0, 1 and 2, and nothing half written.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_ext.cli import main
from slurm_ext.history.store.store import open_history

JOB = "#!/bin/bash\n#SBATCH -c 2\npython3 train.py\n"
DAMAGE: dict[str, bytes | Callable[[Path], object]] = {
    "empty": b"",
    "nul bytes": b"\0" * 4096,
    "text": b"hello\n",
    "a list": b"[]",
    "a number": b"3",
    "an object": b"{}",
    "not a number": b'{"v": NaN, "jobs": 1e999}',
    "a deep list": b"[" * 100_000,
    "a number of 5000 digits": b"1" + b"0" * 5000,
    "bytes": bytes(range(256)) * 20,
    "a folder": lambda path: path.mkdir(),
    "a link to nowhere": lambda path: path.symlink_to("nowhere"),
    "a link to itself": lambda path: path.symlink_to(path.name),
}
READ = {  # file below the folder: commands that read it
    "state/history.db": (
        "history ls",
        "explain 1042",
        "predict job.sh",
        "report",
        "recommend job.sh",
    ),
    "state/models/current": ("predict job.sh",),
    "state/pairing/status.json": ("control --pairs status",),
    "state/control/queue/status.json": ("control --queue status",),
    "state/control/energy/status.json": ("control --energy status",),
    "spool/control/status.json": ("control status",),
    "spool/control/kept.json": ("control --restore",),
    "spool/control/undo.json": ("control --restore",),
    "dlqueue.toml": ("config",),
    "job.sh": ("predict job.sh", "predict job.sh --what-if"),
    "trace.csv": ("simulate trace.csv --nodes 1",),
    "vc.csv": ("simulate fine.csv --vc-nodes vc.csv",),
    "estimates.csv": ("simulate fine.csv --nodes 1 --estimates estimates.csv",),
    "qos.txt": ("simulate fine.csv --nodes 1 --qos qos.txt",),
    "counts.csv": ("simulate fine.csv --nodes 1 --node-counts counts.csv",),
    "sacct.txt": ("history import sacct.txt",),
    "sacct.txt.gz": ("history import sacct.txt.gz",),
}
CASES = [(file, command) for file, commands in READ.items() for command in commands]
NOT_NEEDED = {"state/models/current"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder with a history that holds nothing, a script and a trace."""
    root = tmp_path_factory.mktemp("damaged")
    for name in {Path(file).parent for file in READ}:
        (root / name).mkdir(parents=True, exist_ok=True)
    open_history(root / "state" / "history.db").close()
    paths = {"state_dir": "state", "socket": "none.sock", "kill_file": "off", "slurm_conf": "none"}
    paths["slurm_bin"] = "none"  # nobody waits for a Slurm that is not there
    said = "".join(f'{name} = "{root / path}"\n' for name, path in paths.items())
    (root / "dlqueue.toml").write_text(f'[paths]\n{said}[node]\nspool_dir = "{root / "spool"}"\n')
    (root / "job.sh").write_text(JOB)
    (root / "fine.csv").write_text("job,submit_s,duration_s,gpus,vc\n1,0,100,6,a\n")
    return root


@pytest.mark.parametrize(("file", "command"), CASES)
def test_a_damaged_file_is_one_line(
    folder: Path,
    file: str,
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In every way that it can be damaged; the line names the file."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("DLQUEUE_CONFIG", str(folder / "dlqueue.toml"))
    path = folder / file
    before = path.read_bytes() if path.exists() else None
    for damage, content in DAMAGE.items():
        clear(path)
        content(path) if callable(content) else path.write_bytes(content)
        try:
            status = main(command.split())
        finally:
            clear(path)
            if before is not None:
                path.write_bytes(before)
        said = capsys.readouterr().err
        assert status in ((0,) if not said else (1, 2)), (damage, said)
        assert not said or (path.name in said and said.count("\n") == 1), (damage, said)
        assert said or status == 0 or file in NOT_NEEDED, damage


def clear(path: Path) -> None:
    """Nothing is there, nor what SQLite leaves beside it."""
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    for one in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        one.unlink(missing_ok=True)


FIELDS = {
    "job": "1",
    "submit_s": "0",
    "duration_s": "100",
    "gpus": "2",
    "cpus": "1",
    "limit_s": "200",
    "estimate_s": "100",
}
NUMBERS = (
    "nan",
    "inf",
    "-inf",
    "-5",
    "1e300",
    "-1e300",
    "1e18",
    "9" * 5000,
    "0x10",
    "1_0",
    "abc",
    "²",
    "[1]",
    "null",
    "true",
    "\x1b[31m",
)


@pytest.mark.parametrize("field", [name for name in FIELDS if name != "job"])
@pytest.mark.parametrize("value", NUMBERS, ids=lambda value: ascii(value)[1:12])
def test_a_number_that_is_none_is_told_by_line_and_column(
    field: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing out of bounds is replayed; the error stays short."""
    path = tmp_path / "trace.csv"
    rows = [FIELDS, {**FIELDS, "job": "2", field: value}]
    lines = [",".join(FIELDS), *(",".join(row.values()) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    fine = (field, value) == ("submit_s", "-5")  # before whatever the file counts from
    status = main(["simulate", str(path), "--nodes", "1", "--policy", "fifo"])
    said = capsys.readouterr().err
    assert (status, said.startswith(f"dlqueue simulate: {path}:3: ")) == (1 - fine, not fine)
    assert len(said) < 400
