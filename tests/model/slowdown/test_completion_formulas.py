"""The completed table and all that is known of a pair by their formulas, number by number."""

from dataclasses import replace
from math import exp, log, log2, sqrt

import numpy as np
import pytest

from slurm_ext.core.gpu_sharing import CorunMeasurement, RelativeSpeed, SoloProfile, SpeedBasis
from slurm_ext.model.slowdown.completion import PairSpeed, complete
from slurm_ext.model.slowdown.completion_kernel import (
    CompletionKernel,
    JobTraits,
    KernelMatrices,
    Role,
    device_covariance,
    job_similarity,
    kernel_matrices,
    related,
)
from slurm_ext.model.slowdown.counter_kernel import (
    CounterKernel,
)
from slurm_ext.model.slowdown.model import (
    KERNELS,
    SlowdownModel,
    measured_pairs,
    slowdown_model,
)


def test_jobs_are_compared_by_family_size_and_vector() -> None:
    """A job of no family is like none but itself; a vector of another length is unknown."""
    traits = {
        "a": JobTraits(family="resnet", size=log2(32), vector=(1.0, 2.0)),
        "b": JobTraits(family="resnet", size=log2(128), vector=(0.0, 5.0)),
        "c": JobTraits(size=3.0, vector=(1.0,)),
    }
    jobs = job_similarity(["a", "b", "c", "resnet"], traits)
    assert jobs.same.tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    assert jobs.size.tolist() == [[0, 4, 4, 25], [4, 0, 16, 49], [4, 16, 0, 9], [25, 49, 9, 0]]
    assert jobs.known.tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert jobs.vector.shape == (2, 4, 4)
    assert jobs.vector[:, 0, 1].tolist() == [1.0, 9.0]
    assert jobs.vector[:, 0, 2].tolist() == [1.0, 4.0]
    assert job_similarity([], {}).same.shape == (0, 0)
    assert job_similarity(["a"], {}).known.tolist() == [[0.0]]


def test_a_role_by_families_and_by_vectors() -> None:
    """Variances that fall with squared distances over squared lengths; 2 where none is set."""
    traits = {
        "a": JobTraits(family="f", size=1.0, vector=(1.0, 2.0)),
        "b": JobTraits(family="f", size=4.0, vector=(0.0, 5.0)),
    }
    jobs = job_similarity(["a", "b"], traits)
    role = Role(family=0.2, own=0.05, vector=0.3, size_length=1.5, lengths=(1.0, 3.0))
    family, vector = related(role, jobs)
    assert family == pytest.approx(np.array([[0.2, 0.2 * exp(-2)], [0.2 * exp(-2), 0.2]]))
    assert vector == pytest.approx(np.array([[0.3, 0.3 * exp(-1)], [0.3 * exp(-1), 0.3]]))
    _, usual = related(replace(role, lengths=()), jobs)
    assert usual[0, 1] == pytest.approx(0.3 * exp(-0.5 * 10 / 4))
    family, vector = related(role, job_similarity(["a", "b"], {}))
    assert family.tolist() == [[0.2, 0.0], [0.0, 0.2]]
    assert vector.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_each_role_has_its_matrix_with_the_jobs_own_variance() -> None:
    """In the order of their names: an own variance is on the diagonal alone."""
    names = ("sensitivity", "pressure", "of_job", "of_partner", "of_both")
    roles = {
        name: Role(family=0.0, vector=0.0, own=float(at)) for at, name in enumerate(names, start=1)
    }
    kernel = CompletionKernel(**roles)  # type: ignore[arg-type]  # roles alone
    matrices = kernel_matrices(kernel, job_similarity(["a", "b"], {}))
    for at, name in enumerate(names, start=1):
        assert getattr(matrices, name).tolist() == [[at, 0], [0, at]]
    assert matrices.kernel is kernel


def some_matrices() -> KernelMatrices:
    """Five matrices of two jobs, no entry twice."""
    kernel = CompletionKernel(
        level_var=0.01, device_share=0.25, theirs_var=0.5, both_var=0.3, self_var=0.007
    )
    each = [np.array([[1.0, 0.2], [0.2, 2.0]]) + 0.1 * step for step in range(5)]
    return KernelMatrices(kernel, *each)


def test_two_measurements_are_compared_by_all_parts() -> None:
    """Level, sensitivity, pressure, theirs, both in either direction, and a job beside itself."""
    m = some_matrices()
    rows = np.array([[0, 1, 0, 1], [1, 1, 0, 0], [0, 0, 1, 0]])  # jobs, partners, devices
    found = m.covariance(rows, rows)
    for x in range(4):
        for y in range(4):
            (i, j, on), (k, p, by) = rows[:, x], rows[:, y]
            total = 0.01 + m.sensitivity[i, k] + m.pressure[j, p]
            total += 0.5 * m.of_job[i, k] * m.of_partner[j, p]
            total += 0.15 * (m.of_both[i, k] * m.of_both[j, p] + m.of_both[i, p] * m.of_both[j, k])
            total += 0.007 * (i == j and k == p)
            assert found[x, y] == pytest.approx(total * (1.0 if on == by else 0.25))
    assert m.variance(rows) == pytest.approx(np.diag(found))


