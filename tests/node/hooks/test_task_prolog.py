"""The task prolog: what Slurm reads from its output, as the job's user, once per task."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_ext.node.common.job import PROBE_SITE as SITE
from slurm_ext.node.hooks.inherited import unset_lines
from tests.node.by_hand import TOKEN, Node


@pytest.fixture
def run_dir(node: Node) -> Path:
    """The run folder of job 5, as the prolog makes it."""
    folder = node.root / "spool/run/5.0"
    folder.mkdir(parents=True)
    return folder


def _exports(node: Node, **env: str) -> dict[str, str]:
    """What Slurm would set: valid export lines only."""
    done = node.hook("task_prolog", {"SLURM_JOB_ID": "5", **env})
    assert (done.returncode, done.stderr) == (0, b"")
    lines = os.fsdecode(done.stdout).split("\n")
    assert lines.pop() == ""
    assert all(line.startswith("export ") and "=" in line for line in lines)
    found = (line[len("export ") :].partition("=") for line in lines)
    return {name: value for name, _, value in found}


def test_the_job_is_told_its_folder_and_the_probes(node: Node, run_dir: Path) -> None:
    """Run folder and probe; no empty part, which would mean the current folder."""
    assert _exports(node) == {"DLQUEUE_RUN_DIR": str(run_dir), "PYTHONPATH": SITE}
    assert Path(SITE, "sitecustomize.py").is_file()


def test_the_users_own_path_comes_behind(node: Node, run_dir: Path) -> None:
    """Also where the probe's folder is already in it, and also empty parts."""
    assert _exports(node, PYTHONPATH="/a::/b")["PYTHONPATH"] == f"{SITE}:/a::/b"
    assert _exports(node, PYTHONPATH=f"/a:{SITE}")["PYTHONPATH"] == f"{SITE}:/a"


def test_an_image_keeps_its_own_path(node: Node, run_dir: Path) -> None:
    """Apptainer's images have a PYTHONPATH that holds where there is none, so none stays none.

    A variable that another job handed on says nothing of this one's script.
    """
    image = {"DLQUEUE_DECISION": TOKEN, "DLQUEUE_IMAGE": TOKEN}
    assert "PYTHONPATH" not in _exports(node, **image)
    assert _exports(node, **image, PYTHONPATH="/a")["PYTHONPATH"] == f"{SITE}:/a"
    handed_on = {**image, "DLQUEUE_DECISION": f"d1-{'0' * 16}"}
    assert _exports(node, **handed_on)["PYTHONPATH"] == SITE
    done = node.hook("task_prolog", {"SLURM_JOB_ID": "5", **image, "PYTHONPATH": SITE})
    assert b"unset PYTHONPATH" in done.stdout.splitlines()


def test_a_second_run_adds_nothing(node: Node, run_dir: Path) -> None:
    """Slurm runs it for the batch script and for each step of it."""
    first = _exports(node, PYTHONPATH="/a")
    assert "PYTHONPATH" not in _exports(node, **first)


@pytest.mark.parametrize("value", ["/a\nexport LD_PRELOAD=/evil", "/a\r", "\x1b[2J"])
def test_a_hostile_path_is_left_alone(node: Node, run_dir: Path, value: str) -> None:
    """What cannot be said in one line is not said."""
    assert _exports(node, PYTHONPATH=value) == {"DLQUEUE_RUN_DIR": str(run_dir)}


def test_without_a_run_folder_nothing_is_said(node: Node) -> None:
    """No prolog, or a job that opted out there."""
    assert _exports(node) == {}


def test_an_opted_out_job_is_left_alone(node: Node, run_dir: Path) -> None:
    """DLQUEUE=off in the job's environment."""
    assert _exports(node, DLQUEUE="off", DLQUEUE_DECISION=TOKEN) == {}
    assert not (run_dir / "decision").exists()


def test_the_probe_is_a_setting(make_node: Callable[..., Node]) -> None:
    """node.probe = false: the folder is named, the user's Python is not entered."""
    node = make_node(**{"node.probe": False})
    (node.root / "spool/run/5.0").mkdir(parents=True)
    assert list(_exports(node)) == ["DLQUEUE_RUN_DIR"]


def test_the_token_is_noted_as_it_is(node: Node, run_dir: Path) -> None:
    """Written whole, for the epilog; a second task changes nothing."""
    for _ in range(2):
        _exports(node, DLQUEUE_DECISION=TOKEN)
    assert (run_dir / "decision").read_text() == TOKEN
    assert [path.name for path in run_dir.iterdir()] == ["decision"]
    assert stat.S_IMODE((run_dir / "decision").stat().st_mode) == 0o600


