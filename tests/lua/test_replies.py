"""edits.lua: what a reply may do to a job, whole or not at all."""

from pathlib import Path
from typing import Any

import pytest

from tests.fake_advisor import cpus, reply
from tests.lua.lua_process import Lua, LuaError, literal

TESTS = Path(__file__).parent.parent
BAD_REPLIES = sorted((TESTS / "bad_input" / "advisor_reply").iterdir())
UNSET = {"cpus_per_task": 65534, "min_cpus": 1, "pn_min_cpus": 65534}


def applied(
    lua: Lua,
    line: bytes,
    fields: dict[str, Any] | None = None,
    env: dict[str, str] | None = None,
    stuck: str | None = None,
) -> dict[str, Any]:
    """What `line` makes of a job: its fields (those of UNSET and the memory), env, message, why."""
    given = (fields or {}, env, {stuck: True} if stuck else {})
    result = lua.run(f"return apply(..., {', '.join(map(literal, given))})", line)
    decoded: dict[str, Any] = {
        key.decode(): {k.decode(): v for k, v in value.items()} if value != [] else {}
        for key, value in result.items()
        if key in (b"job", b"env") and value is not False
    }
    names = (*UNSET, "min_mem_per_cpu", "min_mem_per_node")
    decoded["job"] = {k: v for k, v in decoded["job"].items() if k in names}
    return {**decoded, "why": result[b"why"].decode(), "message": result[b"message"].decode()}


def test_the_golden_reply_is_applied_whole(lua: Lua) -> None:
    """The reply that the wire's golden file promises changes fields, memory and environment."""
    line = (TESTS / "golden" / "wire" / "reply-v1.json").read_bytes()
    result = applied(lua, line, {"min_mem_per_cpu": 400}, {"HOME": "/home/ada"})
    assert result["why"] == ""
    assert result["job"] == {
        "cpus_per_task": 2,
        "min_cpus": 2,
        "pn_min_cpus": 2,
        "min_mem_per_cpu": 200,
    }
    assert result["env"] == {
        "HOME": b"/home/ada",
        "SLURM_CPUS_PER_TASK": b"2",
        "SRUN_CPUS_PER_TASK": b"2",
        "DLQUEUE_NUM_WORKERS": b"2",
        "DLQUEUE_DECISION": b"d1-0123456789abcdef",
    }
    assert result["message"].startswith("dlqueue: cpus-per-task 1 -> 2, workers 0 -> 2")


def test_the_word_on_gradient_buckets_reaches_the_job(lua: Lua) -> None:
    """It is a variable of dlqueue's own; no field of the job is touched."""
    line = (TESTS / "golden" / "wire" / "reply-v1-buckets.json").read_bytes()
    result = applied(lua, line, {}, {"HOME": "/home/ada"})
    assert (result["why"], result["job"]) == ("", UNSET)
    assert result["env"]["DLQUEUE_BUCKETS"] == b"3f0c9a51be77:16:4096,8192x3,16384"


@pytest.mark.parametrize("path", BAD_REPLIES, ids=lambda path: path.stem)
def test_a_bad_reply_is_refused_whole(lua: Lua, path: Path) -> None:
    """A reply with the fault that the file's name states is refused before anything is written."""
    with pytest.raises(LuaError, match=r"not JSON|not allowed"):
        lua.run("return edits.from_reply(...)", path.read_bytes())


def test_what_the_wire_does_not_name_is_ignored(lua: Lua) -> None:
    """Top-level members for people's commands do not make a reply wrong."""
    assert applied(lua, reply(curve=[[1, 34.5]], reason=None))["why"] == ""


@pytest.mark.parametrize("stuck", ["cpus_per_task", "min_cpus", "pn_min_cpus", "DLQUEUE_DECISION"])
def test_edits_that_do_not_take_are_undone(lua: Lua, stuck: str) -> None:
    """When one field or variable cannot be set, all are as before, the memory included."""
    before = {"cpus_per_task": 8, "min_cpus": 16, "pn_min_cpus": 8, "min_mem_per_node": 900}
    env = {"SLURM_CPUS_PER_TASK": "8", "DLQUEUE_DECISION": "old"}
    edits = {**cpus(2, 2, DLQUEUE_DECISION="new"), "min_mem_per_cpu": 300}
    result = applied(lua, reply(edits), before, env, stuck)
    assert result["why"] == f"could not set {stuck}"
    assert result["job"] == before
    assert result["env"] == {"SLURM_CPUS_PER_TASK": b"8", "DLQUEUE_DECISION": b"old"}


