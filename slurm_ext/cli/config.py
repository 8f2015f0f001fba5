"""`dlqueue config`: the settings in force, a sample, and what is rendered from them."""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurm_ext.facts.settings import Settings

HELP = (
    "Print every setting in force with its meaning, print a commented sample dlqueue.toml, "
    "or write what nodes and slurmctld read: node.json, hooks/ and lua/."
)
HOOKS = ("prolog", "task_prolog", "epilog")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    action = parser.add_mutually_exclusive_group()
    action.add_argument(
        "--sample", action="store_true", help="print a commented dlqueue.toml with the defaults"
    )
    action.add_argument(
        "--write",
        type=Path,
        metavar="FOLDER",
        help="write node.json, hooks/ and lua/ into FOLDER (INSTALL.md, steps 3 to 5)",
    )


def run(args: argparse.Namespace) -> int:
    """Print or write; raises SettingsError where the file is wrong."""
    from slurm_ext.facts.settings import TABLE, load, sample

    if args.sample:
        print(sample(), end="")
        return 0
    settings = load(args.config)
    values = {setting.key: settings[setting.key] for setting in TABLE}
    modes = {"partition": settings.partition_modes, "account": settings.account_modes}
    if args.write:
        _print_written(write(settings, args.write.absolute()), args.json)
    elif args.json:
        import json

        print(json.dumps({"source": settings.source, "settings": values, "modes": modes}))
    else:
        print(f"# {settings.source}")
        for setting in TABLE:
            print(f"{setting.key} = {values[setting.key]!r}  # {setting.doc}")
        for group, names in modes.items():
            for name, mode in names.items():
                print(f"mode.{group}.{name} = {mode.value!r}")
    return 0


def write(settings: "Settings", folder: Path) -> list[Path]:
    """Write every rendered file, each whole or not at all; the paths. Raises InputError."""
    from slurm_ext.facts.errors import InputError

    written = []
    for name, text, mode in _rendered(settings, folder):
        path = folder / name
        part = path.with_name(f".{path.name}.new")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(text, encoding="utf-8")
            part.chmod(mode)
            os.replace(part, path)  # noqa: PTH105 (os.replace names the promise: atomic)
        except OSError as error:
            raise InputError(str(path), f"cannot be written: {error.strerror}") from None
        written.append(path)
    return written


def _rendered(settings: "Settings", folder: Path) -> Iterator[tuple[str, str, int]]:
    from slurm_ext.facts.render import render_hook, render_lua_folder, render_node_config

    yield "node.json", render_node_config(settings), 0o644
    for hook in HOOKS:
        yield f"hooks/{hook}", render_hook(settings, hook, str(folder / "node.json")), 0o755
    for name, text in render_lua_folder(settings, folder / "lua").items():
        yield f"lua/{name}", text, 0o644


def _print_written(paths: list[Path], as_json: bool) -> None:
    import json

    print(json.dumps({"written": list(map(str, paths))}) if as_json else "\n".join(map(str, paths)))
