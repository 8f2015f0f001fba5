"""Checks of `doctor`: the advisor and its files."""

import socket
from collections.abc import Iterator
from pathlib import Path

from slurm_ext.cli.doctor.finding import FAIL, OK, WARN, Finding, judged
from slurm_ext.core.errors import DlqueueError, NoHistoryError
from slurm_ext.core.settings.document import Settings


def state(settings: Settings) -> Iterator[Finding]:
    """The advisor's folder, its history, and where it looks for records."""
    folder = settings.state_dir
    if not folder.is_dir():
        yield Finding("state_dir", WARN, f"{folder} is not there", "`dlqueue serve` makes it")
        return
    yield Finding("state_dir", OK, str(folder))
    yield from _history(folder / "history.db")
    if settings["node.transport"] == "folder":
        yield _records(Path(settings["node.folder"]), folder / "spool")


def advisor(settings: Settings) -> Iterator[Finding]:
    """Check that the advisor answers and is not switched off."""
    if Path(settings["paths.kill_file"]).exists():
        seen = settings["paths.kill_file"]
        yield Finding("kill file", WARN, seen, "remove it to switch dlqueue on")
    from slurm_ext.core.wire import encode_request

    where = settings["paths.socket"]
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(1)
            client.connect(where)
            client.sendall(encode_request("ping"))
            answered = client.recv(4096).startswith(b"{")
    except PermissionError:
        advice = "only root and SlurmUser may ask; advisor.socket_mode = 438 lets everybody"
        yield Finding("advisor", WARN, f"{where}: not for you", advice)
    except OSError as error:
        seen = f"{where}: {error.strerror or error}"
        yield Finding("advisor", WARN, seen, "start `dlqueue serve`")
    else:
        advice = "something else listens there: see paths.socket"
        yield judged("advisor", answered, where, advice, FAIL)


def _history(path: Path) -> Iterator[Finding]:
    from slurm_ext.history.store.store import open_history

    try:
        with open_history(path, read_only=True) as history:
            runs = history.conn.execute("SELECT count(*) FROM runs").fetchone()[0]
            aside = history.conn.execute(
                "SELECT count(*), reason FROM set_aside ORDER BY aside_s DESC LIMIT 1"
            ).fetchone()
    except NoHistoryError:
        yield Finding("history", WARN, f"{path}: none yet", "`dlqueue serve` makes it")
        return
    except DlqueueError as error:
        seen, _, advice = str(error).partition("; ")
        yield Finding("history", FAIL, seen, advice)
        return
    yield Finding("history", OK, f"{runs} runs")
    seen = f"{aside[0]} records, such as: {aside[1]}" if aside[0] else "none"
    advice = f"they could not be read; they are in {path.parent / 'aside'}"
    yield judged("set aside", not aside[0], seen, advice)


def _records(shared: Path, taken_from: Path) -> Finding:
    """Nodes put records into one path, the advisor takes them from another: it is one folder."""
    if not shared.is_dir():
        advice = "make it (INSTALL.md, 2); until then records wait on the nodes"
        return Finding("node.folder", WARN, f"{shared} is not there", advice)
    advice = f"link {taken_from} to it, or the advisor finds no record (INSTALL.md, 2)"
    return judged("node.folder", shared.resolve() == taken_from.resolve(), shared, advice, FAIL)
