"""`dlqueue man`: manual pages, made from the same source as --help."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

HELP = (
    "Print a manual page, or write all of them into a folder, made from the same source as --help."
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Which page, and where to."""
    from slurm_ext.cli.common.commands import COMMANDS

    parser.add_argument(
        "page",
        nargs="?",
        choices=sorted([*COMMANDS, "record"]),
        metavar="COMMAND",
        help="only this one's page; `record` is the page of the run record's fields",
    )
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="write NAME.1, NAME.5 files there"
    )


def run(args: argparse.Namespace) -> int:
    """Print or write pages; raises InputError where the folder cannot be written."""
    by_name = pages()
    if args.page:
        by_name = {f"dlqueue-{args.page}": by_name[f"dlqueue-{args.page}"]}
    if args.output:
        written = _write(by_name, args.output)
        print(json.dumps({"written": written}) if args.json else "\n".join(written))
    elif args.json:
        print(json.dumps({"pages": by_name}))
    else:
        print(by_name.get(f"dlqueue-{args.page}") or by_name["dlqueue"], end="")
    return 0


def pages() -> dict[str, str]:
    """Every page by its name, in roff: `dlqueue`, one for each command, the run record's fields."""
    from slurm_ext.cli.common import record_page
    from slurm_ext.cli.common.commands import COMMANDS
    from slurm_ext.cli.common.parsers import module_of, parser_of, whole

    by_name = {"dlqueue": _overview(whole())}
    for command, summary in COMMANDS.items():
        parser = parser_of(command, module_of(command))
        page = _page(parser, f"dlqueue-{command}", summary)
        by_name[f"dlqueue-{command}"] = page + "".join(_facts(command))
    return {**by_name, record_page.NAME: record_page.record_page()}


def _overview(parser: argparse.ArgumentParser) -> str:
    """The page of `dlqueue` itself: the list of commands, each with a page of its own."""
    from slurm_ext.cli import usage
    from slurm_ext.cli.common.commands import COMMANDS

    bare = argparse.ArgumentParser(
        prog="dlqueue", usage="dlqueue COMMAND [options]", add_help=False
    )
    bare.description = parser.description
    listed = "".join(
        f".TP\n\\fBdlqueue\\-{name}\\fR(1)\n{summary.replace('-', chr(92) + '-')}\n"
        for name, summary in COMMANDS.items()
    )
    common = usage().rpartition("\n")[2]
    page = _page(bare, "dlqueue", parser.description or "")
    return f"{page}.SH COMMANDS\n{listed}.PP\n{common}\n{''.join(_facts(None))}"


def _facts(command: str | None) -> Iterator[str]:
    """Sections of one command's page, or of the overview's, from command_facts.py."""
    from slurm_ext.cli.common import command_facts as facts
    from slurm_ext.cli.common.roff import section

    examples = facts.EXAMPLES[command] if command else facts.OVERVIEW_EXAMPLES
    yield section("EXAMPLES", "B", examples)
    yield section("EXIT STATUS", "B", facts.statuses(command or ""))
    yield section("FILES", "I", facts.files(command) if command else facts.OVERVIEW_FILES)


def _page(parser: argparse.ArgumentParser, name: str, summary: str) -> str:
    from argparse_manpage.manpage import Manpage

    from slurm_ext import __version__

    parser.man_short_description = summary  # type: ignore[attr-defined]  # how Manpage is told
    page = Manpage(parser, format="pretty")
    page.prog, page.source, page.manual = name, f"dlqueue {__version__}", "dlqueue"
    page.date = ""  # the version tells more, and pages of one version are the same
    return str(page)


def _write(by_name: dict[str, str], folder: Path) -> list[str]:
    from slurm_ext.cli.common.output import put_file
    from slurm_ext.core.errors import InputError

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = f"{error.strerror}; give a folder to write to"
        raise InputError(f"--output {folder}", why) from error
    for name, text in by_name.items():
        put_file(folder / _file(name), text, mode=0o644)
    return [str(folder / _file(name)) for name in by_name]


def _file(page: str) -> str:
    """Commands are in section 1 of the manual, formats in section 5."""
    from slurm_ext.cli.common.record_page import NAME

    return f"{page}.5" if page == NAME else f"{page}.1"
