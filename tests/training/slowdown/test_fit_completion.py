"""The table of who slows whom, filled in from a part of it."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from contrib.bench.colocation.completion_model import leave_one_out
from slurm_ext.model.slowdown.completion import Completion, PairSpeed, complete, pair_columns
from slurm_ext.model.slowdown.completion_kernel import CompletionKernel, JobTraits, job_similarity
from slurm_ext.training.slowdown import fit_completion as search
from slurm_ext.training.slowdown.fit_completion import likeliest, misses

JOBS = [f"m{family}-{size}" for family in range(4) for size in range(3)]
TRAITS = {job: JobTraits(family=job[:2], size=float(job[-1])) for job in JOBS}


def truth(job: str, partner: str) -> float:
    """Log speed: by family and a little by size."""
    a, b = (int(name[1]) + 0.2 * int(name[-1]) for name in (job, partner))
    return -0.1 * a - 0.15 * b - 0.02 * a * b


def seen(share: float, *, device: str = "x", noise: float = 0.01) -> list[PairSpeed]:
    """A part of the table, drawn once."""
    rng = np.random.default_rng(2)
    pairs = [(a, b) for a, b in product(JOBS, JOBS) if a <= b and rng.random() < share]
    return [
        PairSpeed(
            job=a,
            partner=b,
            device=device,
            log_sd=0.0,
            log_speed=truth(a, b) + float(rng.normal(0, noise)),
        )
        for one, two in pairs
        for a, b in dict.fromkeys(((one, two), (two, one)))
    ]


def table(share: float = 0.3) -> Completion:
    """The table filled by its likeliest kernel."""
    met = seen(share)
    kernel = likeliest(met, CompletionKernel(), traits=TRAITS)
    return complete(met, kernel=kernel, traits=TRAITS, jobs=JOBS)


def test_what_was_not_seen_is_filled_in() -> None:
    """From a third of the pairs the rest is known to a few per cent, and so is how well."""
    filled = table()
    asked = [pair for pair in product(JOBS, JOBS) if not filled.has_pair(*pair, "x")]
    off, sds = filled.predict_all(asked, "x")
    wrong = np.abs(filled.kernel.level + off - [truth(*pair) for pair in asked])
    assert wrong.mean() < 0.03
    wide = 1.645 * np.sqrt(sds**2 + filled.kernel.noise_var)
    assert (wrong < wide).mean() > 0.85


def test_pairs_left_out_tell_how_wide_to_be() -> None:
    """Misses of pairs that the kernel never saw, in units of what was believed: about one."""
    spread = misses(seen(0.4), CompletionKernel(), traits=TRAITS)
    assert 0.4 < np.quantile(np.abs(spread), 0.9) < 3.0
    filled = table(0.4)
    missed, sds = leave_one_out(filled)
    assert len(missed) == len(sds) == filled.at.shape[1]
    assert (sds > 0).all()


def test_leaving_out_in_closed_form_is_leaving_out() -> None:
    """The miss of a pair is what the table of all others misses it by, both directions away."""
    met = seen(0.3)
    one = next(m for m in met if m.job != m.partner)
    rest = [m for m in met if {m.job, m.partner} != {one.job, one.partner}]
    kernel = CompletionKernel()
    mean, sd = complete(rest, kernel=kernel, traits=TRAITS, jobs=JOBS).predict(
        one.job, one.partner, "x"
    )
    missed, sds = leave_one_out(complete(met, kernel=kernel, traits=TRAITS))
    at = met.index(one)
    assert missed[at] == pytest.approx(one.log_speed - mean, abs=1e-4)
    assert sds[at] == pytest.approx(np.sqrt(sd**2 + kernel.noise_var), rel=1e-2)


def test_another_device_tells_a_part() -> None:
    """What was seen on one GPU moves the belief on another, less than on its own."""
    kernel = CompletionKernel(device_share=0.5)
    filled = complete(seen(0.5), kernel=kernel, traits=TRAITS)
    (own, sure), (other, vague) = (filled.predict(JOBS[0], JOBS[-1], on) for on in ("x", "y"))
    assert abs(other - kernel.level) < abs(own - kernel.level)
    assert vague > sure
    assert filled.has_job(JOBS[0], "x")
    assert not filled.has_job(JOBS[0], "y")


def test_the_slope_of_the_likelihood_is_right() -> None:
    """What the search follows is what small steps in every parameter change."""
    names = {job: at for at, job in enumerate(JOBS)}
    jobs = job_similarity(
        JOBS,
        {
            job: replace(TRAITS[job], vector=(float(len(job)), 0.1 * at))
            for job, at in names.items()
        },
    )
    like = search._with_lengths(CompletionKernel(), 2)
    pairs = pair_columns([*seen(0.2), *seen(0.2, device="y")], names, {"x": 0, "y": 1}, 0.0)
    start = search._packed(like)
    _, slope = search._cost(like, jobs, *pairs)
    for at in range(len(start)):
        step = np.eye(len(start))[at] * 1e-5
        up, down = (
            search._cost(search._unpacked(start + sign * step, like), jobs, *pairs)[0]
            for sign in (1, -1)
        )
        assert slope[at] == pytest.approx((up - down) / 2e-5, rel=1e-3, abs=1e-3)


def test_no_pair_is_no_evidence() -> None:
    """What a table without pairs tells is its level, with all its variance."""
    mean, sd = complete([], kernel=CompletionKernel(), jobs=["a", "b"]).predict("a", "b", "x")
    assert mean == CompletionKernel().level
    assert sd > 0.25
    assert likeliest([], CompletionKernel()) == CompletionKernel()
