"""One submission's journey: each rule of who is edited, told, recorded or left alone."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.advisor.evidence.summary import usual_workers
from slurm_ext.advisor.limits.bounds import PartitionRules, cpus_of, tasks_of
from slurm_ext.advisor.pipeline.context import DecisionContext
from slurm_ext.advisor.pipeline.decide import decide
from slurm_ext.advisor.pipeline.respond import Response, held_out, respond
from slurm_ext.core.gpu_request import gpus_of
from slurm_ext.core.records import Edits, Level, LoaderRun, Mode, Submission
from slurm_ext.core.settings.document import Settings
from slurm_ext.model.throughput import estimate_codec

TOKEN = "d1-0123456789abcdef"
RULES = PartitionRules(cpus_per_node=16, mem_per_node_mib=64 * 1024, def_mem_per_cpu_mib=4096)
SCRIPT = "#!/bin/bash\npython3 train.py\n"

STARVED = LoaderRun(  # one worker where eight would do: data costs 80 ms, the step 10 ms
    samples_per_s=12.0,
    workers=1,
    cores=1.0,
    batch_size=8.0,
    accel_samples_per_s=100.0,
    fetch_wall_s=0.08,
    fetch_cpu_s=0.078,
    main_cpu_s=0.0001,
    node_cores=16,
    user_workers=1,
)
FINE = replace(
    STARVED,
    samples_per_s=99.0,
    fetch_wall_s=0.001,
    fetch_cpu_s=0.0005,
    user_workers=1,
    cores=16.0,
    used_cores=0.9,
)


def settings(**values: Any) -> Settings:
    """Acting, without a control group, unless said otherwise; dots are written as __."""
    chosen = {"site__mode": "act", "policy__holdout_share": 0.0, **values}
    return Settings(values={name.replace("__", "."): value for name, value in chosen.items()})


def ask(
    job: Submission, *runs: LoaderRun, rules: PartitionRules | None = RULES, **values: Any
) -> Response:
    """The answer to `job` when these runs are of the same script and arguments."""
    evidence = {Level.SCRIPT_ARGS: list(runs)} if runs else {}
    return respond(
        job, DecisionContext(settings=settings(**values), evidence=evidence, rules=rules), TOKEN
    )


def job(**fields: Any) -> Submission:
    """A plain one-node submission."""
    return Submission(**{"script": SCRIPT, "name": "train.sh", "num_tasks": 1, **fields})


def test_a_starved_job_gets_cores_workers_and_all_that_moves_with_them() -> None:
    """The three CPU fields, the job's environment and the worker count change together."""
    given_ = ask(job(), STARVED, STARVED)
    cpus = given_.edits.cpus_per_task
    assert cpus is not None
    assert cpus > 1
    assert (given_.edits.min_cpus, given_.edits.pn_min_cpus) == (cpus, cpus)
    env = given_.edits.env
    assert env["SLURM_CPUS_PER_TASK"] == env["SRUN_CPUS_PER_TASK"] == str(cpus)
    assert int(env["DLQUEUE_NUM_WORKERS"]) > 1
    assert env["DLQUEUE_DECISION"] == TOKEN


def test_the_message_is_one_line_with_change_gain_interval_and_opt_out() -> None:
    """The researcher reads what changed, by how much with bounds, and how to say no."""
    said = ask(job(), STARVED).message
    assert said is not None
    assert "\n" not in said
    for part in ("cpus-per-task 1 ->", "workers 1 ->", "x faster (11", " to ", "dlqueue=off"):
        assert part in said


def test_an_emulated_accelerator_is_named_in_the_message() -> None:
    """Nobody takes a timed wait for a GPU's figures."""
    said = ask(job(), replace(STARVED, emulated=True)).message
    assert said is not None
    assert "emulated accelerator" in said
    assert "emulated" not in (ask(job(), STARVED).message or "")


def test_several_tasks_move_min_cpus_by_their_number() -> None:
    """Slurm wants min_cpus = tasks x cpus-per-task, or the job pends for ever."""
    edits = ask(job(num_tasks=2), replace(STARVED, ranks=2)).edits
    assert edits.cpus_per_task is not None
    assert edits.min_cpus == 2 * edits.cpus_per_task


