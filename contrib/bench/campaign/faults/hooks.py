"""Prolog, epilog and sampler are killed or stopped half-way; the plugin's files are replaced."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from contrib.bench.campaign.cluster import Cluster
from contrib.bench.campaign.faults.fault import Break, every, on_records, on_submissions
from contrib.bench.campaign.holds import timed
from slurm_ext.sandbox.processes import descendants, send

_LIMIT = "/usr/bin/timeout"
PYTHON = "/usr/bin/python3"


def _killed(hook: str) -> Break:
    """After 10, 20, ... 90 ms, whatever it is doing then."""

    def killing(shipped: str) -> str:
        limit = shipped[shipped.index(_LIMIT) : shipped.index(PYTHON)]
        return shipped.replace(limit, f'{_LIMIT} -s KILL "0.0$((SLURM_JOB_ID % 10))" ')

    return rewritten(hook, killing)


def rewritten(hook: str, text: Callable[[str], str]) -> Break:
    """The hook is `text` of the shipped one."""

    @contextmanager
    def broken(cluster: Cluster) -> Iterator[None]:
        path = cluster.slurm.path(f"etc/{hook}")
        with replaced(path, text(path.read_text())):
            yield

    return broken


@contextmanager
def replaced(path: Path, text: str) -> Iterator[None]:
    """Give a file this text, and its own again in the end; no reader finds half of either."""
    shipped = path.read_text()
    _replace(path, text)
    yield
    _replace(path, shipped)


def _samplers(number: signal.Signals) -> Break:
    @contextmanager
    def broken(cluster: Cluster) -> Iterator[None]:
        supervisor = cluster.slurm.supervisor_pid()

        def turn(_: int) -> None:
            for pid in descendants(supervisor):
                if _is_sampler(pid):
                    send(pid, number)

        with every(0.3, turn):
            yield
        if number is signal.SIGSTOP:
            for pid in filter(_is_sampler, descendants(supervisor)):
                send(pid, signal.SIGCONT)

    return broken


def _is_sampler(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().startswith("dlqueue-sample")
    return False


def _replace(path: Path, text: str) -> None:
    hidden = path.with_name(f".{path.name}")
    hidden.write_text(text)
    hidden.chmod(path.stat().st_mode)
    hidden.replace(path)


_SITES = """
function slurm_job_submit(job, partitions, uid) return slurm.SUCCESS end
function slurm_job_modify() return slurm.SUCCESS end
"""


@contextmanager
def _plugin_replaced(cluster: Cluster) -> Iterator[None]:
    """job_submit.lua is broken, empty, another one, and ours again, every half second."""
    path = cluster.slurm.path("etc/job_submit.lua")
    shipped = path.read_text()
    texts = (shipped[: len(shipped) // 2], "", timed(_SITES), "error('boom')", shipped)
    with every(0.5, lambda number: _replace(path, texts[number % len(texts)])):
        yield
    _replace(path, shipped)


@contextmanager
def _lua_replaced(cluster: Cluster) -> Iterator[None]:
    """Dlqueue's own files are half written, each in turn, and read again."""
    folder = cluster.slurm.path("etc/lua")
    shipped = {path: path.read_text() for path in sorted(folder.iterdir())}
    paths = list(shipped)

    def turn(number: int) -> None:
        for path in paths:
            path.write_text(shipped[path])
        path = paths[number % len(paths)]
        path.write_text(shipped[path][: len(shipped[path]) // 2])
        cluster.reload_plugin()

    with every(0.5, turn):
        yield
    for path in paths:
        path.write_text(shipped[path])
    cluster.reload_plugin()


@contextmanager
def _settings_broken(cluster: Cluster) -> Iterator[None]:
    """dlqueue.toml is spoiled, and every process gets SIGHUP."""
    path = cluster.slurm.path("etc/dlqueue.toml")
    shipped = path.read_text()
    texts = (shipped + "\nsite.mode = 7\n", "[site", "", shipped)

    def turn(number: int) -> None:
        path.write_text(texts[number % len(texts)])
        _reload(cluster)

    with every(1.0, turn):
        yield
    path.write_text(shipped)
    _reload(cluster)


def _reload(cluster: Cluster) -> None:
    os.kill(cluster.pid("advisor"), signal.SIGHUP)
    for loop in cluster.loops:
        loop.send_signal(signal.SIGHUP)


FAULTS = (
    on_records("prolog_killed", "every prolog is killed half-way", _killed("prolog")),
    on_records("epilog_killed", "every epilog is killed half-way", _killed("epilog")),
    on_records(
        "task_prolog_killed", "every task prolog is killed half-way", _killed("task_prolog")
    ),
    on_records("samplers_killed", "every sampler is killed", _samplers(signal.SIGKILL)),
    on_records("samplers_stopped", "every sampler is stopped", _samplers(signal.SIGSTOP)),
    on_submissions("plugin_replaced", "job_submit.lua is replaced while loaded", _plugin_replaced),
    on_submissions("lua_half_written", "dlqueue's Lua is half written while loaded", _lua_replaced),
    on_submissions("settings_broken", "broken settings are read again", _settings_broken),
)
