"""`dlqueue recommend`: ranks per GPU, batch and workers of each rank, from what runs measured."""

import argparse

HELP = (
    "Say how many ranks of a training should share each GPU, with which batch and workers, from"
    " what its runs measured; with --nodes, which nodes are cheapest and fastest for it. Changes"
    " and records nothing."
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("script", metavar="SCRIPT", nargs="?", help="a batch script; or --name")
    parser.add_argument(
        "args", nargs="*", default=[], metavar="ARGS", help="its arguments (after --)"
    )
    parser.add_argument("--name", metavar="JOB", help="a job name in the history, not a script")
    parser.add_argument("--user", metavar="USER", help="whose job of that name (default: yours)")
    parser.add_argument("--gpu-mem-mib", type=_count, metavar="N", help="memory of one GPU")
    parser.add_argument(
        "--most-batch",
        type=_count,
        metavar="N",
        help="largest global batch you allow (default: as it is)",
    )

    from slurm_ext.cli.recommend.nodes import configure as configure_nodes
    from slurm_ext.cli.recommend.spatial import configure as configure_spatial

    configure_nodes(parser)
    configure_spatial(parser)


def run(args: argparse.Namespace) -> int:
    """Print the recommendation; raises UsageError, InputError, HistoryError."""
    from slurm_ext.cli.common.output import tell
    from slurm_ext.cli.common.settings import load_for_history
    from slurm_ext.cli.recommend import nodes, spatial
    from slurm_ext.cli.recommend.fields import fields_of
    from slurm_ext.cli.recommend.text import lines
    from slurm_ext.questions.answers import document_of

    if args.spatial is not None:
        tell(spatial.recommended(args), spatial.lines, as_json=args.json)
        return 0
    settings = load_for_history(args.config)
    if nodes.is_wanted(args):
        return nodes.run(args, settings)
    document = document_of(settings, "ranks", **fields_of(args))
    tell({**document, "job": args.script or args.name}, lines, as_json=args.json)
    return 0


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 10**9):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)
