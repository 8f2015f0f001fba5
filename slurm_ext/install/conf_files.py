"""Reads slurm.conf with its includes, and tells whose marked lines stand there."""

from collections.abc import Callable, Iterator
from pathlib import Path

from slurm_ext.core.errors import InputError
from slurm_ext.install import slurm_conf
from slurm_ext.install.site_files import InstallRoot

JOINED = frozenset({"hooks", "submit"})  # steps that write lines into slurm.conf


def conf_texts(conf: Path, text_of: Callable[[Path], str | None]) -> Iterator[tuple[Path, str]]:
    """Yield slurm.conf and its includes. Raises InputError if one of them is not there."""
    paths, read = [conf], set()
    first = text_of(conf) or ""
    cluster = next((found.value for found in slurm_conf.conf_values(first, "ClusterName")), "")
    while paths:
        path = paths.pop(0)
        if path in read:
            continue
        read.add(path)
        text = text_of(path)
        if text is None and path == conf:
            raise InputError(str(path), "does not exist; name it with --slurm-conf")
        if text is None:
            raise InputError(str(path), "is included by slurm.conf and does not exist")
        yield path, text
        named = [name.replace("%c", cluster.lower()) for name in slurm_conf.included(text)]
        paths += [conf.parent / name for name in named]


def foreign_steps(place: InstallRoot, here: frozenset[str]) -> frozenset[str]:
    """Return steps that have lines in slurm.conf and are not among this machine's, `here`.

    Another controller has them in its record. A plan that writes slurm.conf has to keep their
    lines; where no step of this machine has lines there, none does.
    """
    if not here & JOINED or place.read(place.slurm_conf) is None:
        return frozenset()

    def text_of(path: Path) -> str | None:
        content = place.read(path)
        return None if content is None else content.text

    texts = conf_texts(place.slurm_conf, text_of)
    found = {step for _, text in texts for step in slurm_conf.steps_in(text)}
    return (JOINED & found) - here
