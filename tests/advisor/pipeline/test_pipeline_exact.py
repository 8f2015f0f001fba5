"""From script to answer, to the word: options, edits, the line for the user, journal and modes."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.advisor.evidence.summary import EvidenceSummary
from slurm_ext.advisor.limits.bounds import PartitionRules
from slurm_ext.advisor.pipeline import journal as journal_file
from slurm_ext.advisor.pipeline.decide import (
    DecisionContext,
    Recommendation,
    apply_mode,
    decide,
    held_out,
    predictor,
    respond,
)
from slurm_ext.advisor.pipeline.edits import edits_for
from slurm_ext.advisor.pipeline.journal import Journal, journals
from slurm_ext.advisor.pipeline.message import (
    changes,
    message,
    number,
    with_elastic_fault,
    with_sharing,
)
from slurm_ext.advisor.pipeline.script import options_of, read_script
from slurm_ext.advisor.sharing.terms import SharingDecision, slower
from slurm_ext.core.errors import InputError
from slurm_ext.core.records import (
    Decision,
    Edits,
    Interval,
    Level,
    Mode,
    Prediction,
    Shape,
    Submission,
)
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.wire import MAX_MESSAGE_CHARS
from slurm_ext.history.ingest.proposals import MAX_LINE_BYTES
from slurm_ext.model.throughput.estimate import Estimate
from slurm_ext.policy import loader
from tests.builders import STARVED, estimate_of

TOKEN = "d1-0123456789abcdef"
ONE, TWO = (Shape(cpus_per_task=n, num_workers=n - 1) for n in (1, 2))
OPT_OUT = "Opt out: --comment=dlqueue=off"


def predicted(rate: float, low: float = 0.0, high: float = 0.0) -> Prediction:
    """A prediction with these figures."""
    return Prediction(
        shape=ONE,
        samples_per_s=rate,
        interval=Interval(low, high),
        bottleneck="data",
        level=Level.SCRIPT,
        runs=2,
    )


def decision(before: float | None = 10.0, after: float | None = 20.0, **values: Any) -> Decision:
    """A change from one CPU to two, with predicted rates."""
    plain: dict[str, Any] = {
        "action": "change",
        "reason": "it is so",
        "before": ONE,
        "after": TWO,
        "predicted_before": None if before is None else predicted(before),
        "predicted_after": None if after is None else predicted(after, 18.0, 22.0),
    }
    return Decision(**{**plain, **values})


# -- the line for the user ------------------------------------------------------------------------

CHANGED = "cpus-per-task 1 -> 2, workers 0 -> 1"


@pytest.mark.parametrize(
    ("chosen", "mode", "emulated", "line"),
    [
        (decision(), Mode.OFF, False, None),
        (decision(), Mode.SHADOW, False, None),
        (decision(after=None), Mode.ACT, False, None),
        (
            decision(),
            Mode.ACT,
            False,
            f"dlqueue: {CHANGED}: about 2.0x faster (10 -> 20 samples/s, 18 to 22). {OPT_OUT}",
        ),
        (
            decision(),
            Mode.ADVISE,
            True,
            (
                f"dlqueue advises {CHANGED}: about 2.0x faster (10 -> 20 samples/s, 18 to 22,"
                " emulated accelerator). Nothing was changed."
            ),
        ),
        (
            decision(before=None),
            Mode.ACT,
            False,
            f"dlqueue: {CHANGED}: predicted 20 samples/s, 18 to 22. {OPT_OUT}",
        ),
        (
            decision(before=100.0, after=102.9),
            Mode.ACT,
            False,
            f"dlqueue: {CHANGED}: about as fast (103 samples/s, 18 to 22). {OPT_OUT}",
        ),
        (
            decision(before=100.0, after=103.0),
            Mode.ACT,
            False,
            f"dlqueue: {CHANGED}: about 1.0x faster (100 -> 103 samples/s, 18 to 22). {OPT_OUT}",
        ),
        (
            decision(action="leave"),
            Mode.ACT,
            False,
            "dlqueue: left as it is: it is so.",
        ),
        (
            decision(action="leave"),
            Mode.ADVISE,
            True,
            "dlqueue: left as it is: it is so, emulated accelerator.",
        ),
    ],
)
def test_the_line_of_each_mode(
    chosen: Decision, mode: Mode, emulated: bool, line: str | None
) -> None:
    """Change, gain with its bounds, and how to opt out; nothing where the mode shows nothing."""
    assert message(chosen, mode, emulated=emulated) == line


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12345.6, "12346"),
        (100.0, "100"),
        (99.94, "99.9"),
        (1.234, "1.23"),
        (0.001, "0.001"),
        (0.00099, "9.9e-04"),
        (0.0, "0.0e+00"),
    ],
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    """No exponent but for rates that round to nothing."""
    assert number(value) == text


def test_changes_leave_out_what_stays() -> None:
    """Only what differs is named."""
    assert changes(decision()) == CHANGED
    assert changes(replace(decision(), after=replace(ONE, num_workers=4))) == ("workers 0 -> 4")


def sharing(**values: Any) -> SharingDecision:
    """A job that shares and runs at 88 % at least, in act mode."""
    plain: dict[str, Any] = {
        "mode": Mode.ACT,
        "share": True,
        "why": "",
        "floor": 0.8,
        "gres": "mps:50",
        "worst": 0.88,
        "usual": 0.96,
        "edits": Edits(gres="mps:50", env={"DLQUEUE_SHARED": "mps:50"}),
    }
    return SharingDecision(**{**plain, **values})


@pytest.mark.parametrize(
    ("values", "line", "whole"),
    [
        ({"share": False}, "x", "x"),
        ({"worst": None}, None, None),
        ({"mode": Mode.SHADOW}, "x", "x"),
        ({"mode": Mode.OFF}, None, None),
        (
            {},
            None,
            (
                "dlqueue: shares its GPU with another job of yours, at most 12 % slower"
                f" (usually 4 %). {OPT_OUT}"
            ),
        ),
        (
            {"across": True, "usual": None},
            None,
            f"dlqueue: shares its GPU with another job, at most 12 % slower. {OPT_OUT}",
        ),
        (
            {"usual": 0.8},
            f"dlqueue: a. {OPT_OUT}",
            (
                "dlqueue: a. It shares its GPU with another job of yours, at most 12 % slower"
                f" (usually 12 %). {OPT_OUT}"
            ),
        ),
        (
            {"mode": Mode.ADVISE},
            None,
            (
                "dlqueue advises sharing its GPU (mps:50) with another such job: at most 12 %"
                " slower (usually 4 %). Nothing was changed."
            ),
        ),
        (
            {"mode": Mode.ADVISE},
            "dlqueue: a.",
            (
                "dlqueue: a. dlqueue advises sharing its GPU (mps:50) with another such job: at"
                " most 12 % slower (usually 4 %)."
            ),
        ),
    ],
)
def test_the_line_says_what_sharing_costs(
    values: dict[str, Any], line: str | None, whole: str | None
) -> None:
    """At most, and usually; whose job it may be; one opt-out for all."""
    assert with_sharing(line, sharing(**values)) == whole


def test_a_fault_of_an_elastic_job_is_told_in_the_line() -> None:
    """Alone, or after what else there is to say, and never longer than a line may be."""
    assert with_elastic_fault(None, "a is b") == "dlqueue: a is b: the job keeps its size."
    assert with_elastic_fault("x.", "a\nis b") == "x. dlqueue: a is b: the job keeps its size."
    assert len(with_elastic_fault("x" * 9999, "")) == MAX_MESSAGE_CHARS


def test_the_ledger_gets_every_field_of_a_sharing_decision() -> None:
    """But for the edits, which the journal keeps by themselves."""
    assert sharing(partners=("7",), beside="k", evidence="e").as_json(done=True) == {
        "v": 1,
        "mode": "act",
        "share": True,
        "why": "",
        "floor": 0.8,
        "gres": "mps:50",
        "worst": 0.88,
        "usual": 0.96,
        "evidence": "e",
        "beside": "k",
        "partners": ("7",),
        "across": False,
        "done": True,
    }


@pytest.mark.parametrize(
    ("speed", "percent"), [(1.01, 0), (0.99, 1), (0.9900000001, 1), (0.989, 2), (0.9, 10)]
)
def test_a_loss_is_rounded_up_to_whole_per_cents(speed: float, percent: int) -> None:
    """But for errors of the arithmetic."""
    assert slower(speed) == percent


# -- edits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "after", "rules", "edits"),
    [
        (
            {"cpus_per_task": 2},
            Shape(cpus_per_task=2, num_workers=3),
            None,
            Edits(env={"DLQUEUE_NUM_WORKERS": "3"}),
        ),
        (
            {"num_tasks": 3},
            Shape(cpus_per_task=2, num_workers=0),
            None,
            Edits(
                cpus_per_task=2,
                min_cpus=6,
                pn_min_cpus=2,
                env={
                    "DLQUEUE_NUM_WORKERS": "0",
                    "SLURM_CPUS_PER_TASK": "2",
                    "SRUN_CPUS_PER_TASK": "2",
                },
            ),
        ),
        (
            {"cpus_per_task": 3, "mem_per_cpu_mib": 100},
            Shape(cpus_per_task=2, num_workers=1),
            None,
            Edits(
                cpus_per_task=2,
                min_cpus=2,
                pn_min_cpus=2,
                min_mem_per_cpu=150,
                env={
                    "DLQUEUE_NUM_WORKERS": "1",
                    "SLURM_CPUS_PER_TASK": "2",
                    "SRUN_CPUS_PER_TASK": "2",
                    "SLURM_MEM_PER_CPU": "150",
                },
            ),
        ),
    ],
)
def test_every_field_that_moves_with_a_shape(
    fields: dict[str, Any], after: Shape, rules: PartitionRules | None, edits: Edits
) -> None:
    """All or nothing: a job with half of them pends or is rejected."""
    chosen = replace(decision(), after=after)
    assert edits_for(Submission(**fields), chosen, rules) == edits


@pytest.mark.parametrize(
    ("fields", "cpus", "rules", "mem_mib"),
    [
        ({"cpus_per_task": 4}, 5, {"def_mem_per_cpu_mib": 100}, None),
        ({"cpus_per_task": 4}, 3, {"def_mem_per_cpu_mib": 100}, 134),
        ({"cpus_per_task": 4, "mem_per_cpu_mib": 100}, 5, {"def_mem_per_cpu_mib": 900}, 80),
        ({"cpus_per_task": 4, "mem_per_cpu_mib": 100}, 3, {"mem_per_node_mib": 402}, 134),
        ({"cpus_per_task": 4, "mem_per_cpu_mib": 100}, 3, {"mem_per_node_mib": 401}, 133),
        ({"cpus_per_task": 4, "mem_per_cpu_mib": 100}, 3, {"mem_per_node_mib": 3}, 133),
        ({"cpus_per_task": 2, "mem_per_cpu_mib": 1}, 4, {"mem_per_node_mib": 1}, 1),
        ({"cpus_per_task": 4, "mem_per_node_mib": 0}, 3, {"def_mem_per_cpu_mib": 100}, None),
    ],
)
def test_memory_by_the_cpu_keeps_its_total(
    fields: dict[str, Any], cpus: int, rules: dict[str, Any], mem_mib: int | None
) -> None:
    """Rounded up as far as there is room; a default that grows along is left to do so."""
    chosen = replace(decision(), after=Shape(cpus_per_task=cpus, num_workers=0))
    made = edits_for(Submission(**fields), chosen, PartitionRules(cpus_per_node=8, **rules))
    assert made.min_mem_per_cpu == mem_mib


# -- journal --------------------------------------------------------------------------------------


def test_a_line_may_have_its_most_bytes_and_no_more(tmp_path: Path) -> None:
    """Bytes count, not letters; half a pair of surrogates is written all the same."""
    journal = Journal(tmp_path / "a" / "b")
    Journal(tmp_path / "a" / "b").close()  # the folder may be there
    journal.append("x" * MAX_LINE_BYTES)
    with pytest.raises(ValueError, match=rf"^a proposal of {MAX_LINE_BYTES + 2} bytes$"):
        journal.append("ä" + "x" * MAX_LINE_BYTES)
    journal.append("\udc80\n")
    journal.close()
    first, second = journals(tmp_path / "a" / "b")
    assert {first.stat().st_size, second.stat().st_size} == {MAX_LINE_BYTES + 7, 0}
    assert first.suffix == ".jsonl"
    assert len(first.stem) == 20
    assert first.stat().st_mode & 0o777 == 0o640 & ~umask()


def umask() -> int:
    """The process's."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_full_file_is_followed_by_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file may reach its size, and never exceeds it; the new one starts at nothing."""
    monkeypatch.setattr(journal_file, "ROTATE_BYTES", 8)
    journal = Journal(tmp_path)
    for line in ("abc\n", "def\n", "ghi\n", "jkl\n", "m\n"):
        journal.append(line)
    journal.close()
    files = [path.read_text() for path in journals(tmp_path)]
    assert files == ["abc\ndef\n", "ghi\njkl\n", "m\n"]


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what comes next goes into a new file, whatever its size."""
    journal = Journal(tmp_path)
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda _file, raw: len(raw) - 1)
        with pytest.raises(OSError, match=r"^the journal's disk is full$"):
            journal.append("ab\n")
    journal.append("c")
    journal.close()
    assert [path.read_text() for path in journals(tmp_path)] == ["", "c"]


# -- scripts --------------------------------------------------------------------------------------


def read(*lines: str, **options: Any) -> Submission:
    """The submission of a script with these #SBATCH options."""
    text = "#!/bin/sh\n" + "".join(f"#SBATCH {line}\n" for line in lines)
    return read_script(text, "job.sh", **options)


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("-A a", {"account": "a"}),
        ("--account=a", {"account": "a"}),
        ("-a 0-3", {"array": "0-3"}),
        ("--array 0-3", {"array": "0-3"}),
        ("-D /tmp/x", {"work_dir": "/tmp/x"}),
        ("--chdir=/tmp/x", {"work_dir": "/tmp/x"}),
        ("--comment=c", {"comment": "c"}),
        ("-C f", {"features": "f"}),
        ("--constraint=f", {"features": "f"}),
        ("--cpus-per-gpu=3", {"cpus_per_tres": "gpu:3"}),
        ("-c 3", {"cpus_per_task": 3, "pn_min_cpus": 3, "min_cpus": 3}),
        ("--gpu-bind=closest", {"tres_bind": "closest"}),
        ("--gpu-freq=low", {"tres_freq": "low"}),
        ("-J n", {"name": "n"}),
        ("--job-name=n", {"name": "n"}),
        ("--mem=2G", {"mem_per_node_mib": 2048}),
        ("--mem=1K", {"mem_per_node_mib": 1}),
        ("--mem-per-cpu=1025K", {"mem_per_cpu_mib": 2}),
        ("--mem-per-gpu=1G", {"mem_per_tres": "1G"}),
        ("-n 2", {"num_tasks": 2}),
        ("--ntasks=2", {"num_tasks": 2}),
        ("--ntasks-per-gpu=2", {"ntasks_per_tres": 2}),
        ("--ntasks-per-node=2", {"ntasks_per_node": 2}),
        ("-p a,b", {"partition": "a,b"}),
        ("--partition=a", {"partition": "a"}),
        ("--prefer=f", {"prefer": "f"}),
        ("-q q", {"qos": "q"}),
        ("--qos=q", {"qos": "q"}),
        ("--reservation=r", {"reservation": "r"}),
        ("-t 1:30", {"time_limit_minutes": 2}),
        ("--time=90", {"time_limit_minutes": 90}),
        ("--time=UNLIMITED", {"time_limit_minutes": None}),
        ("-N 2", {"min_nodes": 2, "max_nodes": 2}),
        ("--nodes=1-3", {"min_nodes": 1, "max_nodes": 3}),
        ("--exclusive", {"shared": 0}),
        ("--exclusive=user", {"shared": 2}),
        ("--exclusive=mcs", {"shared": 3}),
        ("-s", {"shared": 1}),
        ("--oversubscribe", {"shared": 1}),
        ("hetjob", {"het_offset": 0}),
        ("packjob", {"het_offset": 0}),
        ("-G 2", {"tres_per_job": "gpu:2", "gres": "gpu:2"}),
        ("--gpus=a100:2", {"tres_per_job": "gpu:a100:2", "gres": "gpu:a100:2"}),
        ("--gpus-per-node=2", {"tres_per_node": "gpu:2", "gres": "gpu:2"}),
        ("--gpus-per-task=2", {"tres_per_task": "gpu:2", "gres": "gpu:2"}),
        ("--gpus-per-socket=2", {"tres_per_socket": "gpu:2", "gres": "gpu:2"}),
        ("--gres=gpu:2,tmp:1", {"tres_per_node": "gpu:2,tmp:1", "gres": "gpu:2,tmp:1"}),
        (
            "--gres=tmp:1 --gpus-per-node=2",
            {"tres_per_node": "tmp:1,gpu:2", "gres": "tmp:1,gpu:2"},
        ),
        ("--mail-user=x -x n1 other", {}),
        ("", {}),
    ],
)
def test_each_option_in_its_field(line: str, fields: dict[str, Any]) -> None:
    """And in no other: all that is not written stays as it was."""
    script = f"#!/bin/sh\n#SBATCH {line}\n"
    plain = Submission(name="job.sh", script=script, argv=("job.sh",))
    assert read(line) == replace(plain, **fields)


