"""The co-scheduling loop: look at the cluster, decide by the pure policy, and in mode act apply.

How waiting jobs are held back, and why none stays held: begin_time_holds.py.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from slurm_ext.control.coscheduling.begin_time_holds import BeginTimeHolds
from slurm_ext.control.coscheduling.jobs import (
    REQUEUE,
    HeldMemory,
    SharingJobs,
    id_of,
    key_of,
    look,
    name_of,
    opted_in,
    room,
    with_needs,
    words,
)
from slurm_ext.control.coscheduling.known_slowdowns import ServedSlowdowns
from slurm_ext.control.coscheduling.nodes import cpus_in_use, is_open, with_nodes
from slurm_ext.control.coscheduling.pair_memory import PairMemory, pair_state
from slurm_ext.control.coscheduling.speed_monitor import SpeedMonitor, on_this_machine
from slurm_ext.control.coscheduling.status import (
    UNTOUCHED,
    gist,
    moved,
    parted,
    running_rows,
    status,
)
from slurm_ext.control.loops.action_log import ActionLog
from slurm_ext.control.loops.control_loop import ControlLoop, LoopKind
from slurm_ext.control.loops.loop_state import LoopState
from slurm_ext.core.actions import Action
from slurm_ext.core.errors import SlurmError
from slurm_ext.core.settings.document import Settings
from slurm_ext.policy.colocation.choose_pairs import Candidate, SharingRules, SpeedPredictor
from slurm_ext.policy.colocation.co_scheduling import (
    NodeSlot,
    PlacementAction,
    place_waiting,
    rooms,
)
from slurm_ext.policy.colocation.colocation_monitor import CoLocationState, add_cooldown, kept_apart
from slurm_ext.slurm.client import SlurmClient
from slurm_ext.slurm.records import JobInfo, NodeInfo

START_S = 30.0  # from its release to its start; a job that needs longer is left to Slurm
MOST_STEERED = 200  # jobs that wait: the update of each costs slurmctld a little
MOST_READ = 100  # scripts in one round
log = logging.getLogger("dlqueue.pairing")


class CoScheduler(ControlLoop):
    """The cluster's jobs that may share nodes."""

    def __init__(
        self,
        settings: Settings,
        client: SlurmClient,
        state: LoopState,
        memory: PairMemory,
        *,
        slowdowns: Callable[[], SpeedPredictor],
        monitor: SpeedMonitor,
        held_bytes: HeldMemory = lambda _: 0.0,
        action_log: ActionLog | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings, self._client, self._state = settings, client, state
        self.memory, self._slowdowns, self._monitor = memory, slowdowns, monitor
        self._clock, self._action_log = clock, action_log
        self._mode = str(settings["sharing.pairing"])
        self.acts = self._mode == "act"
        self._keys: dict[str, str] = {}
        self._released: dict[str, tuple[float, str | None]] = {}  # by job: when, where
        self._next: dict[str, str] = {}  # free before its slot is: where
        self._given_up: set[str] = set()
        self._said: dict[str, str] = {}
        self._holds = BeginTimeHolds(settings, client, state, memory)
        self._held = lambda key: max(held_bytes(key), memory.held_bytes.get(key, 0.0))

    def round(self) -> tuple[PlacementAction, ...]:
        """Look, decide, act; what becomes of each waiting job. Raises SlurmError."""
        now_s = self._clock()
        jobs = self._client.jobs()
        nodes = [node for node in self._client.nodes() if is_open(node)]
        jobs_seen = with_nodes(with_needs(self._look(jobs, now_s), self._held), nodes)
        rules = self._rules(nodes, now_s)
        self._check_speeds(jobs_seen, rules, now_s)
        waiting, running, places = self._candidates(jobs_seen, jobs, nodes, now_s)
        overdue = frozenset(
            candidate.job for candidate in waiting if self._holds.overdue(candidate.job)
        )
        steps = place_waiting(
            waiting,
            running,
            places,
            self._slowdowns(),
            rules=rules,
            overdue=overdue,
            coming=self._released.keys(),
            bound=self._next,
        )
        if self.acts:
            self._holds.charge(steps, now_s)
            self._released |= self._holds.carry_out(steps, now_s, bind=len(places) > 1)
            self._next = {s.job: s.place for s in steps if s.free and s.place and not s.start}
        self._note(steps, now_s)
        apart = kept_apart(self.memory.cooldowns, now_s)
        left_alone = {**jobs_seen.left_alone, **dict.fromkeys(self._given_up, "left to Slurm")}
        rows = running_rows(jobs_seen.running, self._monitor.speeds())
        self._state.write_status(status(now_s, self._mode, steps, rows, left_alone, apart))
        return steps

    def undo(self) -> int:
        """End every hold; returns how many. Raises SlurmError where some stay."""
        return self._holds.end()

    def left(self) -> str:
        """Return how many running jobs Slurm would bind again if it requeued them."""
        count = len(self.memory.holds)
        return f"running jobs bound to a node ({count})" if count else ""

    # -- look --------------------------------------------------------------------------------

    def _look(self, jobs: Iterable[JobInfo], now_s: float) -> SharingJobs:
        alive = [job for job in jobs if not job.ended]
        names = {name_of(job) for job in alive}
        self._keys = {job: key for job, key in self._keys.items() if job in names}
        new = [job for job in alive if name_of(job) not in self._keys]
        for job in [job for job in new if opted_in(job, self._settings)][:MOST_READ]:
            self._keys[name_of(job)] = key_of(job, self._client.script_of(job.job_id))
        jobs_seen = look(alive, self._keys, self.memory.holds, self._settings, now_s)
        wait = {candidate.job for candidate in jobs_seen.waiting}
        self._given_up &= wait
        if self.acts:
            self._holds.forget(alive, wait - self._given_up)
        self._released = {j: released for j, released in self._released.items() if j in wait}
        return jobs_seen

    def _rules(self, nodes: Iterable[NodeInfo], now_s: float) -> SharingRules:
        settings = self._settings
        return SharingRules(
            floor=settings["sharing.floor"],
            same_user=not settings["sharing.across_users"],
            mem_bytes=room(nodes),
            bad_pairs=kept_apart(self.memory.cooldowns, now_s),
            most_together=settings["sharing.most_together"],
            anyway=True,
        )

    def _candidates(
        self,
        jobs_seen: SharingJobs,
        jobs: Iterable[JobInfo],
        nodes: Iterable[NodeInfo],
        now_s: float,
    ) -> tuple[list[Candidate], list[Candidate], list[NodeSlot]]:
        """Waiting jobs, jobs that run or are about to, and the room that they leave."""
        self._expire(now_s)
        used = cpus_in_use(jobs)
        coming = []
        waiting = []
        for candidate in jobs_seen.waiting:
            released = self._released.get(candidate.job)
            if released is None:
                if candidate.job not in self._given_up:
                    waiting.append(candidate)
            elif released[1] is not None:
                coming.append(replace(candidate, place=released[1]))
                used.append((released[1], candidate.cpus))
        cpus = {node.name: node.cpus for node in nodes}
        running = [candidate for candidate in jobs_seen.running if candidate.opted_in]
        waiting.sort(key=lambda candidate: (candidate.rank, id_of(candidate.job)))
        return waiting[:MOST_STEERED], [*running, *coming], rooms(cpus, used)

    def _expire(self, now_s: float) -> None:
        """A released job that did not start is Slurm's: a limit that we do not see holds it."""
        for job, (at_s, node) in list(self._released.items()):
            if now_s - at_s > START_S:
                del self._released[job]
                self._given_up.add(job)
                if node is not None and self.acts and self._holds.free(job, node):
                    self.memory.holds.pop(job, None)

    # -- monitor -----------------------------------------------------------------------------

    def _check_speeds(self, jobs_seen: SharingJobs, rules: SharingRules, now_s: float) -> None:
        floors = {candidate.job: candidate.floor or rules.floor for candidate in jobs_seen.running}
        flagged = self._monitor.look(jobs_seen.running, floors)
        by_job = {candidate.job: candidate for candidate in jobs_seen.running}
        for job, verdict in flagged.items():
            candidate = by_job[job]
            here = [
                other
                for other in jobs_seen.running
                if other.place == candidate.place and other.opted_in
            ]
            if candidate.opted_in and len(here) > 1:
                self._separate(candidate, here, verdict, jobs_seen, now_s)

    def _separate(
        self,
        hurt: Candidate,
        here: list[Candidate],
        verdict: CoLocationState,
        jobs_seen: SharingJobs,
        now_s: float,
    ) -> None:
        """Keep the pair apart next time; now only if the later job agreed to a requeue.

        Its cores are its own already, and pinning moves neither cache nor disk; a suspended job
        keeps its memory and stands still, which is worse for it than any other job beside it.
        """
        keys = [candidate.solo.key for candidate in here]
        self.memory.cooldowns = add_cooldown(self.memory.cooldowns, keys, now_s)
        last = max(
            here,
            key=lambda candidate: (
                jobs_seen.infos[candidate.job].start_time_s or 0,
                candidate.rank,
            ),
        )
        info = jobs_seen.infos[last.job]
        requeue = REQUEUE in words(info) and info.requeues
        done = "requeued" if requeue else "kept apart the next time"
        names, again = [candidate.job for candidate in here], last.job if requeue else None
        self._record(parted(hurt.job, again, verdict, names, now_s, self._mode))
        log.warning("%s: job %s %s: %s", hurt.place, hurt.job, verdict.value, done)
        if self.acts:
            self._state.keep(self.memory.as_json())
            if requeue:
                self._requeue(last.job)

    def _record(self, actions: Sequence[Action]) -> None:
        if self._action_log is not None:
            self._action_log.write(actions)

    def _requeue(self, job: str) -> None:
        try:
            self._client.requeue(id_of(job))
        except SlurmError as error:
            log.warning("job %s could not be requeued: %s", job, error)

    # -- tell --------------------------------------------------------------------------------

    def _note(self, steps: Iterable[PlacementAction], now_s: float) -> None:
        """Record the actions that differ from the last one recorded of the job."""
        gists = {step.job: gist(step) for step in steps}
        new = [step for step in steps if self._said.get(step.job, UNTOUCHED) != gists[step.job]]
        lease_s = self._settings["sharing.lease_s"]
        self._record([moved(step, now_s, self._mode, lease_s) for step in new])
        self._said = gists


def make(settings: Settings, client: SlurmClient, state: LoopState) -> CoScheduler:
    """The loop under these settings, with what it remembers. Raises InputError."""
    memory = state.load(PairMemory.from_json)
    live = on_this_machine(settings["node.spool_dir"])
    slowdowns = ServedSlowdowns(settings.state_dir)
    return CoScheduler(
        settings,
        client,
        state,
        memory,
        slowdowns=slowdowns,
        monitor=SpeedMonitor(
            live, memory.solo_rates, settings["sharing.patience_s"], memory.held_bytes
        ),
        held_bytes=slowdowns.held,
        action_log=ActionLog(settings.state_dir, "pair") if state.writes else None,
    )


KIND = LoopKind(
    name="pairing",
    mode="sharing.pairing",
    interval="sharing.interval_s",
    prefix="sharing.",
    state=lambda settings, writes: pair_state(settings.state_dir, writes=writes),
    make=make,
    status_keys=("mode", "waiting", "running", "left_alone"),
)
