"""`dlqueue completion SHELL`: what a shell needs to complete dlqueue's commands and options."""

import argparse
import json
from collections.abc import Mapping

HELP = "Print the completion script of a shell, made from the same source as --help."
SHELLS = ("bash", "zsh", "fish")
EPILOG = """\
bash: dlqueue completion bash > /etc/bash_completion.d/dlqueue
zsh:  dlqueue completion zsh > /usr/share/zsh/vendor-completions/_dlqueue
fish: dlqueue completion fish > /usr/share/fish/vendor_completions.d/dlqueue.fish"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The one argument: which shell."""
    parser.epilog, parser.formatter_class = EPILOG, argparse.RawDescriptionHelpFormatter
    parser.add_argument("shell", choices=SHELLS, help="whose script")


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    script = script_of(args.shell)
    print(json.dumps({"shell": args.shell, "script": script}) if args.json else script)
    return 0


def script_of(shell: str) -> str:
    """The script for `shell`, with files completed where an argument is one."""
    import shtab

    from slurm_ext.cli.common.parsers import whole

    parser = whole()
    kinds = {"FILE": shtab.FILE, "SCRIPT": shtab.FILE, "TRACE": shtab.FILE}
    _complete_files(parser, {**kinds, "DIR": shtab.DIRECTORY, "FOLDER": shtab.DIRECTORY})
    return shtab.complete(parser, shell)


def _complete_files(parser: argparse.ArgumentParser, kinds: Mapping[str, object]) -> None:
    """Complete an argument as a file or a folder where the help calls it one."""
    for action in parser._actions:  # noqa: SLF001 (argparse shows its arguments nowhere else)
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 (as above)
            for below in action.choices.values():
                _complete_files(below, kinds)
        elif kind := kinds.get(str(action.metavar or action.dest).upper()):
            action.complete = kind  # type: ignore[attr-defined]  # how shtab is told
