"""Limits of accounts and users in a replay, and minutes that are used up: by hand."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurm_ext.policy.queue.order import rule_of
from slurm_ext.simulate.limits.association_file import read_associations
from slurm_ext.simulate.limits.limited_trace import LimitedTrace
from slurm_ext.simulate.limits.meters import Metering
from slurm_ext.simulate.limits.qos import QosTable
from slurm_ext.simulate.limits.qos_values import qos_of
from slurm_ext.simulate.limits.site_limits import Limits, with_usual
from slurm_ext.simulate.queue.cluster import Cluster
from slurm_ext.simulate.queue.engine import replay
from slurm_ext.simulate.replay_result import ReplayResult
from slurm_ext.simulate.trace.columns import Trace
from tests.simulate.limits.test_qos_limits import site_trace

NODE = Cluster(nodes=1, gpus_per_node=8)
ROWS = [(0.0, 10.0, 2), (0.0, 10.0, 2), (0.0, 10.0, 1), (0.0, 10.0, 1)]


def site(
    folder: Path,
    accounts: Mapping[str, str],
    qos: Mapping[str, str] | None = None,
    **metering: float,
) -> Limits:
    """Users a and b of account x, c of y, both below z; options of a dump by name."""
    lines = ["Cluster - 'alpha'"]
    for parent, kind, names in (
        ("root", "Account", "z"),
        ("z", "Account", "xy"),
        ("x", "User", "ab"),
        ("y", "User", "c"),
    ):
        lines.append(f"Parent - '{parent}'")
        lines += [f"{kind} - '{name}'{accounts.get(name, '')}" for name in names]
    path = folder / "dump.cfg"
    path.write_text("\n".join(lines) + "\n")
    table = None if qos is None else QosTable(source="q", qos={"normal": qos_of("normal", qos)})
    return Limits(
        table=table,
        associations=read_associations(path),
        metering=Metering(**metering),  # type: ignore[arg-type]
    )


def replayed(trace: Trace, some: Limits, policy: str = "fifo") -> ReplayResult:
    """A replay on one node of eight GPUs."""
    return replay(with_usual(trace, some), NODE, rule_of(policy), limits=some)


@pytest.mark.parametrize("policy", ["fifo", "fifo+backfill"])
@pytest.mark.parametrize(
    ("limits", "users", "starts"),
    [
        ({"a": ":MaxJobs=1"}, "aabb", [0, 10, 0, 0]),
        ({"x": ":MaxJobs=1"}, "aabb", [0, 10, 0, 10]),
        ({"x": ":GrpJobs=1"}, "aabc", [0, 10, 20, 0]),
        ({"z": ":GrpTRES=gres/gpu=4"}, "abcc", [0, 0, 10, 10]),
        ({"a": ":GrpTRES=gres/gpu=2", "x": ":GrpTRES=gres/gpu=3"}, "aabc", [0, 10, 0, 0]),
    ],
)
def test_who_is_at_a_limit_of_an_account_waits(
    tmp_path: Path, limits: dict[str, str], users: str, starts: list[float], policy: str
) -> None:
    """A user's own limit, one that it inherits, and sums of an account and of the one above it."""
    outcome = replayed(site_trace(ROWS, users), site(tmp_path, limits), policy)
    assert outcome.start_s.tolist() == starts
    assert not outcome.unfinished


def test_a_qos_takes_an_associations_place(tmp_path: Path) -> None:
    """Where the QOS limits jobs of a user, the association's MaxJobs counts no more."""
    trace, accounts = site_trace(ROWS, "aaaa"), {"a": ":MaxJobs=1"}
    for qos, starts in (({}, [0, 10, 20, 30]), ({"MaxJobsPU": "2"}, [0, 0, 10, 10])):
        assert replayed(trace, site(tmp_path, accounts, qos)).start_s.tolist() == starts


def test_submissions_above_an_accounts_limit_are_refused(tmp_path: Path) -> None:
    """Of a user one job may be in the queue at a time, of the account two."""
    some = site(tmp_path, {"x": ":GrpSubmitJobs=2:MaxSubmitJobs=1"})
    outcome = replayed(site_trace(ROWS, "aabb"), some)
    assert outcome.unfinished == {
        1: "refused: MaxSubmit=1 of user a of x",
        3: "refused: MaxSubmit=1 of user b of x",
    }


