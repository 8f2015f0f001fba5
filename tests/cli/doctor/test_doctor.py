"""What doctor says of files that are missing, stale, or open to the wrong people."""

import json
import os
import socket
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from slurm_ext.cli import config
from slurm_ext.cli.doctor.checks import examine
from slurm_ext.cli.doctor.finding import Finding
from slurm_ext.cli.doctor.lua import lua_files
from slurm_ext.cli.doctor.node import node
from slurm_ext.cli.doctor.slurm import slurm
from slurm_ext.cli.doctor.state import advisor, state
from slurm_ext.core.records import Edits
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.wire import encode_reply


def by_name(findings: Iterable[Finding]) -> dict[str, Finding]:
    """Findings by what they are about."""
    return {finding.name: finding for finding in findings}


@pytest.fixture
def controller(tmp_path: Path) -> Path:
    """Slurm's and dlqueue's folders as INSTALL.md leaves them."""
    config.write(Settings(), tmp_path / "dlqueue")
    (tmp_path / "slurm").mkdir()
    shim = tmp_path / "dlqueue" / "lua" / "job_submit.lua"
    shim.rename(tmp_path / "slurm" / "job_submit.lua")
    return tmp_path


def lua(folder: Path, settings: Settings | None = None) -> dict[str, Finding]:
    """The findings on the submit path's files."""
    return by_name(lua_files(settings or Settings(), folder / "slurm" / "slurm.conf"))


def test_lua_files_in_order(controller: Path) -> None:
    """What `config --write` made is found good."""
    assert {finding.status for finding in lua(controller).values()} == {"ok"}


@pytest.mark.parametrize("name", ["dlqueue.lua", "dlqueue_settings.lua", "json.lua"])
def test_a_missing_part_is_a_failure(controller: Path, name: str) -> None:
    """Slurmctld says nothing when a file is not there, so doctor has to."""
    (controller / "dlqueue" / "lua" / name).unlink()
    found = lua(controller)["dlqueue.lua"]
    assert (found.status, name in found.seen) == ("fail", True)
    assert "config --write" in found.advice


def test_lua_settings_of_yesterday(controller: Path) -> None:
    """Settings changed after they were rendered are found."""
    found = lua(controller, Settings("x", {"paths.socket": "/elsewhere"}))["dlqueue.lua"]
    assert (found.status, "dlqueue_settings.lua" in found.seen) == ("warn", True)


def test_a_site_script_without_ours(controller: Path) -> None:
    """A job_submit.lua that never loads dlqueue.lua is told apart from none at all."""
    shim = controller / "slurm" / "job_submit.lua"
    shim.write_text("function slurm_job_submit() return slurm.SUCCESS end\n")
    assert lua(controller)["job_submit.lua"].status == "warn"
    shim.unlink()
    assert lua(controller)["job_submit.lua"].status == "fail"


def test_a_spool_that_others_can_write(tmp_path: Path) -> None:
    """Whoever can write into the node's spool could plant records."""
    settings = Settings("x", {"node.spool_dir": str(tmp_path)})
    tmp_path.chmod(0o711)
    assert by_name(node(settings))["spool_dir"].status == "ok"
    tmp_path.chmod(0o777)
    assert by_name(node(settings))["spool_dir"].status == "fail"


def test_records_that_wait(tmp_path: Path) -> None:
    """One on its way is no news; one that waits for an hour is."""
    settings = Settings("x", {"node.spool_dir": str(tmp_path)})
    (tmp_path / "out").mkdir()
    record = tmp_path / "out" / "cluster-1-0-n1.json"
    record.write_text("{}")
    assert by_name(node(settings))["undelivered"].status == "ok"
    os.utime(record, (time.time() - 3600,) * 2)
    found = by_name(node(settings))["undelivered"]
    assert (found.status, found.seen) == ("warn", "1 records, the oldest for 60 min")
    assert "hooks.log" in found.advice


