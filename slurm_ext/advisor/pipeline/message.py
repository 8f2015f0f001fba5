"""The one line that `sbatch` prints for the user. Pure; holds no text of the user's own."""

from slurm_ext.advisor.limits.eligible import words_of
from slurm_ext.advisor.sharing.terms import SharingDecision, slower
from slurm_ext.core.elastic_requests import BAD, VARIABLE, parse_bounds, requested_bounds
from slurm_ext.core.records import Decision, Mode, Prediction, Submission
from slurm_ext.core.wire import MAX_MESSAGE_CHARS

OPT_OUT = "Opt out: --comment=dlqueue=off"
SAME = 1.03  # a smaller ratio is not called faster


def message(decision: Decision, mode: Mode, *, emulated: bool) -> str | None:
    """What was changed (or would be), the predicted gain with its interval, how to opt out."""
    if mode not in (Mode.ADVISE, Mode.ACT) or decision.predicted_after is None:
        return None
    if decision.action == "leave":
        return _line(f"dlqueue: left as it is: {decision.reason}{_emulated(emulated)}.")
    gain = _gain(decision.predicted_before, decision.predicted_after, emulated)
    if mode is Mode.ADVISE:
        return _line(f"dlqueue advises {changes(decision)}: {gain}. Nothing was changed.")
    return _line(f"dlqueue: {changes(decision)}: {gain}. {OPT_OUT}")


def with_sharing(said: str | None, shared: SharingDecision | None) -> str | None:
    """The line with what sharing costs at most; sharing alone has a line of its own."""
    if shared is None or not shared.share or shared.worst is None:
        return said
    if shared.mode not in (Mode.ADVISE, Mode.ACT):
        return said
    cost = f"at most {slower(shared.worst)} % slower"
    if shared.usual is not None:
        cost += f" (usually {min(slower(shared.usual), slower(shared.worst))} %)"
    if shared.mode is Mode.ADVISE:
        advice = f"sharing its GPU ({shared.gres}) with another such job: {cost}"
        end = "Nothing was changed." if said is None else ""
        return _line(f"{said or ''} dlqueue advises {advice}. {end}")
    whose = "another job" if shared.across else "another job of yours"
    what = f"shares its GPU with {whose}, {cost}"
    if said is None:
        return _line(f"dlqueue: {what}. {OPT_OUT}")
    first, _, _ = said.partition(f" {OPT_OUT}")
    return _line(f"{first} It {what}. {OPT_OUT}")


def with_elastic(said: str | None, job: Submission, mode: str) -> str | None:
    """The line with what is wrong with the job's DLQUEUE_ELASTIC, where sizes are changed."""
    asked = requested_bounds(words_of(job), job.env.get(VARIABLE))
    if mode != Mode.ACT or asked is None or parse_bounds(asked) is not None:
        return said
    return _line(f"{said or ''} dlqueue: {BAD}: the job keeps its size.")


def changes(decision: Decision) -> str:
    """`cpus-per-task 1 -> 2, workers 0 -> 2`, without what stays."""
    before, after = decision.before, decision.after
    pairs = (
        ("cpus-per-task", before.cpus_per_task, after.cpus_per_task),
        ("workers", before.num_workers, after.num_workers),
    )
    return ", ".join(f"{name} {old} -> {new}" for name, old, new in pairs if old != new)


def _gain(before: Prediction | None, after: Prediction, emulated: bool) -> str:
    low, high = number(after.interval.low), number(after.interval.high)
    rates = f"{number(after.samples_per_s)} samples/s, {low} to {high}{_emulated(emulated)}"
    if before is None:
        return f"predicted {rates}"
    ratio = after.samples_per_s / before.samples_per_s
    if ratio < SAME:
        return f"about as fast ({rates})"
    return f"about {ratio:.1f}x faster ({number(before.samples_per_s)} -> {rates})"


def number(value: float) -> str:
    """Three significant digits and no exponent."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}" if value >= 0.001 else f"{value:.1e}"


def _emulated(emulated: bool) -> str:
    return ", emulated accelerator" if emulated else ""


def _line(text: str) -> str:
    return " ".join(text.split())[:MAX_MESSAGE_CHARS]
