"""Kinds of settings: what each accepts at its bounds, and how it says so."""

from collections.abc import Callable
from typing import Any

import pytest

from slurm_ext.core.errors import SettingsError
from slurm_ext.core.settings import row
from slurm_ext.core.settings.document import DEFAULT_PATH, Settings, load, parse
from slurm_ext.core.settings.loops_and_metrics import address_of
from slurm_ext.core.settings.row import Setting

ROWS: list[tuple[Callable[[], Setting], str, list[Any], list[Any]]] = [
    (lambda: row.text("a.b", "x", "Doc"), "a string", ["", "any"], []),
    (lambda: row.path("a.b", "/x", "Doc"), "an absolute path", ["/", "/a"], ["", "a", "~/a"]),
    (
        lambda: row.path("a.b", "", "Doc", empty=True),
        "an absolute path or empty",
        ["", "/a"],
        ["a"],
    ),
    (lambda: row.number("a.b", 1, 0, 9, "Doc"), "an integer from 0 to 9", [0, 1, 9], [-1, 10]),
    (
        lambda: row.number("a.b", 1.0, 0.5, 2.0, "Doc"),
        "a number from 0.5 to 2.0",
        [0.5, 2.0],
        [0.4, 2.1],
    ),
    (lambda: row.choice("a.b", "x", ("x", "y"), "Doc"), "one of x, y", ["x", "y"], ["", "X"]),
    (
        lambda: row.loop_mode("a.b", "Doc"),
        "one of off, shadow, act",
        ["off", "act"],
        ["advise", "on"],
    ),
    (lambda: row.flag("a.b", True, "Doc"), "true or false", [True, False], []),
]


@pytest.mark.parametrize(("kind", "valid", "good", "bad"), ROWS)
def test_each_kind_accepts_its_values(
    kind: Callable[[], Setting], valid: str, good: list[Any], bad: list[Any]
) -> None:
    """The bounds belong to it; the words of the error are those of the manual."""
    setting = kind()
    assert (setting.key, setting.doc, setting.valid) == ("a.b", "Doc", valid)
    assert setting.default is not None
    assert all(setting.ok(value) for value in [*good, setting.default])
    assert not any(setting.ok(value) for value in bad)


def test_a_list_of_names() -> None:
    """Each name is a text that is not empty; the default is a list of its own."""
    names = row.names("a.b", "Doc", ("x",))
    assert (names.default, names.valid) == (["x"], 'a list of names, or ["*"]')
    assert names.ok([])
    assert [names.item(value) for value in ("x", "*", "", 1)] == [True, True, False, False]
    assert row.names("a.b", "Doc").default == []


def test_a_loop_is_off_until_a_site_turns_it_on() -> None:
    """And may then look at everybody's jobs."""
    assert row.loop_mode("a.b", "Doc").default == "off"
    filters = row.job_filters("queue", "whose jobs are ordered")
    assert [(one.key, one.doc, one.default) for one in filters] == [
        ("queue.partitions", "Partitions whose jobs are ordered", ["*"]),
        ("queue.accounts", "Accounts whose jobs are ordered", ["*"]),
        ("queue.users", "Users whose jobs are ordered", ["*"]),
    ]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9100", ("127.0.0.1", 9100)),
        (":9100", ("127.0.0.1", 9100)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
        ("node-1.site:1", ("node-1.site", 1)),
        ("[::1]:65535", ("::1", 65535)),
    ],
)
def test_metrics_are_on_this_machine_unless_a_host_is_named(
    text: str, address: tuple[str, int]
) -> None:
    """A bare port opens nothing to the network."""
    assert address_of(text) == address
    assert parse(f'metrics.listen = "{text}"', "f")["metrics.listen"] == text


@pytest.mark.parametrize("text", ["host", "host:", ":65536", "70000", "a b:1", "::1:80", "x:1:y"])
def test_no_address_is_refused(text: str) -> None:
    """A port that no machine has, or no port."""
    with pytest.raises(SettingsError, match="empty, a port, or host:port"):
        parse(f'metrics.listen = "{text}"', "f")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[site]\nmod = 1", "f: site.mod = 1 is not valid: expected a known key: site.mode"),
        ('site.mode = "on"', "f: site.mode = 'on' is not valid: expected one of off, shadow, "),
        ("mode.account.bio = 3", "f: mode.account.bio = 3 is not valid: expected one of off, "),
        ("energy.level = 0.85", "f: energy.level = 0.85 is not valid: expected 0.7, 0.8 or 0.9"),
        ("advisor.trusted_uids = [true]", "expected a list of uids"),
        ("advisor.trusted_uids = 0", "expected a list of uids"),
        ("policy.target = 0.49", "expected a number from 0.5 to 1.0"),
        ("policy.min_runs = 0", "expected an integer from 1 to 100"),
        ("policy.min_runs = true", "expected an integer from 1 to 100"),
    ],
)
def test_an_error_is_one_sentence(text: str, message: str) -> None:
    """File, key, value and what is valid, in this order."""
    with pytest.raises(SettingsError) as caught:
        parse(text, "f")
    assert message in str(caught.value)


def test_an_unlike_key_is_answered_with_all() -> None:
    """Nothing is near: the user sees every key, once."""
    with pytest.raises(SettingsError) as caught:
        parse("zzzzzzzz = 1", "f")
    keys = str(caught.value).partition("a known key: ")[2].split(", ")
    assert "site.mode" in keys
    assert len(keys) == len(set(keys)) > 100


def test_modes_fall_back_from_account_to_partition_to_site() -> None:
    """A dotted name of a partition is a name; None is no partition."""
    text = 'site.mode = "off"\n[mode.partition]\n"a.b" = "act"\n[mode.account]\nbio = "advise"\n'
    settings = parse(text, "f")
    modes = {
        (partition, account): settings.mode_for(partition, account).value
        for partition in (None, "a.b", "b")
        for account in (None, "bio", "law")
    }
    assert modes == {
        (None, None): "off",
        (None, "bio"): "advise",
        (None, "law"): "off",
        ("a.b", None): "act",
        ("a.b", "bio"): "advise",
        ("a.b", "law"): "act",
        ("b", None): "off",
        ("b", "bio"): "advise",
        ("b", "law"): "off",
    }
    assert settings.source == "f"


def test_without_any_file_defaults_hold(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Only the file that nobody named may be absent."""
    monkeypatch.delenv("DLQUEUE_CONFIG", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("slurm_ext.core.settings.document.DEFAULT_PATH", tmp_path / "none.toml")
    assert load() == Settings()
    assert str(DEFAULT_PATH) == "/etc/dlqueue/dlqueue.toml"
    assert str(Settings().state_dir) == "/var/lib/dlqueue"
    (tmp_path / "none.toml").write_text('[site]\ncluster = "here"\n')
    assert load()["site.cluster"] == "here"
