"""Options in the words of the framework that drives a program's loop."""

import pytest

from slurm_ext.core.advice.advice import Advice
from slurm_ext.core.advice.options import OPTIONS, framework_of, option_of

WORKERS = Advice(word="data", action="more_workers", next="", value=4)
BUCKETS = Advice(word="network", action="buckets", next="", value=12)


@pytest.mark.parametrize(
    ("frameworks", "option"),
    [
        ([], "DataLoader(num_workers=4)"),
        (["monai"], "DataLoader(num_workers=4)"),
        (["pytorch_lightning", "timm"], "DataLoader(num_workers=4) in train_dataloader()"),
        (["transformers", "accelerate"], "TrainingArguments(dataloader_num_workers=4), or DataLo"),
        (["timm"], "--workers 4 (train.py), or DataLoader(num_workers=4)"),
        (["accelerate"], "DataLoader(num_workers=4), before accelerator.prepare()"),
    ],
)
def test_workers_are_set_where_the_framework_sets_them(frameworks: list[str], option: str) -> None:
    """A library of models in a loop of the user's own keeps the DataLoader's name beside it."""
    assert option_of(WORKERS, frameworks).startswith(option)


@pytest.mark.parametrize(
    ("framework", "option"),
    [
        ("", "DistributedDataParallel(bucket_cap_mb=12)"),
        ("lightning", "DDPStrategy(bucket_cap_mb=12)"),
        ("accelerate", "DistributedDataParallelKwargs(bucket_cap_mb=12)"),
    ],
)
def test_buckets_are_set_where_the_model_is_wrapped(framework: str, option: str) -> None:
    """By the argument of DistributedDataParallel or its owner."""
    assert option_of(BUCKETS, [framework]) == option


def test_an_option_without_its_value_is_not_named() -> None:
    """A sentence alone is better than an option with a hole."""
    assert option_of(Advice(word="network", action="buckets", next="")) == ""
    assert option_of(Advice(word="storage", action="local_copy", next="")) == ""


def test_every_form_can_be_filled_in() -> None:
    """No option has a name that nobody fills in, and each has a form without a framework."""
    for forms in OPTIONS.values():
        assert "" in forms
        for text in forms.values():
            assert "{" not in text.format(value=1, own="x")


def test_the_driver_is_the_outermost_framework() -> None:
    """Lightning drives loops around models of transformers, which itself imports accelerate."""
    assert framework_of(["accelerate", "transformers", "pytorch_lightning"]) == "lightning"
    assert framework_of(["accelerate", "transformers"]) == "transformers"
    assert framework_of([]) == ""
