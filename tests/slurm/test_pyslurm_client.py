"""What pyslurm is asked, and what the commands still do; the library itself is stood in for here.

test_client_contract.py tries the real one wherever it is installed.
"""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slurm_ext.core.errors import SlurmError
from slurm_ext.core.settings.document import Settings
from slurm_ext.slurm import open_client

DATA = Path(__file__).parent / "data"


class RPCError(Exception):
    """As the library's."""


class Library:
    """The few calls of pyslurm 25.11 that we make, noted."""

    RPCError = RPCError

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.JobSubmitDescription = lambda **changes: changes

    def Job(self, job_id: int) -> Any:  # noqa: N802 (its name)
        """One job; 404 does not exist."""

        def noted(what: str) -> Any:
            def call(*args: Any, **named: Any) -> None:
                if job_id == 404:
                    raise RPCError("Invalid job id specified")
                self.asked.append((what, job_id, args, named))

            return call

        names = ("modify", "hold", "release", "requeue", "get_batch_script")
        return SimpleNamespace(**{name: noted(name) for name in names})


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    """In the library's place."""
    found = Library()
    monkeypatch.setitem(sys.modules, "pyslurm", found)
    monkeypatch.setenv("SLURM_CONF", "before")
    return found


@pytest.fixture
def client(library: Library, tmp_path: Path) -> Any:
    """Chosen by the setting; `scontrol` writes down what it is asked."""
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/asked\n')
    scontrol.chmod(0o755)
    return open_client(
        Settings(values={"site.slurm_client": "pyslurm", "paths.slurm_bin": str(tmp_path)})
    )


def test_changes_go_to_slurmctld_directly(client: Any, library: Library) -> None:
    """Each with the words of pyslurm's own interface."""
    client.set_nice(7, 40)
    client.hold(7)
    client.release(7)
    client.requeue(7, held=True)
    client.bind(7, "n1")
    assert library.asked == [
        ("modify", 7, ({"nice": 40},), {}),
        ("hold", 7, (), {}),
        ("release", 7, (), {}),
        ("requeue", 7, (), {"hold": True}),
        ("modify", 7, ({"required_nodes": ["n1"]},), {}),
    ]


def test_what_pyslurm_cannot_say_goes_by_command(
    client: Any, library: Library, tmp_path: Path
) -> None:
    """Nice 0, which it takes for not told; and no node any more."""
    client.set_nice(7, 0)
    client.bind(7, None)
    assert library.asked == []
    said = (tmp_path / "asked").read_text().splitlines()
    assert said == ["update JobId=7 Nice=0", "update JobId=7 ReqNodeList="]


def test_its_errors_are_ours(client: Any) -> None:
    """The caller handles one kind; a script that cannot be read is none."""
    for change in (client.hold, client.release, client.requeue):
        with pytest.raises(SlurmError, match="Invalid job id"):
            change(404)
    with pytest.raises(SlurmError, match=r"modify \{'nice': 5\}.*Invalid job id"):
        client.set_nice(404, 5)
    assert client.script_of(404) is None


def test_a_listed_job_has_its_scripts_arguments(client: Any, tmp_path: Path) -> None:
    """Pairing tells two jobs of one script apart by them; as Slurm 22.05 printed such a job."""
    squeue = tmp_path / "squeue"
    squeue.write_text(f"#!/bin/sh\ncat {DATA / '22.05' / 'arguments.json'}\n")
    squeue.chmod(0o755)
    (job,) = client.jobs()
    assert job.command == "/tmp/train.sh --lr 0.1 a b"
