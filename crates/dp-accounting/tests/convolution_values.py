"""Privacy profiles of a few sampled Gaussian mechanisms by repeated convolution of privacy losses, for tests/all/convolution.rs.

    pip install mpmath==1.3.0 gmpy2 numpy
    python3 convolution_values.py [FILTER] > rows

No moment generating function and no contour is used, unlike in the crate.  With S the sum of some losses, bounded by an
end e, D its distance to it and

    G(D) = E[(e^(epsilon - S) - 1)_+]  (removing a user, S >= e, D = epsilon - e)
    G(D) = E[(1 - e^(epsilon - S))_+]  (adding one, S <= e, D = e - epsilon)

composing one more loss of density f gives the integral of f(d) G(D - d) over d from 0 to D.  In t = ln(d / (D - d)) this is
a trapezoidal sum whose integrand vanishes at both ends.  Between compositions, G is stored as piecewise Chebyshev polynomials
in w = ln(e^D - 1), and the density of a sum follows from G'' and G'.  Under replacement losses have no end:
the integral is then over outputs, and w = asinh(2 sinh(epsilon / 2) / a).  A single run has a closed form.

All computations use 40 digits. Every value is computed with two resolutions; their relative difference is in the last column.
"""
import sys

import gmpy2
import numpy as np
from gmpy2 import mpfr
from mpmath import mp

gmpy2.get_context().precision = 136
mp.prec = 136
DEPTH = mpfr(10)
up = lambda f: np.frompyfunc(f, 1, 1)
EXP, LOG, EXPM1, LOG1P = up(gmpy2.exp), up(gmpy2.log), up(gmpy2.expm1), up(gmpy2.log1p)
ASINH, SINH, COSH, ERFC, SQRT = up(gmpy2.asinh), up(gmpy2.sinh), up(gmpy2.cosh), up(gmpy2.erfc), up(gmpy2.sqrt)
ROOT2, NORM = gmpy2.sqrt(mpfr(2)), 1 / gmpy2.sqrt(2 * gmpy2.const_pi())
line = lambda a, b, n: np.array([a + (b - a) * mpfr(i) / n for i in range(n + 1)], dtype=object)
tail = lambda y: ERFC(y / ROOT2) / 2
density = lambda y: NORM * EXP(-y * y / 2)


class Run:
    """One sampled Gaussian: output y in standard deviations, negated if a user is added, so that losses increase with it."""

    def __init__(self, q, sigma, side):
        self.q, self.k, self.side = mpfr(q), 1 / mpfr(sigma), side
        self.end = gmpy2.log1p(-self.q) * (1 if side == "remove" else -1)
        self.least = self.q * gmpy2.exp(-self.k * self.k / 2 - DEPTH * self.k)

    def mix(self, u):
        return 1 - self.q + self.q * EXP(u)

    def loss(self, y):
        ratio = lambda y: LOG1P(self.q * EXPM1(self.k * y - self.k * self.k / 2))
        return {"remove": ratio(y), "add": -ratio(-y)}.get(self.side) if self.side != "replace" else ratio(y) - ratio(-y)

    def p(self, y):
        return density(y) if self.side == "add" else (1 - self.q) * density(y) + self.q * density(y - self.k)

    def tails(self, y):
        shifted = lambda s: (1 - self.q) * tail(y) + self.q * tail(y - s)
        return {"remove": lambda: (shifted(self.k), tail(y)), "add": lambda: (tail(y), shifted(-self.k)),
                "replace": lambda: (shifted(self.k), shifted(-self.k))}[self.side]()

    def heads(self, y):
        q = {"remove": lambda: tail(-y), "add": lambda: (1 - self.q) * tail(-y) + self.q * tail(-y - self.k)}[self.side]()
        p = tail(-y) if self.side == "add" else (1 - self.q) * tail(-y) + self.q * tail(self.k - y)
        return p, q

    def at_distance(self, d):
        """The y at which the loss is at distance d from its end."""
        grown = (1 - self.q) * EXPM1(d) / self.q
        y = (LOG(grown) + self.k * self.k / 2) / self.k
        return y if self.side == "remove" else -y

    def inverse(self, s):
        """The y of a loss under replacement."""
        c, e = self.q * gmpy2.exp(-self.k * self.k / 2), EXP(s)
        b = (self.q - 1) * EXPM1(s)
        root = SQRT(b * b + 4 * c * c * e)
        positive = np.where(np.asarray(b < 0, bool), (root - b) / (2 * c), 2 * c * e / (b + root))
        return LOG(positive) / self.k

    def gap(self, d):
        """G of a single loss at distance d."""
        y = self.at_distance(d)
        if self.side == "remove":
            p, q = self.heads(y)
            return EXP(self.end + d) * q - p
        p, q = self.tails(y)
        return p - EXP(self.end - d) * q

    def density_at(self, d):
        """Density of the loss at distance d from its end."""
        y = self.at_distance(d)
        u = self.k * (y if self.side == "remove" else -y) - self.k * self.k / 2
        posterior = self.q * EXP(u) / self.mix(u)
        return self.p(y) / (self.k * posterior)

    def profile(self, s):
        y = self.inverse(s)
        p, q = self.tails(y)
        return p - EXP(s) * q


