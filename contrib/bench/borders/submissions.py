"""The advisor that slurmctld waits for, and what users submit and ask meanwhile."""

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from contrib.bench.borders.attack import ATTACKER, VICTIM, Attack, Happened, as_user
from slurm_ext.core.records import Submission
from slurm_ext.core.wire import encode_request
from slurm_ext.sandbox import Sandbox, SandboxSpec

TRIES = 8  # submissions of the victim, before and meanwhile
FLOOD_S, MOST_MIB = 12.0, 64.0
_PLAIN = "#!/bin/sh\npython3 train.py\n"
SHORT_LINES = "#!/bin/sh\n" + "a\n" * 52_000
_ASK = """import socket, sys, time
end = time.monotonic() + float(sys.argv[2])
body = sys.stdin.buffer.read()
number, answer = 0, b""
while (not answer and number < 100) or time.monotonic() < end:
    number += 1
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(2)
            client.connect(sys.argv[1])
            client.sendall(body.replace(b"@", b"%d" % number))
            answer = client.makefile("rb").readline()
    except OSError:
        time.sleep(0.01)
print(answer.decode())
"""

_CROWD = """import socket, sys, time
end, kept = time.monotonic() + float(sys.argv[2]), []
while time.monotonic() < end:
    client = socket.socket(socket.AF_UNIX)
    client.setblocking(False)
    try:
        client.connect(sys.argv[1])
        kept.append(client)
    except OSError:
        client.close()
    if len(kept) > 500:
        kept = []
"""


@contextmanager
def cluster(folder: Path, **changes: object) -> Iterator[Sandbox]:
    """A cluster whose advisor acts, and which everybody may ask."""
    settings = {"site.mode": "act", "advisor.socket_mode": 0o666, **changes}
    spec = SandboxSpec(lua=True, advisor=True, settings=settings)
    with Sandbox(folder / "s", spec, temporary=True) as sandbox:
        for near in Path(sandbox.settings["paths.socket"]).parents:
            if near.is_relative_to(folder):
                near.chmod(near.stat().st_mode | 0o011)
        yield sandbox


def decided(sandbox: Sandbox) -> int:
    """Jobs of the victim that dlqueue decided on, of TRIES that are submitted now."""
    journal = sandbox.path("dlqueue/journal")
    before = _decisions(journal)
    for _ in range(TRIES):
        sandbox.sbatch("-H", script=_PLAIN, **as_user(VICTIM))
    return _decisions(journal) - before


def _decisions(journal: Path) -> int:
    lines = [line for file in journal.glob("*.jsonl") for line in file.read_text().splitlines()]
    return sum(json.loads(line)["user"] == VICTIM for line in lines)


def _starved(folder: Path, attack: Callable[[Sandbox], Any]) -> Happened:
    """Count the victim's submissions that are decided on before, during and after the attack."""
    with cluster(folder) as sandbox:
        calm = decided(sandbox)
        attacking = threading.Thread(target=attack, args=(sandbox,))
        attacking.start()
        time.sleep(0.5)
        meanwhile = decided(sandbox)
        attacking.join()
        after = decided(sandbox)
        rests = sandbox.log("slurmctld").count("; jobs go as written")
    what = f"{calm}, {meanwhile} and {after} of {TRIES} submissions of another user were decided on"
    held = min(meanwhile, after) >= calm - 1 and rests == 0
    return Happened(held=held, what=f"{what} before, meanwhile and after; all rested {rests} times")


def _submits(sandbox: Sandbox) -> None:
    for number in range(TRIES):
        script = f"{SHORT_LINES}echo {number}\n"
        sandbox.sbatch("-H", script=script, **as_user(ATTACKER))


def asks(sandbox: Sandbox, question: bytes, seconds: float = FLOOD_S) -> str:
    """The last answer to a user that asks without end, `@` being another number each time."""
    path = sandbox.settings["paths.socket"]
    command = ["/usr/bin/python3", "-I", "-c", _ASK, path, str(seconds)]
    done = subprocess.run(
        command, input=question, capture_output=True, cwd="/", check=True, **as_user(ATTACKER)
    )
    return str(done.stdout.decode())


