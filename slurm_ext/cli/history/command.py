"""`dlqueue history ls|show|export|import`: the runs that dlqueue learns from."""

import argparse
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slurm_ext.core.settings.document import Settings
    from slurm_ext.history.store.store import History

HELP = "List, show and export the runs that dlqueue learns from, and import earlier ones."


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verbs; each takes --json and --config after it, too."""
    from slurm_ext.cli.history import import_runs

    common = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    common.add_argument("--json", action="store_true", help="print one JSON document instead")
    common.add_argument("--config", type=Path, metavar="FILE", help="settings file to use")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="ls|show|export|import")
    ls = verbs.add_parser("ls", parents=[common], help="list runs, newest first")
    show = verbs.add_parser("show", parents=[common], help="everything known of one job")
    show.add_argument("job_id", metavar="JOBID")
    export = verbs.add_parser("export", parents=[common], help="write runs to a file")
    for verb, limit in ((ls, 20), (export, None)):
        verb.add_argument("--user", help="only this user's runs")
        verb.add_argument("--partition", help="only runs of this partition")
        verb.add_argument("--since", help="ended since: 7d, 12h, 2026-01-31 or 2026-01-31T08:00")
        verb.add_argument("--limit", type=int, default=limit, help=f"at most so many ({limit})")
    import_runs.configure(verbs.add_parser("import", parents=[common], help=import_runs.ABOUT))
    export.add_argument("--format", choices=("csv", "jsonl", "parquet"), default="csv")
    export.add_argument("--output", type=Path, metavar="FILE", help="default: standard output")


def run(args: argparse.Namespace) -> int:
    """Answer one verb; raises HistoryError, UsageError, InputError or MissingError."""
    from slurm_ext.cli.common.settings import load_for_history

    settings = load_for_history(args.config)
    if args.verb == "import":
        from slurm_ext.cli.history import import_runs

        return import_runs.run(args, settings)
    return {"ls": _ls, "show": _show, "export": _export}[args.verb](settings, args)


def _number(word: str) -> int:
    """The number of a job. Raises UsageError."""
    from slurm_ext.core.errors import UsageError
    from slurm_ext.questions.explain.named import parse

    name = parse(word)
    if name.job_id is None or name.task is not None:
        raise UsageError(f"{word!r} is not a job's own number: `dlqueue explain {word}` knows it")
    return name.job_id


def _ls(settings: "Settings", args: argparse.Namespace) -> int:
    from slurm_ext.questions.answers import document_of

    document = document_of(settings, "history_runs", **_fields(args))
    if args.json:
        _print_json(document)
    else:
        from slurm_ext.cli.history import tables

        tables.print_runs(document["runs"])
    return 0


def _show(settings: "Settings", args: argparse.Namespace) -> int:
    from slurm_ext.questions.answers import document_of

    document = document_of(settings, "history_job", job_id=_number(args.job_id))
    if args.json:
        _print_json(document)
    else:
        from slurm_ext.cli.history import tables

        tables.print_job(document)
    return 0


def _export(settings: "Settings", args: argparse.Namespace) -> int:
    from slurm_ext.core.errors import NoHistoryError, UsageError
    from slurm_ext.history.store.store import open_history

    if args.json and args.output is None:
        raise UsageError("--json tells of a file: name one by --output; --format jsonl prints rows")
    path, wait_ms = settings.state_dir / "history.db", settings["history.busy_timeout_ms"]
    try:
        with open_history(path, busy_timeout_ms=wait_ms, read_only=True) as history:
            return _written(history, args)
    except NoHistoryError as error:
        raise NoHistoryError(f"{error}; a site's is exported on the advisor's machine") from None


def _written(history: "History", args: argparse.Namespace) -> int:
    from slurm_ext.history.views import export, queries

    chosen = queries.Filter(**_fields(args))
    total = queries.count(history, chosen)
    rows = _progress(queries.runs(history, chosen), total)
    names = queries.column_names(history)
    export.write(rows, names, queries.column_kinds(history), args.format, args.output)
    if args.json and args.output is not None:
        _print_json({"runs": total, "format": args.format, "output": str(args.output)})
    return 0


def _fields(args: argparse.Namespace) -> dict[str, Any]:
    """Fields of the question, as of queries.Filter. Raises UsageError."""
    from slurm_ext.cli.common.limits import check_limit
    from slurm_ext.cli.common.time_args import seconds_of

    if args.limit is not None:
        check_limit(args.limit)
    since_s = None if args.since is None else seconds_of("--since", args.since, time.time())
    names = ("user", "partition", "limit")
    return {"since_s": since_s, **{name: getattr(args, name) for name in names}}


def _progress(rows: Iterable[dict[str, Any]], total: int) -> Iterator[dict[str, Any]]:
    """The rows, with a bar on stderr where that is a terminal."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    yield from track(
        rows, "exporting", total, console=console, transient=True, disable=not console.is_terminal
    )


def _print_json(document: dict[str, Any]) -> None:
    import json

    print(json.dumps(document))
