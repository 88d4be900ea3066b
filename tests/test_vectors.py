"""The published test vectors: what the library computes is what ``vectors.json`` says.

One test for each vector, ``test_vector[NAME]``.  The numbers are those of the file ``tests/golden/vectors.json``, or
of the file that the environment variable ``LABELDP_VECTORS`` names.  A mechanism that is new adds its functions to
the table below, and takes its names out of :data:`TO_COME`.
"""

from __future__ import annotations

import copy
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import cache
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from labeldp.channels.threshold import resampling_extra, response_threshold
from labeldp.errors import BiasWarning
from labeldp.exact import log_up
from labeldp.guarantee import PureLoss
from labeldp.noise import (
    analytic_gaussian_sigma,
    concentrated_rho,
    guarantee_of_counts,
    guarantee_of_vector,
    hockey_stick_two_bins,
    laplace_for,
    zcdp_gaussian_sigma,
)

HERE = Path(__file__)
GOLDEN = HERE.parent / "golden" / "vectors.json"
FILE = Path(os.environ.get("LABELDP_VECTORS") or GOLDEN)

Inputs = dict[str, Any]
COMPUTED: dict[str, Callable[[Inputs], Any]] = {}

#: Vectors of mechanisms, learners, estimators and audits that are not built yet.
TO_COME = {
    # cluster laws: clipping and renormalising released counts
    "esf_atom_probability",
    "esf_renorm_delta_neg",
    "esf_renorm_sigma_inf_one_hot",
    "esf_renorm_tau_uniform",
    # peers
    "p2p_exact_rational_1",
    "p2p_exact_rational_2",
    "p2p_exact_rational_3",
    "p2p_delta_n10_t5_al0.2_eps0.3",
    "p2p_delta_n50_t25_al0.1_eps0.2",
    "p2p_delta_n100_t10_al0.05_eps0.1",
    "p2p_delta_n100_t50_al0.1_eps0.25",
    "p2p_delta_n100_t100_al0.2_eps0.25",
    "p2p_delta_n100_t10_al0.2_eps0.1",
    "p2p_delta_n1000_t100_al0.05_eps0.1",
    "p2p_delta_n1000_t500_al0.1_eps0.1",
    "p2p_delta_n1000_t1000_al0.2_eps0.1",
    "p2p_delta_random_I",
    "p2p_lemma9_fails_alpha_0.99",
    # mean operator, and what is learned from it
    "mean_op_sensitivity",
    "knorm_radius_quantile",
    "patrini_thm10_failure_d2",
    "patrini_thm6_linear_loss",
    "logistic_unbounded_outside_zonotope",
    "factorisation_logistic",
    "factorisation_square",
    "factorisation_matsushita",
    # bags: the printed Dirichlet mechanism, and class ratios
    "dirichlet_pair_s1_10_12_eps0.5",
    "dirichlet_pair_s0.1_50_800_eps0.05",
    "dirichlet_pair_s0.1_800_50_eps0.05",
    "dirichlet_pair_s0.1_50_50_eps0.05",
    "dirichlet_worst_s1_a1_eps1",
    "dirichlet_worst_s0.1_a5_eps1",
    "dirichlet_worst_s1_a5_eps1",
    "dirichlet_worst_s0.1_a20_eps0.05",
    "dirichlet_worst_s1_a20_eps0.05",
    "dirichlet_worst_s0.776835_a49_eps0.05",
    "dirichlet_expected_L1",
    "dirichlet_sigma_to_zero_floor",
    "dirichlet_sigma_to_zero_floor_49",
    "iyer_eq10_accepts_no_privacy",
    "iyer_tuned_sigma_feasibility",
    "iyer_tuned_sigma_counterexample",
    "mmd_alpha",
    # generalisation bounds of learners
    "ghazi_thm17_failure",
    # randomised features
    "ddr_renyi_alpha_1.5",
    "ddr_renyi_alpha_2",
    "ddr_renyi_alpha_4",
    "ddr_renyi_alpha_inf",
    "busa_eq17_false_identity",
    "busa_unbiased_identity",
    # audits
    "H_level_set_pplus_0.044",
    "H_level_set_pplus_0.256",
    "H_level_set_pplus_0.861",
    "nu_average",
    "H_can_be_negative",
    "clopper_pearson",
    "attack_utility_eps0.5_al2_p0.5_k2",
    "attack_utility_eps0.5_al10_p0.5_k2",
    "attack_utility_eps0.1_al100_p0.1_k10",
    "attack_utility_eps1_al3_p0.3_k5",
    "attack_utility_eps0.5_al1.5_p0.5_k2",
}


