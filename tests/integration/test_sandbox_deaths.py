"""Whoever dies, nothing of the sandbox is left."""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import jinja2
import markupsafe
import pytest

import slurm_ext
from slurm_ext.sandbox import Sandbox
from slurm_ext.sandbox.control import MARK
from slurm_ext.sandbox.layout import SandboxLayout
from slurm_ext.sandbox.manifest import read_manifest
from slurm_ext.sandbox.processes import bearing, descendants
from tests.whole import until

pytestmark = pytest.mark.slurm
MakeSandbox = Callable[..., Sandbox]
GAMES = pwd.getpwnam("games")  # Slurm 26.05 takes no user "nobody"
OTHER_USER = ("setpriv", f"--reuid={GAMES.pw_uid}", f"--regid={GAMES.pw_gid}", "--clear-groups")

OWNER = """
import sys, time
from pathlib import Path
from slurm_ext.sandbox import Sandbox, SandboxSpec
sandbox = Sandbox(Path(sys.argv[1]), SandboxSpec(**eval(sys.argv[2])), temporary=True).up()
job, _ = sandbox.sbatch("--wrap", "setsid sleep 1000 & sleep 1000")
while sandbox.job(job).get("JobState") != "RUNNING": time.sleep(0.05)
print("up", flush=True)
time.sleep(1000)
"""


def left_of(root: Path) -> list[int]:
    """Whatever still runs of the sandbox in `root`, once it had time to end."""
    deadline = time.monotonic() + 100
    while (left := bearing(f"{MARK}={root}")) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def owner_of(root: Path, spec: str = "{}") -> "subprocess.Popen[str]":
    """Another process that has brought up a sandbox with a running job."""
    argv = [sys.executable, "-c", OWNER, str(root), spec]
    owner = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    assert owner.stdout.readline() == "up\n"
    return owner


def supervisor_of(sandbox: Sandbox) -> int:
    """Pid of the outer one of the two supervisors."""
    process = read_manifest(sandbox.layout.root).supervisor
    assert process is not None
    return process.pid


def naming(sandbox: Sandbox, word: bytes) -> list[int]:
    """Processes that name a file of the sandbox and `word`; those of a hook have no other mark."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            argv = path.read_bytes()
            if bytes(sandbox.layout.root) + b"/" in argv and word in argv:
                found.append(int(path.parent.name))
    return found


def wait_gone(root: Path) -> None:
    """The folder is the last thing that goes."""
    until(lambda: not root.exists(), "the folder stays")


def network_parts(root: Path) -> list[str]:
    """Links and namespaces that carry the sandbox's name."""
    folders = (Path("/sys/class/net"), Path("/run/netns"))
    pattern = f"dlq{SandboxLayout(root).tag}*"
    return sorted(path.name for folder in folders for path in folder.glob(pattern))


def end(process: "subprocess.Popen[str]") -> None:
    """Kill -9."""
    with process:
        process.kill()


def test_nothing_is_left_after_kill_9_of_the_owner(short_folder: Path) -> None:
    """Daemons, jobs, jobs' own sessions, memory and folder go when the owner is killed."""
    root = short_folder / "s"
    owner = owner_of(root, "{'state_on_tmpfs': True}")
    memory = (root / "state").resolve()
    assert len(bearing(f"{MARK}={root}")) > 5
    end(owner)
    assert left_of(root) == []
    wait_gone(root)
    assert not memory.exists()


@pytest.mark.parametrize("which", ["outer", "inner"])
def test_nothing_is_left_after_kill_9_of_a_supervisor(
    make_sandbox: MakeSandbox, which: str
) -> None:
    """The two supervisors watch each other: the survivor sweeps."""
    sandbox = make_sandbox()
    outer = supervisor_of(sandbox)
    inner = sandbox.supervisor_pid()
    assert inner in descendants(outer)
    os.kill(outer if which == "outer" else inner, signal.SIGKILL)
    assert left_of(sandbox.layout.root) == []


def test_down_finds_what_two_dead_supervisors_left(make_sandbox: MakeSandbox) -> None:
    """Without any supervisor, `down` kills what bears the sandbox's mark: a job's sampler, too."""
    sandbox = make_sandbox(hooks=True)
    sandbox.sbatch("--wrap", "sleep 1000")
    until(lambda: naming(sandbox, b"prolog"), "no sampler")
    outer = supervisor_of(sandbox)
    inner = sandbox.supervisor_pid()
    for pid in (outer, inner):
        os.kill(pid, signal.SIGSTOP)
    for pid in (outer, inner):
        os.kill(pid, signal.SIGKILL)
    sandbox.down()
    assert bearing(f"{MARK}={sandbox.layout.root}") == []
    assert naming(sandbox, b"") == []
    assert not sandbox.layout.root.exists()


def test_a_tree_of_any_depth_goes_with_the_sandbox(make_sandbox: MakeSandbox) -> None:
    """What a job nests a thousand folders deep is removed all the same."""
    sandbox = make_sandbox()
    depth = "for n in $(seq 1200); do mkdir d; cd d; done"
    job, _ = sandbox.sbatch("--wrap", depth)
    assert sandbox.wait(job) == "COMPLETED"
    sandbox.down(remove=True)
    assert not sandbox.layout.root.exists()


@pytest.mark.root
def test_namespaces_go_with_the_owner(short_folder: Path) -> None:
    """Bridge, cables and namespaces do not outlive a killed owner."""
    root = short_folder / "s"
    owner = owner_of(root, "{'namespaces': True, 'nodes': 2}")
    assert len(network_parts(root)) == 5  # a bridge, two cables, two namespaces
    end(owner)
    wait_gone(root)
    assert left_of(root) == []
    until(lambda: not network_parts(root), "a link or a namespace stays")


@pytest.mark.root
def test_an_ordinary_user_has_a_slurm_too(short_folder: Path) -> None:
    """Without root: daemons and job run as the user, with all that needs no root."""
    user = [*OTHER_USER, "env", "-C", "/"]
    pythons = [str(Path(sys.base_prefix) / "bin" / "python3"), "/usr/bin/python3"]
    usable = [p for p in pythons if not subprocess.call([*user, p, "-c", "import tomllib"])]
    if not usable:
        pytest.skip(f"none of {pythons} (3.11) can be run by other users")
    library = short_folder / "library"
    for module in (slurm_ext, jinja2, markupsafe):
        folder = Path(str(module.__file__)).parent
        shutil.copytree(folder, library / folder.name)
    short_folder.chmod(0o1777)
    argv = [*user, usable[0], "-c", ROOTLESS, str(short_folder / "s")]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(library), "HOME": "/"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.stdout == f"COMPLETED uid={GAMES.pw_uid} gpu=0\n", done.stderr


ROOTLESS = """
import sys
from pathlib import Path
from slurm_ext.sandbox import Sandbox, SandboxSpec
spec = SandboxSpec(nodes=2, gpus=1, sharing="mps", hooks=True, lua=True, state_on_tmpfs=True)
with Sandbox(Path(sys.argv[1]), spec, temporary=True) as sandbox:
    script = "echo uid=$(id -u) gpu=$CUDA_VISIBLE_DEVICES"
    job, _ = sandbox.sbatch("--gres=mps:20", "--wrap", script)
    print(sandbox.wait(job), sandbox.output(job), end="")
"""
