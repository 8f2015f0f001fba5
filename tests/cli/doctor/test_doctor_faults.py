"""Faults of an installation, one by one: each is named by its own finding, with its cure."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cli.doctor.installed import Installed

Break = Callable[[Installed, pytest.MonkeyPatch], Any]
ROOM = {"f_flag": 0, "f_frsize": 4096, "f_bavail": 10**9, "f_favail": 10**6, "f_files": 10**7}


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installed]:
    """All in order, on a controller that is a node as well; its advisor answers."""
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setattr("slurm_ext.cli.doctor.hooks.runs_here", lambda _: True)
    made = Installed(tmp_path)
    made.listen(b'{"v":1}\n')
    yield made
    made.close()


def changed(key: str, value: str) -> Break:
    """Slurm was told otherwise."""
    return lambda installed, _: installed.conf.update({key: value})


def text(name: str, what: str) -> Break:
    """A file holds something else."""
    return lambda installed, _: (installed.root / name).write_text(what)


def gone(name: str) -> Break:
    """A file was removed."""
    return lambda installed, _: (installed.root / name).unlink()


def mode(name: str, bits: int) -> Break:
    """A file has other rights."""
    return lambda installed, _: (installed.root / name).chmod(bits)


def program(name: str, does: str) -> Break:
    """A command behaves otherwise."""
    return lambda installed, _: installed.program(name, does)


def disk(**changes: int) -> Break:
    """The file system says something else of its room."""
    info = SimpleNamespace(**{**ROOM, **changes})
    return lambda _, patch: patch.setattr("os.statvfs", lambda _: info)


def listening(answer: bytes | None) -> Break:
    """Something else is at the advisor's socket."""
    return lambda installed, _: installed.listen(answer)


def old(name: str) -> Break:
    """A file that has waited for an hour."""

    def put(installed: Installed, _: pytest.MonkeyPatch) -> None:
        path = installed.root / name
        path.write_text("{}")
        os.utime(path, (time.time() - 3600,) * 2)

    return put


def elsewhere(installed: Installed, _: pytest.MonkeyPatch) -> None:
    """Nodes write into a folder from which nobody takes."""
    (installed.root / "shared").mkdir()
    installed.values["node.folder"] = str(installed.root / "shared")


def no_lua(name: str) -> Break:
    """Neither Slurm's folders nor Lua's have the library."""

    def take(installed: Installed, patch: pytest.MonkeyPatch) -> None:
        (installed.root / "bin" / "job_submit_lua.so").unlink()
        for folders in ("install.submit_check.PLUGIN_FOLDERS", "cli.doctor.lua._LUA_FOLDERS"):
            patch.setattr(f"slurm_ext.{folders}", (f"no/{name}",))

    return take


def setting(key: str, value: Any) -> Break:
    """dlqueue.toml says something else than when all was rendered."""
    return lambda installed, _: installed.values.update({key: value})


def folder_instead(installed: Installed, _: pytest.MonkeyPatch) -> None:
    """A folder where slurm.conf names a script."""
    (installed.root / "etc" / "hooks" / "epilog").unlink()
    (installed.root / "etc" / "hooks" / "epilog").mkdir()


def late(installed: Installed, _: pytest.MonkeyPatch) -> None:
    """This clock is ten minutes ahead."""
    installed.skew_s = 600.0


def nobody_answers(installed: Installed, _: pytest.MonkeyPatch) -> None:
    """Without munge slurmctld is not reached."""
    for name in ("scontrol", "munge"):
        installed.program(name, "exit 1")