def computes(*names: str) -> Callable[[Callable[[Inputs], Any]], Callable[[Inputs], Any]]:
    """Enter the function that computes some vectors from their inputs."""

    def enter(function: Callable[[Inputs], Any]) -> Callable[[Inputs], Any]:
        COMPUTED.update(dict.fromkeys(names, function))
        return function

    return enter


def space(size: int) -> ldp.LabelSpace:
    """The labels 0 .. ``size`` - 1."""
    return ldp.LabelSpace(list(range(size)))


def law_with_least(least: float, size: int) -> list[float]:
    """A law whose smallest probability is ``least``."""
    return [least] + [(1 - least) / (size - 1)] * (size - 1)


def hits(channel: ldp.FiniteChannel, prior: list[float]) -> float:
    """P[released = true] under a prior."""
    return float(prior @ np.diag(channel.transition))


def inverse(channel: ldp.FiniteChannel) -> Any:
    """Debiased indicators ``[true, released]``: the inverse of an invertible channel."""
    return channel.unbias(np.eye(channel.space.size))


# ---- clusters: counts, laws, label stage -------------------------------------------------------------------


@computes("esf_thm1_total_eps")
def _(v: Inputs) -> Any:
    noise = ldp.DiscreteLaplace(1 / Fraction(str(v["sigma"])))
    law = law_with_least(v["tau"], v["K"])
    labels = ldp.ResampledResponse(space(v["K"]), law, keep=1 - v["lam"]).guarantee
    # Counts of two classes are one number, which moves once: that is what the paper charges for any number of them.
    return {
        "paper": guarantee_of_counts(noise, 2).then(labels).epsilon(),
        "correct": guarantee_of_counts(noise, v["K"]).then(labels).epsilon(),
    }


@computes("esf_end_to_end_max_loss")
def _(v: Inputs) -> Any:
    counts = guarantee_of_counts(ldp.DiscreteLaplace(Fraction(str(v["dlaplace_param_per_bin"]))), v["K"])
    labels = ldp.ResampledResponse(space(v["K"]), law_with_least(v["tau"], v["K"]), v["eps2"])
    return {"max_abs_log_ratio": counts.then(labels.guarantee).epsilon()}


@computes("esf_lambda_cluster_eps0.5", "esf_lambda_cluster_eps1", "esf_lambda_cluster_eps2")
def _(v: Inputs) -> Any:
    labels, law, epsilon = space(len(v["q"])), v["q"], v["eps2"]
    cluster = ldp.ResampledResponse(labels, law, epsilon)
    best = ldp.PriorRandomizedResponse(labels, epsilon, law)
    return {
        "lam": cluster.redraw[0],
        "eps_exact": cluster.epsilon,
        "acc_cluster_rr": hits(cluster, law),
        "acc_uniform_rr": hits(ldp.RandomizedResponse(labels, epsilon), law),
        "acc_rrwithprior": hits(best, law),
        "k_star": best.sizes[0],
    }


@computes("esf_modified_loss")
def _(v: Inputs) -> Any:
    return ldp.ResampledResponse(space(len(v["q"])), v["q"], keep=1 - v["beta"]).unbias(v["loss"])[0]


@computes("esf_Qinv_column_abs_sum")
def _(v: Inputs) -> Any:
    return np.abs(inverse(ldp.ResampledResponse(space(len(v["q"])), v["q"], keep=1 - v["beta"]))).sum(axis=0)


@computes("esf_cor1_lambda")
def _(v: Inputs) -> Any:
    channel = ldp.ResampledResponse(space(v["K"]), np.full(v["K"], 1 / v["K"]), v["eps"])
    corrected = inverse(channel)
    return {
        "lam": channel.redraw[0],
        "eps": channel.epsilon,
        # How much a debiased loss moves when a loss of 1 moves from one label to another.
        "inv_one_minus_beta": corrected[0, 0] - corrected[0, 1],
    }


