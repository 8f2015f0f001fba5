"""A site's files as they are to become: steps read and write here, and nothing else is touched."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from slurm_ext.core.errors import InputError
from slurm_ext.core.settings.document import Settings, parse
from slurm_ext.install import slurm_conf, submit_lua
from slurm_ext.install.backups import InstallRecord, Kind
from slurm_ext.install.site_files import FileContent, InstallRoot, encoded
from slurm_ext.install.slurm_conf import ConfValue

Read = Callable[[Path], FileContent | None]


@dataclass(frozen=True, slots=True)
class DraftFile:
    """One file: without us, and as a step wants it."""

    kind: Kind
    base: FileContent | None
    then: FileContent | None


class Draft:
    """`read` gives what is there now, `kept` what was there before an earlier installation."""

    def __init__(self, place: InstallRoot, read: Read, kept: InstallRecord) -> None:
        self.place, self._read, self._kept = place, read, kept
        self.files: dict[Path, DraftFile] = {}
        self.folders: dict[Path, tuple[int, str]] = {}  # mode, user
        self.links: dict[Path, Path] = {}

    def content(self, path: Path, kind: Kind) -> FileContent | None:
        """What a file holds so far: what a step wrote, else what it is without us."""
        return self._drafted(path, kind).then

    def text(self, path: Path, kind: Kind) -> str | None:
        """The same as text."""
        found = self.content(path, kind)
        return None if found is None else found.text

    def now(self, path: Path) -> str | None:
        """A file of the site's that is only looked at."""
        found = self._read(path)
        return None if found is None else found.text

    def put(self, path: Path, text: str, kind: Kind, mode: int = 0o644) -> None:
        """Have a file hold `text`; one that is there already keeps its owner (and mode)."""
        known = self._drafted(path, kind)
        new = FileContent(encoded(text), mode)
        if known.base is not None:
            new = replace(
                known.base, data=new.data, mode=known.base.mode if kind != "own" else mode
            )
        self.files[path] = replace(known, then=new)

    def give(self, path: Path, text: str) -> None:
        """As `put`, but only where the site has none or never changed ours."""
        if self.content(path, "given") is None:
            self.put(path, text, "given")

    def settings(self) -> Settings:
        """What dlqueue.toml says, or is to say. Raises SettingsError, InputError."""
        path = self.place.etc / "dlqueue.toml"
        return parse(self.text(path, "given") or "", str(path))

    # -- slurm.conf ---------------------------------------------------------------------------

    def conf_texts(self) -> Iterator[tuple[Path, str]]:
        """slurm.conf and what it includes. Raises InputError where there is none."""
        waiting, seen = [self.place.slurm_conf], set()
        while waiting:
            path = waiting.pop(0)
            text = self.text(path, "conf")
            if text is None and path == self.place.slurm_conf:
                raise InputError(str(path), "does not exist; name it with --slurm-conf")
            if text is None or path in seen:
                continue
            seen.add(path)
            yield path, text
            named = [name for name in slurm_conf.included(text) if "%" not in name]
            waiting += [self.place.slurm_conf.parent / name for name in named]

    def said(self, key: str) -> tuple[Path, ConfValue] | None:
        """Where a key stands. Raises InputError where it stands twice: releases differ there."""
        found = [
            (p, each) for p, text in self.conf_texts() for each in slurm_conf.conf_values(text, key)
        ]
        if len({each.value for _, each in found}) > 1:
            path, second = found[-1]
            why = f"{key} is set {len(found)} times, to different values: keep one"
            raise InputError(str(path), why, line=second.line + 1)
        return found[-1] if found else None

    def say(self, key: str, value: str, step: str) -> None:
        """Have slurm.conf say so, in place of what it says."""
        found = self.said(key)
        if found is None:
            path, text = self.place.slurm_conf, self.text(self.place.slurm_conf, "conf") or ""
            new = slurm_conf.added(text, [f"{key}={value}"], step)
        else:
            path, place = found
            text = self.text(path, "conf") or ""
            new = slurm_conf.replaced(text, place, value, step, str(path))
        self.put(path, new, "conf")

    # -- without us ---------------------------------------------------------------------------

    def back(self, path: Path) -> None:
        """Have a file be as it would be without us."""
        known = self._drafted(path, self._kept.files[path].kind)
        self.files[path] = replace(known, then=known.base)

    def _drafted(self, path: Path, kind: Kind) -> DraftFile:
        if path not in self.files:
            base = self._without_us(path, kind)
            return DraftFile(kind, base, base)
        return self.files[path]

    def _without_us(self, path: Path, kind: Kind) -> FileContent | None:
        """The file of before, where nobody changed it since; else as it is, less our lines."""
        now, entry = self._read(path), self._kept.files.get(path)
        if entry is not None and (now is None or now.digest in entry.ours or kind == "own"):
            return entry.before
        if now is None or kind in ("own", "given"):
            return now
        source = str(path)
        text = (
            submit_lua.without(now.text) if kind == "lua" else slurm_conf.without(now.text, source)
        )
        return replace(now, data=encoded(text))