def test_a_job_that_is_fine_is_left_alone_and_told_why() -> None:
    """Good evidence that nothing helps is worth a line, and changes nothing but the token."""
    given_ = ask(job(), FINE, FINE)
    assert given_.recommendation.decision is not None
    assert given_.recommendation.decision.action == "leave"
    assert given_.edits == Edits(env={"DLQUEUE_DECISION": TOKEN})
    assert given_.message is not None
    assert "left as it is: already at" in given_.message
    assert "the accelerator is the limit" in given_.message


def test_a_job_like_no_other_is_recorded_and_hears_nothing() -> None:
    """Without evidence: I do not know; the token alone is set, so that the run teaches."""
    given_ = ask(job())
    assert given_.recommendation.decision is not None
    assert given_.recommendation.decision.reason == "I do not know yet: no runs like this one"
    assert given_.edits == Edits(env={"DLQUEUE_DECISION": TOKEN})
    assert given_.message is None


def test_fewer_runs_than_the_site_wants_are_no_answer() -> None:
    """policy.min_runs is the fewest runs that a change may rest on."""
    given_ = ask(job(), STARVED, policy__min_runs=3)
    assert given_.recommendation.decision is not None
    assert given_.recommendation.decision.action == "leave"
    assert "1 runs like this one, 3 are wanted" in given_.recommendation.why
    assert given_.message is None


@pytest.mark.parametrize(
    "fields",
    [
        {"script": None},
        {"script_truncated": True},
        {"array": "0-3"},
        {"het_offset": 0},
        {"comment": "dlqueue=off"},
        {"comment": "mine, dlqueue=off"},
        {"env": {"DLQUEUE": "off"}},
        {"env": {"DLQUEUE": "OFF"}},
    ],
)
def test_who_opted_out_or_cannot_be_edited_gets_nothing_at_all(fields: dict[str, Any]) -> None:
    """No token, no message, no entry in the ledger."""
    given_ = ask(job(**fields), STARVED)
    assert given_.recommendation.decision is None
    assert given_.edits == Edits()
    assert given_.message is None


def test_a_comment_that_only_looks_like_opting_out_is_none() -> None:
    """`dlqueue=offline` is not `dlqueue=off`."""
    assert ask(job(comment="dlqueue=offline"), STARVED).recommendation.decision is not None


@pytest.mark.parametrize(
    "fields",
    [
        {"shared": 0},
        {"reservation": "maint"},
        {"cpus_per_tres": "gpu:4"},
        {"min_nodes": 2},
        {"min_nodes": 1, "max_nodes": 4},
    ],
)
def test_jobs_whose_cpus_are_not_ours_to_set_are_learned_from_only(fields: dict[str, Any]) -> None:
    """They carry the token and are otherwise as written."""
    given_ = ask(job(**fields), STARVED)
    assert given_.edits == Edits(env={"DLQUEUE_DECISION": TOKEN})
    assert given_.recommendation.decision is not None
    assert given_.recommendation.decision.action == "leave"
    assert given_.message is None


def test_off_does_nothing_shadow_adds_a_token_advise_a_line() -> None:
    """Each mode lets through what it promises and no more."""
    token_only = Edits(env={"DLQUEUE_DECISION": TOKEN})
    off, shadow, advise = (
        ask(job(), STARVED, site__mode=mode) for mode in ("off", "shadow", "advise")
    )
    assert (off.recommendation.decision, off.edits, off.message) == (None, Edits(), None)
    assert (shadow.edits, shadow.message) == (token_only, None)
    assert shadow.recommendation.decision is not None
    assert shadow.recommendation.decision.action == "change"
    assert advise.edits == token_only
    assert advise.message is not None
    assert "Nothing was changed" in advise.message


def test_an_accounts_mode_goes_before_the_partitions() -> None:
    """A site can act on one account while everyone else is only watched."""
    chosen = Settings(
        values={"site.mode": "off", "policy.holdout_share": 0.0},
        partition_modes={"gpu": Mode.SHADOW},
        account_modes={"vision": Mode.ACT},
    )
    modes = [
        respond(
            job(partition=p, account=a), DecisionContext(settings=chosen), TOKEN
        ).recommendation.mode
        for p, a in (("cpu", "x"), ("gpu", "x"), ("gpu", "vision"))
    ]
    assert modes == [Mode.OFF, Mode.SHADOW, Mode.ACT]


