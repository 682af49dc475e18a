"""Draws that are proposed until one is accepted: gamma, Poisson and binomial numbers. Takes (key, offset),
arrays of parameters; gives an array of draws, in float64. Also how gamma and beta numbers move with their
parameters.

One idea: every element has a block of random words of its own for each of `TRIES` proposals, so a draw is a
function of (key, offset, index, parameters), though the number of proposals differs from element to element.

# Note [Proposals]
Proposal t of element i reads block offset + t * count + i. Gamma numbers are Marsaglia and Tsang's, which
accept more than 19 of 20; Poisson and binomial numbers of a mean below 10 follow from one uniform number by
adding up probabilities, others are Hörmann's transformed rejection, which accepts more than 3 of 4. So all
tries fail with a probability below 1e-19, and then the last proposal stands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from weft.core.arrays import Array, ArrayModule, namespace
from weft.core.devices import special_functions
from weft.ops.philox import normal_numbers, open_numbers, words, words_at

TRIES: Final = 32
SMALL_MEAN: Final = 10.0
MOST_STEPS: Final = 1000
_STEP: Final = 1e-20

Proposal = Callable[[Array, Array], tuple[Array, Array]]
"""Of the places of elements and their words, in rows of four: values, and which of them are accepted."""


def _until_accepted(key: int, offset: int, count: int, xp: ArrayModule, propose: Proposal) -> Array:
    out = xp.empty(count, dtype=np.float64)
    left = xp.arange(count, dtype=np.int64)
    with np.errstate(all="ignore"):
        for turn in range(TRIES):
            if not turn:
                drawn = words(key, offset, count, xp).reshape(count, 4)
            else:
                start = xp.asarray(offset + turn * count, dtype=np.uint64)
                drawn = words_at(key, left.astype(np.uint64) + start, xp)
            values, accepted = propose(left, drawn)
            out[left] = values
            left = left[~accepted]
            if not left.size:
                break
    return out


def _flat(value: Array, shape: Sequence[int]) -> Array:
    return namespace(value).broadcast_to(value, tuple(shape)).astype(np.float64).reshape(-1)


def gamma(key: int, offset: int, shape: Array) -> Array:
    """Gamma numbers of these shapes, with rate one."""
    xp = namespace(shape)
    wanted = _flat(shape, shape.shape)
    least = xp.where(wanted < 1, wanted + 1, wanted) - 1 / 3
    slope = 1 / xp.sqrt(9 * least)

    def propose(places: Array, drawn: Array) -> tuple[Array, Array]:
        normal = normal_numbers(drawn[:, 0].copy(), drawn[:, 1].copy(), xp)
        cube = (1 + slope[places] * normal) ** 3
        base = least[places]
        level = xp.log(open_numbers(drawn[:, 2].copy(), xp))
        accepted = (cube > 0) & (level < normal * normal / 2 + base - base * cube + base * xp.log(cube))
        small = wanted[places]
        lift = xp.exp(xp.log(open_numbers(drawn[:, 3].copy(), xp)) / small)
        return base * cube * xp.where(small < 1, lift, 1.0), accepted | ~(small > 0)

    out = _until_accepted(key, offset, wanted.size, xp, propose)
    out = xp.where(wanted > 0, out, xp.where(wanted == 0, 0.0, np.nan))
    return out.reshape(shape.shape)


def _by_adding(uniform: Array, first: Array, ratio: Callable[[int], Array], xp: ArrayModule) -> Array:
    """The least k at which the sum of probabilities up to k reaches a uniform number; `ratio(k)` is that of
    k + 1 to k.
    """
    found = xp.zeros_like(uniform)
    term, total = first, first.copy()
    for k in range(MOST_STEPS):
        beyond = uniform > total
        if not bool((beyond & (term > 0)).any()):
            break
        found += beyond
        term = term * ratio(k)
        total += term
    return found


def poisson(key: int, offset: int, rate: Array) -> Array:
    """Poisson numbers of these rates."""
    xp, loggamma = namespace(rate), special_functions(rate).gammaln
    mean = _flat(rate, rate.shape)
    high = xp.maximum(mean, SMALL_MEAN)
    spread = 0.931 + 2.53 * xp.sqrt(high)
    bend = 0.02483 * spread - 0.059
    scale, sure = 1.1239 + 1.1328 / (spread - 3.4), 0.9277 - 3.6224 / (spread - 2)

    def propose(places: Array, drawn: Array) -> tuple[Array, Array]:
        uniform = open_numbers(drawn[:, 0].copy(), xp)
        level = open_numbers(drawn[:, 1].copy(), xp)
        mu, b, a = high[places], spread[places], bend[places]
        apart = 0.5 - xp.abs(uniform - 0.5)
        k = xp.floor((2 * a / apart + b) * (uniform - 0.5) + mu + 0.43)
        weight = xp.log(level) + xp.log(scale[places]) - xp.log(a / (apart * apart) + b)
        accepted = (apart >= 0.07) & (level <= sure[places])
        accepted |= (
            (k >= 0)
            & ((apart >= 0.013) | (level <= apart))
            & (weight <= k * xp.log(mu) - mu - loggamma(k + 1))
        )
        low = ~(mean[places] >= SMALL_MEAN)
        if bool(low.any()):
            rates = mean[places][low]
            k[low] = _by_adding(uniform[low], xp.exp(-rates), lambda at: rates / (at + 1), xp)
        return k, accepted | low

    out = _until_accepted(key, offset, mean.size, xp, propose)
    return xp.where(mean >= 0, out, np.nan).reshape(rate.shape)


def binomial(key: int, offset: int, count: Array, chance: Array, shape: Sequence[int]) -> Array:
    """How many of `count` trials of probability `chance` succeed."""
    xp, loggamma = namespace(count), special_functions(count).gammaln
    trials, chances = _flat(count, shape), _flat(chance, shape)
    less = xp.minimum(chances, 1 - chances)
    small = ~(trials * less >= SMALL_MEAN)
    n, p = xp.where(small, 40.0, trials), xp.where(small, 0.5, less)  # of the small ones nothing is read
    deviation = xp.sqrt(n * p * (1 - p))
    spread = 1.15 + 2.53 * deviation
    bend = 0.0248 * spread + 0.01 * p - 0.0873
    middle, sure = n * p + 0.5, 0.92 - 4.2 / spread
    scale, odds = (2.83 + 5.1 / spread) * deviation, xp.log(p / (1 - p))
    mode = xp.floor((n + 1) * p)
    peak = loggamma(mode + 1) + loggamma(n - mode + 1)

    def propose(places: Array, drawn: Array) -> tuple[Array, Array]:
        uniform = open_numbers(drawn[:, 0].copy(), xp)
        level = open_numbers(drawn[:, 1].copy(), xp)
        b, a, total = spread[places], bend[places], n[places]
        apart = 0.5 - xp.abs(uniform - 0.5)
        k = xp.floor((2 * a / apart + b) * (uniform - 0.5) + middle[places])
        within = (k >= 0) & (k <= total)
        weight = xp.log(level * scale[places] / (a / (apart * apart) + b))
        bound = peak[places] - loggamma(k + 1) - loggamma(total - k + 1) + (k - mode[places]) * odds[places]
        accepted = within & (((apart >= 0.07) & (level <= sure[places])) | (weight <= bound))
        low = small[places]
        if bool(low.any()):
            left, chosen = trials[places][low], less[places][low]
            ratio = chosen / (1 - chosen)
            first = xp.exp(left * xp.log1p(-chosen))
            k[low] = _by_adding(uniform[low], first, lambda at: (left - at) / (at + 1) * ratio, xp)
        return k, accepted | low

    out = _until_accepted(key, offset, trials.size, xp, propose)
    out = xp.where(chances > 0.5, trials - out, out)
    valid = (trials >= 0) & (chances >= 0) & (chances <= 1)
    return xp.where(valid, out, np.nan).reshape(tuple(shape))


# -- how a draw moves with its parameters --------------------------------------------------------------------
# Note [Implicit reparameterisation]
# A draw x of a distribution function F(x; a) moves with a by -(dF/da) / (dF/dx), as then F(x; a) stays what
# it is. F's derivatives come from its series or continued fraction times a closed factor: the fraction is
# evaluated at a + i * h with a tiny h, where its imaginary part is h times the derivative, without rounding.
def _fraction(first: Array, terms: Callable[[int], tuple[Array, Array]], xp: ArrayModule) -> Array:
    """first + a1/(b1 + a2/(b2 + ...)), where terms(n) = (an, bn), by Lentz's method."""
    tiny = 1e-300
    value = xp.where(first == 0, tiny, first)
    above, below = value, xp.zeros_like(value)
    for n in range(1, 20 * MOST_STEPS):
        top, bottom = terms(n)
        below = bottom + top * below
        below = 1 / xp.where(below == 0, tiny, below)
        above = bottom + top / above
        above = xp.where(above == 0, tiny, above)
        change = above * below
        value = value * change
        settled = (abs(change.real - 1) < 1e-15) & (abs(change.imag) < 1e-15 * _STEP)
        if bool((settled | ~xp.isfinite(change.real)).all()):
            break
    return value


