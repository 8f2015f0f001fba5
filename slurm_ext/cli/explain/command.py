"""`dlqueue explain JOBID|TOKEN`: what one job used, its prediction, action and outcome."""

import argparse
from pathlib import Path

HELP = "Print what one job used of what it asked for, what was predicted, decided and measured."


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's argument."""
    about = "1042, 1042_7 (a task of an array) or d1-0123456789abcdef"
    parser.add_argument("job", metavar="JOBID|TOKEN", help=about)
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with its plots")


def run(args: argparse.Namespace) -> int:
    """Print the document, and write its page; raises UsageError, HistoryError, InputError."""
    from slurm_ext.cli.common.output import put_file, tell
    from slurm_ext.cli.common.settings import load_for_history
    from slurm_ext.cli.explain.text import lines
    from slurm_ext.questions.answers import document_of

    if args.html is not None:
        from slurm_ext.report import plots

        plots.require()
    document = document_of(load_for_history(args.config), "explain", job=args.job)
    tell(document, lines, as_json=args.json)
    if args.html is not None:
        from slurm_ext.cli.explain.page import page

        put_file(args.html, page(document))
    return 0
