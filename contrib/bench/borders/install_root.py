"""Attacks on root who installs: a record, settings and programs that another user laid."""

import json
import os
import subprocess
import sys
from pathlib import Path

from contrib.bench.borders.attack import ATTACKER, Attack, Happened, as_user

CLI = (sys.executable, "-m", "slurm_ext.cli")


def lay_record(folder: Path) -> Happened:
    """Lay a record of an installation whose undoing writes a file of root's."""
    etc, proof = folder / "etc", folder / "proof"
    (etc / "install").mkdir(parents=True)
    proof.write_text("root's")
    (folder / "slurm.conf").write_text("ClusterName=x\n")
    file: dict[str, object] = {"kind": "own", "before": None, "ours": []}
    record = {
        "v": 1,
        "steps": ["files"],
        "slurm_conf": str(folder / "slurm.conf"),
        "units": str(folder),
        "files": {str(proof): file},
        "folders": [],
        "links": {},
    }
    (etc / "install" / "installed.json").write_text(json.dumps(record))
    _give(etc / "install" / "installed.json", etc / "install")
    argv = [*CLI, "uninstall", "--now", "--config", str(etc / "dlqueue.toml")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    what = done.stderr.strip()[-120:] if proof.exists() else "a file of root's was removed"
    return Happened(held=proof.exists() and done.returncode == 1, what=what)


def lay_programs(folder: Path) -> Happened:
    """Lay a `scontrol` where root is, and settings that name a folder of programs."""
    proof, trap = folder / "proof", folder / "trap"
    trap.mkdir()
    for name in ("scontrol", "squeue", "unmunge"):
        (trap / name).write_text(f"#!/bin/sh\ntouch {proof}\nexit 1\n")
        (trap / name).chmod(0o755)
    settings = trap / "dlqueue.toml"
    settings.write_text(f'[paths]\nslurm_bin = "{trap}"\n')
    _give(settings, trap)
    path = {"PATH": f".::{os.environ['PATH']}"}
    for words in (["doctor"], ["doctor", "--config", str(settings)]):
        env = {**os.environ, **path, "PYTHONPATH": os.getcwd()}  # noqa: PTH109 - as it is
        subprocess.run([*CLI, *words], env=env, cwd=trap, capture_output=True, check=False)
    what = "a program of the attacker ran as root" if proof.exists() else "neither was run"
    return Happened(held=not proof.exists(), what=what)


def _give(*paths: Path) -> None:
    ids = as_user(ATTACKER)
    for path in paths:
        os.chown(path, ids["user"], ids["group"])


ATTACKS = (
    Attack(
        name="lay_installed_record",
        row=5,
        tried="another user's installed.json names a file of root's; root runs `dlqueue uninstall`",
        before="the file was removed",
        act=lay_record,
    ),
    Attack(
        name="lay_programs_for_root",
        row=5,
        tried="a scontrol lies where root is, and another in a folder that foreign settings name",
        before="both ran as root",
        act=lay_programs,
    ),
)
