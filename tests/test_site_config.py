"""What a site copies is what the code would generate."""

from argparse import ArgumentParser
from pathlib import Path

from slurm_ext.cli.common.parsers import module_of
from slurm_ext.cli.control.loops import LOOPS
from slurm_ext.core.settings.document import TABLE, parse, sample

SITE = Path(__file__).parent.parent / "site_config"


def test_the_shipped_settings_file_is_the_generated_one() -> None:
    """`site_config/dlqueue.toml` is current (re-record: dlqueue config --sample > FILE)."""
    assert (SITE / "dlqueue.toml").read_text() == sample()


def test_the_sample_means_the_defaults() -> None:
    """A site that installs the sample unchanged gets the defaults, shadow mode among them."""
    settings = parse(sample(), "sample")
    assert all(settings[setting.key] == setting.default for setting in TABLE)
    assert settings["site.mode"] == "shadow"


def test_what_the_units_start_is_a_command() -> None:
    """Every Exec line of ours names a command with options that it knows."""
    found = 0
    for unit in sorted((SITE / "systemd").glob("*.service")):
        for line in unit.read_text().splitlines():
            key, _, command = line.partition("=")
            if key in ("ExecStart", "ExecStopPost"):
                program, name, *words = command.split()
                assert program == "/opt/dlqueue/bin/dlqueue"
                parser = ArgumentParser(exit_on_error=False)
                module_of(name).configure(parser)
                assert parser.parse_args(words) is not None
                found += 1
    assert found == 11


def test_each_loop_has_a_unit_that_rests_while_it_is_off() -> None:
    """Off is exit status 2: systemd does not start a unit again and again for that.

    Each loop reads its settings again by a reload, and its changes are put back whatever ended it.
    """
    for name in ("control", "pairs", *LOOPS):
        command = "dlqueue control" if name == "control" else f"dlqueue control --{name}"
        unit = (SITE / "systemd" / f"dlqueue-{name}.service").read_text()
        assert f"ExecStart=/opt/dlqueue/bin/{command}\n" in unit
        assert "ExecReload=/bin/kill -HUP $MAINPID\n" in unit
        assert f"ExecStopPost=/opt/dlqueue/bin/{command} --restore\n" in unit
        assert "RestartPreventExitStatus=2\n" in unit


def test_the_elastic_unit_sees_work_folders() -> None:
    """Jobs leave their reports there, often below /home; it writes none of them."""
    unit = (SITE / "systemd/dlqueue-elastic.service").read_text()
    assert "ProtectHome=read-only\n" in unit
