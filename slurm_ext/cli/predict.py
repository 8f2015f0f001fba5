"""`dlqueue predict job.sh`: what dlqueue would change in a job, and why.

Asks the running advisor, else reads the history itself, and works with neither. Start to answer has
to be quick: everything is imported where it is used.
"""

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from slurm_ext.advise.journey import Known
    from slurm_ext.facts.records import Submission
    from slurm_ext.facts.settings import Settings
    from slurm_ext.model.duration_known import Length

HELP = (
    "Say what dlqueue would change in a batch script, and why; with --what-if, how it would do in"
    " other shapes. Changes and records nothing."
)
MAX_SCRIPT_BYTES = 4 * 1024 * 1024  # slurm.conf(5), max_script_size
TIMEOUT_S = 5.0
MOST_ENDED = 10_000  # jobs that a command without an advisor reads for run times: half a second
_AXES = {  # option: fewest, meaning
    "cores": (1, "CPUs of each task to compare"),
    "workers": (0, "data-loader workers of each training process to compare"),
    "gpus": (1, "GPUs of the whole job to compare"),
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    from slurm_ext.cli.axes import counts, names

    parser.add_argument("script", metavar="SCRIPT", help="a batch script, as sbatch would take it")
    parser.add_argument("args", nargs="*", metavar="ARGS", help="its arguments (after --)")
    parser.add_argument("--ood", action="store_true",
                        help="as attributes of an Open OnDemand form, one a line")  # fmt: skip
    table = parser.add_argument_group("what if (each of these options asks for the table)")
    table.add_argument("--what-if", action="store_true", help="a table of other shapes")
    for name, (least, text) in _AXES.items():
        table.add_argument(f"--{name}", type=partial(counts, least), metavar="N,...", default=(),
                           help=text)  # fmt: skip
    table.add_argument("--gpu-type", type=names, metavar="NAME,...", default=(),
                       help="GPU types to compare, as Slurm or the driver names them")  # fmt: skip
    table.add_argument("--plot", action="store_true", help="samples/s over cores or workers")


def run(args: argparse.Namespace) -> int:
    """Print the answer; raises InputError, SettingsError, HistoryError."""
    from slurm_ext.facts.settings import load

    settings = load(args.config)
    job = submission(args.script, tuple(args.args))
    if args.what_if or args.plot or args.cores or args.workers or args.gpus or args.gpu_type:
        from slurm_ext.cli import what_if
        from slurm_ext.facts.errors import UsageError

        if args.ood:
            raise UsageError("--ood fills in a form as predict says: it takes no --what-if")
        return what_if.run(args, settings, job)
    said = _from_advisor(settings, job)
    source = "advisor" if said is not None else "history"
    document = {"v": 1, "script": args.script, "source": source}
    document |= said if said is not None else _from_history(settings, job)
    document |= _because(settings, job, document)
    _print(document, args)
    return 0


def _because(settings: "Settings", job: "Submission", said: dict[str, Any]) -> dict[str, Any]:
    """The past runs behind it (null: this user may not read them), and what would change it."""
    from slurm_ext.cli.evidence_text import would_change
    from slurm_ext.facts.errors import HistoryError
    from slurm_ext.facts.keys import keys_of
    from slurm_ext.history.past import past_of

    try:
        past = past_of(settings.state_dir / "history.db", said["level"], keys_of(job))
    except HistoryError:
        past = None
    return {"past": past, "would_change": would_change(said, settings["policy.min_gain"])}


def _print(document: dict[str, Any], args: argparse.Namespace) -> None:
    import json

    if args.ood:
        from slurm_ext.cli import predict_ood

        known = {"v": 1, "attributes": predict_ood.attributes(document)}
        print(json.dumps(known) if args.json else "\n".join(predict_ood.lines(document)))
    elif args.json:
        print(json.dumps(document))
    else:
        from slurm_ext.cli.predict_text import show

        show(document)


def submission(script: str, args: tuple[str, ...]) -> "Submission":
    """What `sbatch SCRIPT ARGS` of this user would submit. Raises InputError."""
    import os
    import pwd

    from slurm_ext.advise.script import read_script
    from slurm_ext.facts.wire import ENV_NAMES

    uid = os.getuid()
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = str(uid)
    env = {name: os.environ[name] for name in ENV_NAMES if name in os.environ}
    return read_script(
        _text(script),
        script,
        args=args,
        user_name=user,
        user_id=uid,
        work_dir=os.getcwd(),  # noqa: PTH109 (pathlib is not needed for anything else)
        env=env,
    )


def _text(script: str) -> str:
    from slurm_ext.facts.errors import InputError

    try:
        with open(script, "rb") as file:  # noqa: PTH123 (pathlib is not needed for anything else)
            raw = file.read(MAX_SCRIPT_BYTES + 1)
    except OSError as error:
        raise InputError(script, f"cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise InputError(repr(script), f"cannot be read: {error}") from None
    if len(raw) > MAX_SCRIPT_BYTES:
        raise InputError(script, f"is larger than {MAX_SCRIPT_BYTES} bytes, Slurm's own limit")
    if b"\0" in raw:
        raise InputError(script, "holds a NUL byte, which sbatch refuses")
    return raw.decode("utf-8", "surrogateescape")


def asked(settings: "Settings", kind: str, job: "Submission") -> dict[str, Any] | None:
    """The running advisor's reply; None where there is none, or it cannot say."""
    import json
    import socket

    from slurm_ext.facts.wire import MAX_SCRIPT_BYTES as MOST_BYTES
    from slurm_ext.facts.wire import encode_request

    if len(job.script or "") > MOST_BYTES:
        return None
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(TIMEOUT_S)
            client.connect(settings["paths.socket"])
            client.sendall(encode_request(kind, job))
            said = json.loads(client.makefile("rb").readline())
    except (OSError, ValueError):
        return None
    return said if isinstance(said, dict) else None


def _from_advisor(settings: "Settings", job: "Submission") -> dict[str, Any] | None:
    said = asked(settings, "predict", job)
    if said is None or "action" not in said:
        return None
    wire = ("v", "decision", "edits", "message")
    return {name: value for name, value in said.items() if name not in wire}


def _from_history(settings: "Settings", job: "Submission") -> dict[str, Any]:
    """The same answer from the history's file; no history is no evidence. Raises HistoryError."""
    from slurm_ext.advise.journey import think
    from slurm_ext.advise.said import told

    _must_be_allowed(settings)
    known = known_by_history(settings, job)
    return told(known, think(job, known), length=length_by_history(settings, job))


def _must_be_allowed(settings: "Settings") -> None:
    """Raises AdvisorError where the advisor and the history are there, but for others."""
    import os

    from slurm_ext.facts.errors import AdvisorError

    history, asked = settings.state_dir / "history.db", settings["paths.socket"]
    there = history.exists() and os.path.exists(asked)  # noqa: PTH110 (as above)
    if there and not os.access(history, os.R_OK) and not os.access(asked, os.W_OK):
        how = "advisor.socket_mode = 438 in the site's dlqueue.toml lets everybody ask (INSTALL.md)"
        raise AdvisorError(f"{asked} is not for this user: {how}")


def length_by_history(settings: "Settings", job: "Submission") -> "Length | None":
    """How long it will run, by the promoted model; None without one. Raises HistoryError."""
    import time
    from contextlib import suppress

    from slurm_ext.advise.run_times import RunTimes
    from slurm_ext.facts.errors import ModelError

    run_times = RunTimes()
    with suppress(ModelError):  # a damaged one serves nobody; `dlqueue train` replaces it
        run_times.look(settings.state_dir, MOST_ENDED)
    return run_times.of(job, time.time())


def known_by_history(settings: "Settings", job: "Submission") -> "Known":
    """What the history's file and the promoted model know of a submission. Raises HistoryError."""
    from slurm_ext.advise.journey import Known
    from slurm_ext.facts.keys import keys_of

    keys = keys_of(job)
    path = settings.state_dir / "history.db"
    evidence, factor = {}, 1.0
    if path.exists():
        from slurm_ext.advise.calibrate import NEWEST, factor_of
        from slurm_ext.history.lookup import outcomes, runs_like

        evidence, factor = runs_like(path, keys), factor_of(outcomes(path, NEWEST))
    prior = _prior(settings.state_dir / "models", job, keys)
    return Known(settings=settings, evidence=evidence, prior=prior, factor=factor)


def _prior(models: "Path", job: "Submission", keys: Any) -> Any:
    """The promoted model's word; numpy is imported only where there is a model."""
    if not (models / "current").exists():
        return None
    from slurm_ext.advise.prior import Priors, serving

    return serving(models, Priors()).prior_of(job, keys)
