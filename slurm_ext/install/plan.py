"""From what is wanted to what changes. Pure but for `read`; taking out is wanting less."""

from collections.abc import Collection
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from slurm_ext.core.settings.document import Settings
from slurm_ext.install.backups import MOST_KNOWN, InstalledFile, InstallRecord, Kind
from slurm_ext.install.draft import Draft, Read
from slurm_ext.install.site_files import FileContent, InstallRoot
from slurm_ext.install.steps import STEPS

_TURN = {"own": 0, "given": 0, "lua": 1, "conf": 2}  # nothing names a file that is not there yet
_LAST = 3  # nothing is taken away that is still named


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file: now, afterwards, and without us."""

    path: Path
    kind: Kind
    now: FileContent | None
    then: FileContent | None
    base: FileContent | None

    @property
    def real(self) -> bool:
        """Whether anything is done at all."""
        if self.now is None or self.then is None:
            return self.now is not self.then
        return (self.now.data, self.now.mode) != (self.then.data, self.then.mode)

    @property
    def word(self) -> str:
        """What is done to it, for people."""
        if not self.real:
            return "unchanged"
        return "removed" if self.then is None else "made" if self.now is None else "changed"

    def diff(self) -> str:
        """A unified diff; modes are told in its head."""
        now, then = (c.text.splitlines(keepends=True) if c else [] for c in (self.now, self.then))
        was, is_to_be = (f"{self.path}{_mode(content)}" for content in (self.now, self.then))
        lines = list(unified_diff(now, then, was, is_to_be)) or [
            f"--- {was}\n",
            f"+++ {is_to_be}\n",
        ]
        ended = (line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
                 for line in lines)  # fmt: skip
        return "".join(ended)


@dataclass(frozen=True, slots=True)
class InstallPlan:
    """Everything that is to be done, in order."""

    steps: frozenset[str]
    settings: Settings  # as dlqueue.toml has them, or is to have them
    changes: tuple[FileChange, ...]
    folders: dict[Path, tuple[int, str]]
    links: dict[Path, Path]
    kept: InstallRecord  # afterwards, but for the folders and links that turn out to be made

    @property
    def real(self) -> tuple[FileChange, ...]:
        """Only what changes something."""
        return tuple(change for change in self.changes if change.real)


def make_plan(wanted: Collection[str], place: InstallRoot, read: Read, kept: InstallRecord,
              hold: Collection[Path] = ()) -> InstallPlan:  # fmt: skip
    """What makes the site have exactly the steps `wanted`; files in `hold` are not taken away.

    Raises InputError or SettingsError where a file of the site's cannot be worked with.
    """
    draft = Draft(place, read, kept)
    for step in STEPS:
        if step.name in wanted:
            step.write(draft)
    for path in kept.files:
        if path not in draft.files:
            draft.back(path)
    changes = [
        FileChange(path, each.kind, now := read(path), _held(each.then, now, path, hold), each.base)
        for path, each in draft.files.items()
    ]
    changes.sort(key=lambda change: _LAST if change.then is None else _TURN[change.kind])
    return InstallPlan(
        steps=frozenset(wanted),
        settings=draft.settings(),
        changes=tuple(changes),
        folders=draft.folders,
        links=draft.links,
        kept=InstallRecord(frozenset(wanted), _entries(changes, kept), kept.folders, kept.links),
    )


def _held(then: FileContent | None, now: FileContent | None, path: Path,
          hold: Collection[Path]) -> FileContent | None:  # fmt: skip
    return now if then is None and path in hold else then


def _entries(changes: list[FileChange], kept: InstallRecord) -> dict[Path, InstalledFile]:
    """What has to be remembered: every file that is not as it would be without us."""
    entries = {}
    for change in changes:
        if change.then is not None and change.then != change.base:
            known = kept.files[change.path].ours if change.path in kept.files else ()
            ours = dict.fromkeys((change.then.digest, *known))
            entries[change.path] = InstalledFile(change.kind, change.base, tuple(ours)[:MOST_KNOWN])
    return entries


def _mode(content: FileContent | None) -> str:
    return "\t(absent)" if content is None else f"\tmode {content.mode:o}"
