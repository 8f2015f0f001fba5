"""Every #SBATCH option that a script may hold, as a Submission."""

from dataclasses import replace
from typing import Any

import pytest

from slurm_ext.advisor.pipeline.sbatch_options import environment_options, options_of
from slurm_ext.advisor.pipeline.script import read_script
from slurm_ext.core.errors import InputError
from slurm_ext.core.records import (
    Submission,
)


def read(*lines: str, **options: Any) -> Submission:
    """The submission of a script with these #SBATCH options."""
    text = "#!/bin/sh\n" + "".join(f"#SBATCH {line}\n" for line in lines)
    return read_script(text, "job.sh", **options)


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("-A a", {"account": "a"}),
        ("--account=a", {"account": "a"}),
        ("-a 0-3", {"array": "0-3"}),
        ("--array 0-3", {"array": "0-3"}),
        ("-D /tmp/x", {"work_dir": "/tmp/x"}),
        ("--chdir=/tmp/x", {"work_dir": "/tmp/x"}),
        ("--comment=c", {"comment": "c"}),
        ("-C f", {"features": "f"}),
        ("--constraint=f", {"features": "f"}),
        ("--cpus-per-gpu=3", {"cpus_per_tres": "gpu:3"}),
        ("-c 3", {"cpus_per_task": 3, "pn_min_cpus": 3, "min_cpus": 3}),
        ("--gpu-bind=closest", {"tres_bind": "closest"}),
        ("--gpu-freq=low", {"tres_freq": "low"}),
        ("-J n", {"name": "n"}),
        ("--job-name=n", {"name": "n"}),
        ("--mem=2G", {"mem_per_node_mib": 2048}),
        ("--mem=1K", {"mem_per_node_mib": 1}),
        ("--mem-per-cpu=1025K", {"mem_per_cpu_mib": 2}),
        ("--mem-per-gpu=1G", {"mem_per_tres": "1G"}),
        ("-n 2", {"num_tasks": 2}),
        ("--ntasks=2", {"num_tasks": 2}),
        ("--ntasks-per-gpu=2", {"ntasks_per_tres": 2}),
        ("--ntasks-per-node=2", {"ntasks_per_node": 2}),
        ("-p a,b", {"partition": "a,b"}),
        ("--partition=a", {"partition": "a"}),
        ("--prefer=f", {"prefer": "f"}),
        ("-q q", {"qos": "q"}),
        ("--qos=q", {"qos": "q"}),
        ("--reservation=r", {"reservation": "r"}),
        ("-t 1:30", {"time_limit_minutes": 2}),
        ("--time=90", {"time_limit_minutes": 90}),
        ("--time=UNLIMITED", {"time_limit_minutes": None}),
        ("-N 2", {"min_nodes": 2, "max_nodes": 2}),
        ("--nodes=1-3", {"min_nodes": 1, "max_nodes": 3}),
        ("--exclusive", {"shared": 0}),
        ("--exclusive=user", {"shared": 2}),
        ("--exclusive=mcs", {"shared": 3}),
        ("-s", {"shared": 1}),
        ("--oversubscribe", {"shared": 1}),
        ("hetjob", {"het_offset": 0}),
        ("packjob", {"het_offset": 0}),
        ("-G 2", {"tres_per_job": "gpu:2", "gres": "gpu:2"}),
        ("--gpus=a100:2", {"tres_per_job": "gpu:a100:2", "gres": "gpu:a100:2"}),
        ("--gpus-per-node=2", {"tres_per_node": "gpu:2", "gres": "gpu:2"}),
        ("--gpus-per-task=2", {"tres_per_task": "gpu:2", "gres": "gpu:2"}),
        ("--gpus-per-socket=2", {"tres_per_socket": "gpu:2", "gres": "gpu:2"}),
        ("--gres=gpu:2,tmp:1", {"tres_per_node": "gpu:2,tmp:1", "gres": "gpu:2,tmp:1"}),
        (
            "--gres=tmp:1 --gpus-per-node=2",
            {"tres_per_node": "tmp:1,gpu:2", "gres": "tmp:1,gpu:2"},
        ),
        ("--mail-user=x -x n1 other", {}),
        ("", {}),
    ],
)
def test_each_option_in_its_field(line: str, fields: dict[str, Any]) -> None:
    """And in no other: all that is not written stays as it was."""
    script = f"#!/bin/sh\n#SBATCH {line}\n"
    plain = Submission(name="job.sh", script=script, argv=("job.sh",))
    assert read(line) == replace(plain, **fields)


def test_what_is_not_in_the_script_comes_from_the_caller() -> None:
    """User, folder, arguments and environment; the name is the file's."""
    text = "#!/bin/sh\n"
    assert read_script(text, "a/b.sh") == Submission(name="b.sh", script=text, argv=("a/b.sh",))
    assert read_script(
        text, "a/b.sh", args=("x",), user_name="u", user_id=3, work_dir="/w", env={"A": "1"}
    ) == Submission(
        name="b.sh",
        script=text,
        argv=("a/b.sh", "x"),
        user_name="u",
        user_id=3,
        work_dir="/w",
        env={"A": "1"},
    )


