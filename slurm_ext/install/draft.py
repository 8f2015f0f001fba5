"""Draft of a site's files: steps read and write it, and touch nothing else."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from slurm_ext.core.errors import InputError
from slurm_ext.core.settings.document import Settings, drop_ins, joined, parse
from slurm_ext.install import slurm_conf, submit_lua
from slurm_ext.install.backups import InstallRecord, Kind
from slurm_ext.install.conf_files import conf_texts
from slurm_ext.install.site_files import FileContent, InstallRoot, encoded
from slurm_ext.install.slurm_conf import ConfValue

Read = Callable[[Path], FileContent | None]


@dataclass(frozen=True, slots=True)
class DraftFile:
    """One file: without dlqueue, and as a step wants it."""

    kind: Kind
    base: FileContent | None
    then: FileContent | None


def site_settings(place: InstallRoot, own: str, read: Read) -> Settings:
    """Join the text of dlqueue.toml and the files of dlqueue.d. Raises SettingsError."""
    path = place.etc / "dlqueue.toml"
    folder = path.with_suffix(".d")
    parts = [parse(own, str(path))]
    for file in (folder / file.name for file in drop_ins(place.real(folder))):
        content = read(file)
        parts.append(parse(content.text if content else "", str(file)))
    return joined(str(path), parts)


class Draft:
    """All files of a plan; `read` reads them as they are, `kept` is an earlier installation."""

    def __init__(self, place: InstallRoot, read: Read, kept: InstallRecord) -> None:
        self.place, self._read, self._kept = place, read, kept
        self.files: dict[Path, DraftFile] = {}
        self.folders: dict[Path, tuple[int, str]] = {}  # mode, user
        self.links: dict[Path, Path] = {}

    def content(self, path: Path, kind: Kind) -> FileContent | None:
        """Content of a file so far: as a step wrote it, else without dlqueue."""
        return self._drafted(path, kind).then

    def text(self, path: Path, kind: Kind) -> str | None:
        """Content of a file so far, as text."""
        content = self.content(path, kind)
        return None if content is None else content.text

    def current_text(self, path: Path) -> str | None:
        """Text of a file of the site that is only read."""
        content = self._read(path)
        return None if content is None else content.text

    def put(self, path: Path, text: str, kind: Kind, mode: int = 0o644) -> None:
        """Set a file's text. A file that exists keeps its owner; one of the site, its mode too."""
        file = self._drafted(path, kind)
        new = FileContent(encoded(text), mode)
        if file.base is not None:
            new = replace(file.base, data=new.data, mode=file.base.mode if kind != "own" else mode)
        self.files[path] = replace(file, then=new)

    def put_default(self, path: Path, text: str) -> None:
        """Set a file's text only if the site has none, or has never changed ours."""
        if self.content(path, "given") is None:
            self.put(path, text, "given")

    def settings(self) -> Settings:
        """Settings of dlqueue.toml as it is or will be, and of dlqueue.d. Raises SettingsError."""
        path = self.place.etc / "dlqueue.toml"
        return site_settings(self.place, self.text(path, "given") or "", self._read)

    # -- slurm.conf ---------------------------------------------------------------------------

    def conf_texts(self) -> Iterator[tuple[Path, str]]:
        """Yield slurm.conf and its includes. Raises InputError if one of them is not there."""
        return conf_texts(self.place.slurm_conf, lambda path: self.text(path, "conf"))

    def conf_value(self, key: str) -> tuple[Path, ConfValue] | None:
        """Find a key in slurm.conf. Raises InputError if it has two values: releases differ."""
        values = [
            (path, value)
            for path, text in self.conf_texts()
            for value in slurm_conf.conf_values(text, key)
        ]
        if len({value.value for _, value in values}) > 1:
            path, last = values[-1]
            why = f"{key} is set {len(values)} times, to different values: keep one"
            raise InputError(str(path), why, line=last.line + 1)
        return values[-1] if values else None

    def set_conf(self, key: str, value: str, step: str) -> None:
        """Set a key of slurm.conf, in place of its old value."""
        current = self.conf_value(key)
        if current is None:
            path, text = self.place.slurm_conf, self.text(self.place.slurm_conf, "conf") or ""
            new = slurm_conf.added(text, [f"{key}={value}"], step)
        else:
            path, old = current
            text = self.text(path, "conf") or ""
            new = slurm_conf.replaced(text, old, value, step, str(path))
        self.put(path, new, "conf")

    # -- without dlqueue ------------------------------------------------------------------------

    def restore(self, path: Path) -> None:
        """Take dlqueue out of a file."""
        file = self._drafted(path, self._kept.files[path].kind)
        self.files[path] = replace(file, then=file.base)

    def _drafted(self, path: Path, kind: Kind) -> DraftFile:
        if path not in self.files:
            base = self._without_us(path, kind)
            return DraftFile(kind, base, base)
        return self.files[path]

    def _without_us(self, path: Path, kind: Kind) -> FileContent | None:
        """Return the backup if the file was not changed since; else the file without our lines."""
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
