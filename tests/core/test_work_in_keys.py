"""Which words of a script make other work of it: numbers, programs, folders."""

from dataclasses import replace

import pytest

from slurm_ext.core.job_keys import job_signature, keys_of
from slurm_ext.core.records import Level, Submission

JOB = Submission(user_name="ada", work_dir="/home/ada/mnist", argv=("job.sh",))


def key(script: str, level: Level = Level.SCRIPT, work_dir: str = JOB.work_dir) -> int | None:
    """The script's key on one level."""
    return keys_of(replace(JOB, script=script, work_dir=work_dir)).get(level)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("python train.py 0", "python train.py 2"),
        ("python train.py --batch-size 32", "python train.py --batch-size 256"),
        ("python train.py -b32", "python train.py -b64"),
        ("python train.py --batch=32 --seed 1", "python train.py --batch=64 --seed 1"),
        ("BATCH=32 python train.py", "BATCH=64 python train.py"),
        ("python train.py --data-dir /data/cifar10", "python train.py --data-dir /data/cifar100"),
        ("python train.py --model-name vit16", "python train.py --model-name vit32"),
        ("python train.py --dataset_name c10", "python train.py --dataset_name c100"),
        ("python train.py --sample-rate 16000", "python train.py --sample-rate 44100"),
        ("python train.py --resume --batch=32", "python train.py --resume --batch=64"),
        ("srun -n 2 python train.py", "srun -n 4 python train.py"),
        ("export OMP_NUM_THREADS=1\npython train.py", "export OMP_NUM_THREADS=8\npython train.py"),
        ("python train.py --epochs 3 2", "python train.py --epochs 3 4"),
        ("python train.py --seed\n2", "python train.py --seed\n3"),
        ("python train.py a/2026-01-02/1024", "python train.py a/2026-01-02/2048"),
    ],
)
def test_a_number_that_may_change_the_work_makes_another_script(one: str, other: str) -> None:
    """What `train.py 0` taught says nothing of `train.py 2`."""
    assert key(one) != key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("python train.py --seed 1", "python train.py --seed 42"),
        ("python train.py --random-seed=1", "python train.py --random-seed=42"),
        ("SEED=1 python train.py --seed $SEED", "SEED=2 python train.py --seed $SEED"),
        ("python train.py trainer.seed=1", "python train.py trainer.seed=22"),
        ("python train.py --lr 1e-3", "python train.py --lr 3e-4"),
        ("python train.py --lr 1e-3", "python train.py --lr 0.1"),
        ("python train.py --optimizer.lr=0.1", "python train.py --optimizer.lr=0.02"),
        ("python train.py --learning_rate 0.1", "python train.py --learning_rate 0.05"),
        ("export MASTER_PORT=29500\npython train.py", "export MASTER_PORT=29511\npython train.py"),
        ("torchrun --rdzv-port 1 train.py", "torchrun --rdzv-port 12 train.py"),
        ("python train.py --output-dir out/7", "python train.py --output-dir out/12"),
        ("python train.py --log_dir=logs/run3", "python train.py --log_dir=logs/run44"),
        ("python train.py --run-name ab-1", "python train.py --run-name ab-22"),
        ("python train.py --name r1", "python train.py --name r2"),
        ("python train.py --to a/2026-01-02", "python train.py --to a/2026-11-22"),
        ("python train.py --to a/20260102_1530", "python train.py --to a/20261122_0915"),
        ("python train.py --to a/2026/01/02", "python train.py --to a/2026/11/22"),
        (
            "python train.py --to a/2026-01-02/15-30-12",
            "python train.py --to a/2026-11-22/09-15-00",
        ),
        ("python train.py --to a/2026/01/02/15.30", "python train.py --to a/2026/11/22/09.15"),
        ("#SBATCH --array=0-3\npython train.py", "#SBATCH --array=0-99%4\npython train.py"),
    ],
)
def test_a_number_that_only_seeds_names_or_places_a_run_does_not(one: str, other: str) -> None:
    """They are one script with other arguments: pooled, and only on the nearest level apart."""
    assert key(one) == key(other)
    signed = [job_signature(keys_of(replace(JOB, script=script))) for script in (one, other)]
    assert signed[0] == signed[1] is not None


def test_an_option_at_the_very_end_has_no_value() -> None:
    """`--seed` as the last word is a word like any other."""
    assert key("python train.py --seed") == key("python train.py --seed")
    assert key("python train.py --seed") != key("python train.py --batch")


def test_tasks_of_an_array_are_one_job() -> None:
    """They are submitted at once, and the index is a variable's name to the script."""
    script = "python train.py --seed $SLURM_ARRAY_TASK_ID"
    job = replace(JOB, script=script)
    assert keys_of(replace(job, array="0-9")) == keys_of(job)


@pytest.mark.parametrize(
    ("one", "there", "other", "here", "alike"),
    [
        ("python main.py", "/home/ada/mnist", "python main.py", "/home/ada/dcgan", False),
        ("python main.py", "/home/ada/mnist", "python main.py", "/scratch/mnist", True),
        ("python mnist/main.py", "/home/ada", "python main.py", "/home/ada/mnist", True),
        ("cd mnist\npython main.py", "/home/ada", "python main.py", "/home/ada/mnist", True),
        ("cd $HOME/mnist && python main.py", "/x", "python main.py", "/home/ada/mnist", True),
        ("cd $SLURM_SUBMIT_DIR\npython main.py", "/a/b", "python main.py", "/a/b", True),
        ("python ./x/../main.py", "/home/ada/mnist", "python main.py", "/home/ada/mnist", True),
        ("python src/train.py", "/p/unet", "python src/train.py", "/p/vit", False),
        ("python src/train.py", "/p/unet", "cd src; python train.py", "/p/unet", True),
        ("python train.py", "/p/2026-01-02", "python train.py", "/p/2026-11-22", True),
        ("python train.py", "/p/2026/01/02", "python train.py", "/p/2026/11/22", True),
        ("python a/2026/01/02/train.py", "/p", "python a/2026/11/22/train.py", "/p", True),
        ("cd 2026-01-02/15-30-12; python train.py", "/p", "python train.py", "/p/2026-11-22", True),
        ("python train.py", "/p/cifar10", "python train.py", "/p/cifar100", False),
        ("python -m pkg.train", "/p/one", "python -m pkg.train", "/p/two", True),
        ("python -m train", "/p/one", "python -m train", "/p/two", False),
    ],
)
def test_a_program_is_its_path_within_the_project(
    one: str, there: str, other: str, here: str, alike: bool
) -> None:
    """`main.py` of one example is not that of another; a checkout elsewhere is the same."""
    kinds = [key(one, Level.KIND, work_dir=there), key(other, Level.KIND, work_dir=here)]
    assert None not in kinds
    assert (kinds[0] == kinds[1]) is alike
    if not alike:
        assert key(one, work_dir=there) != key(other, work_dir=here)
