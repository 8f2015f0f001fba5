"""Login and web nodes as hosts of their own: ordinary users ask the advisor over the network."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from contrib.bench.borders.attack import ATTACKER, VICTIM, as_user
from slurm_ext.cli.predict.ondemand import NO_ANSWER
from slurm_ext.questions.addresses import PORT
from slurm_ext.questions.question import encode
from slurm_ext.sandbox import Sandbox
from tests.conftest import MakeSandbox
from tests.manual import ROOT
from tests.other_user import become, python_for_all
from tests.whole import until

pytestmark = [pytest.mark.slurm, pytest.mark.root]

OPERATOR = "daemon"
APP = ROOT / "contrib" / "ondemand"
# No file system is shared: the advisor's folder is empty on the node.
HIDDEN = 'mount -t tmpfs none "$1" && shift && exec "$@"'
SEND = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 30) as caller:
    caller.sendall(sys.stdin.buffer.read())
    sys.stdout.buffer.write(caller.makefile("rb").readline())
"""
IDLE = """
import socket, sys
callers = [socket.create_connection((sys.argv[1], int(sys.argv[2])), 30) for _ in range(64)]
for caller in callers[::2]:
    caller.sendall(b'{"v":1,')
print("there", flush=True)
sys.stdin.read()
"""


CROWD = """
import json, socket, sys
questions = json.load(sys.stdin)
where = (sys.argv[1], int(sys.argv[2]))
callers = [socket.create_connection(where, 30) for _ in questions]
for caller, question in zip(callers, questions):
    caller.sendall(question.encode())
print("there", flush=True)
print(sum(b'"kind": "answer"' in caller.makefile("rb").readline() for caller in callers))
"""
USERS = ("daemon", "bin", "sys", "games", "man", "lp", "mail", "news", "uucp", "proxy")