@computes("esf_cor2_total")
def _(v: Inputs) -> Any:
    noise = ldp.DiscreteLaplace(Fraction(str(v["eps"])))
    labels = ldp.ResampledResponse(space(3), law_with_least(v["phi"], 3), v["eps"])
    return {
        "lam": labels.redraw[0],
        "eps_paper_accounting": guarantee_of_counts(noise, 2).then(labels.guarantee).epsilon(),
        "eps_correct": guarantee_of_counts(noise, 3).then(labels.guarantee).epsilon(),
    }


@computes("cluster_rr_integer_weights")
def _(v: Inputs) -> Any:
    weights = v["w"]
    extra = resampling_extra(min(weights), Fraction(str(v["eps2"])))
    law = np.array(weights) / sum(weights)
    channel = ldp.ResampledResponse(space(len(law)), law, keep=Fraction(extra, extra + sum(weights)))
    return {
        "A": extra,
        "realised_eps": channel.epsilon,
        "lam": channel.redraw[0],
        "P_out_given_true0": channel.transition[0],
    }


@computes("dlaplace_two_bins_hockey")
def _(v: Inputs) -> Any:
    return hockey_stick_two_bins(v["a"], v["eps"])


@computes("dlaplace_two_bins_calibration")
def _(v: Inputs) -> Any:
    return laplace_for(v["eps"], v["delta"], bins=2)


@computes("scipy_dlaplace_positional_argument")
def _(v: Inputs) -> Any:
    from scipy.stats import dlaplace

    # A fact about scipy, and why the library draws with samplers of its own: one draw, moved to around 10.
    shared, centred = dlaplace.rvs(0.5, 10, random_state=1), dlaplace.rvs(0.5, random_state=1)
    return {"shape": list(np.shape(shared)), "location": shared - centred}


# ---- responses ---------------------------------------------------------------------------------------------


@computes("rr_threshold_eps1_K10", "rr_threshold_eps3_K10", "rr_threshold_eps1_K2")
def _(v: Inputs) -> Any:
    threshold = response_threshold(v["K"], Fraction(v["eps"]), v["bits"])
    others = 2 ** v["bits"] - threshold
    return {"T": threshold, "realised_eps": log_up(Fraction(threshold * (v["K"] - 1), others))}


@computes("alpha_flip_local_cap")
def _(v: Inputs) -> Any:
    return [ldp.RandomizedResponse(space(size), flip=v["alpha"]).epsilon for size in v["K"]]


@computes("static_pure_eps_uniform_resample")
def _(v: Inputs) -> Any:
    return [ldp.ResampledResponse(space(k), np.full(k, 1 / k), keep=1 - v["lam"]).epsilon for k in v["k"]]


@computes("iyer_membership_leak")
def _(v: Inputs) -> Any:
    # Whether a row belongs to the set of class 0 is a function of chance and of the label: a channel.
    others = (1 - v["set_share"]) / (v["c"] - 1)
    member = np.array([v["set_share"]] + [others] * (v["c"] - 1))
    sets = ldp.LabelSpace(["in the set", "outside"])
    channel = ldp.TableChannel(space(v["c"]), np.column_stack([member, 1 - member]), released=sets)
    return {"log_likelihood_ratio": channel.epsilon}


@computes("rrwithprior_eps0.5", "rrwithprior_eps1", "rrwithprior_eps2", "rrwithprior_eps3")
def _(v: Inputs) -> Any:
    labels, prior = space(len(v["p"])), v["p"]
    best = ldp.PriorRandomizedResponse(labels, v["eps"], prior)
    tops = [ldp.TopKRandomizedResponse(labels, v["eps"], list(range(k))) for k in range(1, len(prior) + 1)]
    return {
        "k_star": best.sizes[0],
        "objective": hits(best, prior),
        "w": [hits(top, prior) for top in tops],
    }


@computes("rrtopk_eq17")
def _(v: Inputs) -> Any:
    channel = ldp.TopKRandomizedResponse(space(v["K"]), v["eps"], v["Y_k"])
    debiased = channel.unbias_members(v["loss"])[0]
    return {"debiased": debiased[v["Y_k"]], "expectation_by_true_label": channel.transition @ debiased}


