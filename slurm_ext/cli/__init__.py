"""The `dlqueue` command: one file a sub-command, imported only when it is the one that runs.

Exit status: 0 done, 1 could not, 2 wrong usage.
"""

import sys

from slurm_ext.cli.common.commands import COMMANDS


def main(argv: list[str] | None = None) -> int:
    """Run one sub-command; returns the exit status."""
    from slurm_ext.cli.common import streams

    words = sys.argv[1:] if argv is None else argv
    if words[:1] not in (["run"], ["profile"]):  # the user's program has the user's PATH
        from slurm_ext.core.ownership import trust_path

        trust_path()
    streams.prepare()
    try:
        return _flushed(words)
    except KeyboardInterrupt:
        streams.abandon()
        return 130
    except BrokenPipeError:
        # The reader (`| head`) has gone: that is not our failure, and no traceback helps.
        streams.abandon()
        return 1
    except OSError as error:
        streams.abandon()
        where = error.filename or "standard output"  # all else that is written has a name
        message = f"{' '.join(['dlqueue', *words[:1]])}: {where}: {error.strerror or error}"
        print(streams.plain(message), file=sys.stderr)
        return 1


def _flushed(words: list[str]) -> int:
    """The exit status, when all is written that there is to write."""
    try:
        status = _chosen(words)
    except SystemExit:  # argparse, after --help or a complaint
        sys.stdout.flush()
        raise
    sys.stdout.flush()
    return status


def _chosen(words: list[str]) -> int:
    if len(words) == 2 and words[0] == "help" and words[1] in COMMANDS:
        words = [words[1], "--help"]
    if not words or words[0] in ("-h", "--help", "help"):
        print(usage())
        return 0 if words else 2
    if words[0] == "--version":
        from slurm_ext import __version__

        print(f"dlqueue {__version__}")
        return 0
    if words[0] not in COMMANDS:
        print(f"dlqueue: {_unknown(words[0])}", file=sys.stderr)
        return 2
    return _run(words[0], words[1:])


def _unknown(word: str) -> str:
    """Name the commands that a mistyped one may mean, instead of a page with all of them."""
    from difflib import get_close_matches

    near = get_close_matches(word, COMMANDS, n=2)
    meant = f": did you mean {' or '.join(near)}?" if near else "."
    return f"no command {word!r}{meant} `dlqueue --help` lists all"


def usage() -> str:
    """The list of commands, as `dlqueue --help` prints it."""
    lines = [f"  {name:<10} {text}" for name, text in COMMANDS.items()]
    return "\n".join(
        [
            "usage: dlqueue COMMAND [options]",
            "",
            "Right-sizes deep-learning jobs on Slurm from what earlier jobs measured.",
            "",
            *lines,
            "",
            "Every command takes --help, --json and --config FILE.",
        ]
    )


def _run(command: str, words: list[str]) -> int:
    from slurm_ext.cli.common.parsers import module_of, parser_of
    from slurm_ext.core.errors import DlqueueError

    module = module_of(command)
    run_plain = getattr(module, "run_plain", None)
    try:
        status: int | None = run_plain(words) if run_plain else None
        if status is None:
            status = module.run(parser_of(command, module).parse_args(words))
    except DlqueueError as error:
        from slurm_ext.cli.common.streams import plain

        print(f"dlqueue {command}: {plain(str(error))}", file=sys.stderr)
        return error.exit_code
    return status