class Site:
    """A cluster whose two nodes are hosts; the advisor answers at the controller's address."""

    def __init__(self, slurm: Sandbox) -> None:
        self.slurm = slurm
        self.address = slurm.plan.address
        with slurm.layout.settings.open("a") as file:
            file.write(f'advisor.listen_questions = "{self.address}:{PORT}"\n')
        slurm.restart("advisor")
        # All that a login node is given; the rest it hears from Slurm.
        self.config = slurm.path("login.toml")
        self.config.write_text(f'node.munge_socket = "{slurm.layout.munge_socket}"\n')
        until(self._listens, "the advisor does not listen")

    def dlqueue(self, user: str, *words: str, node: int = 1, status: int = 0) -> str:
        """What a user's command prints on a node; where it fails, what it complains of."""
        python, _ = python_for_all()
        command = [python, "-m", "slurm_ext.cli", *words, "--config", str(self.config)]
        return self.run(user, *command, node=node, status=status)

    def run(
        self,
        user: str,
        *command: str,
        node: int = 1,
        status: int = 0,
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> str:
        """The same of any command, with more variables in its environment."""
        hidden = ["unshare", "--mount", "sh", "-c", HIDDEN, "-", str(self.slurm.layout.dlqueue)]
        argv = [*self.on(node), *hidden, *become(user), *command]
        _, env = python_for_all()
        env = {**env, "SLURM_CONF": str(self.slurm.layout.slurm_conf), "COLUMNS": "200", **more}
        done = subprocess.run(argv, env=env, cwd="/", capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stderr
        return done.stderr if status else done.stdout

    def document(self, user: str, *words: str) -> Any:
        """The document of a user's command."""
        return json.loads(self.dlqueue(user, *words, "--json"))

    def on(self, node: int) -> list[str]:
        """The words that start a command on a node."""
        return ["nsenter", f"--net=/run/netns/{self.slurm.plan.nodes[node].namespace}"]

    def peer(self, program: str, node: int = 0) -> list[str]:
        """A hostile program on a node, as an ordinary user."""
        words = ["/usr/bin/python3", "-I", "-c", program, self.address, str(PORT)]
        return [*self.on(node), *become(ATTACKER), *words]

    def job(self, user: str, *words: str) -> int:
        """A job of a user that ended and is recorded."""
        job_id, _ = self.slurm.sbatch(*words, "--wrap", "true", **as_user(user))
        self.slurm.wait(job_id)
        known = ["explain", str(job_id), "--json", "--config", str(self.slurm.layout.settings)]
        until(lambda: self.here(*known)["runs"], f"job {job_id} is not recorded")
        return job_id

    def here(self, *words: str) -> Any:
        """The document of root's command where the history lies; empty where it fails."""
        done = self.slurm.run([sys.executable, "-m", "slurm_ext.cli", *words], check=False)
        return json.loads(done.stdout) if done.returncode == 0 else {"runs": []}

    def _listens(self) -> bool:
        try:
            socket.create_connection((self.address, PORT), 1).close()
        except OSError:
            return False
        return True


@pytest.fixture(scope="module")
def site(make_module_sandbox: MakeSandbox) -> Site:
    """Two hosts, slurmdbd with an operator, and our plugin in slurmctld."""
    python_for_all()
    slurm = make_module_sandbox(
        nodes=2, cpus=2, namespaces=True, accounting=True, lua=True, advisor=True
    )
    words = f"add user {OPERATOR} account=root adminlevel=Operator"
    slurm.run(["sacctmgr", "-i", *words.split()])
    return Site(slurm)


@pytest.fixture(scope="module")
def jobs(site: Site) -> tuple[int, int]:
    """One job of each of two users."""
    return site.job(VICTIM, "-Jtrain"), site.job(ATTACKER, "-Jother")


def test_an_ordinary_user_has_every_answer_on_a_login_node(
    site: Site, jobs: tuple[int, int], short_folder: Path
) -> None:
    """With Slurm's configuration alone, and word for word as where the history lies."""
    own, _ = jobs
    here = ["--json", "--config", str(site.slurm.layout.settings)]
    assert site.document(VICTIM, "explain", str(own)) == site.here("explain", str(own), *here)
    shown = site.document(VICTIM, "history", "show", str(own))
    assert shown == site.here("history", "show", str(own), *here)
    assert [one["job_id"] for one in site.document(VICTIM, "jobs")["jobs"]] == [own]
    assert [one["job_id"] for one in site.document(VICTIM, "history", "ls")["runs"]] == [own]
    assert "train" in site.dlqueue(VICTIM, "jobs")
    script = short_folder / "job.sh"
    script.write_text("#!/bin/sh\n#SBATCH -c 2\npython3 train.py\n")
    predicted = site.document(VICTIM, "predict", str(script))
    assert (predicted["source"], predicted["past"], predicted["refused"]) == ("advisor", [], None)
    table = site.document(VICTIM, "predict", str(script), "--what-if")
    assert table["source"] == "advisor"
    assert [row["cpus_per_task"] for row in table["rows"]] == [2]
    assert "num_cores: " in site.dlqueue(VICTIM, "predict", "--ood", str(script))
    assert site.document(VICTIM, "recommend", "--name", "train")["runs"] == []
    (finding,) = [
        one for one in site.document(VICTIM, "doctor")["findings"] if one["name"] == "questions"
    ]
    assert finding["status"] == "ok"


def test_the_ondemand_form_is_filled_on_a_web_node(site: Site, short_folder: Path) -> None:
    """By the user's own process, from the advisor: plain defaults would have no such help."""
    short_folder.chmod(0o755)
    command = short_folder / "dlqueue"
    python, _ = python_for_all()
    command.write_text(
        f'#!/bin/sh\nDLQUEUE_CONFIG={site.config} exec {python} -m slurm_ext.cli "$@"\n'
    )
    command.chmod(0o755)
    script = short_folder / "training.sbatch"
    script.write_text("#!/bin/sh\n#SBATCH -c 2\npython3 train.py\n")
    # A busy machine is slower than the three seconds that a form has for dlqueue.
    (short_folder / "timeout").write_text('#!/bin/sh\nshift; exec "$@"\n')
    (short_folder / "timeout").chmod(0o755)
    more = {"DLQUEUE_OOD_SCRIPT": str(script), "PATH": f"{short_folder}:/usr/bin:/bin"}
    form = site.run(VICTIM, "erb", "-T", "-", str(APP / "form.yml.erb"), more=more)
    assert NO_ANSWER in form


def test_anothers_job_is_refused_and_an_operator_sees_it(site: Site, jobs: tuple[int, int]) -> None:
    """By Slurm's AdminLevel; the reason is said."""
    own, other = jobs
    for words in (("explain", str(other)), ("history", "show", str(other)), ("jobs", "--all")):
        assert f"not {VICTIM}'s" in site.dlqueue(VICTIM, *words, status=1)
    listed = until(
        lambda: {one["job_id"] for one in site.document(OPERATOR, "jobs", "--all")["jobs"]},
        "the operator sees nothing",
    )
    assert {own, other} <= listed
    assert site.document(OPERATOR, "explain", str(other))["job_id"] == other


def test_a_waiting_job_has_its_place(site: Site) -> None:
    """Slurm's word, as the advisor has it; another user's waiting job stays unknown."""
    job_id, _ = site.slurm.sbatch("-H", "--wrap", "true", **as_user(VICTIM))
    assert site.document(VICTIM, "explain", str(job_id))["queue"]["reason"] == "JobHeldUser"
    assert site.document(OPERATOR, "explain", str(job_id))["queue"]["job"] == str(job_id)
    complaint = site.dlqueue(ATTACKER, "explain", str(job_id), status=1)
    assert "knows nothing of" in complaint or f"not {ATTACKER}'s job" in complaint
    site.slurm.run(["scancel", str(job_id)])


def test_hostile_peers_get_nothing_and_keep_nobody_waiting(
    site: Site, jobs: tuple[int, int]
) -> None:
    """No credential, another's once more, garbage, a huge header, 64 who say nothing."""
    header, raw = _question(site, VICTIM, "explain", job=str(jobs[0]))
    assert b'"kind": "answer"' in _sent(site, header + raw, node=1)
    for hostile in (
        header + raw,
        json.dumps({**json.loads(header), "credential": ""}).encode() + b"\n" + raw,
        b"\x00\xff" * 40 + b"\n",
        b"x" * 200_000,
    ):
        assert b'{"v": 1, "error": ' in _sent(site, hostile)
    with _running(site.peer(IDLE)):
        assert site.document(VICTIM, "explain", str(jobs[0]))["job_id"] == jobs[0]
    assert b"Traceback" not in site.slurm.log("advisor").encode()


def test_a_hundred_questions_do_not_move_a_submission(site: Site, jobs: tuple[int, int]) -> None:
    """While nobody answers questions at all, every submission is decided on, and then they are."""
    (pid,) = _question_processes(site)
    asked = [_question(site, user, "jobs", limit=20) for user in USERS for _ in range(10)]
    os.kill(pid, signal.SIGSTOP)
    try:
        with _running(
            site.peer(CROWD), json.dumps([(header + raw).decode() for header, raw in asked])
        ) as crowd:
            before = _decisions(site)
            for _ in range(5):
                site.slurm.sbatch("-H", "--wrap", "true", **as_user(VICTIM))
            assert _decisions(site) - before == 5
            os.kill(pid, signal.SIGCONT)
            assert crowd.stdout is not None
            assert crowd.stdout.readline() == b"100\n"
    finally:
        os.kill(pid, signal.SIGCONT)
    assert "no advice" not in site.slurm.log("slurmctld")
    assert _question_processes(site) == [pid]


def test_a_node_that_is_cut_off_is_told_so(site: Site) -> None:
    """Where nobody answers, and what to look at."""
    config = site.config.read_text()
    site.config.write_text(f'{config}advisor.address = "{site.address}:{PORT}"\n')
    site.slurm.cut("n2")
    try:
        complaint = site.dlqueue(VICTIM, "jobs", status=1)
    finally:
        site.slurm.mend("n2")
        site.config.write_text(config)
    assert f"no advisor answers at {site.address}:{PORT}" in complaint


def _sent(site: Site, data: bytes, node: int = 0) -> bytes:
    """The line that comes back."""
    command = site.peer(SEND, node)
    return subprocess.run(command, input=data, capture_output=True, cwd="/", check=True).stdout


def _question(site: Site, user: str, kind: str, **fields: Any) -> tuple[bytes, bytes]:
    """Header and body of a question that a user signed."""
    raw = encode(kind, fields)
    digest = sha256(raw).hexdigest()
    munge = ["munge", f"--string={digest}", f"--socket={site.slurm.layout.munge_socket}"]
    signed = subprocess.check_output(munge, text=True, cwd="/", **as_user(user)).strip()
    line = {"v": 1, "kind": "question", "bytes": len(raw), "sha256": digest}
    return json.dumps({**line, "credential": signed}).encode() + b"\n", raw


@contextmanager
def _running(command: list[str], data: str = "") -> Iterator["subprocess.Popen[bytes]"]:
    """A program, from when it says that it is there until the block ends."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd="/") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(data.encode())
        if data:
            process.stdin.close()
        assert process.stdout.readline() == b"there\n"
        yield process
        process.terminate()


def _decisions(site: Site) -> int:
    return sum(
        path.read_bytes().count(b"\n") for path in site.slurm.path("dlqueue/journal").glob("*")
    )


def _question_processes(site: Site) -> list[int]:
    """Processes that answer this advisor's questions."""
    wanted = [b"slurm_ext.questions.process", str(site.slurm.layout.settings).encode()]
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if set(wanted) <= set(words):
            found.append(int(path.parent.name))
    return found