@computes("rrtopk_pinv")
def _(v: Inputs) -> Any:
    channel = ldp.TopKRandomizedResponse(space(v["K"]), v["eps"], list(range(v["k"])))
    with pytest.warns(BiasWarning):
        debiased = channel.unbias(v["loss"])[0]
    return {"expectation_by_true_label": channel.transition @ debiased}


@computes("rrtopk_prior_weighted_pinv")
def _(v: Inputs) -> Any:
    channel = ldp.TopKRandomizedResponse(space(v["K"]), v["eps"], list(range(v["k"])))
    with pytest.warns(BiasWarning):
        debiased = channel.unbias(v["loss"], prior=v["prior"])[0]
    expected = channel.transition @ debiased
    return {
        "debiased": debiased[: v["k"]],
        "expectation_by_true_label": expected,
        "prior_mean": v["prior"] @ expected,
    }


@computes("debiased_loss_range_k2_eps1", "debiased_loss_range_k10_eps1", "debiased_loss_range_k10_eps0.1")
def _(v: Inputs) -> Any:
    corrected = inverse(ldp.RandomizedResponse(space(v["k"]), v["eps"]))
    # Over losses in [0, 1] a debiased one runs from the sum of its negative coefficients to that of the positive.
    width = np.abs(corrected).sum(axis=0).max()
    # The paper gives the true label's coefficient the sign of the others too far: once more on either side.
    return {"width": width, "paper_lipschitz_factor": width + 2 * abs(corrected[0, 1])}


# ---- noise and composition ---------------------------------------------------------------------------------


@computes("mean_op_L2ball_laplace_true_eps")
def _(v: Inputs) -> Any:
    grid = Fraction(1, 10)
    steps = [round(x / grid) for x in map(Fraction, map(str, v["x"]))]
    scale = 2 / (v["m"] * Fraction(str(v["claimed_alpha"]))) / grid
    return {"true_eps": guarantee_of_vector(ldp.DiscreteLaplace(1 / scale), l1=2 * sum(steps)).epsilon()}


@computes(
    "analytic_gaussian_eps1_delta1e-05",
    "analytic_gaussian_eps0.5_delta1e-06",
    "analytic_gaussian_eps4_delta1e-06",
    "analytic_gaussian_eps0.05_delta0.05",
)
def _(v: Inputs) -> Any:
    return analytic_gaussian_sigma(v["eps"], v["delta"], v["sensitivity"])


@computes("zcdp_gaussian_sigma")
def _(v: Inputs) -> Any:
    return zcdp_gaussian_sigma(v["rho"], v["Delta2"])


@computes("pure_to_zcdp_eps0.1", "pure_to_zcdp_eps1", "pure_to_zcdp_eps4")
def _(v: Inputs) -> Any:
    epsilon = Fraction(str(v["eps"]))
    # The textbook bound eps^2/2 is what a Gaussian of variance 1 costs that moves by eps.
    return {
        "tight_rho": PureLoss(epsilon).rho,
        "generic_rho": concentrated_rho(ldp.DiscreteGaussian(Fraction(1)), epsilon**2),
    }


@computes("krr_renyi_K2_al2", "krr_renyi_K2_al8", "krr_renyi_K10_al2", "krr_renyi_K10_al8")
def _(v: Inputs) -> Any:
    return ldp.RandomizedResponse(space(v["K"]), v["eps"]).guarantee.renyi(v["alpha"])


@computes("compose_hist_then_rr")
def _(v: Inputs) -> Any:
    counts = guarantee_of_counts(ldp.DiscreteLaplace(Fraction(str(v["dlaplace_param_per_bin"]))), 3)
    both = counts.then(ldp.RandomizedResponse(space(2), v["eps_rr"]).guarantee)
    return [both.delta(epsilon) for epsilon in v["eps"]]


# ---- comparing ---------------------------------------------------------------------------------------------


@cache
def vectors(file: Path = FILE) -> dict[str, Any]:
    """Read the vectors."""
    data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return data


@cache
def computed(name: str) -> Any:
    """Compute a vector's value from the inputs that stand in the file."""
    return COMPUTED[name](vectors()[name]["inputs"])


