"""What a batch script says, read without Slurm."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.advisor.pipeline.script import read_script
from slurm_ext.core.errors import InputError


def test_options_are_read_in_every_spelling_of_sbatch() -> None:
    """`-c4`, `-c 4`, `--cpus-per-task=4` and `--cpus-per-task 4` mean the same."""
    for spelled in ("-c4", "-c 4", "--cpus-per-task=4", "--cpus-per-task 4"):
        job = read_script(f"#!/bin/bash\n#SBATCH {spelled} -n 2\n", "job.sh")
        assert (job.cpus_per_task, job.pn_min_cpus, job.min_cpus) == (4, 4, 8)


def test_a_whole_header_becomes_a_submission() -> None:
    """Every option that a decision looks at arrives in its field, in the field's unit."""
    text = """#!/bin/bash
# a comment, then a blank line

#SBATCH --job-name="my training" --account=vision -p gpu,long
#SBATCH --mem-per-cpu=2G --time=1-02:30 -N 1-2 --gres=gpu:a100:2   # two of them
#SBATCH --exclusive=user --comment 'dlqueue=off' --reservation=maint --cpus-per-gpu 4
srun python train.py
#SBATCH -c 64
"""
    job = read_script(text, "dir/job.sh", args=("--lr", "1"), user_name="ada", user_id=7)
    assert (job.name, job.account, job.partition) == ("my training", "vision", "gpu,long")
    assert (job.mem_per_cpu_mib, job.time_limit_minutes) == (2048, 26 * 60 + 30)
    assert (job.min_nodes, job.max_nodes, job.gres) == (1, 2, "gpu:a100:2")
    assert (job.shared, job.comment, job.reservation) == (2, "dlqueue=off", "maint")
    assert job.cpus_per_tres == "gpu:4"
    assert job.cpus_per_task is None  # after the first command nothing counts
    assert job.argv == ("dir/job.sh", "--lr", "1")
    assert (job.user_name, job.user_id, job.script) == ("ada", 7, text)


def test_exclusive_alone_takes_no_word_that_follows() -> None:
    """`--exclusive -c 2` is exclusive, and asks for two CPUs."""
    job = read_script("#!/bin/sh\n#SBATCH --exclusive -c 2\n", "job.sh")
    assert (job.shared, job.cpus_per_task) == (0, 2)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("-c none", "'none' is not a positive count"),
        ("--cpus-per-task=0", "'0' is not a positive count"),
        ("-c", "needs a value"),
        ("--mem=lots", "not a memory size"),
        ("--time=soon", "not a Slurm time"),
        ("-N 1-x", "'x' is not a positive count"),
        ("--exclusive=please", "not one of user, mcs"),
        ("--comment='open", "No closing quotation"),
    ],
)
def test_a_bad_value_is_named_with_file_and_line(line: str, said: str) -> None:
    """The error names the file, the line and what is wrong; there is no silent default."""
    with pytest.raises(InputError, match=said) as error:
        read_script(f"#!/bin/bash\n\n#SBATCH {line}\n", "job.sh")
    assert str(error.value).startswith("job.sh:3: ")


def test_a_file_without_an_interpreter_line_is_no_batch_script() -> None:
    """As sbatch does, a script that does not begin with #! is refused."""
    with pytest.raises(InputError, match="#!/bin/bash"):
        read_script("python train.py\n", "job.sh")


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused_by_name(text: str) -> None:
    """No text makes the reader fail in another way than InputError."""
    script = None
    with suppress(InputError):
        script = read_script("#!/bin/sh\n#SBATCH " + text, "job.sh").script
    assert script is None or script.endswith(text)
