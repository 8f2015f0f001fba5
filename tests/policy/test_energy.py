"""Which nodes sleep and which wake: what the rule promises, whatever the cluster is like."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ext.policy.energy import (
    AwakeTarget,
    EnergyNode,
    EnergyRules,
    NodeDemand,
    PowerChange,
    PowerState,
    awake_target,
    decide,
)

NOW_S = 1e6
RULES = EnergyRules(buffer=0.1, spare=0.2, least=0.1, settle_s=3600, min_off_s=1800)

a_node = st.builds(
    EnergyNode,
    name=st.uuids().map(str),
    power=st.sampled_from(PowerState),
    busy=st.booleans(),
    kept=st.sampled_from(["", "", "reserved for r1"]),
    due=st.sampled_from(["", "", "r1 begins"]),
    since_s=st.floats(NOW_S - 20000, NOW_S),
)
clusters = st.lists(a_node, max_size=40)
needs = st.builds(
    NodeDemand,
    now=st.integers(0, 40),
    past_peak=st.integers(0, 40),
    peak=st.floats(0, 50),
    wakes_s=st.lists(st.floats(NOW_S - 1e5, NOW_S), max_size=4).map(tuple),
)
rules = st.builds(
    EnergyRules,
    buffer=st.floats(0, 1),
    spare=st.floats(0, 1),
    least=st.floats(0, 0.5),
    settle_s=st.floats(0, 86400),
    min_off_s=st.floats(0, 20000),
    min_idle_s=st.floats(0, 20000),
)


def some(
    count: int, power: PowerState = PowerState.ON, *, first: int = 0, **fields: object
) -> list[EnergyNode]:
    """So many nodes alike, the first of a name the longest so."""
    one = EnergyNode(name="", power=power, **fields)  # type: ignore[arg-type]  # fields of any type
    return [
        replace(one, name=f"n{n:02}", since_s=one.since_s + n) for n in range(first, first + count)
    ]


def names(told: tuple[AwakeTarget, tuple[PowerChange, ...]], *, sleep: bool) -> list[str]:
    """Of the nodes that sleep, or wake."""
    return [step.node for step in told[1] if step.sleep is sleep]


@settings(max_examples=300)
@given(clusters, needs, rules)
def test_no_node_sleeps_that_is_busy_reserved_kept_or_not_up(
    nodes: list[EnergyNode], wanted: NodeDemand, by: EnergyRules
) -> None:
    """Whoever is put to sleep was on, idle long enough and nobody's."""
    known = {node.name: node for node in nodes}
    for step in decide(nodes, wanted, now_s=NOW_S, rules=by)[1]:
        node = known[step.node]
        if step.sleep:
            assert (node.power, node.busy, node.kept) == (PowerState.ON, False, "")
            assert NOW_S - node.since_s >= by.min_idle_s
        else:
            assert node.power is PowerState.ASLEEP
            assert node.due or not node.kept
        assert step.reason


@settings(max_examples=300)
@given(clusters, needs, rules)
def test_what_stays_awake_covers_need_bound_and_buffer(
    nodes: list[EnergyNode], wanted: NodeDemand, by: EnergyRules
) -> None:
    """After any sleep at least the need, the past peak, the bound and the buffer are awake."""
    told, steps = decide(nodes, wanted, now_s=NOW_S, rules=by)
    there = [node for node in nodes if node.power is not PowerState.AWAY]
    awake = sum(
        node.power is PowerState.ON or (node.power is PowerState.WAKING and not node.busy)
        for node in there
    )
    slept = sum(step.sleep for step in steps)
    if slept:
        left = awake - slept
        full = len(there)
        assert left >= min(full, wanted.now + by.buffer * full)
        assert left >= min(full, max(wanted.past_peak, wanted.peak))
        assert not told.wake


@settings(max_examples=300)
@given(clusters, needs, rules)
def test_a_node_stays_asleep_for_its_time_unless_a_job_needs_it(
    nodes: list[EnergyNode], wanted: NodeDemand, by: EnergyRules
) -> None:
    """Nodes woken early are no more than what jobs lack; nobody sleeps and wakes in one look."""
    steps = decide(nodes, wanted, now_s=NOW_S, rules=by)[1]
    known = {node.name: node for node in nodes}
    woken = [known[step.node] for step in steps if not step.sleep and not known[step.node].due]
    early = sum(NOW_S - node.since_s < by.min_off_s for node in woken)
    awake = sum(node.power is PowerState.ON or node.power is PowerState.WAKING for node in nodes)
    assert early <= max(0, wanted.now - awake)
    assert not (woken and any(step.sleep for step in steps))
    assert len({step.node for step in steps}) == len(steps)