def test_a_job_above_what_its_user_may_ask_for_never_starts(tmp_path: Path) -> None:
    """Above MaxTRESPerJob, and above MaxTRESMinsPerJob with its time limit."""
    some = site(tmp_path, {"a": ":MaxTRESPerJob=gres/gpu=1", "b": ":MaxTRESMinsPerJob=gres/gpu=3"})
    trace = replace(site_trace(ROWS, "aaba"), limit_s=np.array([60.0, 60.0, 181.0, 60.0]))
    within = LimitedTrace(with_usual(trace, some), some).within()
    assert within.job == ("3",)
    assert within.repairs == {
        "would wait for ever: MaxTRES=gres/gpu=1 of user a of x (job 0, 1)": 2,
        "would wait for ever: MaxTRESMins=gres/gpu=3 of user b of x (job 2)": 1,
    }


def test_unknown_users_have_the_limits_of_their_account(tmp_path: Path) -> None:
    """They are counted, as are those of whom nothing is known."""
    trace = site_trace(ROWS, "stst", account="xxqq")
    some = site(tmp_path, {"x": ":GrpJobs=1"})
    assert replayed(trace, some).start_s.tolist() == [0, 10, 0, 0]
    assert sorted(with_usual(trace, some).repairs.values()) == [2, 2]


HOUR = 3600.0


def test_minutes_that_are_used_up_end_jobs_and_keep_others_back(tmp_path: Path) -> None:
    """Two GPUs use 120 minutes up in an hour, which Slurm sees when it counts; they decay."""
    rows = [(0.0, 10 * HOUR, 2), (HOUR + 400, 60.0, 1)]
    limits = {"x": ":GrpTRESMins=gres/gpu=120"}
    outcome = replayed(site_trace(rows, "ab"), site(tmp_path, limits, half_life_s=0.0))
    assert outcome.end_s[0] == HOUR
    assert outcome.unfinished[0] == "ended: GrpTRESMins=gres/gpu=120 of account x"
    assert "still waited" in outcome.unfinished[1]
    decays = replayed(site_trace(rows, "ab"), site(tmp_path, limits, half_life_s=8 * HOUR))
    assert HOUR < decays.end_s[0] < 1.2 * HOUR
    assert HOUR + 400 < decays.start_s[1] < 2 * HOUR


def test_safe_limits_let_nobody_start_who_might_be_ended(tmp_path: Path) -> None:
    """A job asks for all minutes of its time limit; what an early end leaves is free again."""
    rows = [(0.0, 600.0, 2), (0.0, 600.0, 2), (0.0, 60.0, 1)]
    trace = replace(site_trace(rows, "abb"), limit_s=np.array([1800.0, 1200.0, 600.0]))
    some = site(tmp_path, {"x": ":GrpTRESMins=gres/gpu=80"}, half_life_s=0.0, safe=True)
    assert replayed(trace, some).start_s.tolist() == [0, 600, 0]
    assert not replayed(trace, some).unfinished


def test_a_qos_whose_minutes_never_decay_is_closed_for_good(tmp_path: Path) -> None:
    """With the flag NoDecay; another QOS's half-life does not matter."""
    rows = [(0.0, HOUR, 1), (900 * HOUR, 60.0, 1)]
    for flags, waits in (("", False), ("NoDecay", True)):
        qos = {"GrpTRESMins": "gres/gpu=60", "Flags": flags}
        outcome = replayed(site_trace(rows, "aa"), site(tmp_path, {}, qos))
        assert (1 in outcome.unfinished) == waits


