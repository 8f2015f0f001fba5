"""Jobs of every end, name and script: run as written, one record a run, shown safely."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import pytest

from slurm_ext.cli import main
from slurm_ext.sandbox import Sandbox
from tests.conftest import MakeSandbox
from tests.whole import (
    ACTING,
    WHOLE,
    advisor_runs,
    answers,
    asked,
    completed,
    dlqueue,
    out_of_time,
    recorded,
    runs,
    said_in_log,
    teach,
    until,
)

pytestmark = pytest.mark.slurm

BAD = Path(__file__).parents[1] / "bad_input"
SCRIPTS = sorted((BAD / "jobs").iterdir())
SUMMARIES = sorted((BAD / "probe_summary").iterdir())
SETTINGS = sorted((BAD / "settings").iterdir())
QUIET_S = 4.0  # nothing has begun or ended for so long
HOSTILE = [
    'it\'s "quoted" `twice` $(reboot)',
    "two\nlines\rand\ttabs",
    "\x1b[2J\x1b]0;owned\x07\x9b31m",
    "'); DROP TABLE runs; --",
    "<script>alert(1)</script>&amp;",
    "[red]markup[/red] {0} %s %n",
    "../../../etc/passwd",
    "ünïcödé \u202e\u2066 ☃",
    "a" * 1000,
]


@pytest.fixture(scope="module")
def slurm(make_module_sandbox: MakeSandbox) -> Sandbox:
    """All of dlqueue, acting; jobs called `known` are known."""
    sandbox = make_module_sandbox(**{**WHOLE, "cpus": 16}, settings=ACTING)
    teach(sandbox, "known")
    return sandbox


@pytest.fixture(scope="module", autouse=True)
def overlong(slurm: Sandbox) -> int:
    """A job over its time limit, which slurmctld looks at twice a minute: looked at last."""
    return out_of_time(slurm)


@pytest.fixture(scope="module", autouse=True)
def advisor_lives(slurm: Sandbox) -> Iterator[None]:
    """After everything, neither advisor nor history writer has met anything it did not expect."""
    yield
    said = slurm.log("advisor")
    assert "Traceback" not in said
    assert "ended with status" not in said


def printed(slurm: Sandbox, *argv: str) -> str:
    """What a command of ours prints, run in this process: starting one takes half a second."""
    env = patch.dict(os.environ, slurm.env, clear=True)
    with env, redirect_stdout(StringIO()) as said:
        assert main(list(argv)) == 0
    return said.getvalue()


def shown(slurm: Sandbox, *job_ids: int) -> None:
    """People's commands print the jobs without a control character; nothing of them is obeyed."""
    said = dlqueue(slurm, "history", "ls", "--limit", "500")
    for job_id in job_ids:
        said += printed(slurm, "history", "show", str(job_id))
        said += printed(slurm, "explain", str(job_id))
    assert all(line.isprintable() for line in said.splitlines()), said


def test_hostile_scripts_run_as_written(slurm: Sandbox) -> None:
    """Each file's name states what is odd about it; shell, Python and PYTHONPATH stay theirs."""
    job_ids = {script: slurm.sbatch(str(script)) for script in SCRIPTS}
    for script, (job_id, said) in job_ids.items():
        assert (slurm.wait(job_id), said) == ("COMPLETED", ""), script.name
        assert slurm.output(job_id) == "ran\n", script.name
    recorded(slurm, {job_id: ["COMPLETED"] for job_id, _ in job_ids.values()})
    named = [i for s, (i, _) in job_ids.items() if "name" in s.name or "escapes" in s.name]
    shown(slurm, *named)


def test_hostile_names_and_comments(slurm: Sandbox) -> None:
    """They reach the history as they are, and people's terminals as harmless text."""
    argv = [(f"--job-name={text}", f"--comment={text}") for text in HOSTILE]
    job_ids = [slurm.sbatch(*words, "--wrap", "echo ran")[0] for words in argv]
    completed(slurm, *job_ids)
    assert {slurm.output(job_id) for job_id in job_ids} == {"ran\n"}
    sql = "SELECT job_id, job_name FROM decisions WHERE job_id >= ? ORDER BY job_id"
    answers(slurm, list(zip(job_ids, HOSTILE, strict=True)), sql, job_ids[0])
    shown(slurm, *job_ids[:6])