@pytest.mark.parametrize("token", ["", "d1-xyz", TOKEN + "\n", f"../{TOKEN}", "x" * 100_000])
def test_anything_else_is_no_token(node: Node, run_dir: Path, token: str) -> None:
    """Only the wire's form is noted."""
    _exports(node, DLQUEUE_DECISION=token)
    assert not (run_dir / "decision").exists()


def test_a_link_is_replaced_and_not_followed(node: Node, run_dir: Path) -> None:
    """A user may prepare anything in his own folder; only he would be hurt, and not even he is."""
    target = node.root / "target"
    target.write_text("mine")
    (run_dir / "decision").symlink_to(target)
    _exports(node, DLQUEUE_DECISION=TOKEN)
    assert target.read_text() == "mine"
    assert (run_dir / "decision").read_text() == TOKEN


def test_a_requeued_run_has_a_folder_of_its_own(node: Node) -> None:
    """SLURM_RESTART_COUNT tells the run."""
    folder = node.root / "spool/run/5.2"
    folder.mkdir(parents=True)
    assert _exports(node, SLURM_RESTART_COUNT="2")["DLQUEUE_RUN_DIR"] == str(folder)


CURVE = "[1,6.28,0.02,-4.6,0.02,-4.63,0.02,-0.03,0.02,0.0004,0,0.003,0,16,null,0,null,1,0,1,[]]"


def test_headroom_and_curve_where_control_is_on(make_node: Callable[..., Node]) -> None:
    """The probe is told how many workers may wait; the curve lies where the controller looks."""
    node = make_node(
        **{"control.mode": "shadow", "control.allocator": "divide", "control.max_workers": 12}
    )
    folder = node.root / "spool/run/5.0"
    folder.mkdir(parents=True)
    assert _exports(node, DLQUEUE_CURVE=CURVE)["DLQUEUE_MAX_WORKERS"] == "12"
    assert (folder / "curve").read_text() == CURVE
    for lie in ("x" * 257, "two\nlines", "\x1b[2J", "ü"):
        _exports(node, DLQUEUE_CURVE=lie)
        assert (folder / "curve").read_text() == CURVE


def test_nothing_starts_ahead_where_cores_are_lent(make_node: Callable[..., Node]) -> None:
    """The probe learns that workers may be lent, and goes on with the user's own."""
    node = make_node(**{"control.mode": "shadow"})
    (node.root / "spool/run/5.0").mkdir(parents=True)
    exports = _exports(node)
    assert exports["DLQUEUE_LENT"] == "1"
    assert "DLQUEUE_MAX_WORKERS" not in exports


def test_no_headroom_where_control_is_off(node: Node, run_dir: Path) -> None:
    """Off is the default: nothing more than ever, whatever the submission carries."""
    assert "DLQUEUE_MAX_WORKERS" not in _exports(node, DLQUEUE_CURVE=CURVE)
    assert not (run_dir / "curve").exists()


def test_a_node_json_of_before_control(node: Node, run_dir: Path) -> None:
    """After an update of the package alone the hooks go on; there is no headroom."""
    values = json.loads(node.json.read_text())
    del values["control.max_workers"], values["control.lends"]
    node.json.write_text(json.dumps(values))
    assert _exports(node) == {"DLQUEUE_RUN_DIR": str(run_dir), "PYTHONPATH": SITE}


def test_who_lends_says_so_in_the_environment(node: Node, run_dir: Path) -> None:
    """DLQUEUE_LEND=1 or 0, and nothing else, lies where the controller looks."""
    for text in ("", "2", "yes", "11"):
        _exports(node, DLQUEUE_LEND=text)
        assert not (run_dir / "lend").exists()
    _exports(node, DLQUEUE_LEND="1")
    assert (run_dir / "lend").read_text() == "1"


OTHER = "d1-00000000000000ff"


def _lines(node: Node, **env: str) -> list[str]:
    """All that Slurm would read of job 5, which job 4 submitted from inside."""
    inherited = {
        "DLQUEUE_RUN_DIR": str(node.root / "spool/run/4.0"),
        "DLQUEUE_TOLD": OTHER,
        "DLQUEUE_DECISION": OTHER,
        "DLQUEUE_NUM_WORKERS": "6",
        "PYTHONPATH": f"{SITE}:/a",
    }
    done = node.hook("task_prolog", {"SLURM_JOB_ID": "5", **inherited, **env})
    assert (done.returncode, done.stderr) == (0, b"")
    return os.fsdecode(done.stdout).splitlines()


