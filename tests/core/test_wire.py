"""The submit protocol's line: golden files of every version, and anything else is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.core.errors import WireError
from slurm_ext.core.records import ENV_NAMES, Edits, Submission
from slurm_ext.core.wire import (
    MAX_LINE_BYTES,
    VERSION,
    decode_job,
    decode_request,
    encode_reply,
    encode_request,
    raw_size,
    request_size,
    rests_of,
)

GOLDEN = Path(__file__).parent.parent / "golden" / "wire"


@pytest.mark.parametrize("name", ["submit-v1.json", "submit-v2.txt"])
def test_the_golden_request_is_read(name: str) -> None:
    """What each version of the Lua sends is understood, field by field."""
    request = (GOLDEN / name).read_bytes()
    assert request_size(request) == len(request)
    kind, job = decode_request(request)
    assert kind == "submit"
    assert job == Submission(
        name="train.sh",
        user_id=1000,
        user_name="ada",
        partition="gpu",
        account="vision",
        script="#!/bin/bash\n#SBATCH -c 1\npython3 train.py --workers 0\n",
        argv=("train.sh",),
        work_dir="/home/ada",
        min_nodes=1,
        num_tasks=1,
        cpus_per_task=1,
        min_cpus=1,
        pn_min_cpus=1,
        mem_per_cpu_mib=400,
        time_limit_minutes=60,
        env={"SLURM_CPUS_PER_TASK": "1"},
    )


def test_the_golden_request_for_a_gpu_is_read() -> None:
    """How a GPU was asked for arrives in Slurm's own words, field by field."""
    job = decode_request((GOLDEN / "submit-v1-sharing.json").read_bytes())[1]
    assert job is not None
    assert (job.gres, job.tres_per_job, job.tres_per_node) == ("gres:gpu:1", "gres:gpu:1", None)
    assert job.env == {"DLQUEUE_SHARE": "1", "SLURM_GPUS": "1"}


@pytest.mark.parametrize(
    "name", ["reply-v1.json", "reply-v1-sharing.json", "reply-v1-buckets.json"]
)
def test_the_golden_reply_is_written(name: str) -> None:
    """The reply that version 1 of the Lua reads is written byte for byte."""
    golden = (GOLDEN / name).read_bytes()
    told = json.loads(golden)
    reply = encode_reply(told["decision"], Edits(**told["edits"]), told["message"])
    assert reply.strip() == golden.strip()


def test_a_reply_without_edits_says_nothing_of_fields() -> None:
    """Fields that stay are absent, not null: Lua sets what is there."""
    assert json.loads(encode_reply(None, Edits(), None)) == {
        "v": VERSION,
        "decision": None,
        "edits": {},
        "message": None,
    }


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"", "not a JSON line"),
        (b'{"v":1,"kind":"submit"', "not a JSON line"),
        (b"\x00\xff\xfe", "not a JSON line"),
        (b"[" * 100_000, "not a JSON line"),
        (b"[1]", "expected a JSON object, got list"),
        (b'{"v":3,"kind":"submit","job":{}}', "wire version 3, this advisor speaks 1"),
        (b'{"v":2,"raw":0,"kind":"submit"}\n', "no job object"),
        (b'{"v":2,"raw":9,"kind":"submit","job":{}}\nuser_id=7\0', "job.user_id is str"),
        (b'{"kind":"ping"}', "wire version None"),
        (b'{"v":1,"kind":"delete"}', "unknown kind 'delete', expected one of submit"),
        (b'{"v":1,"kind":"submit"}', "no job object"),
        (b'{"v":1,"kind":"submit","job":[]}', "no job object"),
        (b'{"v":1,"kind":"submit","job":{"name":7}}', "job.name is int"),
        (b'{"v":1,"kind":"submit","job":{"num_tasks":"1"}}', "job.num_tasks is str"),
        (b'{"v":1,"kind":"submit","job":{"num_tasks":true}}', "job.num_tasks is bool"),
        (b'{"v":1,"kind":"submit","job":{"argv":["a",1]}}', "job.argv is list"),
        (b'{"v":1,"kind":"submit","job":{"env":[]}}', "job.env is list"),
        (b'{"v":1,"kind":"submit","job":{"script_truncated":1}}', "job.script_truncated is int"),
    ],
)
def test_what_is_not_the_protocol_is_refused_with_the_reason(line: bytes, why: str) -> None:
    """Each fault has its own words, with the field where there is one."""
    with pytest.raises(WireError) as caught:
        decode_request(line)
    assert why in str(caught.value)