class Pieces:
    """A function as Chebyshev polynomials in w on pieces of equal width, with two derivatives."""

    def __init__(self, values_at, low, high, width, order):
        n = int((high - low) / width) + 1
        self.low, self.width, self.order = low, (high - low) / n, order
        angles = [gmpy2.const_pi() * (2 * j + 1) / (2 * order) for j in range(order)]
        x = np.array([gmpy2.cos(a) for a in angles], dtype=object)
        basis = np.array([[gmpy2.cos(k * a) * (1 if k == 0 else 2) / order for a in angles] for k in range(order)], dtype=object)
        w = np.concatenate([low + self.width * (i + (x + 1) / 2) for i in range(n)])
        values = values_at(w).reshape(n, order)
        self.parts = [values.dot(basis.T)]
        for _ in range(2):
            self.parts.append(self.derived(self.parts[-1]))

    def derived(self, c):
        out = np.zeros_like(c) + mpfr(0)
        for k in range(self.order - 2, -1, -1):
            out[:, k] = (out[:, k + 2] if k + 2 < self.order else 0) + 2 * (k + 1) * c[:, k + 1]
        out[:, 0] = out[:, 0] / 2
        return out * (2 / self.width)

    def __call__(self, w, order=0):
        place = (w - self.low) / self.width
        piece = np.clip(np.array([int(gmpy2.floor(p)) for p in place]), 0, len(self.parts[0]) - 1)
        x = 2 * (place - piece) - 1
        c = self.parts[order][piece]
        b1 = b2 = mpfr(0)
        for k in range(self.order - 1, 0, -1):
            b1, b2 = 2 * x * b1 - b2 + c[:, k], b1
        return x * b1 - b2 + c[:, 0]


class Single:
    """A single loss in the form of a composition."""

    def __init__(self, run):
        self.run, self.least, self.end, self.scale = run, run.least, run.end, run.k

    def gap(self, d):
        return self.run.gap(d)

    def density(self, d):
        return self.run.density_at(d)


class Composed:
    """A composition of losses with an end, up to a largest distance."""

    def __init__(self, a, b, largest, fine):
        self.end, self.scale, self.least = a.end + b.end, min(a.scale, b.scale), min(a.least, b.least)
        self.sign = 1 if a.side == "remove" else -1
        self.side = a.side
        width = min(self.scale, mpfr("0.8")) / mpfr(fine)
        ends = [gmpy2.log(gmpy2.expm1(x)) for x in (self.least, largest)]
        at = lambda w: np.array([convolved(a, b, d, fine) for d in LOG1P(EXP(w))], dtype=object)
        self.pieces = Pieces(at, *ends, width, 20)

    def gap(self, d):
        inside = np.asarray(d > self.least, bool)
        return np.where(inside, self.pieces(LOG(EXPM1(np.where(inside, d, self.least)))), mpfr(0))

    def density(self, d):
        inside = np.asarray(d > self.least, bool)
        d = np.where(inside, d, self.least)
        w, slope = LOG(EXPM1(d)), -1 / EXPM1(-d)
        curve = slope - slope * slope  # second derivative of w in d
        first, second = self.pieces(w, 1), self.pieces(w, 2)
        by_d, twice = first * slope, second * slope * slope + first * curve
        return np.where(inside, twice - self.sign * by_d, mpfr(0))


