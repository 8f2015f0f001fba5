"""dlqueue.toml as data: one table of keys with type, default, what is valid, and what it means.

The sample file, the manual and `load` all come from TABLE. An unknown key, a wrong type or a value
out of range is a SettingsError that names the file, the key, the value and what is valid.
"""

import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slurm_ext.facts.errors import InputError, SettingsError
from slurm_ext.facts.records import Mode

DEFAULT_PATH = Path("/etc/dlqueue/dlqueue.toml")


@dataclass(frozen=True, slots=True)
class Setting:
    """One key: its default (whose type is the key's), a check, and its meaning."""

    key: str
    default: Any
    doc: str
    valid: str
    ok: Callable[[Any], bool] = field(default=lambda _: True, repr=False)


def _text(key: str, default: str, doc: str) -> Setting:
    return Setting(key, default, doc, "a string")


def _path(key: str, default: str, doc: str, *, empty: bool = False) -> Setting:
    valid = "an absolute path" + (" or empty" if empty else "")
    return Setting(key, default, doc, valid, lambda v: v.startswith("/") or (empty and not v))


def _number(key: str, default: float, low: float, high: float, doc: str) -> Setting:
    kind = "an integer" if isinstance(default, int) else "a number"
    return Setting(key, default, doc, f"{kind} from {low} to {high}", lambda v: low <= v <= high)


def _choice(key: str, default: str, choices: tuple[str, ...], doc: str) -> Setting:
    return Setting(key, default, doc, f"one of {', '.join(choices)}", lambda v: v in choices)


def _flag(key: str, default: bool, doc: str) -> Setting:
    return Setting(key, default, doc, "true or false")


MODES = tuple(mode.value for mode in Mode)

TABLE: tuple[Setting, ...] = (
    _choice("site.mode", "shadow", MODES, "How far dlqueue goes with every job of the site"),
    _text("site.cluster", "cluster", "The cluster's name in records"),
    _path("paths.state_dir", "/var/lib/dlqueue", "history.db, models, the advisor's spool"),
    _path("paths.socket", "/run/dlqueue/advisor.sock", "Where slurmctld asks the advisor"),
    _path("paths.kill_file", "/etc/dlqueue/off", "While this file exists, dlqueue does nothing"),
    _path("paths.slurm_bin", "", "Folder of Slurm's commands; empty: found on PATH", empty=True),
    _path("paths.slurm_conf", "", "slurm.conf to use; empty: Slurm's own choice", empty=True),
    _number("advisor.deadline_ms", 50, 1, 1000, "Longest that slurmctld waits for one answer"),
    _number("advisor.breaker_s", 30, 1, 3600, "How long a failed advisor is left alone"),
    _number("advisor.socket_mode", 0o660, 0o600, 0o666, "Permission bits of the socket"),
    _text("advisor.listen", "", "host:port for records streamed by nodes; empty: none"),
    Setting(
        "advisor.trusted_uids", [0], "Users whose requests and records count", "a list of uids"
    ),
    _number("advisor.reconcile_s", 30.0, 0.2, 3600.0, "Seconds between comparisons with squeue"),
    _number("advisor.retrain_after", 200, 1, 1_000_000, "New outcomes that start a retraining"),
    _number("policy.holdout_share", 0.05, 0.0, 0.5, "Share of eligible jobs left as written"),
    _number("policy.target", 0.98, 0.5, 1.0, "Share of the best lower bound that is enough"),
    _number("policy.min_gain", 0.05, 0.0, 1.0, "A smaller predicted gain changes nothing"),
    _number("policy.max_workers", 64, 1, 1024, "Most data-loader workers of one task"),
    _choice(
        "policy.change_explicit",
        "never",
        ("never", "grow", "any"),
        "Whether a cpus-per-task that the user wrote may be changed",
    ),
    _number("policy.min_runs", 1, 1, 100, "Fewest runs that an answer may rest on"),
    _path("node.spool_dir", "/var/spool/dlqueue", "Where a node keeps records and run folders"),
    _path("node.python", "/usr/bin/python3", "The interpreter of the node's hooks"),
    _flag("node.probe", False, "Whether the probe enters the job's Python processes"),
    _number("node.sample_s", 1.0, 0.05, 60.0, "Seconds between two samples of a job"),
    _number("node.prolog_budget_s", 3.0, 0.5, 60.0, "Longest that the prolog may take"),
    _number("node.epilog_budget_s", 5.0, 0.5, 60.0, "Longest that the epilog may take"),
    _number("node.spool_max_mib", 256, 1, 65536, "Room for undelivered records on a node"),
    _choice("node.transport", "folder", ("folder", "stream"), "How records reach the advisor"),
    _path("node.folder", "/var/lib/dlqueue/spool", "folder: where records are put (shared)"),
    _text("node.address", "", "stream: host:port of the advisor"),
    _path("node.munge_socket", "", "munge's socket; empty: munge's own choice", empty=True),
    _choice(
        "control.mode",
        "off",
        ("off", "shadow", "act"),
        "Whether `dlqueue control` moves CPUs and workers among a node's running jobs",
    ),
    _number("control.max_workers", 16, 1, 1024, "Workers that may start ahead in one process"),
    Setting(
        "control.grain_cores",
        1.0,
        "Smallest piece of CPU that is moved; below 1 by quota, not by core",
        "0.25, 0.5 or 1.0",
        lambda v: v in (0.25, 0.5, 1.0),
    ),
    _number("control.interval_s", 2.0, 0.5, 60.0, "Seconds between two looks at the jobs"),
    _number("control.window_s", 3.0, 0.5, 600.0, "Seconds of one measurement of a running job"),
    _number("control.settle_s", 1.5, 0.0, 600.0, "Seconds after a change that are not measured"),
    _number("control.cooldown_s", 30.0, 0.0, 3600.0, "Least seconds between two changes for gain"),
    _number("control.switch_cost_s", 2.0, 0.0, 600.0, "Seconds of work that a change costs a job"),
    _number("control.margin", 0.05, 0.0, 1.0, "Predicted gain below which nothing is changed"),
    _number(
        "control.storage_mib_per_s",
        0.0,
        0.0,
        1e6,
        "What a node's storage gives its jobs; 0: plenty",
    ),
    _flag("control.may_use_idle_cpus", False, "Whether CPUs that no job was given may be lent"),
    _number("history.retention_days", 730, 1, 36500, "Runs older than this are forgotten"),
    _number("history.busy_timeout_ms", 5000, 100, 60000, "Longest wait for a locked history"),
)

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
        """Where history.db, models/ and spool/ live."""
        return Path(self["paths.state_dir"])

    def mode_for(self, partition: str | None, account: str | None) -> Mode:
        """The account's mode, else the partition's, else the site's; the kill file is apart."""
        site = Mode(self["site.mode"])
        by_partition = self.partition_modes.get(partition or "", site)
        return self.account_modes.get(account or "", by_partition)


