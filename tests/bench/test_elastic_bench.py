"""The elastic benchmark: what cannot be used is one line, and only oracles look at the tables."""

from pathlib import Path
from typing import Any

import pytest

from contrib.bench.elastic.figures import OURS, PUBLISHED, wanted
from contrib.bench.elastic.policies import KINDS, policy_of
from slurm_ext.simulate.elastic.applications import Application, applications
from slurm_ext.simulate.elastic.replay import ElasticCluster, replay_elastic
from slurm_ext.simulate.elastic.workload import read_workload
from tests.bench.program import run_bench
from tests.simulate.elastic.pollux_folder import write_folder

CLUSTER = ElasticCluster(nodes=2, per_node=4)


@pytest.mark.parametrize("name", KINDS)
def test_only_an_oracle_asks_the_tables(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    """The replay's own step reads them; a policy that does so while it decides fails here."""
    path = write_folder(tmp_path)
    inside: list[bool] = []
    policy, real_step = policy_of(KINDS[name], CLUSTER), Application.step
    place = policy.place

    def guarded(self: Application, *args: Any) -> Any:
        assert not inside
        return real_step(self, *args)

    def watched(now_s: float, jobs: Any) -> Any:
        inside.append(True)
        placements = place(now_s, jobs)
        inside.clear()
        return placements

    monkeypatch.setattr(Application, "step", guarded)
    monkeypatch.setattr(policy, "place", watched)
    replay = (read_workload(path), applications(tmp_path / "traces"), policy, CLUSTER)
    if KINDS[name].oracle:
        with pytest.raises(AssertionError):
            replay_elastic(*replay)
    else:
        assert len(replay_elastic(*replay).end_s) == 2


def test_a_folder_without_workloads_is_one_line(tmp_path: Path) -> None:
    """Status 1, and the folder is named."""
    said = run_bench("elastic", "--workloads", tmp_path, "--traces", tmp_path)
    assert said.returncode == 1
    assert str(tmp_path) in said.stderr
    assert "Traceback" not in said.stderr


def test_published_means_are_of_the_workloads_that_were_replayed() -> None:
    """Of three published ones two were replayed, and on one of these nothing was chosen."""
    published = {"workload-1": 2000.0, "workload-2": 3000.0, "workload-7": 9000.0}
    ours = {"workload-1": 2500.0, "workload-2": 2900.0}
    figures = {"1.0": {"by_workload_s": {OURS: ours, PUBLISHED: published}}}
    both, unseen = wanted(figures)
    assert (both["target"], both["got"], both["met"]) == (2500.0, 2700.0, False)
    assert (unseen["target"], unseen["got"], unseen["met"]) == (3000.0, 2900.0, True)
    assert wanted({"1.0": {"by_workload_s": {OURS: ours}}}) == []