def test_memory_that_does_not_take_undoes_the_cpus(lua: Lua) -> None:
    """CPUs never change without the memory that was to move with them."""
    edits = {**cpus(2, DLQUEUE_DECISION="new"), "min_mem_per_cpu": 300}
    result = applied(lua, reply(edits), {}, {}, "min_mem_per_cpu")
    assert result["why"] == "could not set min_mem_per_cpu"
    assert result["job"] == UNSET
    assert result["env"] == {"DLQUEUE_DECISION": b""}


@pytest.mark.parametrize("kind", ["min_mem_per_cpu", "min_mem_per_node"])
def test_memory_of_the_other_kind_comes_back(lua: Lua, kind: str) -> None:
    """Both kinds share one storage in Slurm, so undoing restores the kind the user wrote."""
    other = {"min_mem_per_cpu": "min_mem_per_node", "min_mem_per_node": "min_mem_per_cpu"}[kind]
    edits = {**cpus(2), other: 300}
    result = applied(lua, reply(edits), {kind: 400}, {}, "SRUN_CPUS_PER_TASK")
    assert result["why"] == "could not set SRUN_CPUS_PER_TASK"
    assert result["job"] == {**UNSET, kind: 400}
    assert all(count != b"" for count in result["env"].values())  # an empty count stops srun


def test_without_an_environment_nothing_is_edited(lua: Lua) -> None:
    """A job whose environment cannot be written keeps its CPUs as well."""
    result = applied(lua, reply(cpus(4)), {}, None)
    assert result["why"].startswith("could not set")
    assert result["job"] == UNSET


def test_the_message_is_one_printable_line(lua: Lua) -> None:
    """Bytes that a terminal obeys become question marks, and 1000 characters are the end."""
    hostile = "dlqueue: \x1b[2Jgone\nsbatch: error: you\u202e\x00 are\x9b banned" + "x" * 5000
    message = applied(lua, reply(message=hostile))["message"]
    assert message.startswith("dlqueue: ?[2Jgone?sbatch: error: you? are? banned")
    assert len(message) == 1000
    assert message.isascii()
    assert message.isprintable()


SHARED = {
    "gres": "mps:50",
    "tres_per_job": "",
    "env": {"SLURM_GPUS": "", "DLQUEUE_SHARED": "mps:50", "DLQUEUE_DECISION": "d1-new"},
}


def shares(lua: Lua, stuck: str | None = None) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """A job of `--gpus=1` after a reply that has it share: why not, its GPU fields, its env."""
    given = ({"tres_per_job": "gres:gpu:1"}, {"SLURM_GPUS": "1"}, {stuck: True} if stuck else {})
    result = lua.run(f"return apply(..., {', '.join(map(literal, given))})", reply(SHARED))
    job = {k.decode(): v for k, v in result[b"job"].items() if b"tres" in k}
    return result[b"why"].decode(), job, {k.decode(): v for k, v in result[b"env"].items()}


def test_a_whole_gpu_becomes_a_part_of_one(lua: Lua) -> None:
    """The part is asked for, the whole no longer: neither by the job nor by its steps."""
    why, job, env = shares(lua)
    assert (why, job) == ("", {"tres_per_node": b"gres:mps:50"})
    assert env == {"SLURM_GPUS": b"", "DLQUEUE_SHARED": b"mps:50", "DLQUEUE_DECISION": b"d1-new"}


@pytest.mark.parametrize("stuck", ["gres", "tres_per_job", "SLURM_GPUS", "DLQUEUE_SHARED"])
def test_a_gpu_that_cannot_be_shared_stays_whole(lua: Lua, stuck: str) -> None:
    """Whatever does not take, the job has the GPU that its user asked for."""
    why, job, env = shares(lua, stuck)
    assert why == f"could not set {stuck}"
    assert job == {"tres_per_job": b"gres:gpu:1"}
    assert env["SLURM_GPUS"] == b"1"
    assert not env.get("DLQUEUE_SHARED")


def test_a_preferred_feature_is_set_and_undone(lua: Lua) -> None:
    """Steering is a preference, applied like every other field."""
    line = reply({"prefer": "dlq-pair1", "env": {"DLQUEUE_DECISION": "d1-new"}})
    for stuck, left in (("", b"dlq-pair1"), ("DLQUEUE_DECISION", b"theirs")):
        given: tuple[dict[str, object], ...] = ({"prefer": "theirs"}, {}, {stuck: True})
        result = lua.run(f"return apply(..., {', '.join(map(literal, given))})", line)
        assert result[b"job"][b"prefer"] == left
