"""Attacks on the user who starts a sandbox: its secrets, its folder, its manifest, its database."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from contrib.bench.borders.attack import ATTACKER, Attack, Happened, as_user
from slurm_ext.core.errors import DlqueueError
from slurm_ext.sandbox import Sandbox, SandboxSpec
from slurm_ext.sandbox.layout import SandboxLayout
from slurm_ext.sandbox.plan import make_plan
from slurm_ext.sandbox.render import write_files

TIMES = 200  # as often as the loop of before
PYTHON = "/usr/bin/python3"  # which every user may run

STEAL = """
import os, sys
root, times = sys.argv[1], int(sys.argv[2])
stolen = 0
print("ready", flush=True)
for number in range(times):
    while not os.path.exists(f"{root}/{number}/done"):
        try:
            os.close(os.open(f"{root}/{number}/s/etc/munge.key", os.O_RDONLY))
            stolen += 1
            break
        except OSError:
            pass
print(stolen)
"""
SWAP = """
import os, sys
folder, other = sys.argv[1:]
os.chdir(folder)
print("ready", flush=True)
while True:
    os.link(other, "next"); os.rename("next", "sandbox.json")
    os.link("evil.json", "next"); os.rename("next", "sandbox.json")
"""


def steal_key(folder: Path) -> Happened:
    """Open the munge key of sandboxes while they are written."""
    for number in range(TIMES):
        (folder / str(number)).mkdir(mode=0o755)
    with _attacker(STEAL, str(folder), str(TIMES)) as thief:
        for number in range(TIMES):
            layout = SandboxLayout(folder / str(number) / "s")
            write_files(make_plan(SandboxSpec(), layout, None))
            (folder / str(number) / "done").touch()
        stolen = int(_line(thief))
    return Happened(held=not stolen, what=f"{stolen} of {TIMES} keys were opened")


def swap_manifest(folder: Path) -> Happened:
    """Squat a folder; swap its manifest with a file of root's while root takes it down."""
    squat, proof = folder / "dlqueue-sandbox-0", folder / "proof"
    squat.mkdir()
    root_file = folder / "of_root.json"
    root_file.write_text(json.dumps(_hostile(folder, proof)))
    root_file.chmod(0o666)  # where hard links are protected, only such a file can be linked
    os.chown(squat, *_ids())
    evil = squat / "evil.json"
    evil.write_text(json.dumps(_hostile(folder, proof)))
    os.chown(evil, *_ids())
    with _attacker(SWAP, str(squat), str(root_file)):
        refused = sum(_refuses(squat) for _ in range(TIMES))
    ran = proof.exists()
    what = "a command of the attacker ran as root" if ran else f"{refused} of {TIMES} were refused"
    return Happened(held=not ran and refused == TIMES, what=what)


def _refuses(squat: Path) -> bool:
    try:
        Sandbox.attach(squat).down()
    except DlqueueError:
        return True
    return False


def _hostile(folder: Path, proof: Path) -> dict[str, Any]:
    """A manifest of before, whose `undo` is the attacker's."""
    return {
        "root": str(folder / "dlqueue-sandbox-0"),
        "control": str(folder / "control"),
        "temporary": False,
        "spec": SandboxSpec().as_json(),
        "plan": {
            "address": "127.0.0.1",
            "controller_port": 1,
            "database_port": 2,
            "stream_port": 3,
            "nodes": [],
            "slurm_version": [22, 5],
        },
        "undo": [["touch", str(proof)]],
        "remove": [],
        "cgroups": [],
        "daemons": {},
    }


def enter_sandbox(folder: Path) -> Happened:
    """Look for secrets of a sandbox that others may submit to, and for its database."""
    root = folder / "s"
    memory = Path(f"/dev/shm/dlqueue-{SandboxLayout(root).tag}")
    subprocess.run(["mkdir", "-m", "777", str(memory)], check=True, **as_user(ATTACKER))
    try:
        spec = SandboxSpec(accounting=True, state_on_tmpfs=True)
        with Sandbox(root, spec, temporary=True) as slurm:
            harm = list(_harm(slurm, memory))
    finally:
        shutil.rmtree(memory, ignore_errors=True)
    return Happened(held=not harm, what=", ".join(harm) or "a job could be submitted, no more")


def _harm(slurm: Sandbox, memory: Path) -> Iterator[str]:
    job, _ = slurm.sbatch("--wrap", "id -u", **as_user(ATTACKER))
    if slurm.wait(job) != "COMPLETED":
        yield "the attacker's honest job did not run"
    if any(memory.iterdir()):
        yield "slurmctld's state is in the attacker's folder"
    for name in ("etc/munge.key", "etc/slurmdbd.conf", "state/job_state", "db/ibdata1"):
        if _runs(slurm, "cat", slurm.path(name)):
            yield f"{name} was read"
    database = ("mariadb", "--no-defaults", f"--socket={slurm.path('run/mysql.sock')}")
    for password in ("sandbox", ""):  # the first stood in the source
        login = ("--user=root", f"--password={password}")
        if _runs(slurm, *database, *login, "-e", "SELECT 1"):
            yield "the database, which runs as root, let the attacker in"


def _runs(slurm: Sandbox, *argv: object) -> bool:
    done = slurm.run([str(word) for word in argv], check=False, **as_user(ATTACKER))
    return done.returncode == 0


def _ids() -> tuple[int, int]:
    ids = as_user(ATTACKER)
    return ids["user"], ids["group"]


@contextmanager
def _attacker(program: str, *words: str) -> "Iterator[subprocess.Popen[str]]":
    """Run a program as the attacker, from its first line on."""
    argv = [PYTHON if Path(PYTHON).exists() else sys.executable, "-S", "-c", program, *words]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, **as_user(ATTACKER)) as process:
        try:
            _line(process)
            yield process
        finally:
            process.kill()


def _line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline()


ATTACKS = (
    Attack(
        name="steal_sandbox_key",
        row=5,
        tried="munge.key is opened in a loop while root writes sandboxes",
        before="69 of 200 keys were stolen: written as 0644, then changed",
        act=steal_key,
    ),
    Attack(
        name="swap_sandbox_manifest",
        row=5,
        tried="a squatted folder's manifest is swapped between root's look and its reading",
        before="the attacker's `undo` ran as root on the second try",
        act=swap_manifest,
    ),
    Attack(
        name="enter_shared_sandbox",
        row=5,
        tried="a user who may submit to a sandbox of root looks for secrets and its database",
        before="the folder in /dev/shm could be laid before, and the database had a known password",
        act=enter_sandbox,
    ),
)
