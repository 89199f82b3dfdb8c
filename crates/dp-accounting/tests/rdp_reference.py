"""Prints the tables of tests/all/rdp.rs and src/engines/loss/mgf/tests.rs, computed from the definitions with 50 digits:
Renyi divergences, and ln E e^{sL} of the privacy loss L at orders 1 + s that the former does not cover.

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

    power = (abs(s + 1) if s < -1 else 0) if side == 0 else max(s, 0)
    beta = min(pi / top * mpf("0.9"), mpf(14), 6 / top / sqrt(1 + power))
    step = 2 * pi * beta / (130 + beta**2 / 2 + power * (top * beta) ** 2 / 8)
    low, high = -abs(s) * top - 17, (2 * abs(s) + 1) * top + 17
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
    return subset_moment(mu, q, mpf(order) - 1) / (mpf(order) - 1)


def subset_moment(mu, q, s):
    mu, q, s = mpf(mu), mpf(q), mpf(s)
    r = lambda y: 1 - q + q * exp(mu * y - mu * mu / 2)
    top = mu / 2 + mu * (abs(s) + 1) + 18
    points = linspace(mu / 2, top, int(4 + top * max(1, mu)))
    f = lambda y: normal(y) * (r(y) ** (s + 1) + r(y) ** (-s) - 1 - r(y))
    return log(1 + quad(f, points))


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


def laplace_moment(epsilon, _, s):
    e, s = mpf(epsilon), mpf(s)
    return log(((s + 1) * exp(s * e) + s * exp(-(s + 1) * e)) / (2 * s + 1))


def bounded_range_moment(epsilon, _, s):
    e, s = mpf(epsilon), mpf(s)
    density = lambda l: exp((e + l) / 2) / (2 * (exp(e) - 1))
    return log(quad(lambda l: density(l) * exp(s * l), linspace(-e, e, int(4 + epsilon * abs(s + 1)))))


def discrete_gaussian_moment(sigma, distance, s):
    precision, d, s = 1 / (2 * mpf(sigma) ** 2), int(distance), mpf(s)
    reach = int(12 * sigma) + int((abs(s) + 1) * d) + 5
    points = range(-reach, reach + 1)
    weight = lambda x: exp(-precision * x * x)
    total = fsum(weight(x) for x in points)
    return log(fsum(weight(x) * exp(s * precision * ((x - d) ** 2 - x * x)) for x in points) / total)


def approx_moment(epsilon, delta, s):
    e, rest, s = mpf(epsilon), 1 - mpf(delta), mpf(s)
    return log(rest * (exp(-s * e) / (1 + exp(e)) + exp(s * e) / (1 + exp(-e))))


def sampled_moment(side):
    return lambda sigma, q, s: mixture_moment([0, 1 / mpf(sigma)], [1 - mpf(q), q], s, side)


def moments():
    near = [1e-4, -0.03, -0.5001, -0.71, -0.999]
    for kind, moment, cases in [
        ("laplace", laplace_moment, [(1e-3, 0), (0.7, 0), (40.0, 0)]),
        ("bounded-range", bounded_range_moment, [(1e-3, 0), (0.7, 0), (40.0, 0)]),
        ("discrete-gaussian", discrete_gaussian_moment, [(0.2, 1), (0.5, 3), (7.0, 2)]),
        ("approx", approx_moment, [(0.01, 1e-6), (3.0, 0.1)]),
        ("subset", subset_moment, [(1.0, 0.01), (5.0, 0.85)]),
        ("remove", sampled_moment(0), [(1.0, 0.01), (50.0, 1e-6)]),
        ("add", sampled_moment(1), [(1.0, 0.01), (0.4, 0.7)]),
        ("replace", sampled_moment(2), [(1.0, 0.01), (0.4, 0.7)]),
    ]:
        more = [3.7, 60.0] if kind in ("add", "bounded-range") else [3.7]
        for (a, b), s in [(case, s) for case in cases for s in near + more]:
            if kind in ("add", "replace", "remove") and s == 60.0 and a < 1:
                continue
            value = moment(a, b, s)
            print(f'    ("{kind}", {a!r}, {float(b)!r}, {s!r}, {nstr(value, 17)}),')


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
moments()