def test_another_device_shows_a_share() -> None:
    """1 on the same one."""
    kernel = CompletionKernel(device_share=0.4)
    assert device_covariance(kernel, np.array([0, 1]), np.array([1, 1])).tolist() == [
        [0.4, 0.4],
        [1.0, 1.0],
    ]


def test_a_job_without_a_vector_is_like_none_by_vectors() -> None:
    """Nor like itself: its own family and variance are all that it has."""
    traits = {"a": JobTraits(vector=(1.0,)), "b": JobTraits(vector=(3.0,))}
    _, vector = related(Role(vector=0.3), job_similarity(["a", "b", "c"], traits))
    near = 0.3 * exp(-0.5)
    assert vector == pytest.approx(np.array([[0.3, near, 0], [near, 0.3, 0], [0, 0, 0]]))


def test_kernels_before_a_site_has_measured() -> None:
    """Fitted to published tables: each number counts until a site's own pairs have chosen."""
    unit = Role(family=0.5, own=0.3, vector=0.3, size_length=2.0, lengths=())
    usual = Role(family=0.02, own=0.01, vector=0.02, size_length=2.0, lengths=())
    assert CompletionKernel() == CompletionKernel(
        level=-0.5,
        level_var=0.05,
        device_share=0.3,
        sensitivity=usual,
        pressure=usual,
        of_job=unit,
        of_partner=unit,
        of_both=unit,
        theirs_var=0.005,
        both_var=0.005,
        self_var=0.003,
        noise_var=0.001,
    )
    wide = Role(family=0.04, own=0.04, vector=0.04)
    assert KERNELS[False] == CompletionKernel()
    assert KERNELS[True] == CompletionKernel(
        level=log(0.75),
        level_var=0.1,
        sensitivity=wide,
        pressure=wide,
        theirs_var=0.02,
        both_var=0.01,
    )
    assert CounterKernel() == CounterKernel(
        length=1.0,
        load=0.3,
        slice=0.4,
        both=0.35,
        load_line=0.5,
        slice_line=0.5,
        own_load=0.1,
        own_slice=0.2,
        noise=0.08,
        speed_noise=0.04,
    )


def pair_speed(job: str, partner: str, log_speed: float, **more: object) -> PairSpeed:
    """A measured pair on the device x."""
    fields = {"device": "x", "log_sd": 0.1, **more}
    return PairSpeed(job=job, partner=partner, log_speed=log_speed, **fields)  # type: ignore[arg-type]  # by name


def test_the_table_is_the_posterior_of_what_was_measured() -> None:
    """Level + k C⁻¹ (y - level), variance prior - k C⁻¹ k; without noise."""
    kernel = CompletionKernel(level=-0.3, noise_var=0.02)
    rows = [
        pair_speed("a", "b", -0.1),
        pair_speed("b", "c", -0.9, log_sd=0.2),
        pair_speed("c", "c", -0.4, device="y", log_sd=0.0),
    ]
    table = complete(rows, kernel=kernel, jobs=["d"])
    assert (dict(table.jobs), dict(table.devices)) == (
        {"a": 0, "b": 1, "c": 2, "d": 3},
        {"x": 0, "y": 1},
    )
    assert table.kernel is kernel
    matrices = kernel_matrices(kernel, job_similarity(list("abcd"), {}))
    at = np.array([[0, 1, 2], [1, 2, 2], [0, 0, 1]])
    noise = np.array([0.01, 0.04, 0.0]) + 1e-6 + 0.02
    covariance = matrices.covariance(at, at) + np.diag(noise)
    off = np.array([0.2, -0.6, -0.1])
    for (job, partner, device), ask in (
        (("a", "c", "x"), [0, 2, 0]),
        (("d", "d", "y"), [3, 3, 1]),
        (("b", "a", "new"), [1, 0, 2]),
    ):
        column = np.array(ask)[:, None]
        across = matrices.covariance(column, at)
        mean, sd = table.predict(job, partner, device)
        assert mean == pytest.approx(-0.3 + (across @ np.linalg.solve(covariance, off))[0])
        left = matrices.variance(column) - across @ np.linalg.solve(covariance, across[0])
        assert sd == pytest.approx(sqrt(left[0]))
        assert table.predict(job, partner, device) == (mean, sd)
    assert len(table.cache) == 3
    with pytest.raises(KeyError):
        table.predict("a", "nobody", "x")


def test_the_table_knows_what_was_measured() -> None:
    """Jobs on a device, on either side; pairs in their order."""
    table = complete([pair_speed("a", "b", -0.1)], kernel=CompletionKernel(), jobs=["d"])
    assert table.has_job("a", "x")
    assert table.has_job("b", "x")
    assert not table.has_job("a", "y")
    assert not table.has_job("d", "x")
    assert not table.has_job("nobody", "x")
    assert table.has_pair("a", "b", "x")
    assert not table.has_pair("b", "a", "x")
    assert not table.has_pair("a", "b", "y")


