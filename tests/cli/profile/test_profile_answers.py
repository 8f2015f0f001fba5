"""From windows of all ranks to an answer: pure, on made-up windows."""

from pathlib import Path
from typing import Any

import pytest

from slurm_ext.cli import main
from slurm_ext.cli.profile import batch
from slurm_ext.cli.profile.analysis import document
from slurm_ext.cli.profile.checks import PREFIX, check
from slurm_ext.cli.profile.page import page
from slurm_ext.cli.profile.run_folder import ProfileLimits, ProfileRun, environment, left
from slurm_ext.cli.profile.text import lines
from slurm_ext.core.errors import InputError, UsageError

LIMITS = ProfileLimits(400, 180, 600, 0)


def rank(number: int, means: dict[str, float], world: int = 2, **other: Any) -> dict[str, Any]:
    """The windows that one rank leaves: three rounds, without noise."""
    windows = [
        {
            "kind": kind,
            "at_s": float(at),
            "dropped": 2,
            "steps": [mean + 1e-5 * (s % 2) for s in range(12)],
        }
        for at in range(3)
        for kind, mean in means.items()
    ]
    known = {"rank": number, "world": world, "workers": 2, "elapsed_s": 30.0, "ended": "precise"}
    known |= {"pid": number, "began": 0.0}
    known |= {
        "why_not": None,
        "no_sync": None,
        "saves": {"torch.save": 1},
        "files": {},
        "faults": [],
    }
    return {**known, "windows": windows, "requests": 90, **other}


SUMMARY = {
    "pid": 0,
    "rank": 0,
    "world_size": 1,
    "loaders": [
        {
            "batch_size": 4,
            "started_workers": 2,
            "phases": [
                {"steps": 90, "samples": 360, "batches": 90, "wall_s": 18, "wait_s": 9, "step_s": 9}
                | {"fetch_samples": 360, "fetch_wall_s": 36.0, "fetch_cpu_s": 4.0}
                | {"fetch_queued_s": 2.0, "workers": 2.0, "epochs": 1}
            ],
        }
    ],
}


def by_name(found: dict[str, Any]) -> dict[str, float]:
    """Values of a document's parts, in milliseconds."""
    return {part["name"]: round(1e3 * part["value"], 1) for part in found["parts"]}


def test_ranks_are_joined_and_a_slow_one_is_told() -> None:
    """Communication is what the mean rank does not compute; the slow rank's share lies in it."""
    means = {"N": 0.2, "C": 0.2, "S": 0.2}
    run = ProfileRun([rank(0, {**means, "B": 0.1}), rank(1, {**means, "B": 0.14})])
    found = document("x", run)
    assert found["depth"] == "L1"
    assert by_name(found) == {"computing": 120, "communicating": 80, "slow rank": 20, "data": 0}
    assert found["first"]["name"] == "communicating"
    assert found["saves"] == {"torch.save": 2}


LATER: dict[str, Any] = {"pid": 9, "began": 40.0, "elapsed_s": 60.0}


@pytest.mark.parametrize("ranks", [[0], [1, 2]])
def test_trainings_one_after_the_other_are_not_mixed(ranks: list[int]) -> None:
    """The largest one is told, by the summaries of its own processes, and others are counted."""
    means = {"N": 0.2, "C": 0.1, "S": 0.2, "B": 0.1}
    first = [rank(number, means, world=4) for number in range(4)]
    world = 4 if len(ranks) > 1 else 1
    then = [rank(number, {"N": 0.9, "C": 0.1}, world=world, **LATER) for number in ranks]
    found = document("x", ProfileRun([*first, *then], [{**SUMMARY, "pid": 9}]))
    assert found["ranks"] == 4
    assert by_name(found) == {"computing": 100, "communicating": 0, "slow rank": 0, "data": 100}
    assert "2 trainings ran: this is the largest one" in found["notes"]


def test_fixing_the_data_would_uncover_communication() -> None:
    """A data stall that hides it: without gradients to synchronise a step is no shorter."""
    run = ProfileRun([rank(n, {"N": 0.3, "C": 0.2, "S": 0.3, "B": 0.12}) for n in (0, 1)])
    found = document("x", run)
    assert any("uncover 80 ms of communication" in note for note in found["notes"])
    assert found["au"] == pytest.approx(2 / 3, abs=0.01)


