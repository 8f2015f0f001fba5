"""dlqueue.toml: what is read, what is refused, and how it is said."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.core.errors import InputError, SettingsError
from slurm_ext.core.records import Mode
from slurm_ext.core.settings.document import (
    TABLE,
    Settings,
    load,
    named_by_environment,
    parse,
    reloaded,
    sample,
)
from slurm_ext.core.settings.table import RETIRED_KEYS


def test_the_sample_is_accepted_and_says_nothing_new() -> None:
    """The file that we hand out is valid as it is and holds exactly the defaults."""
    read = parse(sample(), "sample")
    assert read.values == {setting.key: setting.default for setting in TABLE}


def test_the_sample_explains_every_key() -> None:
    """Each key stands in the sample below a line with its meaning and what is valid."""
    lines = sample().splitlines()
    for setting in TABLE:
        name = setting.key.partition(".")[2]
        at = [i for i, line in enumerate(lines) if line.startswith(f"{name} = ")]
        assert any(lines[i - 1] == f"# {setting.doc} ({setting.valid})" for i in at)


def test_every_default_is_itself_valid() -> None:
    """No default would be refused if a user wrote it down."""
    assert all(setting.ok(setting.default) for setting in TABLE)


@pytest.mark.parametrize(
    ("text", "key", "value", "valid"),
    [
        ('[site]\nmode = "on"', "site.mode", "'on'", "one of off, shadow, advise, act"),
        ("[advisor]\ndeadline_ms = 0", "advisor.deadline_ms", "0", "an integer from 1 to 1000"),
        ('[advisor]\ndeadline_ms = "50"', "advisor.deadline_ms", "'50'", "an integer from 1"),
        ("[advisor]\ndeadline_ms = 50.5", "advisor.deadline_ms", "50.5", "an integer from 1"),
        ("[policy]\ntarget = 2.0", "policy.target", "2.0", "a number from 0.5 to 1.0"),
        ("[policy]\ntarget = true", "policy.target", "True", "a number from 0.5 to 1.0"),
        ("[policy]\ntarget = nan", "policy.target", "nan", "a number from 0.5 to 1.0"),
        ('[paths]\nsocket = "run/x"', "paths.socket", "'run/x'", "an absolute path"),
        ("[node]\nprobe = 1", "node.probe", "1", "true or false"),
        ('[advisor]\ntrusted_uids = ["root"]', "advisor.trusted_uids", "root", "a list of uids"),
        ("[advisor]\ntrusted_uids = [-1]", "advisor.trusted_uids", "-1", "a list of uids"),
        ("[site]\nmod = 1", "site.mod", "1", "site.mode"),
        ("nonsense = 1", "nonsense", "1", "a known key"),
        ('[mode.partition]\ngpu = "maybe"', "mode.partition.gpu", "'maybe'", "one of off"),
    ],
)
def test_a_wrong_value_names_file_key_value_and_what_is_valid(
    text: str, key: str, value: str, valid: str
) -> None:
    """The message alone is enough to repair the file."""
    with pytest.raises(SettingsError) as caught:
        parse(text, "/etc/dlqueue/dlqueue.toml")
    said = str(caught.value)
    assert said.startswith(f"/etc/dlqueue/dlqueue.toml: {key} = ")
    assert value in said
    assert valid in said


def test_a_whole_number_may_stand_for_a_fraction() -> None:
    """`target = 1` is what people write for 1.0."""
    assert parse("[policy]\ntarget = 1", "x")["policy.target"] == 1.0


def test_an_account_overrides_its_partition_and_that_the_site() -> None:
    """Modes narrow from site to partition to account."""
    read = parse(
        '[site]\nmode="off"\n[mode.partition]\ngpu="act"\n[mode.account]\nbio="advise"', "x"
    )
    assert read.mode_for("cpu", None) is Mode.OFF
    assert read.mode_for("gpu", "physics") is Mode.ACT
    assert read.mode_for("gpu", "bio") is Mode.ADVISE


def test_of_several_partitions_the_least_far_going_mode_counts() -> None:
    """Slurm may start the job in any of them, in whatever order its user names them."""
    careful = parse('[site]\nmode="act"\n[mode.partition]\ninteractive="off"', "x")
    assert careful.mode_for("interactive,batch", None) is Mode.OFF
    assert careful.mode_for("batch,interactive", None) is Mode.OFF
    assert careful.mode_for("batch,other", None) is Mode.ACT
    first = parse('[site]\nmode="shadow"\n[mode.partition]\ngpu="act"', "x")
    assert first.mode_for("gpu,cpu", None) is Mode.SHADOW
    assert first.mode_for("gpu", None) is Mode.ACT


def test_nothing_configured_means_shadow() -> None:
    """Without a file dlqueue records and changes nothing."""
    assert Settings().mode_for("gpu", "bio") is Mode.SHADOW


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"[site", "is not TOML"), (b"\xff\xfe", "is not UTF-8"), (b"a = 1\na = 2", "is not TOML")],
)
def test_a_file_that_is_no_toml_is_named(tmp_path: Path, content: bytes, why: str) -> None:
    """A torn or binary file is an error of that file, never the defaults."""
    path = tmp_path / "dlqueue.toml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=why) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_a_named_file_that_is_absent_is_an_error(tmp_path: Path) -> None:
    """Only the standard place may be empty; a path that somebody named has to be there."""
    with pytest.raises(InputError, match="cannot be read"):
        load(tmp_path / "absent.toml")


def test_the_environment_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DLQUEUE_CONFIG is the file that is read."""
    path = tmp_path / "mine.toml"
    path.write_text('[site]\ncluster = "mine"')
    monkeypatch.setenv("DLQUEUE_CONFIG", str(path))
    assert load()["site.cluster"] == "mine"
    assert load().source == str(path)