def what_if(user: str, user_id: int, **fields: Any) -> bytes:
    """A question about a job with a long script."""
    job = Submission(user_name=user, user_id=user_id, script=SHORT_LINES[:60_000], **fields)
    return encode_request("what_if", job)


def _floods(sandbox: Sandbox) -> None:
    threads = [
        threading.Thread(target=asks, args=(sandbox, what_if("", -1, name="job-@")))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _crowds(folder: Path) -> Happened:
    """Restart slurmctld amid a crowd of clients: it finds its way to the advisor."""
    with cluster(folder) as sandbox:
        command = ["/usr/bin/python3", "-I", "-c", _CROWD, sandbox.settings["paths.socket"]]
        crowd = [
            subprocess.Popen([*command, str(FLOOD_S)], cwd="/", **as_user(ATTACKER))
            for _ in range(4)
        ]
        sandbox.restart("slurmctld")
        meanwhile = decided(sandbox)
        for process in crowd:
            process.wait()
    what = f"{meanwhile} of {TRIES} submissions of another user were decided on"
    return Happened(held=meanwhile == TRIES, what=what)


def _fills_memory(folder: Path) -> Happened:
    words = tuple("x" * 500 for _ in range(60))
    within = what_if("", -1, name="@" + "\U0001f600" * 9_000, argv=words)
    beyond = what_if("", -1, comment="@" + "x" * 850_000)
    with cluster(folder) as sandbox:
        asks(sandbox, within, 3.0)
        before = _resident_mib(sandbox)
        for question in (within, beyond):
            asks(sandbox, question)
        grown = _resident_mib(sandbox) - before
    return Happened(held=grown < MOST_MIB, what=f"grew by {grown:.0f} MiB in {2 * FLOOD_S:g} s")


def _resident_mib(sandbox: Sandbox) -> float:
    """Memory of the advisor and its children."""
    advisor = sandbox.status()["daemons"]["advisor"]
    command = ["ps", "-o", "rss=", "--pid", str(advisor), "--ppid", str(advisor)]
    kib = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return sum(map(int, kib)) / 1024


def _asks_for_another(folder: Path) -> Happened:
    victim = as_user(VICTIM)["user"]
    with cluster(folder) as sandbox:
        answers = [asks(sandbox, what_if(VICTIM, user_id), 0.0) for user_id in (victim, -1)]
    held = all("ask about your own jobs" in answer for answer in answers)
    return Happened(held=held, what=f"answered: {json.loads(answers[0]).get('error', answers[0])}")


ATTACKS = (
    Attack(
        name="script_of_short_lines",
        row=7,
        tried="a user submits scripts of 52,000 short lines",
        before="an answer took 59 ms, and dlqueue rested for everybody for 30 s",
        act=lambda folder: _starved(folder, _submits),
    ),
    Attack(
        name="flood_of_questions",
        row=7,
        tried="a user asks what-if questions about long scripts over four connections",
        before="31 questions had dlqueue rest for everybody",
        act=lambda folder: _starved(folder, _floods),
    ),
    Attack(
        name="crowd_of_connections",
        row=7,
        tried="four processes of a user connect without end, and slurmctld starts meanwhile",
        before="slurmctld could not connect, and dlqueue rested for everybody",
        act=_crowds,
    ),
    Attack(
        name="questions_that_are_remembered",
        row=8,
        tried="a user asks about ever new jobs with long texts",
        before="the advisor grew from 118 to 525 MB in 44 s",
        act=_fills_memory,
    ),
    Attack(
        name="question_about_another",
        row=9,
        tried="a user asks what would become of another user's job",
        before="the answer held the other user's measured runs",
        act=_asks_for_another,
    ),
)
