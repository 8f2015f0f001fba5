"""Options that an advice asks for, in the words of the program's framework.

Names are those that the frameworks document: torch's DataLoader, DistributedDataParallel and
ddp_comm_hooks; Lightning's DDPStrategy, which hands its other arguments to
DistributedDataParallel; TrainingArguments of transformers; DistributedDataParallelKwargs of
accelerate; the arguments of timm's train.py. transformers and timm are also libraries of models in
loops of the user's own: there the DataLoader's name holds, and both are named.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from slurm_ext.core.advice.advice import Advice

_LIGHTNING = "lightning"
_ALIASES = {"pytorch_lightning": _LIGHTNING}
# The first of these that a program imported drives its loop: Lightning programs import models of
# transformers and timm, and transformers imports accelerate.
DRIVERS = (_LIGHTNING, "transformers", "timm", "accelerate")
_OWN = "{own}"  # the same in a loop of the user's own

OPTIONS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "num_workers": {
            "": "DataLoader(num_workers={value})",
            _LIGHTNING: "DataLoader(num_workers={value}) in train_dataloader() of the module or"
            " the LightningDataModule",
            "transformers": "TrainingArguments(dataloader_num_workers={value}), or " + _OWN,
            "timm": "--workers {value} (train.py), or " + _OWN,
            "accelerate": "{own}, before accelerator.prepare()",
        },
        "persistent_workers": {
            "": "DataLoader(persistent_workers=True)",
            _LIGHTNING: "DataLoader(persistent_workers=True) in train_dataloader() of the module"
            " or the LightningDataModule",
            "transformers": "TrainingArguments(dataloader_persistent_workers=True), or " + _OWN,
            "timm": "{own} (timm.data.create_loader has it already)",
            "accelerate": "{own}, before accelerator.prepare()",
        },
        "deeper_prefetch": {
            "": "DataLoader(prefetch_factor={value}) or DataLoader(in_order=False)",
            _LIGHTNING: "DataLoader(prefetch_factor={value}) or DataLoader(in_order=False) in"
            " train_dataloader() of the module or the LightningDataModule",
            "transformers": "TrainingArguments(dataloader_prefetch_factor={value}), or " + _OWN,
            "accelerate": "{own}, before accelerator.prepare()",
        },
        "buckets": {
            "": "DistributedDataParallel(bucket_cap_mb={value})",
            _LIGHTNING: "DDPStrategy(bucket_cap_mb={value})",
            "transformers": "TrainingArguments(ddp_bucket_cap_mb={value}), or " + _OWN,
            "accelerate": "DistributedDataParallelKwargs(bucket_cap_mb={value})",
        },
        "compress_gradients": {
            "": "model.register_comm_hook(None, default_hooks.bf16_compress_hook)",
            _LIGHTNING: "DDPStrategy(ddp_comm_hook=default_hooks.bf16_compress_hook)",
            "accelerate": "DistributedDataParallelKwargs(comm_hook=DDPCommunicationHookType.BF16)",
        },
        "larger_batch": {
            "": "DataLoader(batch_size=...)",
            _LIGHTNING: "DataLoader(batch_size=...) in train_dataloader() of the module or the"
            " LightningDataModule",
            "transformers": "TrainingArguments(per_device_train_batch_size=...), or " + _OWN,
            "timm": "--batch-size (train.py), or " + _OWN,
        },
        "more_cpus": {"": "sbatch --cpus-per-task={value}"},
        "more_memory": {"": "sbatch --mem"},
        "one_node": {"": "sbatch --nodes={value}"},
    }
)
"""By action, then by framework; "" is a loop of the user's own."""

_SAME = dict.fromkeys(("more_workers", "load_in_workers", "more_workers_to_read"), "num_workers")


def framework_of(imported: Sequence[str]) -> str:
    """The framework that drives a program's loop; "" where it is the user's own."""
    names = {_ALIASES.get(name, name) for name in imported}
    return next((name for name in DRIVERS if name in names), "")


def option_of(advice: Advice, frameworks: Sequence[str] = ()) -> str:
    """The option to set; empty where no single one follows the advice."""
    if advice.option:
        return advice.option
    options = [_form(_SAME.get(advice.action, advice.action), advice.value, frameworks)]
    if advice.workers is not None:
        options.append(_form("num_workers", advice.workers, frameworks))
    return ", and ".join(option for option in options if option)


def _form(name: str, value: int | None, frameworks: Sequence[str]) -> str:
    forms = OPTIONS.get(name)
    if forms is None or (value is None and "{value}" in forms[""]):
        return ""
    own = forms[""].format(value=value)
    return forms.get(framework_of(frameworks), forms[""]).format(value=value, own=own)