def test_a_data_stall_is_divided_by_what_workers_did() -> None:
    """100 ms of a worker for a sample: 4 of them a batch, of which most was blocked."""
    run = ProfileRun([rank(0, {"N": 0.2, "C": 0.1}, world=1)], [SUMMARY])
    found = document("x", run)
    of_data = [part["value"] for part in found["parts"] if part["part_of"] == "data"]
    assert sum(of_data) == pytest.approx(found["data"]["value"])
    assert by_name(found)["fetch"] > 80
    assert found["first"]["name"] == "fetch"
    assert "fetch" in "\n".join(lines(found))
    assert "<svg" in page(found)


def test_a_step_without_a_stall_gets_no_advice() -> None:
    """Less than 2.5 % of a step is not worth a word."""
    run = ProfileRun([rank(0, {"N": 0.201, "C": 0.2}, world=1)], [SUMMARY])
    found = document("x", run)
    assert found["first"] is None
    assert any("nothing that can be removed" in line for line in lines(found))


def sent(**ms: float) -> list[dict[str, float]]:
    """Twelve traced steps with so many milliseconds of each kind of collective."""
    return [{name.replace("_", "-"): 1e-3 * value for name, value in ms.items()}] * 12


def traced(number: int, rows: list[dict[str, float]], **other: Any) -> dict[str, Any]:
    """Windows of a rank of FSDP, the traced ones among them."""
    made = rank(number, {"N": 0.3, "C": 0.2, "T": 0.22}, no_sync="FSDP: ...", **other)
    return made | {"windows": [{**one, "sent": rows} for one in made["windows"]]}


def test_traces_tell_what_fsdp_exposes() -> None:
    """The rank that waits least tells what sending takes; the depth names the traces."""
    least = sent(hidden=4, all_gather=30, reduce_scatter=20)
    most = sent(hidden=4, all_gather=40, reduce_scatter=40)
    found = document("x", ProfileRun([traced(0, least), traced(1, most)]))
    assert found["depth"] == "L1+trace"
    parts = by_name(found)
    assert (parts["computing"], parts["communicating"], parts["data"]) == (135, 65, 100)
    assert (parts["all-gather"], parts["reduce-scatter"], parts["slow rank"]) == (30, 20, 15)
    said = "\n".join(lines(found))
    assert "by the profiler's traces" in said
    assert "4 ms of communication a step lie behind computing" in said
    assert "traced steps took 10% longer" in said
    assert "<svg" in page(found)


def test_where_no_trace_came_the_reason_is_told() -> None:
    """One rank's profiler was taken: nothing is guessed of the others."""
    fault = "no trace: RuntimeError: the profiler is in use"
    ranks = [traced(0, sent(hidden=0, all_gather=30)), traced(1, [], no_trace=fault)]
    found = document("x", ProfileRun(ranks))
    assert found["depth"] == "L1"
    assert "communicating" not in by_name(found)
    assert fault in found["notes"]


def test_without_windows_the_probes_word_is_the_answer() -> None:
    """Depth L0: waiting and the rest, and why there were no windows."""
    other = {"rank": 0, "world": 1, "windows": [], "requests": 5, "why_not": "too few steps"}
    run = ProfileRun([rank(0, {}) | other], [SUMMARY])
    found = document("x", run)
    assert (found["depth"], found["why_not"], found["au"]) == ("L0", "too few steps", 0.5)
    parts = by_name(found)
    assert (parts["computing"], parts["data"]) == (100, 100)
    assert "too few steps" in "\n".join(lines(found))
    assert "L0" in page(found)


def test_an_environment_brings_the_probe_and_nothing_else_of_ours() -> None:
    """No directive of a job's reaches it, and trackers are off."""
    base = {
        "SLURM_EXPORT_ENV": "NONE",
        "DLQUEUE_NUM_WORKERS": "8",
        "DLQUEUE_AUTOTUNE": "1",
        "PYTHONPATH": "/mine",
        "HOME": "/h",
    }
    made = environment(Path("/run"), LIMITS, base)
    assert not {"DLQUEUE_NUM_WORKERS", "SLURM_EXPORT_ENV"} & made.keys()
    assert made["DLQUEUE"] == "off"
    assert made["WANDB_MODE"] == "disabled"
    assert made["PYTHONPATH"].endswith(":/mine")
    assert made["DLQUEUE_PROFILE"] == "steps=400,seconds=180,seed=0"


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ({}, ["--time=16", "--export=ALL"]),
        ({"time": "3-00:00:00"}, ["--time=16"]),
        ({"time": "5"}, ["--time=5"]),
        ({"array": "3-99%4"}, ["--array=3"]),
        ({"export": "NONE"}, ["--export=", "DLQUEUE_PROFILE"]),
        ({"export": "ALL,A=1"}, ["--export=ALL,A=1,"]),
    ],
)
def test_sbatch_gets_a_short_job(header: dict[str, str | None], words: list[str]) -> None:
    """The script's own time where that is shorter; one task of an array; the probe's variables."""
    said = " ".join(batch.options(header, "job.sh", LIMITS))
    assert all(word in said for word in words)
    assert "--mail-type=NONE" in said


