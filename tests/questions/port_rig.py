"""An advisor's port for questions with four jobs behind it, and who asks there."""

import copy
import json
import os
import pwd
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.advisor.limits.partition_limits import ClusterRules
from slurm_ext.advisor.pipeline.journal import NoJournal
from slurm_ext.advisor.service.advisor import Advisor
from slurm_ext.core.settings.document import Settings
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store.store import open_history
from slurm_ext.questions import client
from slurm_ext.questions.answerer import Answerer
from slurm_ext.questions.answers import document_of
from slurm_ext.questions.port import QuestionPort
from tests.munge import Munge

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "spool" / "v1.json").read_text())
USER = 1000  # who asks, unless root does
needs_munge = pytest.mark.skipif(not shutil.which("munged"), reason="needs munge installed")
as_others = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root, setpriv"
)


def name_of(uid: int) -> str:
    """The machine's name of a user, or the number."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def record(job_id: int, uid: int) -> dict[str, Any]:
    """The golden record as a job of this user."""
    made: dict[str, Any] = copy.deepcopy(GOLDEN)
    made["record_id"], made["decision"] = f"cluster-{job_id}-0-n1", None
    made["identity"] |= {"job_id": job_id, "uid": uid, "user": name_of(uid)}
    made["corunners"] = []
    return made


@dataclass
class Rig:
    """An advisor with jobs 1 (root's), 2 and 3 (uid 1000's) and 4 (uid 1001's), and its port."""

    state_dir: Path
    munge: Munge
    counted: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        spool = self.state_dir / "spool"
        spool.mkdir()
        for job_id, uid in ((1, 0), (2, USER), (3, USER), (4, 1001)):
            (spool / f"{job_id}.json").write_text(json.dumps(record(job_id, uid)))
        with open_history(self.state_dir / "history.db") as history:
            ingest_folder(history, spool, now_s=2e9)
        munge_socket = str(self.munge.socket)
        values = {"paths.state_dir": str(self.state_dir), "node.munge_socket": munge_socket}
        self.here = Settings(values={**values, "paths.socket": "/nonexistent"})
        self.advisor = Advisor(self.here, NoJournal())
        self.advisor.rules = ClusterRules(hides_others=False)
        self.answerer = Answerer(self.advisor, lambda kind, _: self.counted.append(kind))
        self.port = QuestionPort(("127.0.0.1", 0), self.answerer, munge_socket)
        where = f"127.0.0.1:{self.port.server_address[1]}"
        # A node that has no history, and nothing but the address.
        there = {"paths.state_dir": "/nonexistent", "advisor.address": where}
        self.there = Settings("d.toml", {**self.here.values, **there})
        self.thread = threading.Thread(target=self.port.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def ask(self, kind: str, **fields: Any) -> dict[str, Any]:
        """A question from a node without a history."""
        return document_of(self.there, kind, **fields)

    def connected(self) -> socket.socket:
        """A caller who has not said anything."""
        return socket.create_connection(("127.0.0.1", self.port.server_address[1]), 10)

    def told(self, *pieces: bytes) -> dict[str, Any]:
        """The first line that comes back."""
        with self.connected() as caller:
            for piece in pieces:
                caller.sendall(piece)
            reply: dict[str, Any] = json.loads(caller.makefile("rb").readline())
            return reply

    def close(self) -> None:
        """End it."""
        self.port.shutdown()
        self.port.server_close()
        self.thread.join()


@pytest.fixture
def rig(munge: Munge, tmp_path: Path) -> Iterator[Rig]:
    """An advisor's port on a free port; this process, which is root, answers and asks."""
    made = Rig(tmp_path, munge)
    yield made
    made.close()


@pytest.fixture
def as_user(monkeypatch: pytest.MonkeyPatch, munge: Munge) -> Callable[[int], None]:
    """Has questions signed by another user."""

    def become(uid: int) -> None:
        monkeypatch.setattr(client, "credential", lambda digest, _: munge.sign(digest, uid=uid))

    return become


def header(raw: bytes, credential: str, **changes: Any) -> bytes:
    """The line before a question."""
    digest = sha256(raw).hexdigest()
    line = {"v": 1, "kind": "question", "bytes": len(raw), "sha256": digest}
    return json.dumps({**line, "credential": credential, **changes}).encode() + b"\n"
