"""From a hook's name to its work; the one place that catches everything and ends the process."""

from __future__ import annotations

import os
import sys

from slurm_ext.node.common import log
from slurm_ext.node.common.config import ConfigError, load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from slurm_ext.node.common.config import NodeConfig

HOOKS = ("prolog", "task_prolog", "epilog", "sampler", "ship")


def main(arguments: Sequence[str]) -> NoReturn:
    """Run one hook and leave with exit status 0: Slurm drains a node for any other."""
    hook = arguments[0] if arguments else ""
    try:
        if len(arguments) < 2 or hook not in HOOKS:
            raise ConfigError(f"usage: node {'|'.join(HOOKS)} NODE_JSON [JOB.RESTART]")
        config = load(arguments[1])
        log.folder = config.spool_dir
        if not os.path.exists(config.kill_file):
            _work(hook, config, arguments[2:])
    # A hook that raised would hold the node or the job: report and go on, whatever it was.
    except BaseException as error:
        log.report(f"{hook}: {type(error).__name__}: {error}")
    _leave()


def _work(hook: str, config: NodeConfig, rest: Sequence[str]) -> None:
    """Import only what this hook needs: most of a hook's time is importing."""
    if hook == "task_prolog":
        from slurm_ext.node.hooks.task_prolog import task_prolog

        task_prolog(config, os.environ)
    elif hook == "prolog":
        from slurm_ext.node.hooks.prolog import prolog

        prolog(config, os.environ)
    elif hook == "epilog":
        from slurm_ext.node.hooks.epilog import epilog

        epilog(config, os.environ)
    elif hook == "ship":
        from slurm_ext.node.transport.worker import deliver_records

        deliver_records(config)
    else:
        from slurm_ext.node.sampling.sampler import sample_job

        if sample_job(config, rest[0]):
            from slurm_ext.node.transport.worker import deliver_records

            deliver_records(config)


def _leave() -> NoReturn:
    """Skip the interpreter's tear-down: nothing is left to flush but stdout."""
    try:
        sys.stdout.flush()
    except OSError:
        pass
    os._exit(0)