def test_a_request_is_whole_with_the_bytes_that_follow_its_line() -> None:
    """Of version 2; a line of version 1 that only looks so is whole with its end."""
    head = b'{"v":2,"raw":3,"kind":"submit","job":{}}\n'
    assert request_size(head[:-1]) is None
    assert request_size(head) is None
    assert request_size(head + b"a\0") is None
    assert request_size(head + b"\n\n\0") == len(head) + 3
    assert request_size(bytearray(head + b"a=\0{")) == len(head) + 3
    assert raw_size(b'{"v":1,"raw":3,"kind":"ping"}\n') == 0
    assert request_size(b'{"v":1,"raw":3,"kind":"ping"}\nabc') == 30
    assert request_size(b"\n\n") == 1
    assert request_size(b"") is None


def test_texts_behind_the_line_are_told_apart_by_name() -> None:
    """Arguments in their order, variables by name; numbers are the line's, as is what it cut."""
    texts = b"script=a=b\n\0argv=x\0argv=\0env.DLQUEUE=off\0env.HOME=/h\0name=n\0later=1\0"
    line = b'{"v":2,"raw":%d,"kind":"submit","job":{"script_truncated":true,"user_id":5}}\n'
    kind, job = decode_request(line % len(texts) + texts)
    assert kind == "submit"
    assert job == Submission(
        script="a=b\n",
        script_truncated=True,
        argv=("x", ""),
        env={"DLQUEUE": "off"},
        name="n",
        user_id=5,
    )


@pytest.mark.parametrize(
    ("script", "cut"),
    [
        ("x" * 32768, False),
        ("x" * 32769, True),
        ("\udcff" * 32768, False),
        ("\u00e9" * 16385, True),
        ("a\n" * 2048, False),
        ("a\n" * 2049, True),
        ("\x0c" * 2049, True),
    ],
)
def test_a_script_that_is_not_seen_whole_is_said_to_be_cut(script: str, cut: bool) -> None:
    """32 KiB of its bytes and 2,048 of its lines are looked at, in whatever version it comes."""
    job = decode_job({"script": script, "script_truncated": False})
    assert job.script_truncated is cut
    assert len((job.script or "").encode("utf-8", "surrogateescape")) <= 32768
    assert decode_job({"script": "a", "script_truncated": True}).script_truncated


def test_half_a_character_in_a_script_is_refused() -> None:
    """JSON can hold what no file can."""
    with pytest.raises(WireError, match=r"^job.script holds half a character$"):
        decode_request(b'{"v":1,"kind":"predict","job":{"script":"\\ud800"}}')


def test_what_is_remembered_of_a_job_is_bounded() -> None:
    """Texts, arguments and variables are cut as Lua cuts them; a number beyond 63 bits is none."""
    job = decode_job(
        {
            "name": "n" * 9999,
            "argv": ["w" * 9999] * 99,
            "env": {"DLQUEUE": "e" * 9999, "HOME": "/home/ada"},
        }
    )
    assert job.name == "n" * 1024
    assert job.argv == ("w" * 512,) * 64
    assert job.env == {"DLQUEUE": "e" * 1024}
    assert decode_job({"num_tasks": 2**63 - 1}).num_tasks == 2**63 - 1
    for number in (2**63, -(2**63), 10**400):
        with pytest.raises(WireError, match=r"^job.num_tasks is out of range$"):
            decode_job({"num_tasks": number})


def test_fields_of_a_later_version_are_passed_over() -> None:
    """A newer Lua may say more; what is not known is not looked at."""
    assert decode_job({"name": "x", "from_the_future": {"a": 1}}) == Submission(name="x")


def test_an_absent_field_is_unset() -> None:
    """Null and absent both mean that Slurm had no value; neither becomes zero."""
    assert decode_job({"num_tasks": None}) == Submission()


def test_a_script_of_any_bytes_is_kept() -> None:
    """Bytes that are not UTF-8 neither fail nor change the rest."""
    line = b'{"v":1,"kind":"submit","job":{"script":"#!/bin/sh\\n# \xff caf\xe9\\n","name":"x"}}'
    job = decode_request(line)[1]
    assert job is not None
    assert job.name == "x"
    assert (job.script or "").startswith("#!/bin/sh")


