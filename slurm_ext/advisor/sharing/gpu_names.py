"""Slurm's names of GPUs (`a100`) and their drivers' (`NVIDIA A100-SXM4-40GB`). Pure."""


def is_model(kind: str, model: str | None) -> bool:
    """True if Slurm's name of a GPU's type is part of its driver's name for it."""
    return _plain(kind) in _plain(model or "") and bool(_plain(kind))


def _plain(text: str) -> str:
    return "".join(c for c in text.lower() if c.isalnum())
