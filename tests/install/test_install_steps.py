"""Files before, after, and as they were: what `install` and `uninstall` do to a site."""

import json

import pytest

from tests.install.image import CONF, LUA, Site


def test_a_dry_run_shows_every_file_and_touches_none(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its diffs are those of what the run then does."""
    before = site.tree()
    assert site.run("install", "--dry-run", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert site.tree() == before
    paths = {change["path"]: change for change in told["changes"]}
    diff = paths["/etc/slurm/slurm.conf"]["diff"]
    assert "+Prolog=/etc/dlqueue/hooks/site_prolog # the site's" in diff
    assert "\\ No newline at end of file" in diff
    assert site.run("install") == 0
    capsys.readouterr()
    assert {path for path in paths if site.path(path).exists()} == set(paths)
    assert site.run("install", "--dry-run", "--json") == 0
    assert json.loads(capsys.readouterr().out)["changes"] == []


def test_what_was_there_is_joined_and_comes_back_to_the_last_byte(site: Site) -> None:
    """Installed twice, taken out once: files, folders and modes are those of before."""
    site.path("/etc/slurm/job_submit.lua").chmod(0o640)
    before = site.tree()
    assert [site.run("install"), site.run("install")] == [0, 0]
    launcher = site.text("/etc/dlqueue/hooks/site_prolog")
    assert 'exec /etc/slurm/prolog.sh "$@"' in launcher
    assert "\n/etc/dlqueue/hooks/prolog\n" in launcher
    assert site.path("/etc/slurm/epilog.d/zz-dlqueue").stat().st_mode & 0o777 == 0o755
    assert site.text("/etc/slurm/job_submit.lua").count("-- dlqueue install") == 2
    assert 'cluster = "trial"' in site.text("/etc/dlqueue/dlqueue.toml")  # as Slurm says it
    assert "PrologFlags=Serial,Alloc" in site.text("/etc/slurm/slurm.conf")
    assert site.run("uninstall") == 0
    assert site.tree() == before


def test_steps_come_and_go_in_any_order(site: Site) -> None:
    """What is left after each is what a fresh installation of the rest would be."""
    before = site.tree()
    assert site.run("install", "submit") == 0
    only_submit = site.text("/etc/slurm/slurm.conf")
    assert site.run("install", "hooks", "service") == 0
    assert "User=nobody" in site.text("/etc/systemd/system/dlqueue.service")
    assert site.run("uninstall", "service") == 0
    assert site.run("uninstall", "hooks") == 0
    assert site.text("/etc/slurm/slurm.conf") == only_submit
    assert site.run("uninstall", "submit") == 0
    assert site.run("uninstall", "files") == 0
    assert site.tree() == before


def test_the_unit_may_write_where_the_settings_say_and_nowhere_else(site: Site) -> None:
    """State and shared folder of dlqueue.toml are writable, whatever characters they hold."""
    site.write(
        "/etc/dlqueue/dlqueue.toml",
        '[paths]\nstate_dir = "/srv/a %b"\n[node]\nfolder = "/shared/dlqueue"\n',
    )
    assert site.run("install", "service") == 0
    unit = site.text("/etc/systemd/system/dlqueue.service")
    assert 'ReadWritePaths="-/srv/a %%b" -/shared/dlqueue\n' in unit
    assert "ProtectSystem=strict\n" in unit


def test_what_somebody_changed_since_stays(site: Site) -> None:
    """Of a file that was edited only our marked lines go; settings that were edited stay."""
    assert site.run("install") == 0
    for name in ("/etc/slurm/slurm.conf", "/etc/slurm/job_submit.lua"):
        site.write(name, ("# theirs\n" if "conf" in name else "-- theirs\n") + site.text(name))
    site.write("/etc/dlqueue/dlqueue.toml", '[site]\nmode = "off"\n')
    assert site.run("install") == 0
    assert site.run("uninstall") == 0
    assert site.text("/etc/slurm/slurm.conf") == "# theirs\n" + CONF
    assert site.text("/etc/slurm/job_submit.lua") == "-- theirs\n" + LUA
    assert [path.name for path in site.path("/etc/dlqueue").rglob("*")] == ["dlqueue.toml"]


def test_a_site_without_scripts_and_one_that_joined_by_hand(site: Site) -> None:
    """The first gets ours alone; of the second nothing is touched."""
    site.write("/etc/slurm/slurm.conf", "SlurmUser=nobody\n")
    site.path("/etc/slurm/job_submit.lua").unlink()
    assert site.run("install") == 0
    conf = site.text("/etc/slurm/slurm.conf")
    for line in ("Prolog=/etc/dlqueue/hooks/prolog", "PrologFlags=Alloc", "JobSubmitPlugins=lua"):
        assert f"\n{line}\n" in conf
    shim = site.text("/etc/slurm/job_submit.lua")
    assert site.run("uninstall") == 0
    site.write(
        "/etc/slurm/slurm.conf",
        "".join(f"{line}\n" for line in conf.splitlines() if line[0] != "#"),
    )
    site.write("/etc/slurm/job_submit.lua", shim)
    by_hand = site.tree()
    assert site.run("install") == 0
    assert {name: site.tree()[name] for name in by_hand} == by_hand


def test_keys_of_included_files_are_changed_where_they_stand(site: Site) -> None:
    """And taken back there."""
    site.write("/etc/slurm/slurm.conf", "SlurmUser=nobody\nInclude hooks.conf\n")
    site.write("/etc/slurm/hooks.conf", "prolog = /etc/slurm/p\nJobSubmitPlugins=all_partitions\n")
    before = site.tree()
    assert site.run("install") == 0
    assert "prolog = /etc/dlqueue/hooks/site_prolog\n" in site.text("/etc/slurm/hooks.conf")
    assert "JobSubmitPlugins=all_partitions,lua\n" in site.text("/etc/slurm/hooks.conf")
    assert site.run("uninstall") == 0
    assert site.tree() == before


def test_a_launcher_stays_where_slurm_conf_names_it_without_our_marks(site: Site) -> None:
    """Configuration management may write our values anew: a node without its prolog is drained."""
    assert site.run("install", "hooks") == 0
    conf, launcher = site.text("/etc/slurm/slurm.conf"), site.text("/etc/dlqueue/hooks/site_prolog")
    bare = "".join(f"{line}\n" for line in conf.splitlines() if not line.startswith("#"))
    site.write("/etc/slurm/slurm.conf", bare)
    assert site.run("install", "hooks") == 0
    assert site.text("/etc/dlqueue/hooks/site_prolog") == launcher
    assert "Prolog=/etc/dlqueue/hooks/site_prolog" in site.text("/etc/slurm/slurm.conf")


@pytest.mark.parametrize("launcher", ["gone", "calls itself", "calls no hook"])
def test_a_launcher_that_leads_to_no_script_is_not_joined_to_itself(
    site: Site, capsys: pytest.CaptureFixture[str], launcher: str
) -> None:
    """Such a prolog would never end: the line of slurm.conf is named, and nothing is touched."""
    assert site.run("install", "hooks") == 0
    conf, path = site.text("/etc/slurm/slurm.conf"), "/etc/dlqueue/hooks/site_prolog"
    bare = "".join(f"{line}\n" for line in conf.splitlines() if not line.startswith("#"))
    site.write("/etc/slurm/slurm.conf", bare)
    if launcher == "gone":
        site.path(path).unlink()
    elif launcher == "calls itself":
        site.write(path, site.text(path).replace("/etc/slurm/prolog.sh", path))
    else:
        site.write(path, "#!/bin/sh\nexit 0\n")
    before = site.tree()
    capsys.readouterr()
    assert site.run("install", "hooks") != 0
    assert site.tree() == before
    said = capsys.readouterr().err
    assert f"slurm.conf:3: {path} is dlqueue's launcher and leads to no script" in said
    assert "name the site's own script again, or /etc/dlqueue/hooks/prolog" in said


def test_a_step_that_a_site_has_not_taken_comes_only_by_its_name(site: Site) -> None:
    """Without a name, `install` renews what is installed: hooks would drain nodes without them."""
    assert site.run("install", "files", "service") == 0
    untouched = ("/etc/slurm/slurm.conf", "/etc/slurm/job_submit.lua")
    assert [site.text(name) for name in untouched] == [CONF, LUA]
    site.write("/etc/dlqueue/dlqueue.toml", "node.probe = true\n")
    old = site.text("/etc/dlqueue/node.json")
    assert site.run("install") == 0
    assert site.text("/etc/dlqueue/node.json") != old
    assert [site.text(name) for name in untouched] == [CONF, LUA]
    assert site.run("install", "submit") == 0
    assert site.run("install") == 0
    assert "Prolog=/etc/dlqueue" not in site.text("/etc/slurm/slurm.conf")


def test_no_hook_goes_that_slurm_conf_would_still_name(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    """`uninstall` names the line and leaves every file as it is."""
    assert site.run("install", "hooks") == 0
    conf = site.text("/etc/slurm/slurm.conf")
    bare = "".join(f"{line}\n" for line in conf.splitlines() if not line.startswith("#"))
    site.write("/etc/slurm/slurm.conf", bare)
    before = site.tree()
    capsys.readouterr()
    assert site.run("uninstall", "hooks") != 0
    assert site.tree() == before
    said = capsys.readouterr().err
    assert "slurm.conf:" in said
    assert "Prolog=/etc/dlqueue/hooks/site_prolog stands outside of dlqueue's lines" in said


def test_an_include_is_read_by_the_clusters_name(site: Site) -> None:
    """%c is ClusterName in small letters (slurm.conf(5)): its prolog is joined, not overridden."""
    site.write("/etc/slurm/slurm.conf", "ClusterName=Trial\nInclude hooks-%c.conf\n")
    site.write("/etc/slurm/hooks-trial.conf", "Prolog=/etc/slurm/prolog.sh\n")
    assert site.run("install", "hooks") == 0
    assert "Prolog" not in site.text("/etc/slurm/slurm.conf").replace("PrologFlags", "").replace(
        "TaskProlog", ""
    )
    assert "exec /etc/slurm/prolog.sh" in site.text("/etc/dlqueue/hooks/site_prolog")


def test_an_include_that_is_not_there_is_named(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it sets is not known, and nothing is changed."""
    site.write("/etc/slurm/slurm.conf", "ClusterName=Trial\nInclude more.conf\n")
    before = site.tree()
    assert site.run("install", "hooks") != 0
    assert site.tree() == before
    said = capsys.readouterr().err
    assert "/etc/slurm/more.conf: is included by slurm.conf and does not exist" in said


def test_slurm_conf_is_the_one_that_a_drop_in_names(site: Site) -> None:
    """Settings of dlqueue.d count for the installation, too."""
    old = site.text("/etc/slurm/slurm.conf")
    site.write("/opt/slurm/etc/slurm.conf", "ClusterName=other\n")
    paths = '[paths]\nslurm_conf = "/opt/slurm/etc/slurm.conf"\n'
    site.write("/etc/dlqueue/dlqueue.d/05-paths.toml", paths)
    assert site.run("install", "hooks") == 0
    assert "Prolog=/etc/dlqueue/hooks/prolog" in site.text("/opt/slurm/etc/slurm.conf")
    assert site.text("/etc/slurm/slurm.conf") == old
