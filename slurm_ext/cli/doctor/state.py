"""Checks of `doctor`: the advisor and its files."""

import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from slurm_ext.cli.doctor.finding import FAIL, OK, WARN, Finding, judged, output
from slurm_ext.cli.doctor.room import room
from slurm_ext.core.errors import DlqueueError, NoHistoryError
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.successes import TASKS, last_success_s, oldest_waiting

LATE_S = 600.0  # the alerts' bound of a waiting record and of a refresh
TRAINING_S = 3600.0  # longer than any training
MOST_FILES = 20_000  # of the spool that are looked at


def state(settings: Settings) -> Iterator[Finding]:
    """The advisor's folder, its history, and where it looks for records."""
    folder = settings.state_dir
    if not folder.is_dir():
        yield Finding("state_dir", WARN, f"{folder} is not there", "`dlqueue serve` makes it")
        return
    yield Finding("state_dir", OK, str(folder))
    yield from room("state room", folder)
    yield from _history(folder / "history.db")
    yield from _unseen(folder)
    if settings["node.transport"] == "folder":
        yield _records(Path(settings["node.folder"]), folder / "spool")


def advisor(settings: Settings) -> Iterator[Finding]:
    """Check that the advisor answers and is not switched off."""
    if Path(settings["paths.kill_file"]).exists():
        state = settings["paths.kill_file"]
        yield Finding("kill file", WARN, state, "remove it to switch dlqueue on")
    from slurm_ext.core.wire import encode_request

    where = settings["paths.socket"]
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(1)
            client.connect(where)
            client.sendall(encode_request("ping"))
            response = client.recv(4096)
    except PermissionError:
        advice = "only root and SlurmUser may ask; advisor.socket_mode = 438 lets everybody"
        yield Finding("advisor", WARN, f"{where}: not for you", advice)
    except TimeoutError:
        state = f"{where}: takes the question and does not answer{_unit()}"
        advice = "jobs are submitted as written meanwhile: systemctl restart dlqueue"
        yield Finding("advisor", FAIL, state, advice)
    except OSError as error:
        yield _stands_by(settings) or Finding(
            "advisor",
            WARN,
            f"{where}: {error.strerror or error}{_unit()}",
            "start `dlqueue serve`",
        )
    else:
        advice = "something else listens there: see paths.socket"
        yield judged("advisor", response.startswith(b"{"), where, advice, FAIL)
        if b'"limits":false' in response:
            advice = "jobs are submitted as written meanwhile; its log says what Slurm answers"
            yield Finding("limits", FAIL, "the advisor could not read Slurm's limits yet", advice)


def _stands_by(settings: Settings) -> Finding | None:
    """The advisor of another controller serves, and the one here waits for its turn, or may not."""
    from slurm_ext.advisor.service.standby import LOCK, other_cluster, owner_of
    from slurm_ext.advisor.service.unix_socket import SUBMIT

    try:
        with (settings.state_dir / LOCK).open() as lock:
            host = owner_of(lock.fileno())[0]
            cluster = other_cluster(lock.fileno(), settings["site.cluster"])
    except OSError:
        return None
    if cluster:
        state = f"{settings.state_dir} is the state folder of cluster {cluster} on {host}"
        return Finding("advisor", FAIL, state, "give each cluster a paths.state_dir of its own")
    waits = Path(f"{settings['paths.socket']}{SUBMIT}").is_socket()
    if not waits or host in ("", socket.gethostname()):
        return None
    return Finding("advisor", OK, f"waits until slurmctld asks here; that of {host} serves")


def _unit() -> str:
    """The state that systemd gives the advisor's unit, where there is one."""
    if shutil.which("systemctl") is None:
        return ""
    properties = output(["systemctl", "show", "--property=ActiveState,Result", "dlqueue"], {}) or ""
    words = [line.partition("=")[2] for line in properties.splitlines()]
    return f" (systemd: {', '.join(filter(None, words))})" if any(words) else ""


def _history(path: Path) -> Iterator[Finding]:
    from slurm_ext.advisor.evidence.calibrate import NEWEST
    from slurm_ext.advisor.evidence.standing import site_standing
    from slurm_ext.history.store.store import open_history
    from slurm_ext.history.views.outcomes import fair_outcomes, stopped_scripts

    try:
        with open_history(path, read_only=True) as history:
            runs = history.conn.execute("SELECT count(*) FROM runs").fetchone()[0]
            lost = history.conn.execute("SELECT sum(records) FROM set_aside_dropped").fetchone()[0]
            stopped = len(stopped_scripts(history.conn, path))
            site = site_standing(fair_outcomes(history.conn, path, NEWEST))
            aside = history.conn.execute(
                "SELECT count(*), reason FROM set_aside ORDER BY aside_s DESC LIMIT 1"
            ).fetchone()
    except NoHistoryError:
        yield Finding("history", WARN, f"{path}: none yet", "`dlqueue serve` makes it")
        return
    except DlqueueError as error:
        state, _, advice = str(error).partition("; ")
        yield Finding("history", FAIL, state, advice)
        return
    yield Finding("history", OK, f"{runs} runs")
    state = f"{aside[0]} records, such as: {aside[1]}" if aside[0] else "none"
    advice = f"they could not be read; they are in {path.parent / 'aside'}"
    yield judged("set aside", not aside[0], state, advice)
    if lost:
        advice = "somebody's jobs write what cannot be read, more than there is room for"
        yield Finding("set aside and dropped", WARN, f"{lost} records", advice)
    yield _as_predicted(stopped, site)


def _as_predicted(stopped: int, site: str) -> Finding:
    """Warn where outcomes keep the whole site from acting; for a few scripts that is no fault."""
    state = site or f"{stopped} scripts left as written, whose last runs were not as predicted"
    advice = "nothing is changed until one is; dlqueue report and dlqueue explain say more"
    return judged("outcomes", not site, state, advice)


def _unseen(folder: Path) -> Iterator[Finding]:
    """Records that wait, and the last successes of what goes on unseen."""
    try:
        count, age_s = oldest_waiting(folder / "spool", MOST_FILES)
    except OSError as error:
        yield Finding("waiting records", WARN, f"{folder / 'spool'}: {error.strerror}")
    else:
        advice = "is history.db locked, or the disk full? journalctl -u dlqueue"
        state = f"{count}, the oldest for {age_s:.0f} s" if count else "none"
        yield judged("waiting records", age_s <= LATE_S, state, advice)
    refreshed_s, trained_s = (last_success_s(folder, task) for task in TASKS)
    if refreshed_s is not None:
        age_s = time.time() - refreshed_s
        advice = "the advisor answers from what it knew then; journalctl -u dlqueue says why"
        yield judged("refresh", age_s <= LATE_S, f"{age_s:.0f} s ago", advice)
    log = folder / "train.log"
    started_s = log.stat().st_mtime if log.exists() else 0.0
    failed = started_s > (trained_s or 0.0) and time.time() - started_s > TRAINING_S
    state = "never" if trained_s is None else f"{(time.time() - trained_s) / 3600:.1f} h ago"
    yield judged("training", not failed, state, f"the last one did not succeed; see {log}")


def _records(shared: Path, taken_from: Path) -> Finding:
    """Nodes put records into one path, the advisor takes them from another: it is one folder."""
    if not shared.is_dir():
        advice = "make it (INSTALL.md, 2); until then records wait on the nodes"
        return Finding("node.folder", WARN, f"{shared} is not there", advice)
    advice = f"link {taken_from} to it, or the advisor finds no record (INSTALL.md, 2)"
    return judged("node.folder", shared.resolve() == taken_from.resolve(), shared, advice, FAIL)
