"""Slurm's names of GPUs (`a100`) and their drivers' (`NVIDIA A100-SXM4-40GB`). Pure."""


def is_model(kind: str, model: str | None) -> bool:
    """Whether Slurm's name of a GPU's type is part of what its driver calls it."""
    return _plain(kind) in _plain(model or "") and bool(_plain(kind))


def _plain(text: str) -> str:
    return "".join(c for c in text.lower() if c.isalnum())