def test_a_name_that_is_not_utf8(slurm: Sandbox) -> None:
    """Bytes of another encoding are kept readable."""
    name = b"--job-name=caf\xe9 \xff\xfe".decode("utf-8", "surrogateescape")
    job_id, said = slurm.sbatch(name, "--wrap", "echo ran")
    assert said == ""
    completed(slurm, job_id)
    shown(slurm, job_id)


def test_a_script_of_four_megabytes(slurm: Sandbox, tmp_path: Path) -> None:
    """As large as Slurm takes; it is left alone and recorded all the same."""
    script = tmp_path / "large.sh"
    script.write_text("#!/bin/bash\n" + "# padding\n" * 390_000 + "echo ran\n")
    one_line = tmp_path / "long.sh"
    one_line.write_text("#!/bin/bash\n: " + "x" * 300_000 + "\necho ran\n")
    job_ids = [slurm.sbatch(str(path))[0] for path in (script, one_line)]
    completed(slurm, *job_ids)
    assert {slurm.output(job_id) for job_id in job_ids} == {"ran\n"}


def test_nul_is_refused_by_sbatch_itself(slurm: Sandbox, tmp_path: Path) -> None:
    """Nothing of it reaches us, and the user reads Slurm's own words."""
    script = tmp_path / "nul.sh"
    script.write_bytes(b"#!/bin/bash\necho ran\0\n")
    done = slurm.run(["sbatch", str(script)], check=False)
    assert done.returncode != 0
    assert "NULL" in done.stderr
    assert "dlqueue" not in done.stderr


def test_absurd_summaries_teach_nothing(slurm: Sandbox) -> None:
    """What the job itself wrote into its run folder costs neither the run nor the advisor."""
    taught = advisor_runs(slurm)
    put = "cp {} $DLQUEUE_RUN_DIR/summary-7.json; echo ran"
    job_ids = [slurm.sbatch("--wrap", put.format(path))[0] for path in SUMMARIES]
    completed(slurm, *job_ids)
    assert {slurm.output(job_id) for job_id in job_ids} == {"ran\n"}
    sql = "SELECT job_id FROM runs JOIN loader_runs ON run = runs.id"
    believed = {job_id for (job_id,) in asked(slurm, sql)}
    assert [p.name for p, i in zip(SUMMARIES, job_ids, strict=True) if i in believed] == []
    assert advisor_runs(slurm) == taught
    shown(slurm, *job_ids[:3])


def test_every_way_to_end(slurm: Sandbox) -> None:
    """Failed, signalled, cancelled while running or pending, each once and by its name."""
    wraps = {
        "exit 3": "FAILED",
        "kill -SEGV $$": "FAILED",
        "kill -KILL $$": "FAILED",
        "exec false": "FAILED",
        "sleep 600": "CANCELLED",
        "trap '' TERM; sleep 600": "CANCELLED",
    }
    job_ids = {slurm.sbatch("--wrap", wrap)[0]: state for wrap, state in wraps.items()}
    cancelled = [job_id for job_id, state in job_ids.items() if state == "CANCELLED"]
    until(lambda: all(slurm.path(f"out/{i}.txt").exists() for i in cancelled), "not begun")
    pending, _ = slurm.sbatch("-H", "--wrap", "true")
    slurm.run(["scancel", *map(str, cancelled), str(pending)])
    assert {job_id: slurm.wait(job_id) for job_id in job_ids} == job_ids
    recorded(slurm, {job_id: [state] for job_id, state in job_ids.items()} | {pending: []})
    shown(slurm, *job_ids)


def test_a_requeued_job_has_a_run_for_each_start(slurm: Sandbox) -> None:
    """REQUEUED, REQUEUED, COMPLETED: three runs of one job, and one decision."""
    script = '#!/bin/bash\necho "start ${SLURM_RESTART_COUNT:-0}"\n'
    script += '[ "$SLURM_RESTART_COUNT" = 2 ] || sleep 600\n'
    job_id, _ = slurm.sbatch("--requeue", "--open-mode=append", "-Jagain", script=script)
    for restart in range(3):
        # Longer than the two minutes, which Slurm may set once more after it was asked not to.
        why = f"restart {restart} did not begin"
        until(partial(starts, slurm, job_id, restart), why, timeout_s=300)
        if restart < 2:
            slurm.run(["scontrol", "requeue", str(job_id)])
    assert slurm.wait(job_id) == "COMPLETED"
    recorded(slurm, {job_id: ["REQUEUED", "REQUEUED", "COMPLETED"]})
    assert [restart for restart, _ in runs(slurm)[job_id]] == [0, 1, 2]
    sql = "SELECT job_id FROM decisions WHERE job_name = 'again'"
    answers(slurm, [(job_id,)], sql)


