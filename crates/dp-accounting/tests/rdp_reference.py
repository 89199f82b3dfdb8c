"""Prints the table of tests/rdp.rs: Renyi divergences from their definitions at 50 digits.

Needs mpmath. Sampled mechanisms: trapezoidal sums (or, at integer orders, binomial sums) in the
noise's own variable. Random allocation: the coefficient formula of Feldman and Shenfeld for the
direction remove, which is the larger one at these parameters.
"""

from mpmath import mp, mpf, exp, log, sqrt, pi, quad, linspace, factorial, binomial, fsum, nstr

mp.dps = 50


def normal(y):
    return exp(-y * y / 2) / sqrt(2 * pi)


def mixture_moment(shifts, weights, s, side):
    """ln E of the privacy loss's moment; side 0 remove, 1 add, 2 replace."""
    shifts = [mpf(c) for c in shifts]
    weights = [mpf(w) for w in weights]
    s, top = mpf(s), max(shifts)

    def ratio(y):
        return fsum(w * exp(c * y - c * c / 2) for c, w in zip(shifts, weights))

    def integrand(y):
        if side == 0:
            return normal(y) * ratio(y) ** (s + 1)
        if side == 1:
            return normal(y) * ratio(y) ** (-s)
        return normal(y) * ratio(y) ** (s + 1) * ratio(-y) ** (-s)

    power = 0 if side == 0 else s
    beta = min(pi / top * mpf("0.9"), mpf(14), 6 / top / sqrt(1 + power))
    step = 2 * pi * beta / (130 + beta**2 / 2 + power * (top * beta) ** 2 / 8)
    low, high = -s * top - 17, (2 * s + 1) * top + 17
    k = range(int(low / step), int(high / step) + 1)
    return log(step * fsum(integrand(i * step) for i in k))


def sampled_gaussian(sigma, q, order, replace=False):
    shifts, weights, s = [0, 1 / mpf(sigma)], [1 - mpf(q), q], mpf(order) - 1
    sides = [2] if replace else [0, 1]
    return max(mixture_moment(shifts, weights, s, side) for side in sides) / s


def sampled_gaussian_integer(sigma, q, order):
    q, c = mpf(q), 1 / mpf(sigma)
    terms = [
        binomial(order, k) * (1 - q) ** (order - k) * q**k * exp(c * c * k * (k - 1) / 2)
        for k in range(order + 1)
    ]
    return log(fsum(terms)) / (order - 1)


def mixture(sigma, order):
    shifts = [0, 1 / mpf(sigma), mpf(2.5) / mpf(sigma)]
    weights, s = [mpf(1) - mpf(0.2) - mpf(0.1), 0.2, 0.1], mpf(order) - 1
    return max(mixture_moment(shifts, weights, s, side) for side in (0, 1)) / s


def sampled_laplace(epsilon, q, order):
    e, q, s = mpf(epsilon), mpf(q), mpf(order) - 1

    def moment(power):
        r = lambda l: (1 - q + q * exp(l)) ** power
        points = linspace(-e, e, int(3 + 4 * epsilon + sqrt(order)))
        inner = quad(lambda l: exp(-(l + e) / 2) / 4 * r(l), points)
        return log(r(-e) / 2 + exp(-e) / 2 * r(e) + inner)

    return max(moment(s + 1), moment(-s)) / s


def without_replacement(mu, q, order):
    mu, q, s = mpf(mu), mpf(q), mpf(order) - 1
    r = lambda y: 1 - q + q * exp(mu * y - mu * mu / 2)
    top = mu / 2 + mu * order + 18
    points = linspace(mu / 2, top, int(4 + top * max(1, mu)))
    f = lambda y: normal(y) * (r(y) ** (s + 1) + r(y) ** (-s) - 1 - r(y))
    return log(1 + quad(f, points)) / s


def allocation(sigma, steps, order):
    mp.dps = 80 + order // 2
    mu = 1 / mpf(sigma)
    f = [exp(k * (k - 1) * mu * mu / 2) / factorial(k) for k in range(order + 1)]
    g = [mpf(1)]
    for n in range(1, order + 1):
        g.append(sum((k * (steps + 1) - n) * f[k] * g[n - k] for k in range(1, n + 1)) / n)
    value = log(factorial(order) / mpf(steps) ** order * g[order]) / (order - 1)
    mp.dps = 50
    return value


def main():
    row = lambda kind, a, b, order, value: print(
        f'    ("{kind}", {a!r}, {b!r}, {order!r}, {nstr(value, 17)}),'
    )
    for sigma, q, order in [
        (1.0, 0.013, 1.0001), (0.7, 3e-4, 2.5), (20.0, 0.25, 33.7), (3.0, 1e-7, 1.3), (0.35, 0.6, 6.5),
        (5e3, 1e-5, 400.5), (2.0, 0.999, 12.25), (0.11, 0.02, 3.25),
    ]:
        row("sampled", sigma, q, order, sampled_gaussian(sigma, q, order))
    for sigma, q, order in [
        (0.01, 1e-9, 3), (0.05, 1e-5, 900), (1e6, 1e-9, 5000), (300.0, 0.3, 20000), (12.0, 1e-3, 3000), (1.5, 0.04, 64),
    ]:
        row("sampled", sigma, q, float(order), sampled_gaussian_integer(sigma, q, order))
    for sigma, q, order in [
        (1.0, 0.01, 1.001), (2.5, 0.3, 17.5), (0.6, 1e-4, 4.5), (400.0, 1e-6, 90.5), (0.9, 0.97, 3.0),
    ]:
        row("sampled-replace", sigma, q, order, sampled_gaussian(sigma, q, order, True))
    for sigma, order in [(1.0, 1.5), (4.0, 40.5), (100.0, 7.0), (0.5, 3.3)]:
        row("mixture", sigma, 0.0, order, mixture(sigma, order))
    for epsilon, q, order in [(1.0, 0.01, 2.0), (5.0, 0.3, 90.5), (0.01, 1e-4, 1.01), (9.0, 1e-3, 4.4)]:
        row("laplace", epsilon, q, order, sampled_laplace(epsilon, q, order))
    for mu, q, order in [(1.0, 0.0625, 2.0), (0.25, 0.5, 33.3), (4.0, 0.125, 1.05), (2.0, 2.0**-10, 12.5)]:
        row("subset", mu, q, order, without_replacement(mu, q, order))
    for sigma, steps, order in [(1.0, 10, 2), (1.0, 1000, 12), (5.0, 100, 64), (50.0, 10**6, 100), (0.5, 50, 5)]:
        row("allocation", sigma, float(steps), float(order), allocation(sigma, steps, order))


main()