def test_the_control_group_is_recorded_untouched_and_told_nothing() -> None:
    """Reports compare with jobs that ran as written, chosen by hash."""
    given_ = ask(job(), STARVED, policy__holdout_share=0.5)
    chosen = held_out(TOKEN, 0.5)
    assert given_.holdout == chosen
    everybody = replace(settings(), values={**settings().values, "policy.holdout_share": 1.0})
    known = DecisionContext(
        settings=everybody, evidence={Level.SCRIPT_ARGS: [STARVED]}, rules=RULES
    )
    held = respond(job(), known, TOKEN)
    assert held.holdout
    assert held.recommendation.decision is not None
    assert held.recommendation.decision.action == "change"
    assert held.edits == Edits(env={"DLQUEUE_DECISION": TOKEN})
    assert held.message is None


def test_the_control_groups_share_is_the_share_asked_for() -> None:
    """Of many tokens about one in twenty is held out, and always the same ones."""
    tokens = [f"d1-{n:016x}" for n in range(4000)]
    held = [token for token in tokens if held_out(token, 0.05)]
    assert 140 < len(held) < 260
    assert held == [token for token in tokens if held_out(token, 0.05)]


def test_cpus_that_the_user_wrote_change_only_where_the_site_allows() -> None:
    """Never keeps them (workers may change), grow only adds, any also gives back."""
    never = ask(job(cpus_per_task=1), STARVED)
    assert never.edits.cpus_per_task is None
    grown = ask(job(cpus_per_task=1), STARVED, policy__change_explicit="grow").edits.cpus_per_task
    assert grown is not None
    assert grown > 1
    wasteful = job(cpus_per_task=16)
    assert ask(wasteful, FINE, policy__change_explicit="grow").edits.cpus_per_task is None
    given_back = ask(wasteful, FINE, policy__change_explicit="any").edits.cpus_per_task
    assert given_back is not None
    assert given_back < 16


def test_a_gpu_is_never_left_without_a_core() -> None:
    """Giving CPUs back stops at one for every GPU of the job."""
    edits = ask(
        job(cpus_per_task=16, gres="gres:gpu:a100:4"), FINE, policy__change_explicit="any"
    ).edits
    assert edits.cpus_per_task is not None
    assert edits.cpus_per_task >= 4


