"""dlqueue.toml as data, by one table of keys (table.py).

The sample file, the manual and `load` all come from TABLE. An unknown key, a wrong type or a value
out of range is a SettingsError that names the file, the key, the value and what is valid.
"""

import os
import stat
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from slurm_ext.core.errors import InputError, SettingsError
from slurm_ext.core.records import Mode
from slurm_ext.core.settings.table import MODES, RETIRED_KEYS, TABLE

__all__ = ["DEFAULT_PATH", "TABLE", "Settings", "drop_ins", "joined", "load"]
__all__ += ["named_by_environment", "parse", "sample"]

DEFAULT_PATH = Path("/etc/dlqueue/dlqueue.toml")


_BY_KEY = {setting.key: setting for setting in TABLE}
_OVERRIDES = ("mode.partition", "mode.account")  # [mode.partition] gpu = "act"


@dataclass(frozen=True, slots=True)
class Settings:
    """Every key's value, read as `settings["site.mode"]`."""

    source: str = "defaults"
    values: Mapping[str, Any] = field(default_factory=dict)
    partition_modes: Mapping[str, Mode] = field(default_factory=dict)
    account_modes: Mapping[str, Mode] = field(default_factory=dict)

    def __getitem__(self, key: str) -> Any:
        return self.values[key] if key in self.values else _BY_KEY[key].default

    @property
    def state_dir(self) -> Path:
        """Folder of history.db, models/ and spool/."""
        return Path(self["paths.state_dir"])

    def mode_for(self, partition: str | None, account: str | None) -> Mode:
        """Mode of the account, else of the partition, else of the site, whatever the kill file.

        Of several partitions (a,b) Slurm may take any: the least far-going mode counts.
        """
        site, order = Mode(self["site.mode"]), list(Mode)
        names = (partition or "").split(",")
        by_partition = min((self.partition_modes.get(n, site) for n in names), key=order.index)
        return self.account_modes.get(account or "", by_partition)


def load(path: Path | None = None) -> Settings:
    """Read `path`, else $DLQUEUE_CONFIG, else the file in /etc, else take the defaults.

    Files of the folder beside it (dlqueue.d/*.toml) follow by name; a later file's key wins.
    Raises SettingsError, or InputError where a file cannot be read or is not TOML.
    """
    named = path or named_by_environment()
    chosen = named or DEFAULT_PATH
    if not chosen.name:  # "", . or /
        raise InputError(str(chosen), "cannot be read: it is a folder")
    more = drop_ins(chosen.with_suffix(".d"))
    if named is None and not more and not chosen.exists():
        return Settings()
    files = [chosen, *more] if named or chosen.exists() else more
    return joined(str(chosen), [_read(file) for file in files])


def named_by_environment() -> Path | None:
    """The file that $DLQUEUE_CONFIG names; an empty variable names none, as an unset one."""
    named = os.environ.get("DLQUEUE_CONFIG")
    return Path(named) if named else None


def drop_ins(folder: Path) -> list[Path]:
    """Files of dlqueue.d, such as 10-act.toml, in the order of reading."""
    return sorted(folder.glob("*.toml"))


def joined(source: str, parts: Sequence[Settings]) -> Settings:
    """One document of several: of two values for one key the later part's."""
    merged: list[dict[str, Any]] = [{}, {}, {}]
    for part in parts:
        for whole, own in zip(
            merged, (part.values, part.partition_modes, part.account_modes), strict=True
        ):
            whole.update(own)
    return Settings(source, *merged)


def _read(path: Path) -> Settings:
    try:
        return parse(_trusted_text(path), str(path))
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(str(path), "is not UTF-8 text") from None


def _trusted_text(path: Path) -> str:
    """Read settings, which name programs that are run: root takes only root's. InputError."""
    with path.open(encoding="utf-8") as stream:
        info = os.fstat(stream.fileno())
        if os.geteuid() == 0 and (info.st_uid != 0 or info.st_mode & stat.S_IWOTH):
            why = f"uid {info.st_uid} or others may have written it, and root would obey it"
            raise InputError(str(path), f"{why}: chown root, chmod o-w")
        return stream.read()


def parse(text: str, source: str) -> Settings:
    """Parse a TOML text. Raises SettingsError or InputError."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(source, f"is not TOML: {error}") from None
    modes: dict[str, dict[str, Mode]] = {name: {} for name in _OVERRIDES}
    values = {}
    for key, value in _flatten(document):
        group = next((name for name in _OVERRIDES if key.startswith(name + ".")), None)
        if group is not None:
            modes[group][key[len(group) + 1 :]] = _mode(source, key, value)
        elif key in RETIRED_KEYS:
            _warn_retired(source, key)
        else:
            values[key] = _checked(source, key, value)
    return Settings(source, values, *(modes[name] for name in _OVERRIDES))


def sample() -> str:
    """Return a commented dlqueue.toml with every key at its default; `parse` accepts it."""
    lines: list[str] = []
    section = ""
    for setting in TABLE:
        head, _, name = setting.key.partition(".")
        if head != section:
            section = head
            lines += ["", f"[{head}]"] if lines else [f"[{head}]"]
        lines += [f"# {setting.doc} ({setting.valid})", f"{name} = {_toml(setting.default)}"]
    lines += [
        "",
        "# Modes of single partitions and accounts:",
        "# [mode.partition]",
        '# gpu = "act"',
    ]
    return "\n".join(lines) + "\n"


def _flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _warn_retired(source: str, key: str) -> None:
    """Log that a site's file holds a key of an earlier version, which is ignored."""
    import logging

    log = logging.getLogger(__name__)
    log.warning("%s: %s is not used any more (%s): remove it", source, key, RETIRED_KEYS[key])


def _checked(source: str, key: str, value: Any) -> Any:
    setting = _BY_KEY.get(key)
    if setting is None:
        raise SettingsError(source, key, value, f"a known key: {_nearest(key)}")
    if isinstance(setting.default, float) and type(value) is int:
        value = float(value)
    if isinstance(value, str):
        value = setting.retired.get(value, value)
    if type(value) is not type(setting.default) or not setting.ok(value):
        raise SettingsError(source, key, value, setting.valid)
    if isinstance(value, list) and not all(map(setting.item, value)):
        raise SettingsError(source, key, value, setting.valid)
    return value


def _mode(source: str, key: str, value: Any) -> Mode:
    if value not in MODES:
        raise SettingsError(source, key, value, f"one of {', '.join(MODES)}")
    return Mode(value)


def _nearest(key: str) -> str:
    """Keys that are similar to `key`; all keys where none is."""
    import difflib

    near = difflib.get_close_matches(key, _BY_KEY, n=3, cutoff=0.6)
    return ", ".join(near or _BY_KEY)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


FIXED = (
    "paths.state_dir",
    "paths.socket",
    "advisor.socket_mode",
    "advisor.listen",
    "advisor.listen_questions",
    "node.munge_socket",
    "metrics.listen",
    "log.format",
)


"""What a running advisor was built around: a new value waits for a restart."""


def reloaded(config: Path | None, now: Settings) -> tuple[Settings, list[str]]:
    """The settings from now on, and the keys that need a restart. Raises SettingsError."""
    new = load(config)
    waiting = [key for key in FIXED if new[key] != now[key]]
    return replace(new, values={**new.values, **{key: now[key] for key in waiting}}), waiting