def test_what_is_not_in_the_script_comes_from_the_caller() -> None:
    """User, folder, arguments and environment; the name is the file's."""
    text = "#!/bin/sh\n"
    assert read_script(text, "a/b.sh") == Submission(name="b.sh", script=text, argv=("a/b.sh",))
    assert read_script(
        text, "a/b.sh", args=("x",), user_name="u", user_id=3, work_dir="/w", env={"A": "1"}
    ) == Submission(
        name="b.sh",
        script=text,
        argv=("a/b.sh", "x"),
        user_name="u",
        user_id=3,
        work_dir="/w",
        env={"A": "1"},
    )


def test_min_cpus_are_those_of_all_tasks() -> None:
    """Whatever stands first in the script."""
    assert read("-n 3", "-c 4").min_cpus == read("-c 4 -n 3").min_cpus == 12


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("--mem", "--mem: needs a value"),
        ("--nodes=", "--nodes: needs a value"),
        ("--gpus", "--gpus: needs a value"),
        ("-c 0", "--cpus-per-task: '0' is not a positive count"),
        ("-c ²", "--cpus-per-task: '²' is not a positive count"),
        ("-c 2147483648", "--cpus-per-task: '2147483648' is not a positive count"),
        ("-N 2-", "--nodes: '' is not a positive count"),
        ("--exclusive=no", "--exclusive: 'no' is not one of user, mcs"),
        ('--comment="x', "No closing quotation in '#SBATCH --comment=\"x'"),
    ],
)
def test_a_bad_option_is_named_to_the_word(line: str, why: str) -> None:
    """File, line, option and value."""
    with pytest.raises(InputError) as caught:
        read("-J x", line)
    assert str(caught.value) == f"job.sh:3: {why}"


