"""What is decided and written before any daemon starts."""

import socket
from pathlib import Path

import pytest

from slurm_ext.core.errors import SandboxError
from slurm_ext.core.settings.document import parse
from slurm_ext.sandbox.layout import SandboxLayout, free_ports
from slurm_ext.sandbox.plan import SandboxPlan, cgroup_folders, daemons, read_plan
from slurm_ext.sandbox.render import render, settings_of, write_files
from slurm_ext.sandbox.spec import SandboxSpec


def plan_of(spec: SandboxSpec, root: Path = Path("/tmp/x")) -> SandboxPlan:
    """A plan with made-up ports, as `make_plan` would make it with Slurm installed."""
    fields = {"first_port": 20001, "subnet": None, "slurm_version": [22, 5]}
    return read_plan(spec, SandboxLayout(root), fields)


@pytest.mark.parametrize("both", ["mps,shard", "shard,mps"])
def test_mps_and_shard_together_are_refused_with_the_reason(both: str) -> None:
    """Nobody builds a cluster whose jobs get no CUDA_VISIBLE_DEVICES."""
    with pytest.raises(SandboxError, match=r"breaks Slurm.*choose one"):
        SandboxSpec(gpus=1, sharing=both)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"nodes": 0}, "1 to 200"),
        ({"nodes": 201}, "1 to 200"),
        ({"cpus": 0}, "at least one CPU"),
        ({"gpus": -1}, "no negative GPUs"),
        ({"sharing": "mps"}, "needs gpus"),
        ({"gpus": 1, "sharing": "mig"}, "expected mps or shard"),
        ({"gpu_type": "a100"}, "gpu_type needs gpus"),
        ({"gpus": 1, "gpu_type": "a 100"}, "letters and digits"),
        ({"gpus": 1, "shares_per_gpu": 10}, "shares_per_gpu needs sharing"),
        ({"constrain_cores": True}, "needs cgroup"),
        ({"constrain_cores": True, "cgroup": True, "cpus": 8192}, "than this machine has"),
    ],
)
def test_an_impossible_cluster_is_refused(fields: dict[str, object], words: str) -> None:
    """The message names what is wrong, before anything is started."""
    with pytest.raises(SandboxError, match=words):
        SandboxSpec(**fields)  # type: ignore[arg-type]  # wrong values are the point


def test_only_root_may_ask_for_cgroups_and_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ordinary user learns at once what needs root."""
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(SandboxError, match="need root"):
        SandboxSpec(cgroup=True)
    with pytest.raises(SandboxError, match="need root"):
        SandboxSpec(namespaces=True)


def test_a_spec_survives_json() -> None:
    """Another process attaches to exactly the sandbox that was asked for."""
    spec = SandboxSpec(nodes=3, gpus=2, sharing="shard", settings={"site.mode": "act"})
    assert SandboxSpec(**spec.as_json()) == spec


def test_a_plan_survives_json() -> None:
    """Another process sees the same ports, addresses and nodes."""
    plan = plan_of(SandboxSpec(nodes=2))
    assert read_plan(plan.spec, plan.layout, plan.as_json()) == plan


@pytest.mark.parametrize(
    ("name", "words"),
    [("a b", "only letters"), ("x" * 120, "107 bytes"), ("ü", "only letters")],
)
def test_a_folder_that_slurm_cannot_use_is_refused(name: str, words: str) -> None:
    """A path with blanks or too long for a socket is named before the daemons stumble over it."""
    with pytest.raises(SandboxError, match=words):
        SandboxLayout(Path("/tmp") / name).check(0o755)


@pytest.mark.parametrize(("mode", "words"), [(0o700, "o\\+x"), (0o777, "go-w")])
def test_a_folder_that_munge_refuses_is_named(mode: int, words: str, short_folder: Path) -> None:
    """Munge's demands on the folders above its socket become one sentence with the remedy."""
    short_folder.chmod(mode)
    with pytest.raises(SandboxError, match=words):
        SandboxLayout(short_folder / "sandbox").check(0o755)


def test_ports_in_use_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """No port is handed out that somebody listens on."""
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr("slurm_ext.sandbox.layout.PORTS", range(port, port + 2))
        with pytest.raises(SandboxError, match="no 1 neighbouring free ports"):
            free_ports(1)