def test_node_json_of_yesterday(tmp_path: Path) -> None:
    """node.json beside dlqueue.toml has to say what that says."""
    config.write(Settings(), tmp_path)
    source = str(tmp_path / "dlqueue.toml")
    assert by_name(node(Settings(source)))["node.json"].status == "ok"
    assert by_name(node(Settings(source, {"node.probe": True})))["node.json"].status == "warn"


def test_two_folders_where_one_is_meant(tmp_path: Path) -> None:
    """Nodes' folder and the advisor's have to be the same, by link or by name."""
    shared = tmp_path / "shared"
    settings = Settings("x", {"paths.state_dir": str(tmp_path), "node.folder": str(shared)})
    assert by_name(state(settings))["node.folder"].status == "warn"
    shared.mkdir()
    (tmp_path / "spool").mkdir()
    assert by_name(state(settings))["node.folder"].status == "fail"
    (tmp_path / "spool").rmdir()
    (tmp_path / "spool").symlink_to(shared)
    assert by_name(state(settings))["node.folder"].status == "ok"


def test_no_history_yet_and_a_broken_one(tmp_path: Path) -> None:
    """The first is a matter of time, the second of somebody's attention."""
    settings = Settings("x", {"paths.state_dir": str(tmp_path)})
    assert by_name(state(settings))["history"].status == "warn"
    (tmp_path / "history.db").write_bytes(b"not a database" * 1000)
    assert by_name(state(settings))["history"].status == "fail"


CONF = {
    "Prolog": "/no/dlqueue/prolog",
    "PrologFlags": "Alloc",
    "GresTypes": "gpu,mps",
    "MinJobAge": "300 sec",
    "SlurmUser": "root(0)",
    "JobSubmitPlugins": "lua",
}


@pytest.fixture
def scontrol(tmp_path: Path) -> "Config":
    """A Slurm that says of itself what a test wants."""
    return Config(tmp_path)


class Config:
    """Puts a `scontrol` on a path of its own that prints a configuration."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def findings(self, **changes: str) -> dict[str, Finding]:
        """What doctor says of it."""
        text = "".join(f"{key} = {value}\n" for key, value in {**CONF, **changes}.items())
        (self.folder / "config").write_text(text)
        command = self.folder / "scontrol"
        command.write_text(f"#!/bin/sh\ncat {self.folder}/config\n")
        command.chmod(0o755)
        socket = self.folder / "socket"
        socket.touch()
        values = {"paths.slurm_bin": str(self.folder), "paths.socket": str(socket)}
        return by_name(slurm(Settings("x", values)))


@pytest.mark.parametrize(
    ("name", "good", "bad", "status"),
    [
        ("GresTypes", "gpu,mps", "gpu,mps,shard", "fail"),
        ("PrologFlags", "Alloc", "(null)", "warn"),
        ("PrologFlags", "Contain,X11", "X11", "warn"),
        ("MinJobAge", "300 sec", "10 sec", "warn"),
        ("SlurmUser", "root(0)", "slurm(64030)", "fail"),
        ("Prolog", "/etc/dlqueue/hooks/prolog", "(null)", "warn"),
        ("JobSubmitPlugins", "lua", "(null)", "warn"),
        ("JobSubmitPlugins", "require_timelimit,lua", "all_partitions", "warn"),
    ],
)
def test_what_slurm_was_told(scontrol: Config, name: str, good: str, bad: str, status: str) -> None:
    """Each setting that dlqueue depends on is judged, and a bad one comes with advice."""
    assert scontrol.findings(**{name: good})[name].status == "ok"
    found = scontrol.findings(**{name: bad})[name]
    assert (found.status, found.seen) == (status, bad)
    assert found.advice


@pytest.mark.parametrize(("named", "status"), [("Cluster", "ok"), ("tetralith", "warn")])
def test_a_cluster_of_another_name_is_told(scontrol: Config, named: str, status: str) -> None:
    """Accounting's jobs have Slurm's name: under another one, they are counted twice."""
    found = scontrol.findings(ClusterName=named)["site.cluster"]
    assert (found.status, found.seen) == (status, "cluster")
    assert (named in found.advice) == (status == "warn")


@pytest.mark.parametrize("flags", ["Alloc,Contain,RunInJob", "runinjob,contain"])
def test_a_prolog_that_runs_inside_the_job_is_named(scontrol: Config, flags: str) -> None:
    """Slurm 24.05 and later can do that: what the prolog starts ends with the job."""
    assert "PrologFlags, RunInJob" not in scontrol.findings(PrologFlags="Alloc,Contain")
    found = scontrol.findings(PrologFlags=flags)
    assert found["PrologFlags"].status == "ok"
    told = found["PrologFlags, RunInJob"]
    assert (told.status, "take RunInJob out" in told.advice) == ("warn", True)


@pytest.mark.parametrize(
    ("line", "kills"),
    [
        ("pkill -KILL -u $SLURM_JOB_USER", True),
        ('killall -9 -u "$SLURM_JOB_USER"', True),
        ("/usr/bin/pkill --signal 9 --uid $SLURM_UID", True),
        ("# pkill -u $SLURM_JOB_USER", False),
        ("rm -rf /tmp/$SLURM_JOB_ID", False),
    ],
)
def test_an_epilog_that_kills_by_user(scontrol: Config, line: str, kills: bool) -> None:
    """It ends jobs that share the node, which is what dlqueue's co-location lives on."""
    script = scontrol.folder / "epilog"
    script.write_text(f"#!/bin/sh\n{line}\n")
    assert ("Epilog kills" in scontrol.findings(Epilog=str(script))) == kills