def test_a_text_that_is_no_script_is_refused_to_the_word() -> None:
    """With the line that is missing."""
    with pytest.raises(InputError) as caught:
        read_script("", "x")
    assert str(caught.value) == (
        "x: is not a batch script: it has to begin with #! as in #!/bin/bash"
    )


def test_the_largest_count_is_read() -> None:
    """A count of Slurm has 31 bits."""
    assert read("-c 1 -n 2147483647").num_tasks == 2147483647


def test_options_end_at_the_first_command_and_comments_are_passed() -> None:
    """Blank lines and comments are not commands; what follows a # is a comment."""
    text = (
        "#!/bin/sh\n\n# x\n  \n#SBATCH --mem=1 -x n1 --exclusive # -n 3\n"
        "#SBATCHX\n#SBATCH -c -n2 --flag --mem 5 hetjob word\ntrue\n#SBATCH -p z\n"
    )
    assert options_of(text, "s") == {
        "mem": "5",
        "exclusive": "",
        "cpus-per-task": None,
        "ntasks": "2",
        "flag": None,
        "hetjob": None,
    }


# -- the decision ---------------------------------------------------------------------------------

BASE = {"site.mode": "act", "policy.holdout_share": 0.0}


def context(**values: Any) -> DecisionContext:
    """Acting on evidence of two runs."""
    chosen = {**BASE, **{name.replace("__", "."): value for name, value in values.items()}}
    rules = PartitionRules(cpus_per_node=8, def_mem_per_cpu_mib=1000)
    return DecisionContext(
        settings=Settings(values=chosen),
        evidence={Level.SCRIPT_ARGS: [STARVED, STARVED]},
        rules=rules,
    )