Single.side = property(lambda self: self.run.side)


def convolved(a, b, largest, fine):
    """G of both at the distance `largest`."""
    least = min(a.least, b.least) / 4
    if largest <= 2 * least:
        return mpfr(0)
    step = min(mpfr("0.25"), min(a.scale, b.scale) / 3 * min(mpfr(1), 3 / largest)) / mpfr(fine)
    far = gmpy2.log(largest / least)
    n = int(far / step) + 1
    t = line(-n * step, n * step, 2 * n)
    d = largest / (1 + EXP(-t))
    rest = largest / (1 + EXP(t))
    return np.sum(a.density(d) * b.gap(rest) * d * rest) / largest * step


class Free:
    """A composition of losses under replacement, as a function of epsilon."""

    def __init__(self, value, scale, unit, reach, fine):
        self.unit, self.scale, self.reach = unit, scale, reach
        end = gmpy2.asinh(2 * gmpy2.sinh(reach / 2) / unit)
        width = min(scale / 2, mpfr("0.6")) / mpfr(fine)
        at = lambda w: np.array([value(s) for s in 2 * ASINH(unit * SINH(w) / 2)], dtype=object)
        self.pieces = Pieces(at, -end, end, width, 15)

    def place(self, s):
        return ASINH(2 * SINH(s / 2) / self.unit)

    def profile(self, s):
        high, low = np.asarray(s >= self.reach, bool), np.asarray(s <= -self.reach, bool)
        inside = self.pieces(self.place(np.where(high | low, mpfr(0), s)))
        return np.where(high, mpfr(0), np.where(low, -EXPM1(s), inside))

    def density(self, s):
        w = self.place(s)
        slope = COSH(s / 2) / (self.unit * COSH(w))
        curve = (SINH(s / 2) / 2 / self.unit - slope * slope * SINH(w)) / COSH(w)
        first, second = self.pieces(w, 1), self.pieces(w, 2)
        return second * slope * slope + first * curve - first * slope


def replaced(run, profile, epsilon, unit, fine):
    """The profile at epsilon of a run composed with mechanisms that have `profile`."""
    centre = run.inverse(epsilon)
    b = unit / run.k / 4
    reach = DEPTH + run.k + abs(centre)
    end = gmpy2.asinh(reach / b)
    n = int(end / mpfr("0.06") * mpfr(fine)) + 1
    step = end / n
    t = line(-end, end, 2 * n)
    y = centre + b * SINH(t)
    keep = np.asarray(abs(y) <= DEPTH + run.k, bool)
    y, t = y[keep], t[keep]
    return np.sum(run.p(y) * profile(epsilon - run.loss(y)) * COSH(t)) * b * step


def both(a, epsilon, fine):
    """The profile at epsilon of the losses of `a` composed with themselves, under replacement."""
    end = gmpy2.asinh(2 * a.reach / a.unit)
    n = int(end / min(mpfr("0.06"), a.scale / 8) * mpfr(fine)) + 1
    # losses near 0 and losses near epsilon: two centres, with a weight that assigns one to each part
    total = mpfr(0)
    for centre, sign in [(mpfr(0), 1), (epsilon, -1)]:
        step = end / n
        t = line(-end, end, 2 * n)
        s = centre + a.unit / 2 * SINH(t)
        keep = np.asarray(abs(s) <= a.reach * mpfr("0.999"), bool)
        s, t = s[keep], t[keep]
        away = sign * (s - epsilon / 2) / (epsilon / 2)
        share = ERFC(4 * away) / 2
        total += np.sum(share * a.density(s) * a.profile(epsilon - s) * COSH(t)) * a.unit / 2 * step
    return total