LINES = [
    ("CUDA_VISIBLE_DEVICES=0 PYTHONPATH=. python train.py", "replaces PYTHONPATH"),
    ("export OMP_NUM_THREADS=8 PYTHONPATH=src", "replaces PYTHONPATH"),
    ("cd src; PYTHONPATH=. python train.py; echo $PYTHON", "replaces PYTHONPATH"),
    ("srun --export=ALL,PYTHONPATH=. python train.py", "replaces PYTHONPATH"),
    ('apptainer exec --env "PYTHONPATH=/lib" x.sif python train.py', "replaces PYTHONPATH"),
    ("unset PYTHONHOME PYTHONPATH", "replaces PYTHONPATH"),
    ("srun python3.11 -u -sE train.py", "leaves the environment out"),
    ("/opt/env/bin/python -I train.py", "leaves the environment out"),
    ("apptainer exec --cleanenv x.sif python train.py", "leaves the environment out"),
    ("srun --export=NONE python train.py", "leaves the environment out"),
    ("export SLURM_EXPORT_ENV=none", "leaves the environment out"),
    ("apptainer exec --nv x.sif python train.py", "runs a container"),
    ("srun /usr/bin/singularity -s run x.sif train.py", "runs a container"),
    ("srun --container-image=nvcr.io/x python train.py", "runs a container"),
    ("#SBATCH --container-image x.sqsh", "runs a container"),
    ("docker run --rm image python train.py", "runs a container"),
    ("chroot /images/torch python train.py", "runs a container"),
    ('sbatch --dependency=afterany:$SLURM_JOB_ID "$0"', "submits a job"),
    ("trap 'sbatch job.sh' USR1", "submits a job"),
    ("echo next: $(/usr/bin/sbatch job.sh)", "submits a job"),
]
HARMLESS = [
    "#SBATCH --export=NONE\n# PYTHONPATH=. python -E; sbatch job.sh",
    "python train.py  # not: PYTHONPATH=. python train.py",
    'echo "PYTHONPATH=src, then sbatch job.sh"',
    'export PYTHONPATH="$(cd .. && pwd)/src:$PYTHONPATH"',
    "CUDA_VISIBLE_DEVICES=0 PYTHONPATH=src:$PYTHONPATH python train.py -E",
    "PYTHONPATH+=:src; unset MY_PYTHONPATH",
    ": ${PYTHONPATH=src}",
    "python -m torch.distributed.run -S train.py",
    "python -mIPython train.py",
    "srun --export=ALL,A=1 python -u train.py --save -S",
    "if command -v sbatch >/dev/null; then echo there; fi",
    "sbatch_options=none",
    f"apptainer exec --bind {PREFIX} x.sif python train.py",
    "module load apptainer",
    "apptainer pull x.sif docker://image  # then: apptainer exec x.sif",
    "mkdir docker; cp chroot.py run",
    "#SBATCH --job-name=singularity exec",
]


@pytest.mark.parametrize(
    ("argv", "script", "why"),
    [
        (["job.sh"], "#!/bin/sh\nexport PYTHONPATH=/lib\npython x.py", "job.sh:2"),
        *((["job.sh"], f"#!/bin/sh\n\n{line}\n", "job.sh:3: " + why) for line, why in LINES),
        (["python3", "-I", "x.py"], None, "ignores PYTHONPATH"),
        (["python", "-uE", "x.py"], None, "ignores PYTHONPATH"),
        (["apptainer", "exec", "x.sif", "python", "x.py"], None, "apptainer runs a container"),
        (["srun", "--container-image=x", "python", "x.py"], None, "srun runs a container"),
    ],
)
def test_what_would_keep_the_probe_out_is_refused(
    argv: list[str], script: str | None, why: str
) -> None:
    """Without it nothing would keep the run from saving."""
    with pytest.raises((InputError, UsageError), match=why):
        check(argv, script)


@pytest.mark.parametrize(
    ("argv", "script"),
    [
        (["job.sh"], "#!/bin/sh\nexport PYTHONPATH=/lib:$PYTHONPATH\npython x.py"),
        (["job.sh"], "#!/bin/sh\nexport PYTHONPATH=/lib:${PYTHONPATH:-}\npython x.py"),
        *((["job.sh"], f"#!/bin/sh\n{line}\n") for line in HARMLESS),
        (["python", "-u", "x.py", "-E"], None),
        (["torchrun", "-E"], None),
        (["python", "x.py", "docker", "run"], None),
        (["apptainer", "exec", f"--bind={PREFIX}", "x.sif", "python", "x.py"], None),
    ],
)
def test_what_lets_the_probe_in_is_not(argv: list[str], script: str | None) -> None:
    """Options of the user's own program are its own."""
    check(argv, script)


