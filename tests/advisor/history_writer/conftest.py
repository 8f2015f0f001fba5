"""Fixtures of the tests of history_writer."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_ext.advisor import stream_header
from slurm_ext.advisor.history_writer.receive import (
    Receiver,
    start_receiver,
)
from slurm_ext.core.settings.document import Settings
from slurm_ext.slurm import JobInfo, MemoryClient
from tests.advisor.history_writer.a_cluster import World


@pytest.fixture
def receiver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """A receiver on a free port; the credential is the signer's uid."""

    def signed(credential: str, munge_socket: str) -> tuple[int, bytes]:
        assert munge_socket == "/s"
        uid, _, digest = credential.partition(":")
        return int(uid), digest.encode()

    monkeypatch.setattr(stream_header, "signed_by", signed)
    values = {
        "paths.state_dir": str(tmp_path),
        "advisor.listen": "127.0.0.1:0",
        "node.munge_socket": "/s",
        "site.cluster": "c",
        "advisor.trusted_uids": [9],
    }
    job = JobInfo(job_id=5, user_id=7, user_name="ada", state="COMPLETED", nodes="n")
    made = start_receiver(Settings(values=values), MemoryClient(known_jobs=(job,)))
    assert made is not None
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture
def world(tmp_path: Path) -> World:
    """An empty world."""
    return World(tmp_path)