SHIM = "slurm/job_submit.lua"
PKILL = "#!/bin/sh\n# dlqueue\npkill -u $SLURM_JOB_USER\n"
FAULTS: dict[str, tuple[Break, str, str]] = {
    "prolog absent": (gone("etc/hooks/prolog"), "Prolog runs", "fail"),
    "prolog not executable": (mode("etc/hooks/prolog", 0o644), "Prolog runs", "fail"),
    "epilog is a folder": (folder_instead, "Epilog runs", "fail"),
    "task prolog absent": (gone("etc/hooks/task_prolog"), "TaskProlog runs", "fail"),
    "node drained": (program("sinfo", "echo 'n[1-2]|Prolog error'"), "drained", "fail"),
    "python absent": (gone("bin/python3"), "node.python", "fail"),
    "python too old": (program("python3", "echo 3.6"), "node.python", "fail"),
    "settings not rendered": (setting("node.probe", True), "node.json", "warn"),
    "job_submit.lua absent": (gone(SHIM), "job_submit.lua", "fail"),
    "job_submit.lua of the site": (text(SHIM, "-- ours"), "job_submit.lua", "warn"),
    "job_submit.lua torn": (text(SHIM, "function ("), "job_submit.lua compiles", "fail"),
    "part of our Lua absent": (gone("etc/lua/json.lua"), "dlqueue.lua", "fail"),
    "Lua with other settings": (setting("advisor.deadline_ms", 77), "dlqueue.lua", "warn"),
    "luasocket absent": (no_lua("socket"), "luasocket", "fail"),
    "Slurm's Lua plugin absent": (no_lua("plugin"), "job_submit/lua", "fail"),
    "plugin not named": (changed("JobSubmitPlugins", "(null)"), "JobSubmitPlugins", "warn"),
    "advisor down": (gone("socket"), "advisor", "warn"),
    "advisor hangs": (listening(None), "advisor", "fail"),
    "another's socket": (listening(b"hello\n"), "advisor", "fail"),
    "switched off": (text("etc/off", ""), "kill file", "warn"),
    "history broken": (text("state/history.db", "no database" * 1000), "history", "fail"),
    "records wait": (old("state/spool/x.json"), "waiting records", "warn"),
    "two folders": (elsewhere, "node.folder", "fail"),
    "spool open to all": (mode("spool", 0o777), "spool_dir", "fail"),
    "records not delivered": (old("spool/out/x.json"), "undelivered", "warn"),
    "disk full": (disk(f_bavail=1000), "state room", "fail"),
    "no files left": (disk(f_favail=10), "spool room", "fail"),
    "read-only": (disk(f_flag=os.ST_RDONLY), "state room", "fail"),
    "prolog too late": (changed("PrologFlags", "(null)"), "PrologFlags", "warn"),
    "jobs forgotten too soon": (changed("MinJobAge", "2 sec"), "MinJobAge", "warn"),
    "two ways of sharing": (changed("GresTypes", "gpu,mps,shard"), "GresTypes", "fail"),
    "prolog killed": (changed("PrologTimeout", "3 sec"), "PrologTimeout, Prolog", "fail"),
    "clock off": (late, "clock", "fail"),
    "SlurmUser not trusted": (changed("SlurmUser", "slurm(64030)"), "SlurmUser", "fail"),
    "settings open to all": (mode("etc/node.json", 0o666), "permissions", "fail"),
    "epilog kills by user": (text("etc/hooks/epilog", PKILL), "Epilog kills", "warn"),
    "munge silent": (nobody_answers, "munge", "fail"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_with_its_cure(
    installed: Installed, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What hurts fails, what costs less warns; before the fault the same finding was content."""
    break_it, name, status = FAULTS[fault]
    before = installed.findings().get(name)
    assert before is None or before.status == "ok", before
    break_it(installed, monkeypatch)
    found = installed.findings()[name]
    assert (found.status, bool(found.advice), found.seen.isprintable()) == (status, True, True)


@pytest.mark.parametrize(("version", "fails"), [("5.1", True), ("5.4", False)])
def test_job_submit_lua_is_read_by_the_lua_of_the_plugin_that_runs(
    installed: Installed, version: str, fails: bool
) -> None:
    """The version is that of the plugin in PluginDir: another Lua refuses good scripts."""
    (installed.root / "bin" / "job_submit_lua.so").write_bytes(f"liblua{version}.so.0".encode())
    shim = installed.root / SHIM
    shim.write_text(f"local half = 7 // 2\n{shim.read_text()}")
    assert ("job_submit.lua compiles" in installed.findings()) == fails


@pytest.mark.root
def test_a_state_folder_that_its_writer_cannot_write(installed: Installed) -> None:
    """Judged for the user who writes there, not for root who looks."""
    for path in (installed.root / "state", Path(installed.values["paths.socket"])):
        os.chown(path, 12345, -1)
    assert installed.findings()["state_dir owner"].status == "ok"
    os.chown(installed.root / "state", 54321, -1)
    installed.root.joinpath("state").chmod(0o755)
    found = installed.findings()["state_dir owner"]
    assert (found.status, "chown 12345" in found.advice) == ("fail", True)


def test_controllers_of_a_pair_are_named(installed: Installed) -> None:
    """Each has its own job_submit.lua."""
    installed.conf["SlurmctldHost[1]"] = "second"
    assert "second" in installed.findings()["controllers"].seen
