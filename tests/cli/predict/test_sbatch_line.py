"""`dlqueue predict sbatch ...` takes sbatch's own command line."""

from pathlib import Path

import pytest

from slurm_ext.cli import main
from slurm_ext.cli.predict.sbatch_line import read_line
from slurm_ext.cli.predict.script_file import submission
from slurm_ext.core.errors import UsageError


@pytest.mark.parametrize(
    ("typed", "options", "script", "wrap", "args"),
    [
        ("-c2 job.sh", ["-c2"], "job.sh", None, []),
        ("-c 2 job.sh -c 9", ["-c", "2"], "job.sh", None, ["-c", "9"]),
        ("--hold -W --exclusive job.sh a", ["--hold", "-W", "--exclusive"], "job.sh", None, ["a"]),
        ("--mem 4G --time=5 -- job.sh", ["--mem", "4G", "--time=5"], "job.sh", None, []),
        ("-c 2 --wrap hostname -n1", ["-c", "2", "-n1"], None, "hostname", []),
        ("--wrap=hostname", [], None, "hostname", []),
        ("--exclus job.sh other.sh", ["--exclus"], "job.sh", None, ["other.sh"]),
        ("--hol --stepmgr job.sh", ["--hol", "--stepmgr"], "job.sh", None, []),
        ("--part gpu job.sh", ["--part", "gpu"], "job.sh", None, []),
        ("--wra hostname", [], None, "hostname", []),
        ("--wr=hostname -Hn 2", ["-Hn", "2"], None, "hostname", []),
        ("-Hc 4 job.sh", ["-Hc", "4"], "job.sh", None, []),
        ("-HWc4 job.sh", ["-HWc4"], "job.sh", None, []),
        ("-HW job.sh", ["-HW"], "job.sh", None, []),
    ],
)
def test_options_end_where_the_job_begins(
    typed: str, options: list[str], script: str | None, wrap: str | None, args: list[str]
) -> None:
    """As in sbatch: a value may be a word apart, and what follows the script is the script's."""
    assert read_line(typed.split()) == (tuple(options), script, wrap, tuple(args))


@pytest.mark.parametrize("typed", ["", "-c2", "-c", "--wrap=x job.sh"])
def test_a_line_without_a_job_is_wrong_usage(typed: str) -> None:
    """Neither a script nor a command, or both."""
    with pytest.raises(UsageError, match=r"predict sbatch job\.sh"):
        read_line(typed.split())


def test_what_is_typed_overrides_the_script(tmp_path: Path) -> None:
    """The script's text, and so its keys, stays what sbatch would submit."""
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n#SBATCH -c 2 -J mine\npython train.py\n")
    typed = submission("sbatch", ("-c", "4", str(script), "--lr", "1"))
    assert (typed.cpus_per_task, typed.name) == (4, "mine")
    assert typed.argv == (str(script), "--lr", "1")
    assert typed.script == submission(str(script), ()).script


@pytest.mark.parametrize("typed", ["-Hc4", "-Hc 4", "-sc 4", "--hol --cpus-per-t 4"])
def test_flags_before_an_option_do_not_hide_it(typed: str, tmp_path: Path) -> None:
    """They may be in one word with it, as sbatch has it, and names may be cut."""
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n#SBATCH -Hc 2\n")
    assert submission(str(script), ()).cpus_per_task == 2
    job = submission("sbatch", (*typed.split(), str(script)))
    assert (job.cpus_per_task, job.shared) == (4, 1 if "s" in typed.split("-")[1] else None)


def test_a_wrapped_command_is_the_script_that_sbatch_makes() -> None:
    """Byte by byte as slurmctld got it from Slurm 22.05."""
    job = submission("sbatch", ("-c2", "--wrap=python train.py"))
    head = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n"
    assert (job.name, job.script) == ("wrap", f"{head}python train.py\n")


def test_a_wrapped_command_has_no_options_of_pbs() -> None:
    """It is no batch script in which sbatch looks for them."""
    assert submission("sbatch", ("--wrap=true\n#PBS -t 0-9",)).array is None


def test_options_of_pbs_are_told_with_their_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An answer for the job that they leave out would be for another job."""
    script, config = tmp_path / "job.sh", tmp_path / "dlqueue.toml"
    script.write_text("#!/bin/sh\n#SBATCH -c 2\n#PBS -t 0-9\ntrue\n")
    config.write_text(f'[paths]\nstate_dir = "{tmp_path}"\nsocket = "{tmp_path}/none.sock"\n')
    words = ["predict", "--config", str(config)]
    assert main([*words, str(script)]) == 1
    assert f"{script}:3: has #PBS options, which sbatch obeys" in capsys.readouterr().err
    assert main([*words, "sbatch", "--ignore-pbs", str(script)]) == 0


def test_the_line_is_answered_without_a_dash_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Words behind sbatch are not this command's options."""
    config = tmp_path / "dlqueue.toml"
    config.write_text(f'[paths]\nstate_dir = "{tmp_path}"\nsocket = "{tmp_path}/none.sock"\n')
    assert main(["predict", "--config", str(config), "sbatch", "-c2", "--wrap=true"]) == 0
    assert capsys.readouterr().out.startswith("wrap: left as it is: I do not know yet")
    assert main(["predict", "--what-if", "sbatch", "--", "-c2", "job.sh"]) == 2
