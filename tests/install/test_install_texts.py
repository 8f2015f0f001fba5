"""Lines that `install` adds to texts, and `uninstall` takes out again."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_ext.install import slurm_conf, submit_lua

KEYS = ("Prolog", "PrologFlags", "JobSubmitPlugins")
LINES = st.lists(
    st.sampled_from(
        [
            "Prolog=/a",
            " prolog = /a # x",
            "JobSubmitPlugins=lua",
            "#Prolog=/b",
            "",
            "X=1",
            "NodeName=n Prologs=3",
            'Prolog="/a b"',
            "y\r",
            "SrunProlog=/c",
            "é=1",
        ]
    ),
    max_size=6,
)
QUICK = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@QUICK
@given(lines=LINES, end=st.sampled_from(["", "\n", "\n\n"]))
def test_marked_lines_go_without_a_trace(lines: list[str], end: str) -> None:
    """Whatever was replaced and added, the text of before comes back to the last byte."""
    before = text = "\n".join(lines) + end
    for key in KEYS:
        found = slurm_conf.conf_values(text, key)
        if found:
            text = slurm_conf.replaced(text, found[-1], "/new", "hooks", "x")
        else:
            text = slurm_conf.added(text, [f"{key}=/new"], "submit")
        assert slurm_conf.conf_values(text, key)[-1].value == "/new"
    assert slurm_conf.without(text, "x") == before


@QUICK
@given(
    lines=st.lists(st.sampled_from(["f()", "-- return", "return 0", "  return x end", ""])),
    end=st.sampled_from(["", "\n"]),
)
def test_two_lines_of_lua_go_without_a_trace(lines: list[str], end: str) -> None:
    """Joined and taken out again is as it was."""
    before = "\n".join(lines) + end
    assert submit_lua.without(submit_lua.joined(before, "/x/dlqueue.lua")) == before
