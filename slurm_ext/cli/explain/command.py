"""`dlqueue explain JOBID|TOKEN`: what one job used, its prediction, action and outcome."""

import argparse

HELP = "Print what one job used of what it asked for, what was predicted, decided and measured."


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's argument."""
    about = "1042, 1042_7 (a task of an array) or d1-0123456789abcdef"
    parser.add_argument("job", metavar="JOBID|TOKEN", help=about)


def run(args: argparse.Namespace) -> int:
    """Print the document; raises UsageError, HistoryError."""
    from slurm_ext.cli.common.output import tell
    from slurm_ext.cli.common.settings import load_for_history
    from slurm_ext.cli.explain.text import lines
    from slurm_ext.questions.answers import document_of

    document = document_of(load_for_history(args.config), "explain", job=args.job)
    tell(document, lines, as_json=args.json)
    return 0