def differences(expected: Any, actual: Any, tolerance: float, path: str = "") -> list[str]:
    """Say where two values, lists or dictionaries of them, are further apart than the tolerance.

    A number that the file writes as a text is compared in all its digits.
    """
    if isinstance(expected, dict):
        if not isinstance(actual, dict) or expected.keys() != actual.keys():
            return [f"{path}: other names"]
        pairs = [(f"{path}.{key}", expected[key], actual[key]) for key in expected]
    elif isinstance(expected, list):
        if not isinstance(actual, list | tuple | np.ndarray) or len(expected) != len(actual):
            return [f"{path}: another length"]
        pairs = [(f"{path}[{i}]", *both) for i, both in enumerate(zip(expected, actual, strict=True))]
    else:
        return [] if agree(expected, actual, tolerance) else [f"{path}: expected {expected}, got {actual}"]
    return [text for key, e, a in pairs for text in differences(e, a, tolerance, key)]


def agree(expected: Any, actual: Any, tolerance: float) -> bool:
    """Whether two numbers agree within the tolerance, or in every digit that a text shows."""
    if expected is None or actual is None:
        return expected is actual
    if not isinstance(actual, Real) or not math.isfinite(actual):
        return False
    if isinstance(expected, str):
        digits = Context(prec=len(Decimal(expected).as_tuple().digits), rounding=ROUND_HALF_EVEN)
        exactly = Fraction(actual)
        shown = digits.divide(Decimal(exactly.numerator), Decimal(exactly.denominator))
        return shown == Decimal(expected)
    return bool(abs(Fraction(float(actual)) - Fraction(expected)) <= Fraction(tolerance))


def shifted(expected: Any, tolerance: float) -> Iterator[Any]:
    """Yield copies in which one number, however deep, has moved by more than the tolerance, up or down."""
    if isinstance(expected, dict | list):
        for key in expected if isinstance(expected, dict) else range(len(expected)):
            for moved in shifted(expected[key], tolerance):
                changed = copy.copy(expected)
                changed[key] = moved
                yield changed
    elif isinstance(expected, str):
        number = Decimal(expected)
        for step in (1, -1):
            yield str(Context(prec=60).add(number, Decimal((0, (1,), number.as_tuple().exponent)) * step))
    elif expected is not None:
        # An integer moves to the next one; a float by so much that it is another float.
        step = 1 if isinstance(expected, int) else max(1.5 * tolerance, math.ulp(expected))
        for sign in (1, -1):
            yield expected + sign * step


@pytest.mark.parametrize("name", COMPUTED)
def test_vector(name: str) -> None:
    """The library's value is the file's, within the file's tolerance."""
    vector = vectors()[name]

    assert [] == differences(vector["expected"], computed(name), vector["tolerance"])


@pytest.mark.parametrize("name", COMPUTED)
def test_a_shifted_number_is_noticed(name: str) -> None:
    """Whichever expected number moves by one and a half tolerances, in either direction, the comparison fails."""
    vector = vectors()[name]
    changed = list(shifted(vector["expected"], vector["tolerance"]))

    assert changed
    for other in changed:
        assert [] != differences(other, computed(name), vector["tolerance"])


@pytest.mark.parametrize("name", COMPUTED)
@pytest.mark.parametrize("nothing", [None, {}, [], "", math.nan, math.inf], ids=repr)
def test_what_is_no_value_is_noticed(name: str, nothing: object) -> None:
    """A function that computes nothing, or something of another kind, does not pass."""
    vector = vectors()[name]

    assert [] != differences(vector["expected"], nothing, vector["tolerance"])


def test_every_vector_is_covered_or_still_to_come() -> None:
    """No vector is forgotten, and none is in both lists."""
    assert set(vectors(GOLDEN)) == COMPUTED.keys() | TO_COME
    assert set() == COMPUTED.keys() & TO_COME


def test_the_file_decides(tmp_path: Path) -> None:
    """With another file in LABELDP_VECTORS it is that file's numbers which are compared: all tests fail."""
    moved = {
        name: {**vector, "expected": next(shifted(vector["expected"], vector["tolerance"]))}
        for name, vector in vectors(GOLDEN).items()
        if name in COMPUTED
    }
    file = tmp_path / "moved.json"
    file.write_text(json.dumps(moved), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=no", "-rN"]

    run = subprocess.run(
        [*command, f"{HERE}::test_vector"],
        cwd=HERE.parent.parent,
        env={**os.environ, "LABELDP_VECTORS": str(file)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.stdout.splitlines()[-1].startswith(f"{len(COMPUTED)} failed in"), run.stdout
