"""Turns wanted steps into changes of files. Pure but for `read`."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from slurm_ext.core.errors import InputError
from slurm_ext.core.settings.document import Settings
from slurm_ext.install import slurm_conf
from slurm_ext.install.backups import MOST_KNOWN, InstalledFile, InstallRecord, Kind
from slurm_ext.install.draft import Draft, Read
from slurm_ext.install.site_files import FileContent, InstallRoot
from slurm_ext.install.steps import HOOKS, STEPS

_TURN = {"own": 0, "given": 0, "lua": 1, "conf": 2}  # a file is made before another names it
_LAST = 3  # a file is removed after all that named it


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file: now, afterwards, and without dlqueue."""

    path: Path
    kind: Kind
    now: FileContent | None
    then: FileContent | None
    base: FileContent | None

    @property
    def real(self) -> bool:
        """True if the file's bytes or mode change."""
        if self.now is None or self.then is None:
            return self.now is not self.then
        return (self.now.data, self.now.mode) != (self.then.data, self.then.mode)

    @property
    def word(self) -> str:
        """Name of the change, for people."""
        if not self.real:
            return "unchanged"
        return "removed" if self.then is None else "made" if self.now is None else "changed"

    def diff(self) -> str:
        """Return a unified diff with the modes in its head."""
        now, then = (c.text.splitlines(keepends=True) if c else [] for c in (self.now, self.then))
        was, is_to_be = (f"{self.path}{_mode(content)}" for content in (self.now, self.then))
        lines = list(unified_diff(now, then, was, is_to_be)) or [
            f"--- {was}\n",
            f"+++ {is_to_be}\n",
        ]
        return "".join(map(_ended, lines))


@dataclass(frozen=True, slots=True)
class InstallPlan:
    """All changes, in their order."""

    steps: frozenset[str]
    settings: Settings  # of dlqueue.toml as it is or will be
    changes: tuple[FileChange, ...]
    folders: dict[Path, tuple[int, str]]
    links: dict[Path, Path]
    kept: InstallRecord  # afterwards, without folders and links that are made meanwhile
    held: frozenset[Path]  # that were to be removed, and stay

    @property
    def real(self) -> tuple[FileChange, ...]:
        """Changes that have an effect."""
        return tuple(change for change in self.changes if change.real)


def make_plan(
    wanted: Collection[str],
    place: InstallRoot,
    read: Read,
    kept: InstallRecord,
    hold: Collection[Path] = (),
    foreign: Collection[str] = (),
) -> InstallPlan:
    """Plan a site with exactly the steps `wanted`; files in `hold` are not removed.

    Steps in `foreign` are another controller's: they are written, and not remembered as ours.
    Raises InputError or SettingsError if a file of the site cannot be used.
    """
    draft = Draft(place, read, kept)
    steps = frozenset((*wanted, *foreign))
    for step in STEPS:
        if step.name in steps:
            step.write(draft)
    for path in kept.files:
        if path not in draft.files:
            draft.restore(path)
    _none_is_named(draft, place, hold)
    held = frozenset(p for p in hold if p in draft.files and not draft.files[p].then and read(p))
    changes = [
        FileChange(
            path, file.kind, now := read(path), now if path in held else file.then, file.base
        )
        for path, file in draft.files.items()
    ]
    changes.sort(key=lambda change: _LAST if change.then is None else _TURN[change.kind])
    return InstallPlan(
        steps=steps,
        settings=draft.settings(),
        changes=tuple(changes),
        folders=draft.folders,
        links=draft.links,
        kept=InstallRecord(frozenset(wanted), _entries(changes, kept), kept.folders, kept.links),
        held=held,
    )


def _none_is_named(draft: Draft, place: InstallRoot, hold: Collection[Path]) -> None:
    """Raise InputError if slurm.conf would name a hook that goes: nodes would be drained."""
    folder = place.etc / "hooks"
    gone = {path for path, file in draft.files.items() if path.parent == folder and not file.then}
    gone -= set(hold)
    if not gone or draft.text(place.slurm_conf, "conf") is None:
        return
    for path, text in draft.conf_texts():
        for key in HOOKS:
            for named in slurm_conf.conf_values(text, key):
                if Path(named.value) in gone:
                    why = (
                        f"{key}={named.value} stands outside of dlqueue's lines: take it out first"
                    )
                    raise InputError(str(path), why, line=named.line + 1)


def _entries(changes: list[FileChange], kept: InstallRecord) -> dict[Path, InstalledFile]:
    """Files to remember: those that are not as they would be without dlqueue."""
    entries = {}
    for change in changes:
        if change.then is not None and change.then != change.base:
            earlier = kept.files[change.path].ours if change.path in kept.files else ()
            ours = dict.fromkeys((change.then.digest, *earlier))
            entries[change.path] = InstalledFile(change.kind, change.base, tuple(ours)[:MOST_KNOWN])
    return entries


def _ended(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _mode(content: FileContent | None) -> str:
    return "\t(absent)" if content is None else f"\tmode {content.mode:o}"


def next_steps(plan: InstallPlan, place: InstallRoot, held: frozenset[Path]) -> Iterator[str]:
    """Yield one line a step, in their order."""
    real = {change.path: change for change in plan.real}
    conf = [change for change in plan.real if change.kind == "conf"]
    if place.unit in real:
        begin = "systemctl daemon-reload"
        made = real[place.unit].then is not None
        yield (
            f"{begin}; systemctl enable --now dlqueue"
            if made
            else (f"systemctl disable --now dlqueue; {begin}")
        )
    on_nodes = [p for p in real if p.is_relative_to(place.etc / "hooks") or p.suffix == ".json"]
    if on_nodes and plan.steps & {"hooks"}:
        yield f"copy {place.etc} (and {_program_folder()}) to every node, unless it is shared"
    dropped = [c.path for c in plan.real if c.path.name.removesuffix(".sh").endswith("-dlqueue")]
    for path in dropped:
        what = "copy {} to every node" if real[path].then else "remove {} on every node"
        yield what.format(path)
    if conf:
        files = ", ".join(str(change.path) for change in conf)
        yield f"copy {files} to every node and controller, then: scontrol reconfigure"
    if any("JobSubmitPlugins" in change.diff() for change in conf):
        yield "systemctl restart slurmctld: it loads job_submit plugins only when it starts"
    if held:
        names = ", ".join(sorted(path.name for path in held))
        words = "dlqueue uninstall hooks" if plan.steps else "dlqueue uninstall"
        yield f"then `{words}` again: Slurm may still run {names}"


def _program_folder() -> str:
    import sys

    return sys.prefix