def gamma_slope(shape: Array, value: Array) -> Array:
    """How a gamma number moves with its shape."""
    xp, digamma = namespace(shape), special_functions(shape).digamma
    shape, value = (xp.asarray(each, dtype=np.float64) for each in xp.broadcast_arrays(shape, value))
    with np.errstate(all="ignore"):
        below = value < shape + 1
        logarithm, moved = xp.log(value), shape + 1j * _STEP
        series = _gamma_series(moved, xp.where(below, value, 0.0), xp)
        start = xp.where(below, shape + 1, value)  # of the others nothing is read
        tail = 1 / _fraction(start + 1 - moved, lambda n: (n * (moved - n), start + (2 * n + 1) - moved), xp)
        left = -(value / shape) * (series.real * (logarithm - digamma(shape + 1)) + series.imag / _STEP)
        right = value * (tail.real * (logarithm - digamma(shape)) + tail.imag / _STEP)
        result = xp.where(below, left, right)
        wide = shape > 1e5
        if bool(wide.any()):
            result = xp.where(wide, _normal_slope(shape, value, xp), result)
    return xp.where(value > 0, result, 0.0)


def _gamma_series(shape: Array, value: Array, xp: ArrayModule) -> Array:
    term = xp.ones_like(shape)
    total = term.copy()
    for n in range(1, 20 * MOST_STEPS):
        term = term * (value / (shape + n))
        total += term
        if bool(
            (abs(term.real) <= 1e-17 * abs(total.real)).all()
            and (abs(term.imag) <= 1e-17 * abs(total.imag)).all()
        ):
            break
    return total


