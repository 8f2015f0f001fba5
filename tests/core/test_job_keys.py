"""Similarity keys: what makes two submissions alike, and what does not."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.core.job_keys import keys_of, user_name_key
from slurm_ext.core.records import Level, Submission

SCRIPT = "#!/bin/bash\n#SBATCH -c 2\nsrun python train.py --lr 0.1\n"
JOB = Submission(name="train-7", user_name="ada", script=SCRIPT, argv=("job.sh", "x"))


def same(one: Submission, other: Submission) -> set[Level]:
    """The levels on which two submissions are alike."""
    a, b = keys_of(one), keys_of(other)
    return {level for level in Level if level in a and a[level] == b.get(level)}


def test_a_resubmission_is_alike_on_every_level() -> None:
    """The same file again meets all its own runs."""
    assert same(JOB, replace(JOB)) == set(Level)


def test_how_much_was_asked_for_does_not_tell_jobs_apart() -> None:
    """#SBATCH lines, comments and blank lines are not what a job does."""
    other = "#!/bin/sh\n#SBATCH -c 16\n\n# my job\n  srun python train.py --lr 0.1\n"
    assert same(JOB, replace(JOB, script=other, cpus_per_task=16)) == set(Level)


def test_other_numbers_are_the_same_script_with_other_arguments() -> None:
    """A sweep over a learning rate stays one script."""
    other = replace(JOB, script=SCRIPT.replace("0.1", "0.2"))
    assert same(JOB, other) == set(Level) - {Level.SCRIPT_ARGS}


def test_arguments_of_sbatch_count_only_on_the_nearest_level() -> None:
    """`sbatch job.sh y` is the same script with other arguments."""
    assert same(JOB, replace(JOB, argv=("job.sh", "y"))) == set(Level) - {Level.SCRIPT_ARGS}


def test_another_users_training_of_the_same_program_is_of_the_same_kind() -> None:
    """Programs tie users together where nothing nearer does."""
    other = replace(JOB, user_name="bob", script="python /opt/train.py --data here\n")
    assert same(JOB, other) == {Level.KIND, Level.CLUSTER}


def test_numbers_in_a_job_name_do_not_tell_jobs_apart() -> None:
    """train-7 and train-8 are one user's same job; another user's are not."""
    assert user_name_key("ada", "train-7") == user_name_key("ada", "train-8")
    assert user_name_key("ada", "train-7") != user_name_key("bob", "train-7")


def test_without_a_script_there_is_only_user_and_cluster() -> None:
    """Neither salloc nor srun shows a script: no key is invented for what is not known."""
    assert set(keys_of(replace(JOB, script=None))) == {Level.USER_NAME, Level.CLUSTER}


def test_parts_do_not_run_into_each_other() -> None:
    """User "ab" with job "c" is not user "a" with job "bc"."""
    assert user_name_key("ab", "c") != user_name_key("a", "bc")


@given(st.text(max_size=300), st.lists(st.text(max_size=20), max_size=4), st.text(max_size=20))
def test_any_text_has_keys_that_sqlite_can_hold(script: str, argv: list[str], name: str) -> None:
    """Whatever a user submits, keys are signed 64-bit numbers and repeatable."""
    job = Submission(name=name, script=script, argv=tuple(argv))
    keys = keys_of(job)
    assert keys == keys_of(job)
    assert all(-(1 << 63) <= key < 1 << 63 for key in keys.values())


def test_the_same_words_in_another_folder_or_hand_are_another_training() -> None:
    """`python train.py` runs what lies in its folder; only its own user's runs are near."""
    assert same(JOB, replace(JOB, work_dir="/elsewhere")) == set(Level) - {Level.SCRIPT_ARGS}
    assert same(JOB, replace(JOB, user_name="bob")) == {Level.KIND, Level.CLUSTER}


def test_a_job_that_nobody_named_is_alike_to_no_other_by_its_name() -> None:
    """Scripts that come through a pipe are all called sbatch, wrapped ones wrap."""
    for name in ("sbatch", "wrap", ""):
        assert Level.USER_NAME not in keys_of(replace(JOB, name=name))
