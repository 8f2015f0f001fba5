"""Sets up a private MariaDB for slurmdbd, and the cluster's accounting in it."""

import os
import subprocess
from collections.abc import Callable

from slurm_ext.core.errors import SandboxError
from slurm_ext.sandbox.plan import SandboxPlan
from slurm_ext.sandbox.spec import search_path


def create(plan: SandboxPlan) -> None:
    """Make an empty data folder. Raises SandboxError."""
    folder = plan.layout.database
    _run(
        "mariadb-install-db",
        "--no-defaults",
        f"--datadir={folder}",
        f"--tmpdir={plan.layout.run}",  # each deletes others' tables in a folder that they share
        # The user that runs the daemons, by the socket's credentials; there is no password.
        "--auth-root-authentication-method=socket",
        f"--auth-root-socket-user={plan.user}",
        "--skip-test-db",
        *(["--user=root"] if os.geteuid() == 0 else []),
    )


def grant(plan: SandboxPlan) -> None:
    """Make slurmdbd's database, once mariadbd answers."""
    _run(
        "mariadb",
        "--no-defaults",
        f"--socket={plan.layout.run}/mysql.sock",
        f"--user={plan.user}",
        "-e",
        "CREATE DATABASE slurm_acct_db",
    )


def register(plan: SandboxPlan, run: Callable[[list[str]], object]) -> None:
    """Add the cluster, an account and the sandbox's user; `run` raises if a command fails."""
    run(["sacctmgr", "-i", "add", "cluster", f"sandbox{plan.layout.tag}"])
    run(["sacctmgr", "-i", "add", "account", "sandbox"])
    if os.geteuid() != 0:  # root is there from the start
        run(["sacctmgr", "-i", "add", "user", plan.user, "account=sandbox"])


def _run(*argv: str) -> None:
    try:
        subprocess.run(
            argv,
            env={**os.environ, "PATH": search_path()},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    except subprocess.CalledProcessError as error:
        raise SandboxError(f"{argv[0]} failed: {error.stderr.strip()}") from None
    except subprocess.TimeoutExpired:
        raise SandboxError(f"{argv[0]} took more than 60 s") from None