JOB = Submission(script="#!/bin/sh\n", num_tasks=1)


def test_the_policy_is_asked_with_the_sites_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every number of the settings and of the evidence arrives where it belongs."""
    calls: list[tuple[Any, ...]] = []

    def asked(before: Shape, predict: Any, limits: Any, **options: Any) -> Decision:
        calls.append((before, limits.max_workers, options, predict(before)))
        return replace(decision(), action="leave", before=before, after=before)

    monkeypatch.setattr(loader, "decide", asked)
    chosen = {
        "policy__target": 0.9,
        "policy__min_gain": 0.25,
        "policy__max_workers": 5,
        "policy__change_explicit": "grow",
    }
    known = replace(context(**chosen), factor=2.0)
    rss = estimate_of(STARVED).worker_rss_bytes
    made = decide(replace(JOB, cpus_per_task=2), known)
    before = Shape(cpus_per_task=2, num_workers=1)
    options = {
        "target": 0.9,
        "min_gain": 0.25,
        "may_change_cpus": "grow",
        "worker_rss_bytes": rss,
    }
    assert rss == 200 << 20
    assert calls[0][:3] == (before, 5, options)
    decide(JOB, known)
    assert calls[1][2]["may_change_cpus"] == "any"
    decide(JOB, replace(known, rules=None))
    assert calls[2][2]["may_change_cpus"] == "never"
    decide(JOB, replace(known, factor=1.0))
    wide, narrow = calls[1][3].interval, calls[3][3].interval
    assert wide.low < narrow.low < narrow.high < wide.high
    assert (made.mode, made.why, made.proposed) == (Mode.ACT, "it is so", Edits())
    assert made.message == "dlqueue: left as it is: it is so, emulated accelerator."
    assert made.limits is not None
    assert (made.limits.max_workers, made.limits.node_cores) == (5, 8)
    assert made.unmarked == {}


@pytest.mark.parametrize(
    ("fields", "values", "why"),
    [
        ({}, {"site__mode": "off"}, "the mode here is off"),
        ({"script": None}, {}, "has no script: salloc and srun are never edited"),
        ({"script": None}, {"site__mode": "off"}, "the mode here is off"),
    ],
)
def test_a_job_that_is_left_alone_has_a_reason_and_nothing_else(
    fields: dict[str, Any], values: dict[str, Any], why: str
) -> None:
    """No decision, so no token either."""
    known = context(**values)
    mode = Mode(values.get("site__mode", "act"))
    made = decide(replace(JOB, **fields), known)
    assert made == Recommendation(mode=mode, why=why)
    response = respond(replace(JOB, **fields), known, TOKEN)
    assert (response.edits, response.message, response.holdout) == (Edits(), None, False)


def test_too_few_runs_are_counted_in_the_reason() -> None:
    """The site's least number is enough."""
    assert decide(JOB, context(policy__min_runs=3)).why == (
        "I do not know yet: 2 runs like this one, 3 are wanted"
    )
    assert decide(JOB, context(policy__min_runs=2)).proposed.env
    spanning = replace(JOB, max_nodes=2)
    assert decide(spanning, context(policy__min_runs=3)).why == "it spans several nodes"
    assert decide(spanning, replace(context(), evidence={})).why == "it spans several nodes"
    assert decide(JOB, replace(context(), evidence={})).why == (
        "I do not know yet: no runs like this one"
    )


