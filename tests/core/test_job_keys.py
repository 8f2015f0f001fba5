"""Similarity keys: what makes two submissions alike, and what does not."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.core.job_keys import job_signature, keys_of, record_keys, user_name_key
from slurm_ext.core.records import Level, Submission

SCRIPT = "#!/bin/bash\n#SBATCH -c 2\nsrun python train.py --lr 0.1\n"
JOB = Submission(
    name="train-7",
    user_name="ada",
    account="lab",
    script=SCRIPT,
    argv=("job.sh", "x"),
    work_dir="/home/ada/mnist",
)


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


def test_a_sweep_over_a_learning_rate_stays_one_script() -> None:
    """Its steps take as long at any rate."""
    other = replace(JOB, script=SCRIPT.replace("0.1", "0.2"))
    assert same(JOB, other) == set(Level) - {Level.SCRIPT_ARGS}


def test_arguments_of_sbatch_are_the_scripts() -> None:
    """`sbatch job.sh y` is other work; `sbatch job.sh x --seed 3` is work with another seed."""
    other = set(Level) - {Level.SCRIPT_ARGS, Level.SCRIPT}
    assert same(JOB, replace(JOB, argv=("job.sh", "y"))) == other
    one, two = (replace(JOB, argv=("job.sh", "--seed", seed)) for seed in "12")
    assert same(one, two) == set(Level) - {Level.SCRIPT_ARGS}


def test_another_users_training_of_the_same_program_is_of_the_same_kind() -> None:
    """Programs tie users together where nothing nearer does."""
    other = replace(JOB, user_name="bob", script="python /opt/mnist/train.py --data here\n")
    assert same(JOB, other) == {Level.ACCOUNT_KIND, Level.KIND, Level.CLUSTER}
    assert same(JOB, replace(other, account="physics")) == {Level.KIND, Level.CLUSTER}


def test_users_without_a_name_are_told_apart_by_their_numbers() -> None:
    """Equal names of jobs do not make one user of two whose names the cluster does not know."""
    one, other = (replace(JOB, user_name="", user_id=uid) for uid in (1001, 1002))
    assert same(one, other) == {Level.ACCOUNT_KIND, Level.KIND, Level.CLUSTER}
    assert same(one, replace(one)) == set(Level)
    assert record_keys("", "train") == record_keys(None, "train")


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
    copy = replace(JOB, work_dir="/scratch/mnist")
    assert same(JOB, copy) == set(Level) - {Level.SCRIPT_ARGS}
    assert same(JOB, replace(JOB, work_dir="/home/ada/imagenet")) == {
        Level.USER_NAME,
        Level.CLUSTER,
    }
    assert same(JOB, replace(JOB, user_name="bob")) == {
        Level.ACCOUNT_KIND,
        Level.KIND,
        Level.CLUSTER,
    }


def test_a_job_that_nobody_named_is_alike_to_no_other_by_its_name() -> None:
    """Scripts from a pipe are all called sbatch, wrapped ones wrap, those of submitit submitit."""
    for name in ("sbatch", "wrap", "submitit", ""):
        assert Level.USER_NAME not in keys_of(replace(JOB, name=name))


def test_a_name_of_any_bytes_has_a_key() -> None:
    """What is not UTF-8 arrives as surrogates, and they tell names apart."""
    assert user_name_key("ada", "a\udc80") != user_name_key("ada", "a\udc81")


def test_keys_are_the_same_in_every_release() -> None:
    """Histories hold them: another number would make strangers of all earlier runs."""
    job = replace(JOB, work_dir="/home/ada")
    assert keys_of(job) == {
        Level.SCRIPT_ARGS: -5229684609927070870,
        Level.SCRIPT: 5423237554814061363,
        Level.USER_NAME: 3128429233052506228,
        Level.KIND: -1555995288684849208,
        Level.OWN_KIND: -5113776898742258471,
        Level.ACCOUNT_KIND: -6618463043218308787,
        Level.CLUSTER: -7431966638678001207,
    }
    assert job_signature(keys_of(job)) == "cb4335d293400b33"


@pytest.mark.parametrize(
    ("keys", "signature"),
    [
        ({Level.SCRIPT: 0, Level.USER_NAME: 5}, "8000000000000000"),
        ({Level.USER_NAME: -(1 << 63)}, "0000000000000000"),
        ({Level.SCRIPT: (1 << 63) - 1}, "ffffffffffffffff"),
        ({Level.SCRIPT_ARGS: 1, Level.KIND: 2, Level.CLUSTER: 3}, None),
        ({}, None),
    ],
)
def test_a_signature_is_the_scripts_else_the_names(
    keys: dict[Level, int], signature: str | None
) -> None:
    """16 hexadecimal digits of the signed key; nothing further away names a job."""
    assert job_signature(keys) == signature


def test_a_script_that_is_not_seen_whole_is_like_no_other() -> None:
    """What follows the part that was seen may be anything; name and user are still known."""
    assert set(keys_of(replace(JOB, script_truncated=True))) == {Level.USER_NAME, Level.CLUSTER}


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("python a.py", "python3 -u /opt/mnist/a.py", True),
        ("python a.py", "python b.py", False),
        ("python a.py b.py", "python b.py a.py", True),
        ("python a.py", "python a.py b.py", False),
        ("python -m pkg.train", "torchrun -m pkg.train --x 1", True),
        ("python -m pkg.train", "python -m pkg.test", False),
        ("python -m a.py", "python a.py", True),
        ("python -m d/a.py", "python d/a.py", True),
        ("python -m folder/train.py", "python folder/train.py", True),
        ("python -m pkg x -m other", "python -m other; python -m pkg", True),
        ("python -m one -m two", "python -m two -m one", True),
        ("python -m  one", "python -m one", True),
        ("python x-m one -m two", "python -m two", True),
        ("python -m\npython -m one", "python -m one", True),
        ("-m -m one", "-m -m -m one", True),
    ],
)
def test_programs_make_the_kind(one: str, other: str, alike: bool) -> None:
    """Files in their folders, and modules, in any order; nothing else of the line."""
    kinds = [keys_of(replace(JOB, script=script)).get(Level.KIND) for script in (one, other)]
    assert None not in kinds
    assert (kinds[0] == kinds[1]) is alike


def test_a_script_without_commands_has_the_key_that_histories_have() -> None:
    """Its empty text is no line: a key that changes would forget what its runs taught."""
    job = Submission(script="#!/bin/sh\n", user_name="ada", work_dir="/home/ada", argv=("job.sh",))
    assert keys_of(job)[Level.SCRIPT_ARGS] == -4206234248522724040
    assert keys_of(replace(job, script="")) == keys_of(job)


@pytest.mark.parametrize(
    "script",
    [
        *("", "\n# nothing\n", "echo hello.pyc", "ls -mine", "tar -m"),
        "srun --output /tmp/%j/log python -u -m submitit.core._submit /tmp/%j",
        "python -m papermill train.ipynb out.ipynb -p lr 0.1",
    ],
)
def test_without_a_program_there_is_no_kind(script: str) -> None:
    """A script of commands alone is like its own runs only; so is one of a pickle or notebook."""
    keys = keys_of(replace(JOB, script=script))
    assert Level.KIND not in keys
    assert {Level.SCRIPT, Level.SCRIPT_ARGS} <= keys.keys()
