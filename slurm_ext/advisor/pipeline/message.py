"""The one line that `sbatch` prints for the user. Pure; holds no text of the user's own."""

from typing import TYPE_CHECKING

from slurm_ext.advisor.sharing.terms import SharingDecision, slower
from slurm_ext.core.records import Decision, Interval, Mode, Prediction
from slurm_ext.core.stalls.bucket_caps import as_mib
from slurm_ext.core.wire import MAX_MESSAGE_CHARS

if TYPE_CHECKING:  # it brings numpy along
    from slurm_ext.advisor.buckets.decision import BucketDecision

OPT_OUT = "Opt out: --comment=dlqueue=off"
TUNE_OUT = "Opt out: DLQUEUE_AUTOTUNE=0"
UNCHANGED = "Nothing was changed."
SAME = 1.05  # a smaller ratio is not called faster: it would be 1.0x


def message(
    decision: Decision,
    mode: Mode,
    *,
    emulated: bool,
    why_advice: str = "",
    stopped: str = "",
    ranks: int = 1,
) -> str | None:
    """Return the change (or advice), the predicted gain with its interval, how to opt out.

    `why_advice`: whose runs change nothing; `stopped`: why advice is all there is where the site
    acts. Rates are of the whole job: predictions are of one of its `ranks`.
    """
    if mode not in (Mode.ADVISE, Mode.ACT) or decision.predicted_after is None:
        return None
    emulation = ", emulated accelerator" if emulated else ""
    emulation += f", {why_advice}" if why_advice else ""
    if decision.action == "leave":
        where = beside(decision.predicted_after.times(ranks))
        reached = f" It does {where}." if where else ""
        return f"dlqueue: left as it is: {decision.reason}{emulation}.{reached}"
    before = decision.predicted_before
    of_ranks = None if before is None else before.times(ranks)
    gain = _gain(of_ranks, decision.predicted_after.times(ranks), emulation)
    if mode is Mode.ADVISE:
        why = f"Not changed: {stopped}." if stopped else UNCHANGED
        return f"dlqueue advises {changes(decision)}: {gain}. {why}"
    return f"dlqueue: {changes(decision)}: {gain}. {OPT_OUT}"


def with_sharing(line: str | None, sharing: SharingDecision) -> str | None:
    """The line with what sharing costs at most; sharing alone has a line of its own."""
    if not sharing.share or sharing.worst is None:
        return line
    if sharing.mode not in (Mode.ADVISE, Mode.ACT):
        return line
    cost = f"at most {slower(sharing.worst)} % slower"
    if sharing.usual is not None:
        cost += f" (usually {min(slower(sharing.usual), slower(sharing.worst))} %)"
    if sharing.mode is Mode.ADVISE:
        advice = f"sharing its GPU ({sharing.gres}) with another such job: {cost}"
        end = UNCHANGED if line is None else ""
        return _one_line(f"{line or ''} dlqueue advises {advice}. {end}")
    whose = "another job" if sharing.across else "another job of yours"
    what = f"shares its GPU with {whose}, {cost}"
    if line is None:
        return _one_line(f"dlqueue: {what}. {OPT_OUT}")
    first = _without_end(line)
    return _one_line(f"{first} It {what}. {OPT_OUT}")


def with_buckets(line: str | None, decision: "BucketDecision") -> str | None:
    """The line with what the buckets of gradients gain; they alone have a line of their own."""
    plan = decision.plan
    if not plan.change or decision.mode not in (Mode.ADVISE, Mode.ACT):
        return line
    rate = f"{number(1 / plan.before_s)} -> {number(1 / plan.after_s)} steps/s"
    gain = f"about {1 + plan.gain:.2f}x faster ({rate})"
    if decision.mode is Mode.ADVISE:
        end = UNCHANGED if line is None else ""
        return _one_line(f"{line or ''} dlqueue advises {bucket_option(plan.caps)}: {gain}. {end}")
    first = _without_end(line or "")
    return _one_line(f"{first} dlqueue: other gradient buckets: {gain}. {OPT_OUT}")


def _without_end(line: str) -> str:
    """The line without what it says last, for another clause to come before that."""
    return line.removesuffix(f" {OPT_OUT}").removesuffix(f" {UNCHANGED}")


def bucket_option(caps: str) -> str:
    """The argument by which a program sets them itself."""
    sizes = [f"{mib:.4g}" for mib in as_mib(caps)]
    value = sizes[0] if len(sizes) == 1 else f"[{', '.join(sizes)}]"
    name = "bucket_cap_mb" if len(sizes) == 1 else "bucket_cap_mb_list"
    return f"DistributedDataParallel({name}={value})"


def with_tuning(line: str | None) -> str:
    """The line of a job whose loaders find their own workers; of one that nobody knows, the whole.

    What they find stands in `dlqueue explain`, and the next submission starts there.
    """
    if line is not None:
        return line
    return f"dlqueue: its data loaders find their own number of workers while it runs. {TUNE_OUT}"


def with_elastic_fault(line: str | None, fault: str) -> str:
    """The line with what is wrong with the job's DLQUEUE_ELASTIC."""
    return _one_line(f"{line or ''} dlqueue: {fault}: the job keeps its size.")


def changes(decision: Decision) -> str:
    """`cpus-per-task 1 -> 2, workers 0 -> 2`, without what stays."""
    before, after = decision.before, decision.after
    pairs = (
        ("cpus-per-task", before.cpus_per_task, after.cpus_per_task),
        ("workers", before.num_workers, after.num_workers),
    )
    return ", ".join(f"{name} {old} -> {new}" for name, old, new in pairs if old != new)


# Alone on its cores, which are all of the node where Slurm keeps none for it.
OWN, BESIDE = "alone", "beside other jobs"


def beside(told: Prediction) -> str:
    """The rates beside other jobs and without them; empty where nobody wants its cores."""
    other = told.elsewhere
    if not told.crowded or other is None:
        return ""
    here = f"{number(told.samples_per_s)} samples/s {BESIDE} ({_range(told.interval)})"
    return f"{here}, {number(other.samples_per_s)} {OWN} ({_range(other.interval)})"


def _gain(before: Prediction | None, after: Prediction, emulation: str) -> str:
    rates = f"{number(after.samples_per_s)} samples/s{_both(after)}{emulation}"
    if before is None:
        return f"predicted {rates}"
    ratio = after.samples_per_s / before.samples_per_s
    if ratio < SAME:
        return f"about as fast ({rates})"
    return f"about {ratio:.1f}x faster ({number(before.samples_per_s)} -> {rates})"


def _both(told: Prediction) -> str:
    """The interval, and behind it the rate of the other world with its own."""
    other = told.elsewhere
    if other is None:
        return f", {_range(told.interval)}"
    here, there = (BESIDE, OWN) if told.crowded else (OWN, BESIDE)
    elsewhere = f"{number(other.samples_per_s)}, {_range(other.interval)}"
    return f" {here}, {_range(told.interval)}; {there} {elsewhere}"


def _range(bounds: Interval) -> str:
    return f"{number(bounds.low)} to {number(bounds.high)}"


def number(value: float) -> str:
    """Three significant digits and no exponent."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}" if value >= 0.001 else f"{value:.1e}"


def _one_line(text: str) -> str:
    return " ".join(text.split())[:MAX_MESSAGE_CHARS]
