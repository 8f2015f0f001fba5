"""The edge to Slurm's commands, with programs in their place that misbehave."""

from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_ext.core.errors import SlurmError
from slurm_ext.slurm import CommandClient

FakeSlurm = Callable[[str], CommandClient]


@pytest.fixture
def fake_slurm(tmp_path: Path) -> FakeSlurm:
    """A client whose squeue and scontrol are the given shell script."""

    def make(script: str) -> CommandClient:
        for name in ("squeue", "scontrol"):
            program = tmp_path / name
            program.write_text(f"#!/bin/sh\n{script}\n")
            program.chmod(0o755)
        return CommandClient(bin_dir=str(tmp_path), timeout_s=2)

    return make


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo 'Unable to contact slurm controller' >&2; exit 1", r"exit 1.*Unable to contact"),
        ("exec sleep 60", "no answer within 2 s"),
        ("echo '{'", "a form that dlqueue does not know"),
        ("echo '[]'", "a form that dlqueue does not know"),
        ("echo '{\"jobs\": null}'", "a form that dlqueue does not know"),
        ('echo \'{"jobs": [{"job_id": "x"}]}\'', "a form that dlqueue does not know"),
    ],
)
def test_a_failing_squeue_is_one_error(fake_slurm: FakeSlurm, script: str, words: str) -> None:
    """Whatever Slurm does, the caller handles SlurmError, which says what was run."""
    with pytest.raises(SlurmError, match=f"squeue --states=all --json.*{words}"):
        fake_slurm(script).jobs()


def test_an_absent_slurm_is_named(tmp_path: Path) -> None:
    """Without Slurm's commands the error names the file that was looked for."""
    with pytest.raises(SlurmError, match=f"{tmp_path}/scontrol is not here: install Slurm"):
        CommandClient(bin_dir=str(tmp_path)).nodes()


def test_a_partition_without_its_words_is_one_error(fake_slurm: FakeSlurm) -> None:
    """A listing that lacks what every Slurm prints is refused, not half read."""
    with pytest.raises(SlurmError, match="scontrol --oneliner show partition"):
        fake_slurm("echo PartitionName=main").partitions()


def test_an_empty_cluster_is_no_error(fake_slurm: FakeSlurm) -> None:
    """What Slurm says where there are no nodes is not taken for one."""
    assert fake_slurm("echo No nodes in the system").nodes() == ()


def test_names_in_any_encoding_are_read(fake_slurm: FakeSlurm) -> None:
    """A job's name that is not UTF-8 does not hide the other jobs."""
    job = '{"job_id":1,"user_id":0,"job_state":"RUNNING","name":"\\377\\t"}'
    (read,) = fake_slurm(f"printf '{{\"jobs\":[{job}]}}'").jobs()
    assert read.name == "\udcff\t"


def test_the_users_own_defaults_do_not_narrow_the_view(
    fake_slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQUEUE_* variables do not reach squeue."""
    monkeypatch.setenv("SQUEUE_USERS", "nobody")
    script = 'test -z "$SQUEUE_USERS" && echo \'{"jobs": []}\''
    assert fake_slurm(script).jobs() == ()


def test_only_this_cluster_is_looked_at(
    fake_slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the federation shows by default, and whichever cluster the caller's shell names."""
    monkeypatch.setenv("SLURM_CLUSTERS", "gpu")
    script = 'test "$SQUEUE_LOCAL$SLURM_CLUSTERS" = 1 && echo \'{"jobs": []}\''
    assert fake_slurm(script).jobs() == ()