def test_an_empty_variable_names_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """`DLQUEUE_CONFIG= dlqueue jobs` is the usual way to unset it for one command."""
    monkeypatch.setenv("DLQUEUE_CONFIG", "")
    assert named_by_environment() is None
    monkeypatch.delenv("DLQUEUE_CONFIG")
    unset = load()
    monkeypatch.setenv("DLQUEUE_CONFIG", "")
    assert load() == unset


@pytest.mark.parametrize("name", ["", ".", "/"])
def test_a_folder_is_no_file_of_settings(name: str) -> None:
    """`--config "$UNSET"` is one line of error."""
    with pytest.raises(InputError, match="cannot be read"):
        load(Path(name))


@given(st.text(max_size=200))
def test_any_text_is_settings_or_an_input_error(text: str) -> None:
    """Nothing that stands in the file ends in a traceback."""
    try:
        read = parse(text, "x")
    except InputError:
        return
    assert isinstance(read, Settings)


def test_a_list_of_names_holds_names() -> None:
    """Names and the star are taken; numbers, nothing and a bare text are refused by key."""
    good = 'sharing.partitions = ["gpu", "debug"]\nsharing.accounts = ["*"]'
    assert parse(good, "f")["sharing.partitions"] == ["gpu", "debug"]
    for bad in ("[1]", '[""]', '"gpu"', '["gpu", 2]'):
        with pytest.raises(SettingsError, match=r"sharing\.partitions"):
            parse(f"sharing.partitions = {bad}", "f")


def test_a_retired_word_is_read_as_what_serves_in_its_place() -> None:
    """A site that upgrades keeps its file: no loop ends over a word that was valid before."""
    assert parse('[elastic]\noptimiser = "ilp"\n', "old.toml")["elastic.optimiser"] == "dp"
    with pytest.raises(SettingsError, match="one of dp, evolution"):
        parse('[elastic]\noptimiser = "lp"\n', "new.toml")


def test_a_key_of_an_earlier_version_is_ignored_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A site's file of before still loads, whatever the retired key's value; the log names it."""
    text = '[node]\ncontention_probe = "active"\nsample_s = 2.0\n'
    assert parse(text, "site.toml")["node.sample_s"] == 2.0
    why = RETIRED_KEYS["node.contention_probe"]
    message = f"site.toml: node.contention_probe is not used any more ({why}): remove it"
    assert [record.getMessage() for record in caplog.records] == [message]


def test_no_key_is_retired_and_in_use() -> None:
    """A retired key must not come back with another meaning."""
    assert not RETIRED_KEYS.keys() & {setting.key for setting in TABLE}


def test_what_needs_a_restart_stays_and_is_named(tmp_path: Path) -> None:
    """All else is as the file has it now."""
    file = tmp_path / "dlqueue.toml"
    file.write_text('site.mode = "act"\npaths.socket = "/new"\nlog.format = "json"\n')
    now = Settings(source="old", values={"paths.socket": "/old", "log.format": "text"})
    then, waiting = reloaded(file, now)
    assert waiting == ["paths.socket", "log.format"]
    assert (then["paths.socket"], then["log.format"]) == ("/old", "text")
    assert (then["site.mode"], then.source) == ("act", str(file))