def _normal_slope(shape: Array, value: Array, xp: ArrayModule) -> Array:
    """For wide shapes a gamma number is a + sqrt(a) z + (z^2 - 1) / 3 + ..., with a normal z."""
    root = xp.sqrt(shape)
    z = 3 * root * (xp.cbrt(value / shape) - 1 + 1 / (9 * shape))
    return 1 + z / (2 * root) - (z**3 - 7 * z) / (72 * shape * root)


def beta_slope(value: Array, first: Array, second: Array) -> Array:
    """How a beta number moves with its first parameter."""
    xp, digamma = namespace(value), special_functions(value).digamma
    value, first, second = (
        xp.asarray(each, dtype=np.float64) for each in xp.broadcast_arrays(value, first, second)
    )
    least = np.finfo(np.float64).tiny
    value = xp.clip(value, least, 1 - 2.0**-53)
    with np.errstate(all="ignore"):
        below = value < (first + 1) / (first + second + 2)
        moved = first + 1j * _STEP
        fixed = second + 0j
        a, b = xp.where(below, moved, fixed), xp.where(below, fixed, moved)
        x = xp.where(below, value, 1 - value)

        def terms(n: int) -> tuple[Array, Array]:
            if n == 1:
                return xp.ones_like(a), xp.ones_like(a)
            m, odd = divmod(n - 1, 2)
            if odd:
                top = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
            else:
                top = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
            return top, xp.ones_like(a)

        share = _fraction(xp.zeros_like(a), terms, xp)
        known = xp.log(value) - digamma(first) + digamma(first + second)
        spread = value * (1 - value)
        left = -(spread / first) * (share.real * (known - 1 / first) + share.imag / _STEP)
        right = spread / second * (share.real * known + share.imag / _STEP)
    return xp.where(below, left, right)


def dirichlet_slope(value: Array, parameter: Array, total: Array) -> Array:
    """How an element of a Dirichlet draw moves with its parameter, over what is left of one."""
    rest = namespace(value).maximum(1 - value.astype(np.float64), 2.0**-53)
    return beta_slope(value, parameter, total - parameter) / rest


def smallest(kind: np.dtype[Any]) -> float:
    """The least positive normal number of a dtype: what a gamma number is at least."""
    return math.ldexp(1.0, -14 if kind == np.float16 else -1022 if kind == np.float64 else -126)