def load(path: Path | None = None) -> Settings:
    """Settings of `path`, or of $DLQUEUE_CONFIG, or of /etc, or the defaults where none exists.

    Raises SettingsError, or InputError where the file cannot be read or is not TOML.
    """
    named = path or (Path(os.environ["DLQUEUE_CONFIG"]) if "DLQUEUE_CONFIG" in os.environ else None)
    chosen = named or DEFAULT_PATH
    if named is None and not chosen.exists():
        return Settings()
    try:
        text = chosen.read_text(encoding="utf-8")
        return parse(text, str(chosen))
    except OSError as error:
        raise InputError(str(chosen), f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(str(chosen), "is not UTF-8 text") from None


def parse(text: str, source: str) -> Settings:
    """Settings of a TOML text. Raises SettingsError or InputError."""
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
        else:
            values[key] = _checked(source, key, value)
    return Settings(source, values, *(modes[name] for name in _OVERRIDES))


def sample() -> str:
    """The commented dlqueue.toml with every key at its default; `parse` accepts it as it is."""
    lines: list[str] = []
    section = ""
    for setting in TABLE:
        head, _, name = setting.key.partition(".")
        if head != section:
            section = head
            lines += ["", f"[{head}]"] if lines else [f"[{head}]"]
        lines += [f"# {setting.doc}: {setting.valid}", f"{name} = {_toml(setting.default)}"]
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


def _checked(source: str, key: str, value: Any) -> Any:
    setting = _BY_KEY.get(key)
    if setting is None:
        raise SettingsError(source, key, value, f"a known key: {_nearest(key)}")
    if isinstance(setting.default, float) and type(value) is int:
        value = float(value)
    if type(value) is not type(setting.default) or not setting.ok(value):
        raise SettingsError(source, key, value, setting.valid)
    if isinstance(value, list) and not all(type(item) is int and item >= 0 for item in value):
        raise SettingsError(source, key, value, setting.valid)
    return value


def _mode(source: str, key: str, value: Any) -> Mode:
    if value not in MODES:
        raise SettingsError(source, key, value, f"one of {', '.join(MODES)}")
    return Mode(value)


def _nearest(key: str) -> str:
    """The keys that were probably meant; all of them where nothing is near."""
    import difflib

    near = difflib.get_close_matches(key, _BY_KEY, n=3, cutoff=0.6)
    return ", ".join(near or _BY_KEY)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
