"""`dlqueue predict job.sh`: what dlqueue would change in a job, and why.

Asks the running advisor, else reads the history itself, and works with neither. Start to answer has
to be quick: everything is imported where it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from slurm_ext.core.records import Submission
    from slurm_ext.core.settings.document import Settings

HELP = (
    "Say what dlqueue would change in a batch script, and why; with --what-if, how it would do in"
    " other shapes. Changes and records nothing."
)
_AXES = {  # option: fewest, meaning
    "cores": (1, "CPUs of each task to compare"),
    "workers": (0, "data-loader workers of each training process to compare"),
    "gpus": (1, "GPUs of the whole job to compare"),
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    from functools import partial

    from slurm_ext.cli.common.time_args import counts, names

    parser.add_argument(
        "script",
        metavar="SCRIPT",
        help="a batch script, as sbatch would take it; or sbatch with what you would type"
        " behind it: dlqueue predict sbatch -c 4 job.sh",
    )
    parser.add_argument(
        "args", nargs="*", default=[], metavar="ARGS", help="its arguments (after --)"
    )
    parser.add_argument(
        "--ood", action="store_true", help="as attributes of an Open OnDemand form, one a line"
    )
    table = parser.add_argument_group("what if (each of these options asks for the table)")
    table.add_argument("--what-if", action="store_true", help="a table of other shapes")
    for name, (least, text) in _AXES.items():
        table.add_argument(
            f"--{name}", type=partial(counts, least), metavar="N,...", default=(), help=text
        )
    table.add_argument(
        "--gpu-type",
        type=names,
        metavar="NAME,...",
        default=(),
        help="GPU types to compare, as Slurm or the driver names them",
    )
    table.add_argument("--plot", action="store_true", help="samples/s over cores or workers")


def run(args: argparse.Namespace) -> int:
    """Print the answer; raises InputError, SettingsError, HistoryError."""
    if args.what_if or args.plot or args.cores or args.workers or args.gpus or args.gpu_type:
        return _what_if(args)
    document = _answer(args.script, args.args, args.config)
    if args.ood:
        _print_form(document, as_json=args.json)
    else:
        _print(document, as_json=args.json)
    return 0


def run_plain(words: list[str]) -> int | None:
    """Answer for a script alone, without argparse, whose import costs half a Python's own start.

    None: its words are for argparse. Raises as `run` does.
    """
    from pathlib import Path

    end = words.index("sbatch") + 1 if "sbatch" in words else len(words)
    ours, args = words[:end], words[end:]  # behind sbatch, words are its own
    left, config = [word for word in ours if word != "--json"], None
    if "--config" in left[:-1]:
        place = left.index("--config")
        config = Path(left[place + 1])
        del left[place : place + 2]
    if len(left) != 1 or left[0].startswith("-"):
        return None
    _print(_answer(left[0], args, config), as_json="--json" in ours)
    return 0


def _what_if(args: argparse.Namespace) -> int:
    from slurm_ext.cli.common.settings import load_for_history
    from slurm_ext.cli.predict import what_if
    from slurm_ext.cli.predict.refusal import must_stay
    from slurm_ext.cli.predict.script_file import submission
    from slurm_ext.core.errors import UsageError

    if args.script == "sbatch":
        raise UsageError("other shapes are compared of a script with its options inside (#SBATCH)")
    settings = load_for_history(args.config)
    job = submission(args.script, tuple(args.args))
    if args.ood:
        raise UsageError("--ood fills in a form as predict says: it takes no --what-if")
    must_stay(settings, job)
    return what_if.run(args, settings, job)


def _answer(script: str, args: Sequence[str], config: Path | None) -> dict[str, Any]:
    """The document of `predict --json`."""
    from slurm_ext.cli.common.settings import load_for_history
    from slurm_ext.cli.predict.refusal import must_stay, refusal_of
    from slurm_ext.cli.predict.script_file import submission

    settings = load_for_history(config)
    job = submission(script, tuple(args))
    must_stay(settings, job, args if script == "sbatch" else ())
    reply = _from_advisor(settings, job)
    source = "advisor" if reply else "history"
    document: dict[str, Any] = {"v": 1, "script": job.argv[0], "source": source}
    document |= reply or _from_history(settings, job)
    min_gain = document.pop("policy", {}).get("policy.min_gain", settings["policy.min_gain"])
    document |= _because(settings, job, document, min_gain)
    document["refused"] = refusal_of(settings, script, args)
    return document


def _because(
    settings: Settings, job: Submission, answer: dict[str, Any], min_gain: float
) -> dict[str, Any]:
    """The past runs behind it (null: this user may not read them), and what would change it."""
    from slurm_ext.cli.common.evidence_text import would_change

    would = would_change(answer, min_gain)
    if "past" in answer or answer["level"] is None:
        return {"past": answer.get("past", []), "would_change": would}
    from slurm_ext.questions.answers import viewer_here
    from slurm_ext.questions.predicted import past_of

    past = past_of(settings, viewer_here(), answer["level"], job)
    return {"past": past, "would_change": would}


def _print_form(document: dict[str, Any], *, as_json: bool) -> None:
    import json

    from slurm_ext.cli.predict import ondemand

    form = {"v": 1, "attributes": ondemand.attributes(document)}
    print(json.dumps(form) if as_json else "\n".join(ondemand.lines(document)))


def _print(document: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        import json

        print(json.dumps(document))
    else:
        from slurm_ext.cli.predict.text import show

        show(document)


def _from_advisor(settings: Settings, job: Submission) -> dict[str, Any] | None:
    from slurm_ext.cli.predict.ask import ask

    answer = ask(settings, "predict", job)
    if answer is None or "action" not in answer:
        return None
    wire = ("v", "decision", "edits", "message")
    return {name: value for name, value in answer.items() if name not in wire}


def _from_history(settings: Settings, job: Submission) -> dict[str, Any]:
    """The same answer from the history's file; no history is no evidence. Raises HistoryError."""
    from slurm_ext.advisor.pipeline.decide import decide
    from slurm_ext.advisor.service.from_history import context_from_history, runtime_from_history
    from slurm_ext.advisor.service.recommendation_json import recommendation_json

    _must_be_allowed(settings)
    context = context_from_history(settings, job)
    return recommendation_json(
        context, decide(job, context), runtime=runtime_from_history(settings, job)
    )


def _must_be_allowed(settings: Settings) -> None:
    """Raises AdvisorError where the advisor and the history are there, but for others."""
    import os

    from slurm_ext.core.errors import AdvisorError

    history, socket = settings.state_dir / "history.db", settings["paths.socket"]
    there = history.exists() and os.path.exists(socket)  # noqa: PTH110 (as above)
    if there and not os.access(history, os.R_OK) and not os.access(socket, os.W_OK):
        how = "advisor.socket_mode = 438 in the site's dlqueue.toml lets everybody ask (INSTALL.md)"
        raise AdvisorError(f"{socket} is not for this user: {how}")