def test_min_cpus_are_those_of_all_tasks() -> None:
    """Whatever stands first in the script."""
    assert read("-n 3", "-c 4").min_cpus == read("-c 4 -n 3").min_cpus == 12


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("--mem", "--mem: needs a value"),
        ("--nodes=", "--nodes: needs a value"),
        ("--gpus", "--gpus: needs a value"),
        ("-c 0", "--cpus-per-task: '0' is not a positive count"),
        ("-c ²", "--cpus-per-task: '²' is not a positive count"),
        ("-c 2147483648", "--cpus-per-task: '2147483648' is not a positive count"),
        ("-N 2-", "--nodes: '' is not a positive count"),
        ("--exclusive=no", "--exclusive: 'no' is not one of user, mcs"),
        ('--comment="x', "No closing quotation in '#SBATCH --comment=\"x'"),
    ],
)
def test_a_bad_option_is_named_to_the_word(line: str, why: str) -> None:
    """File, line, option and value."""
    with pytest.raises(InputError) as caught:
        read("-J x", line)
    assert str(caught.value) == f"job.sh:3: {why}"


def test_a_text_that_is_no_script_is_refused_to_the_word() -> None:
    """With the line that is missing."""
    with pytest.raises(InputError) as caught:
        read_script("", "x")
    assert str(caught.value) == (
        "x: is not a batch script: it has to begin with #! as in #!/bin/bash; "
        "`dlqueue run` runs a program without one"
    )


def test_the_largest_count_is_read() -> None:
    """A count of Slurm has 31 bits."""
    assert read("-c 1 -n 2147483647").num_tasks == 2147483647


def test_options_end_at_the_first_command_and_comments_are_passed() -> None:
    """Blank lines and comments are not commands; what follows a # is a comment."""
    text = (
        "#!/bin/sh\n\n# x\n  \n#SBATCH --mem=1 -x n1 --exclusive # -n 3\n"
        "#SBATCHX\n#SBATCH -c -n2 --flag --mem 5 hetjob word\ntrue\n#SBATCH -p z\n"
    )
    assert options_of(text, "s") == {
        "mem": "5",
        "exclusive": "",
        "cpus-per-task": None,
        "ntasks": "2",
        "flag": None,
        "hetjob": None,
    }


@pytest.mark.parametrize(
    ("written", "whole"),
    [
        ("runs", "/home/a/runs"),
        (".", "/home/a/."),
        ("./b/../c", "/home/a/./b/../c"),
        ("/x/../y", "/x/../y"),
    ],
)
def test_a_relative_folder_is_made_whole_as_sbatch_does(written: str, whole: str) -> None:
    """By joining it to the folder where sbatch was typed: the job's keys rest on that text."""
    assert read(f"--chdir={written}", work_dir="/home/a").work_dir == whole


def test_an_indented_comment_ends_no_options() -> None:
    """A line whose first character is # behind blanks is a comment, and no option either."""
    text = "#!/bin/sh\n  # x\n #SBATCH -t 7\n#SBATCH --array=1-9\n\ttrue\n#SBATCH -t 8\n"
    assert options_of(text, "s") == {"array": "1-9"}


def test_the_beginning_of_a_name_is_enough() -> None:
    """As sbatch takes --part for --partition; one that several begin with stays as it is."""
    assert read("--part=a", "--arr 1-3").partition == "a"
    text = "#!/bin/sh\n#SBATCH --ex=user --part a --cpus-per-t=2 --nod=1 --=2\n"
    assert options_of(text, "s") == {
        "ex": "user",
        "partition": "a",
        "cpus-per-task": "2",
        "nodes": "1",
        "": "2",
    }


def test_the_last_of_two_equal_gpu_options_counts() -> None:
    """Those of the script, the environment and the command line are not added up."""
    job = read("--gres=gpu:1", "--gres=gpu:3", "-G 8", typed=["--gpus=2"])
    assert (job.tres_per_node, job.tres_per_job, job.gres) == ("gpu:3", "gpu:2", "gpu:3,gpu:2")


def test_the_environment_stands_between_the_script_and_what_is_typed() -> None:
    """SBATCH_PARTITION overrides -p of the script, and -p of the command line overrides both."""
    exported = environment_options(
        {"SBATCH_PARTITION": "b", "SBATCH_TIMELIMIT": "90", "SBATCH_QOS": "", "HOME": "/"}
    )
    job = read("-p a -t 30 -A lab", exported=exported, typed=["-t", "5"])
    assert (job.partition, job.time_limit_minutes, job.account, job.qos) == ("b", 5, "lab", None)


def test_exclusive_needs_no_value_in_the_environment() -> None:
    """All other variables say nothing when they are empty."""
    named = ("EXCLUSIVE", "GPUS", "ARRAY_INX", "MEM_PER_NODE")
    assert environment_options({f"SBATCH_{name}": "" for name in named}) == {"exclusive": ""}
    given = environment_options({f"SBATCH_{name}": "1" for name in named})
    assert given == {"exclusive": "1", "gpus": "1", "array": "1", "mem": "1"}


@pytest.mark.parametrize(
    ("line", "tasks"),
    [
        ("--gpus=4 --ntasks-per-gpu=2", 8),
        ("-N1 --gpus-per-node=4 --ntasks-per-gpu=1", 4),
        ("-N1 --gres=gpu:4 --ntasks-per-gpu=1", 4),
        ("--gpus=4 --gpus-per-task=2", 2),
        ("--gpus-per-task=2", None),
        ("--gpus=4", None),
        ("-n 3 --gpus=4 --ntasks-per-gpu=2", 3),
    ],
)
def test_tasks_by_the_gpu_are_worked_out(line: str, tasks: int | None) -> None:
    """As sbatch 22.05 was seen to send them: CPUs are shared among all of them."""
    assert read(line).num_tasks == tasks
    assert read(f"{line} -c 2").min_cpus == 2 * (tasks or 1)
