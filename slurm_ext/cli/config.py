"""`dlqueue config`: the settings in force, a sample, and what is rendered from them."""

import argparse
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurm_ext.core.settings.document import Settings

HELP = (
    "Print every setting in force with its meaning, print a commented sample dlqueue.toml, "
    "or write what nodes and slurmctld read: node.json, hooks/ and lua/."
)


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
    from slurm_ext.core.settings.document import TABLE, load, sample

    if args.sample:
        _print_sample(sample(), args.json)
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
    from slurm_ext.core.errors import InputError
    from slurm_ext.core.files import replace_file
    from slurm_ext.core.settings.render import render_folder

    written = []
    for name, text, mode in render_folder(settings, folder):
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, text.encode(), prepare=partial(_exact_mode, mode))
        except OSError as error:
            raise InputError(str(path), f"cannot be written: {error.strerror}") from None
        written.append(path)
    return written


def _exact_mode(mode: int, file: int) -> None:
    os.fchmod(file, mode)


def _print_sample(text: str, as_json: bool) -> None:
    import json

    print(json.dumps({"sample": text}) if as_json else text, end="\n" if as_json else "")


def _print_written(paths: list[Path], as_json: bool) -> None:
    import json

    print(json.dumps({"written": list(map(str, paths))}) if as_json else "\n".join(map(str, paths)))