def delta(runs, side, epsilon, fine):
    """delta(epsilon) of the runs (q, sigma), each once; identical if there are more than three."""
    epsilon = mpfr(epsilon)
    runs = [Run(q, sigma, side) for q, sigma in runs]
    n = len(runs)
    if side == "replace":
        profile = lambda e: run_profile(runs, e, fine)
        return profile(epsilon)
    largest = (epsilon - sum(r.end for r in runs)) * (1 if side == "remove" else -1)
    if largest <= 0:
        return mpfr(0)
    one = [Single(r) for r in runs]
    if n == 1:
        g = one[0].gap(np.array([largest], dtype=object))[0]
    elif n == 2:
        g = convolved(one[0], one[1], largest, fine)
    else:
        two = Composed(one[0], one[1], largest, fine)
        if n == 3:
            g = convolved(one[2], two, largest, fine)
        else:
            three = Composed(one[0], two, largest, fine)
            g = convolved(two, three, largest, fine) if n == 5 else None
            if n == 10:
                five = Composed(two, three, largest, fine)
                g = convolved(five, five, largest, fine)
    return g if side == "add" else g - gmpy2.expm1(epsilon)


def run_profile(runs, epsilon, fine):
    n, first = len(runs), runs[0]
    scalar = lambda f: lambda s: f(np.array([s], dtype=object))[0]
    if n == 1:
        return scalar(first.profile)(epsilon)
    unit = min(2 * r.q * gmpy2.exp(-r.k * r.k / 2) for r in runs)
    scale = min(r.k for r in runs)
    reach = lambda m: sum((r.loss(np.array([DEPTH + r.k], dtype=object))[0] for r in runs[:m]), mpfr(0))
    step = lambda run, profile: lambda e: replaced(run, profile, e, unit, fine)
    if n == 2:
        return step(runs[1], first.profile)(epsilon)
    free = lambda value, m: Free(value, scale, unit, reach(m), fine)
    known = free(step(runs[1], first.profile), 2)
    if n == 10:
        for m in (3, 4, 5):
            known = free(step(first, known.profile), m)
        return both(known, epsilon, fine)
    for m in range(3, n):
        known = free(step(runs[m - 1], known.profile), m)
    return step(runs[-1], known.profile)(epsilon)


def near(runs, sides):
    """An epsilon with three digits at which single runs have a delta of about 1e-5 divided by their number."""
    def miss(e):
        ones = lambda side: sum(delta([r], side, mpfr(e), 1) for r in runs)
        return max(ones(side) for side in sides) - mpfr(10) ** -5
    low, high = 1e-6, 100.0
    for _ in range(40):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if miss(middle) > 0 else (low, middle)
    return float(f"{low:.3g}")


SIDES = {"one": ("remove", "add"), "other": ("replace",)}
MIXED = [
    [(0.01, 1.0), (0.1, 2.0), (0.001, 0.5)],
    [(0.5, 5.0), (0.1, 2.0), (0.01, 1.0)],
    [(0.001, 0.5), (0.01, 0.5)],
]


def cases():
    rates, noises = (0.5, 0.1, 0.01, 0.001), (0.5, 1.0, 2.0, 5.0)
    for n in (1, 2, 3):
        for adjacency in SIDES:
            yield from ((adjacency, [(q, sigma)] * n) for q in rates for sigma in noises)
    yield from ((adjacency, runs) for runs in MIXED for adjacency in SIDES)
    # these take minutes each
    few = {5: [(0.1, 1.0), (0.01, 0.5), (0.5, 2.0)], 10: [(0.1, 1.0)]}
    for n in (5, 10):
        yield from (("one", [(q, sigma)] * n) for q in rates for sigma in noises if n == 5 or sigma in (1.0, 2.0))
        yield from (("other", [run] * n) for run in few[n])


def main():
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    for adjacency, runs in cases():
        for sides in [SIDES[adjacency]]:
            name = f"{adjacency} {len(runs)} {runs[0] if len(set(runs)) == 1 else runs}"
            if only not in name:
                continue
            epsilon = near(runs, sides)
            found = [max(delta(runs, side, epsilon, fine) for side in sides) for fine in (0.85, 1)]
            off = abs(found[0] / found[1] - 1)
            listed = ", ".join(f"({q}, {sigma:.1f})" for q, sigma in (runs[:1] if len(set(runs)) == 1 else runs))
            count = len(runs) if len(set(runs)) == 1 else 1
            print(f"({adjacency}, {count}, &[{listed}], {epsilon}, {mp.nstr(mp.mpf(str(found[1])), 24)}), // {float(off):.0e}", flush=True)


main()