def given_back(monkeypatch: pytest.MonkeyPatch, cpus: int, workers: int, **fields: Any) -> Decision:
    """The decision where the policy gives four CPUs back down to `cpus`."""

    def asked(before: Shape, *_: Any, **_options: Any) -> Decision:
        after = Shape(cpus_per_task=cpus, num_workers=workers)
        return replace(decision(), before=before, after=after)

    monkeypatch.setattr(loader, "decide", asked)
    made = decide(replace(JOB, cpus_per_task=4, **fields), context())
    assert made.decision is not None
    return made.decision


def test_cpus_are_given_back_down_to_the_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A core for each GPU stays, with its own prediction; where all stay, so does the job."""
    made = given_back(monkeypatch, 1, 1, tres_per_node="gpu:2")
    assert made.after == Shape(cpus_per_task=2, num_workers=1)
    assert made.predicted_after is not None
    assert made.predicted_after.shape == made.after
    same = given_back(monkeypatch, 2, 1, tres_per_node="gpu:2")
    assert same.predicted_after == decision().predicted_after
    stays = given_back(monkeypatch, 1, 1, tres_per_node="gpu:4")
    assert (stays.action, stays.after) == ("leave", Shape(cpus_per_task=4, num_workers=1))
    assert stays.reason == "its GPUs or its memory need every CPU it asks for"
    workers = given_back(monkeypatch, 1, 3, tres_per_node="gpu:9")
    assert (workers.action, workers.after) == ("change", Shape(cpus_per_task=4, num_workers=3))
    grown = given_back(monkeypatch, 5, 3, tres_per_node="gpu:9")
    assert grown.after == Shape(cpus_per_task=5, num_workers=3)


def test_a_summary_that_is_at_hand_is_used() -> None:
    """The service keeps summaries; without one the evidence is read."""
    summary = EvidenceSummary(estimate=None, why_none="because", usual_workers=3, node_cores=None)
    made = decide(JOB, replace(context(), summary=summary))
    assert made.why == "because"
    assert made.decision is not None
    assert made.decision.before == Shape(cpus_per_task=1, num_workers=3)
    assert made.message is None


ESTIMATE: Estimate = estimate_of(STARVED)
PROPOSED = Edits(cpus_per_task=2, env={"DLQUEUE_NUM_WORKERS": "1"})


def recommended(**values: Any) -> Recommendation:
    """A change in act mode."""
    plain: dict[str, Any] = {
        "mode": Mode.ACT,
        "why": "it is so",
        "decision": decision(),
        "proposed": PROPOSED,
        "message": "the line",
        "estimate": ESTIMATE,
    }
    return Recommendation(**{**plain, **values})


def applied(
    recommendation: Recommendation, *arguments: Any, share: float = 0.0, **values: Any
) -> Any:
    """The response with settings that switch control off."""
    chosen = Settings(values={"policy.holdout_share": share, "control.mode": "off", **values})
    return apply_mode(recommendation, chosen, TOKEN, *arguments)


def test_only_act_lets_edits_through() -> None:
    """The token always arrives, and after the rest."""
    token = {"DLQUEUE_DECISION": TOKEN}
    for mode in (Mode.SHADOW, Mode.ADVISE):
        response = applied(recommended(mode=mode))
        assert response.edits == Edits(env=token)
        assert response.message == "the line"
    acted = applied(recommended(unmarked={"DLQUEUE_SHARED": ""}))
    assert acted.edits == Edits(
        cpus_per_task=2,
        env={"DLQUEUE_SHARED": "", "DLQUEUE_NUM_WORKERS": "1", **token},
    )
    assert (acted.holdout, acted.sharing, acted.recommendation.why) == (False, None, "it is so")


def test_the_control_group_is_drawn_of_jobs_that_something_is_known_of() -> None:
    """Without an estimate or a share there is nothing to compare."""
    held = applied(recommended(), share=1.0)
    assert (held.holdout, held.message) == (True, None)
    assert held.edits == Edits(env={"DLQUEUE_DECISION": TOKEN})
    unknown = applied(recommended(estimate=None), share=1.0)
    assert unknown.holdout is False
    assert unknown.edits.cpus_per_task == 2
    shared = applied(recommended(estimate=None), sharing(), share=1.0)
    assert (shared.holdout, shared.edits.gres, shared.message) == (True, None, None)
    apart = applied(recommended(estimate=None), sharing(share=False), share=1.0)
    assert (apart.holdout, apart.message) == (False, "the line")


def test_all_of_a_part_of_a_gpu_reaches_the_job_where_sharing_acts() -> None:
    """Fields and variables, beside the loader's own."""
    part = Edits(
        gres="mps:50",
        tres_per_job="",
        tres_per_task="",
        tres_bind="",
        prefer="f",
        env={"DLQUEUE_SHARED": "mps:50"},
    )
    shared = sharing(edits=part)
    response = applied(recommended(unmarked={"DLQUEUE_SHARED": ""}), shared)
    assert response.edits == replace(
        part,
        cpus_per_task=2,
        env={
            "DLQUEUE_NUM_WORKERS": "1",
            "DLQUEUE_SHARED": "mps:50",
            "DLQUEUE_DECISION": TOKEN,
        },
    )
    assert response.sharing is shared
    assert "It shares its GPU" not in (applied(recommended(), None).message or "")
    only = applied(recommended(), sharing(edits=part, mode=Mode.ADVISE))
    assert only.edits.gres is None
    assert only.message == with_sharing("the line", sharing(mode=Mode.ADVISE))


