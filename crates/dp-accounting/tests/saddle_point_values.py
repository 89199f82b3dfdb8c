"""Privacy profiles to 20 digits with mpmath, for tests/all/saddle_point.rs.

delta(eps) = E_P[(1 - e^(eps - L))_+] by integrating the contour formula at two different
abscissas and two different steps in 40-digit arithmetic; a case is printed only when they agree.
Moments come from mpmath's adaptive quadrature or finite sums, not from the trapezoidal nodes of
the crate.  Usage: python3 saddle_point_values.py
"""
from mpmath import mp, mpf, mpc, exp, log, pi, sqrt, quad, linspace, nstr, sinh

mp.dps = 40


def normal(x, s):
    return exp(-x * x / (2 * s * s)) / (s * sqrt(2 * pi))


def mixture(sigma, parts, side):
    """MGF of the loss of a mixture of normals, by Gauss-Legendre on fixed panels."""
    m = lambda x: sum(w * exp(s * (x - s / 2) / sigma**2) for s, w in parts)
    top = max(s for s, _ in parts)
    nodes = []
    for a, b in zip(*(lambda e: (e[:-1], e[1:]))(linspace(-14 * sigma, 40 * top + 14 * sigma, 161))):
        for x, w in gauss(a, b):
            if side == "remove":
                p, l = normal(x, sigma) * m(x), log(m(x))
            elif side == "add":
                p, l = normal(x, sigma), -log(m(x))
            else:
                p, l = normal(x, sigma) * m(x), log(m(x)) - log(m(-x))
            nodes.append((w * p, l))
    return lambda z: sum(w * exp(z * l) for w, l in nodes if w > mpf(10) ** -200)


RULE = None


def gauss(a, b):
    global RULE
    if RULE is None:
        from mpmath.calculus.quadrature import GaussLegendre
        RULE = GaussLegendre(mp).calc_nodes(3, 200)
    half, mid = (b - a) / 2, (a + b) / 2
    return [(mid + half * x, half * w) for x, w in RULE]


def laplace(e):
    return lambda z: exp(z * e) / 2 + exp(-e - z * e) / 2 + exp(-e / 2) * sinh((z + mpf(1) / 2) * e) / (2 * (z + mpf(1) / 2))


def gaussian(mu2):
    return lambda z: exp(mu2 * z * (z + 1) / 2)


def approx(e, d):
    return lambda z: (1 - d) * (exp(z * e) / (1 + exp(-e)) + exp(-z * e) / (1 + exp(e)))


def profile(parts, eps, c, step, infinite=mpf(0)):
    total, k = mpf(0), 0
    while True:
        z = mpc(c, k * step)
        term = (exp(sum(n * log(f(z)) for f, n in parts) - z * eps) / (z * (z + 1))).real
        total += term / 2 if k == 0 else term
        if k > 20 and abs(exp(sum(n * log(abs(f(z))) for f, n in parts) - c * eps)) < mpf(10) ** -26 * abs(total):
            break
        k += 1
    return infinite + total * step / pi


def show(name, parts, eps, c, width, infinite=mpf(0)):
    a = profile(parts, eps, mpf(c), 2 * pi / width, infinite)
    b = profile(parts, eps, mpf(c) * mpf("1.2"), 2 * pi / (mpf("1.3") * width), infinite)
    assert abs(a / b - 1) < mpf(10) ** -17, (name, a, b)
    print(name, nstr(a, 18))


S = lambda s: mpf(float(s))
show("remove", [(mixture(S(1.0), [(mpf(0), 1 - S(0.05)), (mpf(1), S(0.05))], "remove"), 200)], mpf(2), 1.5, 90)
show("add", [(mixture(S(1.0), [(mpf(0), 1 - S(0.05)), (mpf(1), S(0.05))], "add"), 200)], mpf(2), 3, 50)
show("replace", [(mixture(S(2.0), [(mpf(0), 1 - S(0.1)), (mpf(1), S(0.1))], "replace"), 50)], mpf(2), 5, 30)
three = [(mpf(0), S(0.5)), (mpf(1), S(0.25)), (mpf(2), S(0.25))]
show("three remove", [(mixture(S(4.0), three, "remove"), 40)], mpf(2), 4, 30)
show("three add", [(mixture(S(4.0), three, "add"), 40)], mpf(2), 5, 30)
show("laplace and gaussian", [(laplace(S(0.1)), 30), (gaussian(S(0.05)), 1)], mpf(1), 5, 20)
d = S(1e-6)
show("failing and gaussian", [(approx(S(0.2), d), 5), (gaussian(S(0.25)), 1)], mpf(1), 4, 20, 1 - (1 - d) ** 5)
