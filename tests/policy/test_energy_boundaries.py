"""The energy policy at its boundaries: one node, one second or one wake more decides otherwise."""

import pytest

from slurm_ext.policy.energy import (
    DAY_S,
    EnergyNode,
    EnergyRules,
    NodeDemand,
    PowerState,
    awake_of,
    awake_target,
    decide,
)

TOTAL, NOW_S = 20, 1e6
RULES = EnergyRules(
    buffer=0.1, spare=0.1, least=0.2, settle_s=100.0, min_off_s=50.0, min_idle_s=10.0
)


def target(awake: int, needs: NodeDemand, rules: EnergyRules = RULES) -> tuple[int, bool]:
    """Nodes to have awake of 20, and whether jobs need more than are."""
    aim = awake_target(awake, TOTAL, needs, NOW_S, rules)
    return aim.nodes, aim.wake


def node(name: str, power: PowerState = PowerState.ON, **fields: object) -> EnergyNode:
    """One node."""
    return EnergyNode(name=name, power=power, **fields)  # type: ignore[arg-type]  # by name


def changed(nodes: list[EnergyNode], needs: NodeDemand, rules: EnergyRules = RULES) -> list[str]:
    """Names of the nodes that sleep (-) or wake (+) now."""
    _, changes = decide(nodes, needs, now_s=NOW_S, rules=rules)
    return [("-" if change.sleep else "+") + change.node for change in changes]


def test_the_defaults_are_those_that_were_chosen() -> None:
    """A figure of README rests on each of them."""
    assert EnergyRules() == EnergyRules(
        buffer=0.03,
        spare=0.04,
        least=0.04,
        settle_s=21600.0,
        hold_s=10800.0,
        level=0.8,
        min_off_s=3600.0,
        min_idle_s=0.0,
    )
    assert DAY_S == 86400.0


@pytest.mark.parametrize(
    ("now", "peak", "expected"),
    [
        (5, 0.0, (5, False)),  # as many as are awake: nothing to wake
        (6, 0.0, (8, True)),  # and two to spare, a tenth of 20
        (6, 8.0, (8, True)),
        (6, 8.1, (9, True)),  # the predicted peak, rounded up
        (6, 40.0, (20, True)),  # never more than there are
        (19, 0.0, (20, True)),
    ],
)
def test_nodes_are_woken_when_jobs_need_more(
    now: int, peak: float, expected: tuple[int, bool]
) -> None:
    """Five nodes are awake."""
    assert target(5, NodeDemand(now=now, peak=peak)) == expected


@pytest.mark.parametrize(
    ("ages_s", "spare"),
    [
        ((), 2),
        ((DAY_S,), 2),  # a day ago is not within the last day
        ((DAY_S - 1,), 4),
        ((200.0,) * 4, 10),
        ((200.0,) * 5, 10),  # four are counted at most
    ],
)
def test_more_is_spared_the_more_wakes_there_were(ages_s: tuple[float, ...], spare: int) -> None:
    """Two nodes for this wake and for each of the last day."""
    wakes_s = tuple(NOW_S - age for age in ages_s)
    assert target(5, NodeDemand(now=6, wakes_s=wakes_s)) == (6 + spare, True)


@pytest.mark.parametrize(("age_s", "nodes"), [(99.0, 20), (100.0, 7)])
def test_nothing_sleeps_soon_after_a_wake(age_s: float, nodes: int) -> None:
    """The last wake counts, not the first."""
    needs = NodeDemand(now=5, wakes_s=(NOW_S - 5000.0, NOW_S - age_s))
    assert target(20, needs) == (nodes, False)


@pytest.mark.parametrize(
    ("needs", "floor"),
    [
        (NodeDemand(now=5), 7),  # two of buffer
        (NodeDemand(now=5, past_peak=7), 7),
        (NodeDemand(now=5, past_peak=8), 8),
        (NodeDemand(now=5, peak=7.0), 7),
        (NodeDemand(now=5, peak=7.5), 8),
        (NodeDemand(now=5, past_peak=9, peak=7.5), 9),
    ],
)
def test_nodes_sleep_down_to_the_highest_of_three(needs: NodeDemand, floor: int) -> None:
    """Now and a buffer, the past peak, the predicted peak."""
    assert target(20, needs) == (floor, False)