def test_a_fault_of_an_elastic_job_is_told_in_every_group() -> None:
    """The user wrote something that cannot be: the control group reads it, too."""
    fault = "dlqueue: x: the job keeps its size."
    assert applied(recommended(), None, "x", share=1.0).message == fault
    assert applied(recommended(), None, "x").message == f"the line {fault}"


def test_the_curve_reaches_the_job_where_control_works() -> None:
    """Nothing is said of jobs that nothing is known of."""
    assert "DLQUEUE_CURVE" not in applied(recommended()).edits.env
    on: dict[str, Any] = {"control.mode": "shadow"}
    assert applied(recommended(), **on).edits.env["DLQUEUE_CURVE"]
    assert "DLQUEUE_CURVE" not in applied(recommended(estimate=None), **on).edits.env


def test_the_control_group_by_hash() -> None:
    """The same tokens with every release: reports compare over months."""
    held = [n for n in range(40) if held_out(f"d1-{n:016x}", 0.3)]
    assert held == [14, 16, 19, 22, 24, 27, 28, 31, 32, 35, 37]
    assert not held_out(TOKEN, 0.0)
    assert held_out(TOKEN, 1.0)


def test_the_predictor_widens_by_the_factor_and_knows_the_machine() -> None:
    """Cores beyond those of the machine add nothing."""
    shape = Shape(cpus_per_task=64, num_workers=8)
    plain = predictor(ESTIMATE, context())(shape)
    wide = predictor(ESTIMATE, replace(context(), factor=2.0))(shape)
    assert plain.samples_per_s == wide.samples_per_s
    assert wide.interval.low < plain.interval.low
    four = predictor(ESTIMATE, context())(replace(shape, cpus_per_task=4))
    assert four.samples_per_s == pytest.approx(plain.samples_per_s)
    free = replace(context(), evidence={Level.SCRIPT: [replace(STARVED, node_cores=None)]})
    assert predictor(ESTIMATE, free)(shape).samples_per_s > plain.samples_per_s
