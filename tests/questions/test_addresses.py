"""Where commands find the advisor: dlqueue.toml first, then Slurm's own configuration."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.core.errors import AdvisorError, HistoryError, InputError, SlurmError
from slurm_ext.core.settings.document import Settings
from slurm_ext.questions import addresses, client
from slurm_ext.questions.addresses import PORT, AdvisorAddresses, controllers
from slurm_ext.questions.answers import document_of
from slurm_ext.questions.client import named
from slurm_ext.slurm import CommandClient

CONFIG = {
    "SlurmUser": "slurm(64030)",
    "SlurmctldHost[0]": "ctl1(10.0.0.1)",
    "SlurmctldHost[1]": "ctl2",
    "SlurmctldPort": "6817",
}


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A login node of a cluster, whose scontrol says CONFIG."""
    conf = tmp_path / "slurm.conf"
    conf.touch()
    (tmp_path / "scontrol").touch(mode=0o755)
    monkeypatch.setattr(CommandClient, "config", lambda _: CONFIG)
    return settings(tmp_path, paths__slurm_conf=str(conf), paths__slurm_bin=str(tmp_path))


def settings(state_dir: Path, **keys: Any) -> Settings:
    """Settings of a machine without a history."""
    values = {"paths.state_dir": str(state_dir / "none"), "paths.socket": "/nonexistent"}
    more = {name.replace("__", "."): value for name, value in keys.items()}
    return Settings("d.toml", {**values, **more})


def with_keys(known: Settings, **keys: Any) -> Settings:
    """The same with other keys."""
    more = {name.replace("__", "."): value for name, value in keys.items()}
    return Settings(known.source, {**known.values, **more})


def test_slurms_controllers_are_asked_in_its_order(cluster: Settings) -> None:
    """By their addresses, where Slurm has them; the port is the usual one, or this site's."""
    found = AdvisorAddresses(cluster)
    assert found.all == (("10.0.0.1", PORT), ("ctl2", PORT))
    assert not found.configured
    found = AdvisorAddresses(with_keys(cluster, advisor__listen_questions="0.0.0.0:7000"))
    assert found.all == (("10.0.0.1", 7000), ("ctl2", 7000))
    assert found.configured


def test_the_settings_go_before_slurm(cluster: Settings) -> None:
    """One address or several; IPv6 in brackets."""
    known = with_keys(cluster, advisor__address="a.site:1, [fe80::1]:65535")
    found = AdvisorAddresses(known)
    assert found.all == (("a.site", 1), ("fe80::1", 65535))
    assert [named(one) for one in found.all] == ["a.site:1", "[fe80::1]:65535"]
    assert found.configured


@pytest.mark.parametrize("wrong", ["here", "here:http", ":6829", "a:0", "a:65536", "a:1,,b:2"])
def test_an_address_that_is_none_is_named(cluster: Settings, wrong: str) -> None:
    """With the file and the key."""
    with pytest.raises(InputError, match=r"d\.toml: advisor\.address = .* is not host:port"):
        _ = AdvisorAddresses(with_keys(cluster, advisor__address=wrong)).all


def test_roots_and_slurmusers_word_counts(cluster: Settings) -> None:
    """And that of the users whom the settings trust."""
    found = AdvisorAddresses(with_keys(cluster, advisor__trusted_uids=[77]))
    assert [found.trusted(uid) for uid in (0, 77, 64030, 1000)] == [True, True, True, False]


def test_a_machine_of_no_cluster_has_no_address(tmp_path: Path) -> None:
    """And the error is that of before: there is no history."""
    alone = settings(tmp_path, paths__slurm_conf=str(tmp_path / "none"))
    assert AdvisorAddresses(alone).all == ()
    assert AdvisorAddresses(alone).trusted(0)
    assert not AdvisorAddresses(alone).trusted(64030)
    with pytest.raises(HistoryError, match="does not exist yet"):
        document_of(alone, "jobs", limit=1)


def test_a_configless_node_asks_slurm(
    cluster: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that slurmd or sackd fetched says that there is a cluster."""
    configless = with_keys(cluster, paths__slurm_conf=str(tmp_path / "none"))
    monkeypatch.setattr(addresses, "CONFIGLESS", tmp_path / "none")
    assert AdvisorAddresses(configless).all == ()
    monkeypatch.setattr(addresses, "CONFIGLESS", tmp_path / "slurm.conf")
    assert AdvisorAddresses(configless).all[0] == ("10.0.0.1", PORT)


def test_no_advisor_at_slurms_controller_says_both(
    cluster: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That there is no history here, and how a site lets its nodes ask."""
    config = {**CONFIG, "SlurmctldHost[0]": "ctl(127.0.0.1)", "SlurmctldHost[1]": ""}
    monkeypatch.setattr(CommandClient, "config", lambda _: config)
    monkeypatch.setattr(addresses, "PORT", 1)
    monkeypatch.setattr(client, "credential", lambda *_: "MUNGE:")
    with pytest.raises(AdvisorError) as caught:
        document_of(cluster, "jobs", limit=1)
    assert "does not exist yet" in str(caught.value)
    assert "no advisor answers at 127.0.0.1:1 (Connection refused)" in str(caught.value)
    assert "a site turns it on with advisor.listen_questions" in str(caught.value)


def test_a_slurm_that_does_not_answer_is_said(
    cluster: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it alone knows the controller."""

    def away(_: CommandClient) -> Mapping[str, str]:
        raise SlurmError("scontrol show config", 1, "Unable to contact slurm controller")

    monkeypatch.setattr(CommandClient, "config", away)
    with pytest.raises(AdvisorError, match="does not say where its controller is: scontrol"):
        _ = AdvisorAddresses(cluster).all


def test_hosts_are_read_from_slurms_words() -> None:
    """The primary first; without an address the name is one."""
    assert list(controllers({"SlurmctldHost[0]": "ctl", "SlurmctldHost[1]": "b(1.2.3.4)"})) == [
        "ctl",
        "1.2.3.4",
    ]
    assert list(controllers({"SlurmctldPort": "1"})) == []