@pytest.mark.parametrize(
    ("least", "awake", "nodes"),
    [(0.2, 10, 10), (0.2, 11, 7), (0.0, 7, 7), (0.0, 8, 7)],
)
def test_few_nodes_are_not_worth_a_change(least: float, awake: int, nodes: int) -> None:
    """Seven are to be ready: four more (a fifth of 20) sleep, three do not; never less than one."""
    rules = EnergyRules(buffer=0.1, least=least)
    assert target(awake, NodeDemand(now=5), rules) == (nodes, False)


def test_the_longest_idle_sleep_first() -> None:
    """Not those that are busy or kept, nor those that are idle for too short; names break ties."""
    rules = EnergyRules(buffer=0.0, least=0.0, min_idle_s=10.0)
    nodes = [
        node("busy", busy=True),
        node("kept", kept="reserved"),
        node("young", since_s=NOW_S - 9.9),
        node("b", since_s=NOW_S - 10.0),
        node("a", since_s=NOW_S - 10.0),
        node("old", since_s=NOW_S - 99.0),
    ]
    assert changed(nodes, NodeDemand(now=1), rules) == ["-old", "-a", "-b"]
    assert changed(nodes, NodeDemand(now=4), rules) == ["-old", "-a"]


def test_the_longest_asleep_are_woken_first() -> None:
    """The buffer's only where they slept for min_off_s; what jobs need, however short it slept."""
    nodes = [
        node("up", busy=True),
        node("short", PowerState.ASLEEP, since_s=NOW_S - 49.9),
        node("just", PowerState.ASLEEP, since_s=NOW_S - 50.0),
        node("long", PowerState.ASLEEP, since_s=NOW_S - 99.0),
        node("kept", PowerState.ASLEEP, since_s=0.0, kept="drained"),
        node("away", PowerState.AWAY),
    ]
    assert changed(nodes, NodeDemand(now=2)) == ["+long", "+just"]  # one, and one to spare
    assert changed(nodes, NodeDemand(now=4)) == ["+long", "+just", "+short"]
    assert changed(nodes, NodeDemand(now=1)) == []


def test_nodes_that_slurm_wakes_for_jobs_are_on_their_way() -> None:
    """They are the need of those jobs: no other node is woken in their place."""
    nodes = [
        node("up", busy=True),
        node("coming", PowerState.WAKING, busy=True),
        node("free", PowerState.WAKING),
        node("off", PowerState.ASLEEP),
        node("off2", PowerState.ASLEEP),
    ]
    rules = EnergyRules(buffer=0.0, spare=0.0)
    assert awake_of(nodes) == 2
    assert changed(nodes, NodeDemand(now=3), rules) == []
    assert changed(nodes, NodeDemand(now=4), rules) == ["+off"]


def test_a_node_that_is_due_is_woken_whatever_is_needed() -> None:
    """Its reservation begins; it is not woken twice."""
    nodes = [node("up"), node("due", PowerState.ASLEEP, due="reserved"), node("on", due="reserved")]
    assert changed(nodes, NodeDemand(now=0), EnergyRules(least=1.0)) == ["+due"]
    assert changed(nodes, NodeDemand(now=3), EnergyRules(spare=0.0)) == ["+due"]


def test_no_more_tired_nodes_are_woken_than_jobs_need_at_once() -> None:
    """One is needed, one has slept enough: the others, to spare, sleep on."""
    nodes = [
        node("up", busy=True),
        node("long", PowerState.ASLEEP, since_s=NOW_S - 99.0),
        node("young", PowerState.ASLEEP, since_s=NOW_S - 9.0),
        node("younger", PowerState.ASLEEP, since_s=NOW_S - 8.0),
    ]
    rules = EnergyRules(buffer=0.5, spare=0.5, least=0.0, settle_s=100.0, min_off_s=50.0)
    assert changed(nodes, NodeDemand(now=2), rules) == ["+long"]
    assert changed(nodes, NodeDemand(now=3), rules) == ["+long", "+young"]