@pytest.mark.parametrize(
    "words",
    [
        ["profile"],
        ["profile", "--"],
        ["profile", "--seconds", "0", "x"],
        ["profile", "--steps", "x"],
    ],
)
def test_wrong_usage_is_status_2(words: list[str]) -> None:
    """Nothing to run, or a limit that is none."""
    try:
        status: object = main(words)
    except SystemExit as end:
        status = end.code
    assert status == 2


SBATCH = """#!/bin/sh
echo "$@" > "${0%/*}/words"
for word in "$@"; do case $word in --output=*) out=${word#--output=};; esac; done
echo '{"v": 1, "windows": [], "requests": 0, "why_not": "it was seen", "saves": {}, "files": {}}' \\
  > "${out%/*}/windows-1.json"
echo 17
"""


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Words that name a batch script, and the settings of a Slurm that stands in for one."""
    commands = {"sbatch": SBATCH, "scontrol": "#!/bin/sh\necho JobState=COMPLETED ExitCode=0:0\n"}
    for name, text in commands.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "dlqueue.toml").write_text(f'[paths]\nslurm_bin = "{tmp_path}"\n')
    (tmp_path / "job.sh").write_text("#!/bin/sh\n")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return ["--config", str(tmp_path / "dlqueue.toml"), str(tmp_path / "job.sh")]


def test_a_slurm_that_is_not_on_path_is_used(
    slurm: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The job goes by the sbatch of the folder that the settings name, and is asked for there."""
    assert main(["profile", *slurm]) == 1
    told = capsys.readouterr()
    assert "job 17 is submitted" in told.err
    assert "it was seen" in told.out


def test_sbatchs_variables_do_not_keep_the_probe_out(
    slurm: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the environment asks sbatch for counts as the script's own, and one task is enough."""
    monkeypatch.setenv("SBATCH_EXPORT", "NONE")
    monkeypatch.setenv("SBATCH_ARRAY_INX", "0-9")
    assert main(["profile", *slurm]) == 1
    words = (tmp_path / "words").read_text().split()
    (export,) = (word for word in words if word.startswith("--export="))
    assert {"DLQUEUE_PROFILE", "PYTHONPATH", "WANDB_MODE"} <= set(export[9:].split(","))
    assert "--array=0" in words


def test_a_script_with_options_of_pbs_is_not_profiled(
    slurm: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All ten tasks of an array would measure into one folder; ignored lines do no harm."""
    job = tmp_path / "job.sh"
    job.write_text("#!/bin/sh\ntrue\n#PBS -t 0-9\n")
    assert main(["profile", *slurm]) == 1
    assert f"{job}:3: has #PBS options, which sbatch obeys" in capsys.readouterr().err
    assert not (tmp_path / "words").exists()
    job.write_text("#!/bin/sh\n#SBATCH --ignore-pbs\n#PBS -t 0-9\n")
    assert main(["profile", *slurm]) == 1
    assert (tmp_path / "words").exists()


def test_a_program_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """One clear line."""
    assert main(["profile", "/nowhere/train"]) == 1
    assert "/nowhere/train: cannot be started" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"v": 2}',
        '{"v": 1, "windows": [{"kind": "N", "steps": ["x"]}]}',
        '{"v": 1, "windows": [{"kind": "T", "steps": [], "sent": [{"all-gather": "x"}]}]}',
        "\x00",
    ],
)
def test_a_damaged_file_counts_as_none(tmp_path: Path, text: str) -> None:
    """A process that was killed leaves nothing that hurts."""
    (tmp_path / "windows-1.json").write_text(text)
    assert left(tmp_path, "ended").windows == []


def test_a_batch_script_is_known_by_its_first_line(tmp_path: Path) -> None:
    """As sbatch knows it; a program that is not text is none."""
    (tmp_path / "job.sh").write_text("#!/bin/sh\n")
    (tmp_path / "train.py").write_text("import torch\n")
    (tmp_path / "binary").write_bytes(b"\x7fELF\0")
    assert batch.script_of(str(tmp_path / "job.sh")) == "#!/bin/sh\n"
    assert batch.script_of(str(tmp_path / "train.py")) is None
    assert batch.script_of(str(tmp_path / "binary")) is None
    assert batch.script_of("python") is None