@given(
    st.builds(
        Submission,
        name=st.text(max_size=40),
        user_id=st.integers(0, 2**31),
        script=st.none() | st.text(max_size=200),
        argv=st.lists(st.text(max_size=20), max_size=4).map(tuple),
        cpus_per_task=st.none() | st.integers(0, 65535),
        env=st.dictionaries(st.sampled_from(ENV_NAMES), st.text(max_size=10), max_size=3),
    )
)
def test_any_submission_survives_the_round_trip(job: Submission) -> None:
    """What `predict` sends is what the advisor reads, whatever a user wrote; on one line."""
    line = encode_request("predict", job)
    assert line.count(b"\n") == 1
    assert len(line) < MAX_LINE_BYTES
    assert decode_request(line) == ("predict", job)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
FIELDS = st.sampled_from(sorted(Submission.__dataclass_fields__))


@given(st.dictionaries(FIELDS, JSON, max_size=4))
def test_any_json_is_a_submission_or_a_wire_error(job: dict[str, Any]) -> None:
    """No value in any field brings the advisor down."""
    try:
        read = decode_job(job)
    except WireError:
        return
    assert isinstance(read, Submission)


def test_a_request_is_compact_json() -> None:
    """Without what is not set; the deadline is people's second unless they say so."""
    job = Submission(name="x", argv=("a",), num_tasks=0)
    body = {"v": 1, "kind": "predict", "deadline_ms": 1000}
    sent = json.loads(encode_request("predict", job))
    assert sent == {
        **body,
        "job": {
            "name": "x",
            "user_id": -1,
            "user_name": "",
            "script_truncated": False,
            "argv": ["a"],
            "work_dir": "",
            "num_tasks": 0,
            "env": {},
        },
    }
    assert encode_request("ping", deadline_ms=5) == b'{"v":1,"kind":"ping","deadline_ms":5}\n'
    assert decode_request(encode_request("ping", job)) == ("ping", None)


def test_a_reply_carries_more_for_people() -> None:
    """Edits that are set, and whatever `predict` asks for beside them."""
    reply = encode_reply("d1-0", Edits(cpus_per_task=4, env={"A": "1"}, gres=""), "m", more=[1])
    assert reply == (
        b'{"v":1,"decision":"d1-0","edits":{"cpus_per_task":4,"gres":"","env":{"A":"1"}},'
        b'"message":"m","more":[1]}\n'
    )
    with pytest.raises(ValueError, match="JSON"):
        encode_reply(None, Edits(), None, more=float("nan"))


@pytest.mark.parametrize(
    ("line", "rests"),
    [
        (b'{"v":1,"rests":3}\n', 3),
        (b'{"rests":3,"v":1}\n', 3),
        (b'{"rests":0}', 0),
        (b'{"v":1}', None),
        (b'{"rests":null}', None),
        (b'{"rests":-1}', None),
        (b'{"rests":12345678,"x":1}', 12345678),
        (b'{"rests":1,"rests":2}', 2),
        (b'{"name":"\\"rests\\":7"}', None),
        (b"", None),
    ],
)
def test_rests_are_read_without_parsing(line: bytes, rests: int | None) -> None:
    """The last of the line's own; a user's text cannot pose as it."""
    assert rests_of(line) == rests


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (None, "the request has no job object"),
        ({"num_tasks": 1.0}, "job.num_tasks is float, expected int | None"),
        ({"script_truncated": "yes"}, "job.script_truncated is str, expected bool"),
        ({"argv": "a b"}, "job.argv is str, expected tuple[str, ...]"),
        ({"env": "A=1"}, "job.env is str, expected collections.abc.Mapping[str, str]"),
    ],
)
def test_a_wrong_field_is_named_with_its_type(job: object, why: str) -> None:
    """As the table of fields has it."""
    with pytest.raises(WireError) as caught:
        decode_job(job)
    assert str(caught.value) == why


def test_variables_that_are_no_texts_are_left_out() -> None:
    """One odd value does not cost the job its others."""
    env = {"DLQUEUE": "1", "DLQUEUE_SHARE": 2, "OMP_NUM_THREADS": None}
    assert decode_job({"env": env}) == Submission(env={"DLQUEUE": "1"})
    assert decode_job({"argv": [], "script_truncated": True}).script_truncated is True