def test_idle_nodes_beyond_bound_and_buffer_sleep_the_longest_idle_first() -> None:
    """Ten nodes, four busy, a bound of six: four sleep, those that were idle longest."""
    nodes = [*some(4, busy=True), *some(6, first=4, since_s=NOW_S - 9999)]
    told = decide(nodes, NodeDemand(now=4, peak=5.2), now_s=NOW_S, rules=RULES)
    assert names(told, sleep=True) == ["n04", "n05", "n06", "n07"]
    assert told[0].nodes == 6
    assert "4 nodes needed now, at most 6" in told[0].reason


def test_jobs_without_a_node_wake_what_they_need_and_a_few_more() -> None:
    """One wake serves a whole rise: three lacking, and a fifth of the cluster to spare."""
    nodes = [*some(4, busy=True), *some(16, PowerState.ASLEEP, first=4, since_s=NOW_S - 9999)]
    told = decide(nodes, NodeDemand(now=7), now_s=NOW_S, rules=RULES)
    assert told[0].wake
    assert names(told, sleep=False) == [f"n{n:02}" for n in range(4, 11)]


def test_the_more_wakes_there_were_today_the_more_is_spared() -> None:
    """A cluster that keeps waking nodes wakes more of them at once."""
    once = awake_target(4, 50, NodeDemand(now=5), NOW_S, RULES)
    thrice = awake_target(4, 50, NodeDemand(now=5, wakes_s=(NOW_S - 1, NOW_S - 2)), NOW_S, RULES)
    long_ago = awake_target(4, 50, NodeDemand(now=5, wakes_s=(NOW_S - 1e5,)), NOW_S, RULES)
    assert (once.nodes, thrice.nodes, long_ago.nodes) == (15, 35, 15)


def test_nothing_sleeps_soon_after_a_wake() -> None:
    """Demand that has just risen may rise again."""
    nodes = some(10, since_s=NOW_S - 9999)
    soon = decide(nodes, NodeDemand(now=0, wakes_s=(NOW_S - 60,)), now_s=NOW_S, rules=RULES)
    later = decide(nodes, NodeDemand(now=0, wakes_s=(NOW_S - 3601,)), now_s=NOW_S, rules=RULES)
    assert (len(soon[1]), len(later[1])) == (0, 9)


def test_a_short_sleep_is_broken_for_jobs_only() -> None:
    """Of two that just fell asleep, the one that a job needs wakes, the spare one does not."""
    nodes = [*some(8, busy=True), *some(2, PowerState.ASLEEP, first=8, since_s=NOW_S - 60)]
    told = decide(nodes, NodeDemand(now=9), now_s=NOW_S, rules=RULES)
    assert names(told, sleep=False) == ["n08"]


def test_what_slurm_wakes_for_a_job_itself_is_not_woken_twice() -> None:
    """Two nodes that Slurm is waking for jobs are those jobs' need; only the spare is added."""
    nodes = [
        *some(4, busy=True),
        *some(2, PowerState.WAKING, first=4, busy=True),
        *some(4, PowerState.ASLEEP, first=6, since_s=NOW_S - 9999),
    ]
    told = decide(nodes, NodeDemand(now=6), now_s=NOW_S, rules=RULES)
    assert names(told, sleep=False) == ["n06", "n07"]
    again = [*nodes[:6], *some(2, PowerState.WAKING, first=6), *nodes[8:]]
    assert not decide(again, NodeDemand(now=6), now_s=NOW_S, rules=RULES)[1]


def test_a_node_wakes_before_its_reservation_begins() -> None:
    """Whatever is needed now; the reason is the reservation's."""
    nodes = [*some(4), *some(1, PowerState.ASLEEP, first=4, kept="reserved", due="r1 begins soon")]
    _, steps = decide(nodes, NodeDemand(now=0, peak=4), now_s=NOW_S, rules=RULES)
    assert [(step.node, step.sleep, step.reason) for step in steps] == [
        ("n04", False, "r1 begins soon")
    ]