def starts(slurm: Sandbox, job_id: int, restart: int) -> bool:
    """Whether the script itself has begun after so many restarts; nobody waits two minutes for it.

    Asked for again and again: Slurm sets its own time a second time when the epilog has ended. As
    the elastic loop does, it asks when nothing has started or ended there for a while: slurmd 22.05
    runs no prolog otherwise.
    """
    out = slurm.path(f"out/{job_id}.txt")
    if out.exists() and f"start {restart}\n" in out.read_text():
        return True
    if waits_its_time(slurm, job_id):
        time.sleep(QUIET_S)
        # It may have begun since, and then takes no other time.
        slurm.run(["scontrol", "update", f"JobId={job_id}", "StartTime=now"], check=False)
    return False


def waits_its_time(slurm: Sandbox, job_id: int) -> bool:
    """Whether Slurm has put the job back into the queue, for two minutes to come.

    Not by its reason, which says so only when Slurm has looked at the job again. And not within the
    second of the requeue: slurmd takes a credential of that second for the one that it revoked, and
    Slurm then lets the job fail.
    """
    job = slurm.job(job_id)
    now, revoked = (
        time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() - ago)) for ago in (0, 2)
    )
    back = job["JobState"] == "PENDING" and job["EligibleTime"] > now
    return back and job["SubmitTime"] < revoked


@pytest.mark.root
def test_a_job_out_of_memory(make_sandbox: MakeSandbox) -> None:
    """The kernel ends it; the record says so, and the node stays up."""
    slurm = make_sandbox(**WHOLE, cgroup=True, settings=ACTING)
    eat = "python3 -S -c 'x = bytearray(400_000_000); import time; time.sleep(5)'"
    job_id, said = slurm.sbatch("--mem=100", "--wrap", eat)
    assert said == ""
    assert slurm.wait(job_id) == "OUT_OF_MEMORY"
    recorded(slurm, {job_id: ["OUT_OF_MEMORY"]})


def test_wrong_settings_given_to_a_running_advisor(slurm: Sandbox) -> None:
    """At SIGHUP it keeps the old ones and says in its log what is wrong; jobs go on as before."""
    toml = slurm.path("etc/dlqueue.toml")
    right = toml.read_bytes()
    pid = slurm.status()["daemons"]["advisor"]
    try:
        for bad in SETTINGS[:: len(SETTINGS) // 5]:
            log_before = len(slurm.log("advisor"))
            toml.write_bytes(bad.read_bytes())
            os.kill(pid, signal.SIGHUP)
            why = f"settings stays as it was: {toml}: "
            until(partial(said_in_log, slurm, why, log_before), f"{bad.name} is not told")
            assert "x faster" in slurm.sbatch("-H", "-Jknown", "--wrap", "true")[1], bad.name
    finally:
        toml.write_bytes(right)
    os.kill(pid, signal.SIGHUP)
    until(
        lambda: "advisor.service.refresh: settings read again" in slurm.log("advisor"),
        "the right ones are not taken",
    )
    assert slurm.status()["daemons"]["advisor"] == pid


def test_a_strict_environment(slurm: Sandbox) -> None:
    """`set -e`, a strict umask, no home, no room for temporary files: nothing of ours is felt."""
    script = (
        "#!/bin/bash -e\numask 777\nexport HOME=/nonexistent TMPDIR=/nonexistent\ncd /\n"
        "ulimit -n 16\npython3 -c 'print(\"ran\")' | cat\n"
    )
    job_id, said = slurm.sbatch("-Jknown", script=script)
    assert "x faster" in said
    completed(slurm, job_id)
    assert slurm.output(job_id) == "ran\n"


def test_a_job_over_its_time_limit(slurm: Sandbox, overlong: int) -> None:
    """TIMEOUT, once."""
    assert slurm.wait(overlong) == "TIMEOUT"
    recorded(slurm, {overlong: ["TIMEOUT"]})