def test_jobs_in_general() -> None:
    """0.75 on CPUs and 0.6 on a GPU; 1.96 sds below, 1.44 above; nobody is above 1.5."""
    a, b = SoloProfile(key="a"), SoloProfile(key="b")
    for device, level, sd in (("cpu", log(0.75), 0.6), ("A100", log(0.6), 0.4)):
        speed = SlowdownModel().speed(a, [b], device)
        assert speed.mean == pytest.approx(exp(level))
        assert speed.low == pytest.approx(exp(level - 1.96 * sd))
        assert speed.high == pytest.approx(min(1.5, exp(level + 1.44 * sd)))
        assert (speed.evidence, speed.runs) == (SpeedBasis.PRIOR, 0)
    wide = SlowdownModel(widths={SpeedBasis.PRIOR: 2.0}).speed(a, [b], "A100")
    assert wide.low == pytest.approx(exp(log(0.6) - 1.96 * 0.8))
    assert wide.high == pytest.approx(1.5)


def test_a_measured_pair_is_shrunk_towards_jobs_in_general() -> None:
    """By variances, where the table does not hold it; the next run differs by its own spread."""
    runs = [CorunMeasurement(job="a", partners=("b",), speed=0.9, seconds=600.0, device="A100")]
    known = slowdown_model(runs)
    (stats,) = known.met.values()
    a, b = SoloProfile(key="a"), SoloProfile(key="b")
    speed = replace(known, tables={}).speed(a, [b], "A100")
    sd = 0.4
    share = sd**2 / (sd**2 + stats.log_sd**2)
    # The upper bound of a prior is cut; its sd is read from the lower one.
    mean = log(0.6) + share * (stats.log_speed - log(0.6))
    wide = sqrt(sd**2 * (1 - share) + stats.spread**2)
    assert speed.mean == pytest.approx(exp(mean))
    assert speed.low == pytest.approx(exp(mean - 1.96 * wide))
    assert speed.evidence is SpeedBasis.PAIR
    table = known.tables[False]
    middle, table_sd = table.predict("a", "b", "A100")
    filled = known.speed(a, [b], "A100")
    wide = sqrt(table_sd**2 + stats.spread**2)
    assert filled.mean == pytest.approx(exp(middle))
    assert filled.low == pytest.approx(exp(middle - 1.96 * wide))
    turned = known.speed(b, [a], "A100")
    middle, table_sd = table.predict("b", "a", "A100")
    assert turned.low == pytest.approx(exp(middle - 1.96 * sqrt(table_sd**2 + 0.001)))
    assert (turned.evidence, turned.runs) == (SpeedBasis.COMPLETED, 0)
    assert known.devices == {"A100"}
    assert set(known.tables) == {False}


def test_kernels_of_one_kind_leave_the_other_s() -> None:
    """A table without a kernel of its own has the usual one."""
    runs = [CorunMeasurement(job="a", partners=("b",), speed=0.9, seconds=600.0)]
    own = CompletionKernel(level=-0.1)
    assert slowdown_model(runs, kernels={True: own}).tables[True].kernel is own
    assert slowdown_model(runs, kernels={False: own}).tables[True].kernel is KERNELS[True]
    measured = measured_pairs(slowdown_model(runs), on_cpu=True)
    assert [(one.job, one.partner, one.device) for one in measured] == [("a", "b", "cpu")]
    assert measured_pairs(slowdown_model(runs), on_cpu=False) == []


def test_counters_are_the_prior_of_a_measured_pair() -> None:
    """Of this job beside this other, on this device; what it was built from is kept."""
    runs = [CorunMeasurement(job="a", partners=("b",), speed=0.9, seconds=600.0)]
    asked: list[tuple[str, str, str]] = []

    def by_counters(job: SoloProfile, beside: SoloProfile, device: str) -> RelativeSpeed:
        asked.append((job.key, beside.key, device))
        return RelativeSpeed(mean=0.8, low=0.7, high=0.9, evidence=SpeedBasis.COUNTERS)

    solos, traits = {"a": SoloProfile(key="a")}, {"a": JobTraits(size=2.0)}
    known = slowdown_model(runs, solos, traits=traits, by_counters=by_counters)
    assert (known.solos, known.traits, known.refused) == (solos, traits, 0)
    speed = replace(known, tables={}).speed(SoloProfile(key="a"), [SoloProfile(key="b")])
    assert asked == [("a", "b", "cpu")]
    (stats,) = known.met.values()
    sd = log(0.8 / 0.7) / 1.96
    share = sd**2 / (sd**2 + stats.log_sd**2)
    assert speed.mean == pytest.approx(exp(log(0.8) + share * (stats.log_speed - log(0.8))))