def test_every_finding_that_is_not_ok_has_advice(tmp_path: Path) -> None:
    """Nobody is left with a complaint alone."""
    values = {"paths.state_dir": str(tmp_path / "no"), "node.transport": "stream"}
    findings = examine(Settings("x", {**values, "node.munge_socket": str(tmp_path / "no")}))
    assert all(finding.advice for finding in findings if finding.status != "ok")
    assert json.dumps([finding.seen for finding in findings])


@pytest.mark.parametrize(
    ("holder", "status", "seen"),
    [
        ("ctl1\n", "ok", "that of ctl1"),
        ("ctl1\ncluster", "ok", "that of ctl1"),
        ("ctl1\nalpha", "fail", "is the state folder of cluster alpha on ctl1"),
        (socket.gethostname(), "warn", "No such file"),
        (None, "warn", "No such file"),
    ],
)
def test_an_advisor_that_waits_beside_a_backup_controller(
    short_folder: Path, holder: str | None, status: str, seen: str
) -> None:
    """Another host's serves meanwhile; one of this host that does not answer is a fault."""
    if holder is not None:
        (short_folder / "advisor.lock").write_text(holder)
    values = {"paths.socket": f"{short_folder}/s", "paths.state_dir": str(short_folder)}
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(f"{short_folder}/s.submit")
        found = by_name(advisor(Settings("x", values)))["advisor"]
    assert (found.status, seen in found.seen) == (status, True)


@pytest.mark.parametrize("known", [True, False])
def test_an_advisor_without_limits_is_named(short_folder: Path, known: bool) -> None:
    """It answers, and changes nothing: Slurm does not answer it."""
    values = {"paths.socket": f"{short_folder}/s"}
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(f"{short_folder}/s")
        door.listen()
        reply = encode_reply(None, Edits(), None, limits=known)

        def answer() -> None:
            with door.accept()[0] as client:
                client.recv(4096)
                client.sendall(reply)

        answering = threading.Thread(target=answer)
        answering.start()
        found = by_name(advisor(Settings("x", values)))
        answering.join()
    assert found["advisor"].status == "ok"
    assert ("limits" in found) is not known