def test_running_jobs_may_not_need_more_minutes_than_a_limit(tmp_path: Path) -> None:
    """GrpTRESRunMins: what time limits leave to those who run; what is used up counts no more."""
    rows = [(0.0, 600.0, 2), (0.0, 60.0, 2), (0.0, 60.0, 1), (0.0, 60.0, 8)]
    trace = replace(site_trace(rows, "abbb"), limit_s=np.array([1200.0, 900.0, 600.0, 3600.0]))
    some = site(tmp_path, {"x": ":GrpTRESRunMins=gres/gpu=50"}, half_life_s=0.0)
    # 40 minutes are reserved, 30 more would be too many, 10 more fit; from second 300 on 30 do not.
    outcome = replayed(LimitedTrace(with_usual(trace, some), some).within(), some)
    assert outcome.start_s.tolist() == [0, 600, 0]
    why = "would wait for ever: GrpTRESRunMins=gres/gpu=50 of account x (job 3)"
    assert LimitedTrace(with_usual(trace, some), some).within().repairs == {why: 1}


def test_an_accounts_wall_time_is_used_up(tmp_path: Path) -> None:
    """GrpWall counts each job's minutes, however large it is, and ends those who run."""
    rows = [(0.0, 10 * HOUR, 4), (0.0, 10 * HOUR, 1), (HOUR, 60.0, 1), (HOUR, 60.0, 1)]
    some = site(tmp_path, {"x": ":GrpWall=60"}, half_life_s=0.0)
    outcome = replayed(site_trace(rows, "abbc", account="xxxy"), some)
    assert outcome.end_s[:2].tolist() == [HOUR / 2, HOUR / 2]
    assert outcome.unfinished[0] == "ended: GrpWall=60 minutes of account x"
    assert "still waited" in outcome.unfinished[2]
    assert outcome.start_s[3] == HOUR


@pytest.mark.parametrize(("factor", "end_s"), [("0.5", 2 * HOUR), ("2.0", HOUR / 2)])
def test_a_qos_counts_minutes_by_its_usage_factor(
    tmp_path: Path, factor: str, end_s: float
) -> None:
    """UsageFactor of the job's QOS, in the sums of its account, too."""
    limits = {"x": ":GrpTRESMins=gres/gpu=60"}
    some = site(tmp_path, limits, {"UsageFactor": factor}, half_life_s=0.0)
    outcome = replayed(site_trace([(0.0, 10 * HOUR, 1)], "a"), some)
    assert outcome.end_s.tolist() == [end_s]


@pytest.mark.parametrize(
    ("flags", "minutes", "second_s"),
    [("", 150, 0.0), ("UsageFactorSafe", 150, 600.0), ("", 110, 600.0)],
)
def test_minutes_that_a_time_limit_asks_for_have_a_factor(
    tmp_path: Path, flags: str, minutes: int, second_s: float
) -> None:
    """Each asks for 40 minutes, with UsageFactorSafe for 80; who runs may have 80 and had 40."""
    rows = [(0.0, 600.0, 2), (0.0, 600.0, 2)]
    trace = replace(site_trace(rows, "ab"), limit_s=np.array([1200.0, 1200.0]))
    qos, limits = {"UsageFactor": "2", "Flags": flags}, {"x": f":GrpTRESMins=gres/gpu={minutes}"}
    some = site(tmp_path, limits, qos, half_life_s=0.0, safe=True)
    assert replayed(trace, some).start_s.tolist() == [0.0, second_s]


@pytest.mark.parametrize(
    ("factor", "flags", "fate"),
    [
        ("2", "", ""),
        ("2", "UsageFactorSafe", "would wait for ever"),
        ("0.5", "UsageFactorSafe", ""),
        ("0", "UsageFactorSafe", ""),
        ("0.5", "UsageFactorSafe,DenyOnLimit", "refused"),
    ],
)
@pytest.mark.parametrize("column", ["MaxWall", "MaxTRESMins"])
def test_a_time_limit_counts_with_its_factor(
    tmp_path: Path, factor: str, flags: str, fate: str, column: str
) -> None:
    """What sbatch refuses it refuses by the time limit as written."""
    value = "20" if column == "MaxWall" else "gres/gpu=20"
    some = site(tmp_path, {}, {"UsageFactor": factor, "Flags": flags, column: value})
    limit_s = np.array([60.0, 1800.0 if float(factor) < 1 else 900.0])
    trace = with_usual(replace(site_trace([(0.0, 60.0, 1)] * 2, "ab"), limit_s=limit_s), some)
    fates = [why.partition(":")[0] for why in LimitedTrace(trace, some).within().repairs]
    assert fates == ([fate] if fate else [])