def test_memory_per_cpu_keeps_the_total_when_cpus_change() -> None:
    """--mem-per-cpu times CPUs is what the job had; steps are told the new figure too."""
    edits = ask(
        job(cpus_per_task=16, mem_per_cpu_mib=1000), FINE, policy__change_explicit="any"
    ).edits
    assert edits.cpus_per_task is not None
    assert edits.min_mem_per_cpu == -(-16000 // edits.cpus_per_task)
    assert edits.env["SLURM_MEM_PER_CPU"] == str(edits.min_mem_per_cpu)
    default = ask(job(cpus_per_task=16), FINE, policy__change_explicit="any").edits
    assert default.cpus_per_task is not None
    assert default.min_mem_per_cpu == -(-16 * 4096 // default.cpus_per_task)


def test_the_partitions_largest_memory_per_cpu_keeps_enough_cpus() -> None:
    """Where memory per CPU may not rise, CPUs that carry memory are not given back."""
    rules = replace(RULES, max_mem_per_cpu_mib=4096)
    wasteful = job(cpus_per_task=16, mem_per_cpu_mib=2048)
    edits = ask(wasteful, FINE, rules=rules, policy__change_explicit="any").edits
    assert edits.cpus_per_task == 8
    assert edits.min_mem_per_cpu == 4096


def test_unknown_limits_keep_every_cpu_as_it_is() -> None:
    """Workers may still change: they need no rule of Slurm's."""
    starved_with_cores = replace(STARVED, cores=8.0)
    edits = ask(
        job(cpus_per_task=8), starved_with_cores, rules=None, policy__change_explicit="any"
    ).edits
    assert edits.cpus_per_task is None
    assert int(edits.env["DLQUEUE_NUM_WORKERS"]) > 1


def test_what_the_script_asks_for_is_not_what_dlqueue_made_of_it() -> None:
    """After a run with eight workers of ours, the next one is still compared with the user's."""
    ours = replace(STARVED, workers=8, user_workers=0)
    assert usual_workers({Level.SCRIPT: [ours]}) == 0
    given_ = ask(job(), replace(ours, samples_per_s=90.0, cores=8.0))
    assert int(given_.edits.env["DLQUEUE_NUM_WORKERS"]) > 0


def test_what_act_would_do_is_thought_of_in_every_mode() -> None:
    """`predict` says what act would do, whatever the mode, and leaves no trace."""
    known = DecisionContext(
        settings=settings(site__mode="shadow"), evidence={Level.SCRIPT: [STARVED]}, rules=RULES
    )
    proposed = decide(job(), known).proposed
    assert "DLQUEUE_DECISION" not in proposed.env
    assert proposed.cpus_per_task is not None


RUNS = st.builds(
    LoaderRun,
    samples_per_s=st.floats(0.01, 1e5),
    workers=st.integers(0, 64),
    cores=st.floats(0.5, 128),
    batch_size=st.floats(1, 4096),
    accel_samples_per_s=st.floats(0.01, 1e6),
    fetch_wall_s=st.floats(1e-6, 10),
    fetch_cpu_s=st.floats(0, 10),
    worker_rss_bytes=st.none() | st.integers(1, 1 << 36),
    node_cores=st.none() | st.integers(1, 256),
    user_workers=st.none() | st.integers(0, 64),
)
JOBS = st.builds(
    Submission,
    script=st.just(SCRIPT),
    num_tasks=st.none() | st.integers(1, 8),
    cpus_per_task=st.none() | st.integers(1, 64),
    mem_per_cpu_mib=st.none() | st.integers(1, 1 << 20),
    mem_per_node_mib=st.none() | st.integers(0, 1 << 20),
    gres=st.none() | st.sampled_from(["gpu:2", "gres:gpu:a100:8"]),
)
RULE_SETS = st.none() | st.builds(
    PartitionRules,
    cpus_per_node=st.integers(1, 256),
    mem_per_node_mib=st.none() | st.integers(1, 1 << 20),
    def_mem_per_cpu_mib=st.none() | st.integers(1, 1 << 16),
    max_mem_per_cpu_mib=st.none() | st.integers(1, 1 << 16),
)


@given(JOBS, st.lists(RUNS, min_size=1, max_size=5), RULE_SETS, st.sampled_from(["grow", "any"]))
def test_no_evidence_can_talk_a_job_out_of_its_limits_or_memory(
    work: Submission, runs: list[LoaderRun], rules: PartitionRules | None, explicit: str
) -> None:
    """Whatever runs say: never above the node, never fewer cores than GPUs, memory kept."""
    given_ = ask(work, *runs, rules=rules, policy__change_explicit=explicit)
    edits, before = given_.edits, cpus_of(work)
    cpus = edits.cpus_per_task or before
    assert cpus >= 1
    if cpus > before:
        assert rules is not None
        assert cpus * tasks_of(work) <= rules.cpus_per_node
    if cpus < before:
        assert cpus * tasks_of(work) >= gpus_of(work)
    per_cpu = work.mem_per_cpu_mib or (rules.def_mem_per_cpu_mib if rules else None)
    if per_cpu and work.mem_per_node_mib is None:
        kept, wanted = cpus * (edits.min_mem_per_cpu or per_cpu), before * per_cpu
        # What does not divide is rounded down where the node has no room for it rounded up.
        room = rules.mem_per_node_mib if rules else None
        full = room is not None and (wanted + cpus) * tasks_of(work) > room
        assert kept >= wanted or (full and kept > wanted - cpus)
    workers = edits.env.get("DLQUEUE_NUM_WORKERS")
    assert workers is None or 0 <= int(workers) <= 64


@given(JOBS, st.lists(RUNS, max_size=3), RULE_SETS, st.sampled_from(["shadow", "advise"]))
def test_watching_never_edits(
    work: Submission, runs: list[LoaderRun], rules: PartitionRules | None, mode: str
) -> None:
    """In shadow and advise mode the token is all that a job ever gets."""
    given_ = ask(work, *runs, rules=rules, site__mode=mode)
    assert given_.edits == Edits(env={"DLQUEUE_DECISION": TOKEN})


@pytest.mark.parametrize("mode", ["shadow", "advise", "act"])
def test_the_curve_travels_where_control_is_on(mode: str) -> None:
    """Every job of which something is known carries it; none where control or the mode is off."""
    on: dict[str, Any] = {"site.mode": mode, "control.mode": "shadow"}
    line = ask(job(), STARVED, **on).edits.env["DLQUEUE_CURVE"]
    told = estimate_codec.read(line)
    assert told is not None
    assert told.runs == 1
    assert "DLQUEUE_CURVE" not in ask(job(), **on).edits.env
    assert (
        "DLQUEUE_CURVE" not in ask(job(), STARVED, **dict[str, Any]({"site.mode": mode})).edits.env
    )
    assert ask(job(), STARVED, **{**on, "site.mode": "off"}).edits.env == {}