def test_a_job_that_is_left_alone_inherits_no_probe(node: Node) -> None:
    """It opted out in a script that the probe measures: nothing of that one reaches it."""
    wanted = [
        "unset DLQUEUE_RUN_DIR",
        "unset DLQUEUE_TOLD",
        "unset DLQUEUE_DECISION",
        "unset DLQUEUE_NUM_WORKERS",
        "export PYTHONPATH=/a",
    ]
    assert _lines(node) == wanted
    assert _lines(node, DLQUEUE="off") == wanted
    assert _lines(node, PYTHONPATH=SITE)[-1] == "unset PYTHONPATH"


def test_a_job_that_nobody_looked_at_is_not_moved_as_the_one_before(
    node: Node, run_dir: Path
) -> None:
    """An array, or a moment without the advisor: measured, and without the other job's words."""
    lines = _lines(node)
    assert lines[:2] == ["unset DLQUEUE_DECISION", "unset DLQUEUE_NUM_WORKERS"]
    assert f"export DLQUEUE_RUN_DIR={run_dir}" in lines
    assert not (run_dir / "decision").exists()


def test_a_jobs_own_decision_stays(node: Node, run_dir: Path) -> None:
    """The advisor looked at it and wrote anew."""
    lines = _lines(node, DLQUEUE_DECISION=TOKEN)
    assert not [line for line in lines if line.startswith("unset")]
    assert f"export DLQUEUE_TOLD={TOKEN}" in lines
    assert (run_dir / "decision").read_text().strip() == TOKEN


def test_a_profiles_own_folder_stays(node: Node) -> None:
    """It opts out and names a folder that is no run folder of a job."""
    assert _lines(node, DLQUEUE="off", DLQUEUE_RUN_DIR="/home/ada/profile") == []


@pytest.mark.parametrize(
    ("wanted", "own", "there", "unset"),
    [("8", "2", "2", True), ("8", "8", "2", True), ("2", "2", "2", False), ("x", "2", "2", True)],
)
def test_srun_asks_for_no_cpus_of_the_other_job(
    node: Node, run_dir: Path, wanted: str, own: str, there: str, *, unset: bool
) -> None:
    """Nobody else sets SRUN_CPUS_PER_TASK anew, and srun reads it: its step would fail or wait."""
    env = {"SRUN_CPUS_PER_TASK": wanted, "SLURM_CPUS_PER_TASK": own, "SLURM_CPUS_ON_NODE": there}
    assert ("unset SRUN_CPUS_PER_TASK" in _lines(node, **env)) == unset


@pytest.mark.parametrize(
    ("own", "there", "lines"),
    [("2", "2", ["unset SRUN_CPUS_PER_TASK"]), ("2", "8", []), ("8", "8", []), ("2", "", [])],
)
def test_a_job_that_lost_cpus_while_it_waited_starts_its_steps(
    tmp_path: Path, own: str, there: str, lines: list[str]
) -> None:
    """`scontrol update` lowers all but this variable; one that its CPUs can serve stays."""
    env = {"SRUN_CPUS_PER_TASK": "8", "SLURM_CPUS_PER_TASK": own, "SLURM_CPUS_ON_NODE": there}
    assert unset_lines(env, str(tmp_path), f"{tmp_path}/5.0") == lines


def test_cpus_that_a_user_asks_for_in_a_step_or_opted_out_stay(tmp_path: Path) -> None:
    """A narrow step may start wide ones beside it; a job that opted out is left alone."""
    env = {"SRUN_CPUS_PER_TASK": "8", "SLURM_CPUS_PER_TASK": "1", "SLURM_CPUS_ON_NODE": "1"}
    run_dir = f"{tmp_path}/5.0"
    step = {**env, "SLURM_STEP_ID": "0"}
    assert unset_lines(step, str(tmp_path), run_dir) == []
    assert unset_lines({**step, "DLQUEUE_RUN_DIR": run_dir}, str(tmp_path), run_dir) == []
    assert unset_lines(env, str(tmp_path), None) == []


def test_a_step_on_another_node_notes_its_jobs_decision(node: Node, run_dir: Path) -> None:
    """It has the environment of the batch script, whose node may be another."""
    own = {"DLQUEUE_RUN_DIR": str(run_dir), "DLQUEUE_TOLD": TOKEN, "DLQUEUE_DECISION": TOKEN}
    assert f"export DLQUEUE_TOLD={TOKEN}" in _lines(node, **own)
    assert (run_dir / "decision").read_text().strip() == TOKEN
