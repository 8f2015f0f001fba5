"""Cores by cpuset, where Slurm constrains jobs to cores (ConstrainCores=yes), version 1 or 2.

A job's own group is only ever widened: a step that starts later asks for the cores that Slurm gave
it, and would fail in a narrower one. What is narrowed are the groups of steps and tasks in it.
A requeued job has groups of the same names: what Slurm wrote into them holds.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from slurm_ext.control.allocator.cgroup.cores import format_cores, parse_cores
from slurm_ext.control.allocator.cgroup.job_location import JobGoneError, JobLocation

MAX_GROUPS = 512


class Cpuset:
    """One job's cpusets; `kept` maps each group touched to what it was, and what we may write.

    Earlier versions kept only what it was.
    """

    def __init__(self, place: JobLocation, kept: Mapping[str, Any] | None = None) -> None:
        self._top = job_group(place)
        self.kept: dict[str, list[str]] = {
            name: [texts] if isinstance(texts, str) else list(texts)
            for name, texts in (kept or {}).items()
        }

    @property
    def cores(self) -> frozenset[int] | None:
        """Cores that Slurm gave to the job; None where it does not constrain it."""
        if self._top is None:
            return None
        before, *_ = self.kept.get(str(self._top), [read_cores(self._top)])
        return parse_cores(before) if before else None

    def plan(self, cores: frozenset[int]) -> None:
        """Note what is there, and what `give` writes, before anything is changed."""
        if self._top is not None:
            for folder in [*_above(self._top), self._top]:
                self._note(folder, cores)
            for folder in _below(self._top):
                self._note(folder, cores, format_cores(cores))

    def _note(self, folder: Path, cores: frozenset[int], *narrow: str) -> None:
        if text := read_cores(folder):  # an empty one follows its parent
            before, *_ = self.kept.get(str(folder), [text])
            grown = format_cores(parse_cores(text) | cores)
            self.kept[str(folder)] = [before, text, grown, *narrow]

    def give(self, cores: frozenset[int]) -> None:
        """Run on `cores` from now on. Raises JobGoneError or OSError."""
        if self._top is None:
            raise JobGoneError("the job's cpuset is gone")
        inner = [folder for folder in _below(self._top) if str(folder) in self.kept]
        for folder in [*_above(self._top), self._top, *inner]:  # from the top, so that it may grow
            _write(folder, parse_cores(read_cores(folder) or "") | cores)
        for folder in reversed(inner):  # from the bottom, so that it may shrink
            _write(folder, cores)

    def restore(self) -> None:
        """As it was, where it is as we left it; groups that are gone went with the job."""
        if self._top is not None and not self._is_ours(self._top):
            return  # Slurm's, of the job's next run
        ours = filter(self._is_ours, map(Path, self.kept))
        folders = sorted(ours, key=lambda path: len(path.parts))
        for folder in folders:
            with suppress(JobGoneError, OSError):
                now = parse_cores(read_cores(folder) or "")
                _write(folder, now | self._before(folder))
        for folder in reversed(folders):
            with suppress(JobGoneError, OSError):
                _write(folder, self._before(folder))

    def _before(self, folder: Path) -> frozenset[int]:
        return parse_cores(self.kept[str(folder)][0])

    def _is_ours(self, folder: Path) -> bool:
        """True if its cores are those before us, or by us.

        Where only the former were kept, groups in a job that has the same cores again are ours.
        """
        texts = self.kept.get(str(folder), [])
        old = len(texts) == 1 and self._top in folder.parents
        return old or parse_cores(read_cores(folder)) in map(parse_cores, texts)


def job_group(place: JobLocation) -> Path | None:
    """The job's group, where it has cores of its own."""
    for folder in (place.v2_folder(), place.v1_folder("cpuset")):
        if folder is not None and read_cores(folder):
            return folder
    return None


def _above(top: Path) -> Sequence[Path]:
    """The user's group of version 1, whose cores are those of their jobs here."""
    return [top.parent] if top.parent.name.startswith("uid_") and read_cores(top.parent) else []


def _below(top: Path) -> Iterator[Path]:
    """Groups under `top`, parents first, at most MAX_GROUPS."""
    groups = [top]
    for folder in groups:  # grows while it is walked
        with suppress(OSError), os.scandir(folder) as entries:
            inner = [Path(e.path) for e in entries if e.is_dir(follow_symlinks=False)]
            groups += sorted(inner)[: MAX_GROUPS - len(groups)]
    return iter(groups[1:])


def read_cores(folder: Path) -> str:
    """Cores of a group, as a list of Linux's; empty where it follows its parent, or is gone."""
    with suppress(OSError):
        return (folder / "cpuset.cpus").read_text().strip()
    return ""


def _write(folder: Path, cores: frozenset[int]) -> None:
    try:
        (folder / "cpuset.cpus").write_text(format_cores(cores))
    except FileNotFoundError:
        raise JobGoneError(f"{folder} is gone") from None