def test_gres_names_one_way_of_sharing() -> None:
    """GresTypes and gres.conf speak of the same kind, with shares for every GPU."""
    plan = plan_of(SandboxSpec(gpus=2, sharing="mps"))
    assert "GresTypes=gpu,mps\n" in render("slurm.conf", plan)
    assert "Gres=gpu:2,mps:200 " in render("slurm.conf", plan)
    assert "Name=mps Count=200 Flags=all_sharing" in render("gres.conf", plan)
    assert "shard" not in render("slurm.conf", plan) + render("gres.conf", plan)


def test_gpus_may_have_a_type_and_other_shares() -> None:
    """Both files name the type; a GPU is cut as the spec says."""
    plan = plan_of(SandboxSpec(gpus=2, gpu_type="a100", sharing="shard", shares_per_gpu=10))
    assert "Gres=gpu:a100:2,shard:20 " in render("slurm.conf", plan)
    assert "Name=gpu Type=a100 File=" in render("gres.conf", plan)
    assert "Name=shard Count=20\n" in render("gres.conf", plan)


def test_nothing_unasked_is_configured() -> None:
    """A plain sandbox has no hooks, no Lua, no database and no GPUs."""
    text = render("slurm.conf", plan_of(SandboxSpec()))
    unasked = ("Prolog", "Epilog", "JobSubmitPlugins", "AccountingStorage", "Gres", "cgroup")
    assert [word for word in unasked if word in text] == []


def test_only_cgroup_sandboxes_remove_cgroups() -> None:
    """A sandbox never touches the cgroups of a cluster that it did not make."""
    assert cgroup_folders(plan_of(SandboxSpec())) == []


def test_daemons_start_in_the_order_of_their_needs() -> None:
    """Munge comes before the database, the database before slurmctld, slurmctld before nodes."""
    names = [d.name for d in daemons(plan_of(SandboxSpec(nodes=2, accounting=True, advisor=True)))]
    assert names == ["munged", "mariadbd", "slurmdbd", "advisor", "slurmctld", "n1", "n2"]


def test_written_settings_are_read_back(short_folder: Path) -> None:
    """dlqueue.toml says what was asked, whatever characters it holds."""
    asked = {"site.cluster": 'a "b" \\ ü', "node.sample_s": 0.1, "mode.partition.main": "act"}
    plan = plan_of(SandboxSpec(hooks=True, settings=asked), short_folder / "sandbox")
    write_files(plan)
    settings = parse(plan.layout.settings.read_text(), "dlqueue.toml")
    assert settings["site.cluster"] == asked["site.cluster"]
    assert settings.mode_for("main", None) == "act"
    assert settings["paths.kill_file"] == str(plan.layout.etc / "off")


def test_streaming_nodes_know_where_the_advisor_listens() -> None:
    """One address stands on both sides of the stream."""
    settings = settings_of(plan_of(SandboxSpec(settings={"node.transport": "stream"})))
    assert settings["advisor.listen"] == settings["node.address"] == "127.0.0.1:20003"


def test_every_node_has_its_own_spool() -> None:
    """Nodes share no folder: a record can only arrive by the transport."""
    plan = plan_of(SandboxSpec(nodes=2))
    assert {settings_of(plan, name)["node.spool_dir"] for name in ("n1", "n2")} == {
        "/tmp/x/nodes/n1/dlqueue",
        "/tmp/x/nodes/n2/dlqueue",
    }


def test_nodes_that_may_be_suspended_boot_when_their_slurmd_starts(tmp_path: Path) -> None:
    """Both programs are there, nothing is suspended by itself, and a resumed node counts as new."""
    plan = plan_of(SandboxSpec(nodes=2, power_saving=True), tmp_path / "x")
    write_files(plan)
    assert [daemon.argv for daemon in daemons(plan)][-1] == ("slurmd", "-D", "-b", "-N", "n2")
    for name, verb in (("suspend", "stop"), ("resume", "start")):
        program = plan.layout.etc / name
        assert f"slurm_ext.sandbox.power {verb} {plan.layout.root}" in program.read_text()
        assert program.stat().st_mode & 0o111
        assert f"{name.capitalize()}Program={program}" in render("slurm.conf", plan)
    assert "SuspendTime=31536000" in render("slurm.conf", plan)
    assert "Suspend" not in render("slurm.conf", plan_of(SandboxSpec(nodes=1)))
