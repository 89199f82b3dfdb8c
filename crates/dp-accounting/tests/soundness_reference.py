"""Exact privacy profiles of random compositions, computed by methods that the crate does not use.

    python3 soundness_reference.py SEED COUNT > FILE
    SOUNDNESS_FILE=FILE cargo test --release -p dp-accounting --test all -- --ignored exact_values_from_a_file

One line of JSON per case: adjacency, events with counts, epsilon, delta as text, and a bound
on the relative error of delta. Two methods:

direct   delta = sum or integral over the losses of all but one part of that part's closed-form
         profile (at negative epsilon too), 30 digits with mpmath
contour  the inversion along a line (see the golden README) in 80-bit arithmetic on two lines with
         two steps each; cases in which they differ by more than 1e-13 are dropped
"""
import json, math, random, sys
import mpmath as mp
import numpy as np

mp.mp.dps = 34
LD, CLD = np.longdouble, np.clongdouble


# ---------------------------------------------------------------- closed-form profiles, any epsilon
def phi(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def gauss_profile(mu, e):
    """E[(1 - e^(e-L))_+] for L ~ N(mu^2/2, mu^2)."""
    return phi(mu / 2 - e / mu) - mp.exp(e) * phi(-mu / 2 - e / mu)


def sampled_profile(s, q, side, e):
    """N(0,s^2) against (1-q) N(0,s^2) + q N(1,s^2), and the two under replacement."""
    def lr_point(t):
        # x at which (1-q) + q e^((2x-1)/(2 s^2)) = e^t
        return s * s * (mp.log(mp.expm1(t) + q) - mp.log(q)) + mp.mpf(1) / 2
    tail = lambda x, m: mp.erfc((x - m) / s / mp.sqrt(2)) / 2
    if side == 'remove':
        if e <= mp.log1p(-q):
            return 1 - mp.exp(e)
        x = lr_point(e)
        return (1 - q) * tail(x, 0) + q * tail(x, 1) - mp.exp(e) * tail(x, 0)
    if side == 'add':
        # loss -l(x) > e  <=>  l(x) < -e
        if -e <= mp.log1p(-q):
            return mp.mpf(0)
        x = lr_point(-e)
        low = lambda m: tail(-x, -m)
        return low(0) - mp.exp(e) * ((1 - q) * low(0) + q * low(1))
    # replace: l(x) - l(-x) = e; y = e^(x/s^2): c y^2 + (1-q)(1-e^e) y - c e^e = 0
    c = q * mp.exp(-1 / (2 * s * s))
    b = (1 - q) * -mp.expm1(e)
    root = mp.sqrt(b * b + 4 * c * c * mp.exp(e))
    y = (-b + root) / (2 * c) if b < 0 else 2 * c * mp.exp(e) / (b + root)
    x = s * s * mp.log(y)
    return (1 - q) * tail(x, 0) + q * tail(x, 1) - mp.exp(e) * ((1 - q) * tail(x, 0) + q * tail(x, -1))


def laplace_profile(e0, e):
    if e >= e0:
        return mp.mpf(0)
    if e <= -e0:
        return 1 - mp.exp(e)
    # atoms 1/2 at e0 and e^-e0/2 at -e0, density e^((l-e0)/2)/4
    return 1 - mp.exp((e - e0) / 2)


def conv(a, b):
    out = {}
    for (i, p) in a.items():
        for (j, q) in b.items():
            out[i + j] = out.get(i + j, mp.mpf(0)) + p * q
    return out


def power(atoms, n):
    out = {0: mp.mpf(1)}
    for _ in range(n):
        out = conv(out, atoms)
    return out


# ---------------------------------------------------------------- random events
def loguni(r, a, b):
    return math.exp(r.uniform(math.log(a), math.log(b)))


def finite_event(r, replace):
    """JSON, atoms as list of (loss, p), infinite mass."""
    kind = r.choice(['approx', 'dlap', 'dgauss'] + (['rr'] if replace else []))
    if kind == 'approx':
        e = loguni(r, 1e-3, 3); d = r.choice([0.0, loguni(r, 1e-20, 1e-4)])
        n = r.choice([1, 2, 3, 7, 30])
        rel = 'replace' if replace else 'add-remove'
        E, D = mp.mpf(e), mp.mpf(d)
        one = {1: (1 - D) / (1 + mp.exp(-E)), -1: (1 - D) / (1 + mp.exp(E))}
        at = power(one, n)
        return ({'mechanism': 'approx-dp', 'epsilon': e, 'delta': d, 'relation': rel}, n,
                [(k * E, p) for k, p in at.items()], -mp.expm1(n * mp.log1p(-D)))
    if kind == 'rr':
        p = r.choice([loguni(r, 1e-3, 0.9), 1 - loguni(r, 1e-6, .3)]); k = r.choice([2, 3, 10, 1000])
        n = r.choice([1, 2, 5, 20])
        P = mp.mpf(p)
        lie = P / k; truth = 1 - P + lie
        E = mp.log(truth / lie)
        one = {1: truth, -1: lie}
        if k > 2:
            one[0] = (k - 2) * lie
        return ({'mechanism': 'randomized-response', 'noise_probability': p, 'buckets': k}, n,
                [(j * E, w) for j, w in power(one, n).items()], mp.mpf(0))
    if kind == 'dlap':
        rate = loguni(r, 1e-3, 2); s = r.choice([1, 1, 2, 3, 5]); n = r.choice([1, 2, 4])
        R = mp.mpf(rate); S = s * (2 if replace else 1)
        one = {}
        t = 1 / (1 + mp.exp(-R))
        one[S] = t
        one[-S] = t * mp.exp(-R * S)
        for y in range(1, S):
            one[S - 2 * y] = mp.tanh(R / 2) * mp.exp(-R * y)
        return ({'mechanism': 'discrete-laplace', 'rate': rate, 'sensitivity': s}, n,
                [(j * R, w) for j, w in power(one, n).items()], mp.mpf(0))
    sig = r.choice([loguni(r, .2, 4), loguni(r, 3, 12)]); s = r.choice([1, 1, 2, 3]); n = 1
    S = s * (2 if replace else 1)
    G = mp.mpf(sig)
    reach = int(13 * sig) + 3
    w = [(x, mp.exp(-mp.mpf(x - S) ** 2 / (2 * G * G))) for x in range(S - reach, S + reach + 1)]
    # the far tail, where the loss is largest, matters at tiny delta: extend the range as tilting requires
    w += [(x, mp.exp(-mp.mpf(x - S) ** 2 / (2 * G * G))) for x in range(S + reach + 1, S + 2 * reach)]
    z = mp.fsum(p for _, p in w)
    # normalise with all integers
    z = mp.fsum(mp.exp(-mp.mpf(x) ** 2 / (2 * G * G)) for x in range(-3 * reach, 3 * reach + 1))
    return ({'mechanism': 'discrete-gaussian', 'sigma': sig, 'sensitivity': s}, n,
            [((S * mp.mpf(x) - mp.mpf(S) ** 2 / 2) / (G * G), p / z) for x, p in w], mp.mpf(0))


def gaussian_event(r, z=None):
    z = z or loguni(r, .3, 300)
    psd = r.random() < .3
    return ({'mechanism': 'gaussian', 'noise_multiplier': z,
             'replace_factor': 'sqrt-two' if psd else 'two'}, 2 if psd else 4)


def sampled_event(z, q):
    return {'mechanism': 'poisson-sampled', 'sampling_probability': q,
            'event': {'mechanism': 'gaussian', 'noise_multiplier': z, 'replace_factor': 'two'}}


def nasty_q(r):
    return r.choice([loguni(r, 1e-7, 1e-2), loguni(r, 1e-3, .5), 1 - loguni(r, 1e-6, .3)])


def nasty_sigma(r):
    return r.choice([loguni(r, .3, 1.5), loguni(r, .5, 10), loguni(r, 10, 1000)])


def worst(f, replace):
    return f('replace') if replace else max(f('remove'), f('add'))


def direct_case(r):
    """[(event, count)], f(side) -> profile function of epsilon, typical scale of epsilon."""
    replace = r.random() < .4
    kind = r.choice(['finite+gauss', 'finite+sampled', 'laplace+gauss', 'laplace+sampled',
                     'sampled+gauss', 'sampled+sampled', 'sampled', 'finite', 'laplace2'])
    d = 2 if replace else 1
    if kind == 'finite':
        ev, n, atoms, inf = finite_event(r, replace)
        f = lambda side: (lambda e: inf + mp.fsum(p * -mp.expm1(e - l) for l, p in atoms if l > e))
        top = max(l for l, _ in atoms)
        return replace, [(ev, n)], f, float(top)
    if kind == 'sampled':
        z, q = nasty_sigma(r), nasty_q(r)
        f = lambda side: (lambda e: sampled_profile(mp.mpf(z), mp.mpf(q), side, e))
        return replace, [(sampled_event(z, q), 1)], f, d * (1 / z + .5 / z ** 2) * min(1, 3 * q + .02)
    if kind.startswith('finite'):
        ev, n, atoms, inf = finite_event(r, replace)
        spread = float(max(l for l, p in atoms if p > mp.mpf(10) ** -12))
        other = kind.split('+')[1]
        if other == 'gauss':
            ge, fac = gaussian_event(r)
            m = r.choice([1, 1, 3, 50])
            mu = mp.sqrt((fac if replace else 1) * m) / mp.mpf(ge['noise_multiplier'])
            rest = lambda side: (lambda e: gauss_profile(mu, e))
            evs = [(ev, n), (ge, m)]
            scale = float(mu)
        else:
            z, q = nasty_sigma(r), nasty_q(r)
            rest = lambda side: (lambda e: sampled_profile(mp.mpf(z), mp.mpf(q), side, e))
            evs = [(ev, n), (sampled_event(z, q), 1)]
            scale = d / z * min(1, 3 * q + .02)
        f = lambda side: (lambda e, g=None: inf + mp.fsum(p * rest(side)(e - l) for l, p in atoms))
        return replace, evs, f, .4 * spread + scale
    # one continuous part integrated over x
    parts = []
    if kind.startswith('laplace'):
        b = loguni(r, .3, 100)
        e0 = d / mp.mpf(b)
        evs = [({'mechanism': 'laplace', 'noise_multiplier': b}, 1)]
        def expect(g, side, e, kinks):
            pts = [-e0] + sorted(k for k in kinks if -e0 < k < e0) + [e0]
            body = mp.quad(lambda l: mp.exp((l - e0) / 2) / 4 * g(e - l), pts)
            return g(e - e0) / 2 + mp.exp(-e0) / 2 * g(e + e0) + body
        scale1 = float(e0)
    else:
        z1, q1 = nasty_sigma(r), nasty_q(r)
        S, Q = mp.mpf(z1), mp.mpf(q1)
        evs = [(sampled_event(z1, q1), 1)]
        def expect(g, side, e, kinks):
            lr = lambda x: mp.log1p(Q * mp.expm1((x - mp.mpf(1) / 2) / (S * S)))
            pdf = lambda x, m: mp.exp(-(x - m) ** 2 / (2 * S * S)) / (S * mp.sqrt(2 * mp.pi))
            if side == 'remove':
                loss, den = lr, lambda x: (1 - Q) * pdf(x, 0) + Q * pdf(x, 1)
            elif side == 'add':
                loss, den = lambda x: -lr(x), lambda x: pdf(x, 0)
            else:
                loss, den = lambda x: lr(x) - lr(-x), lambda x: (1 - Q) * pdf(x, 0) + Q * pdf(x, 1)
            h = S / 12
            # smooth integrand (g smooth): trapezoid, converges like exp(-2 pi 12 b)
            lo, hi = -int(12 * 13) , int(12 * (13 + 40 / max(z1, 1)))
            return h * mp.fsum(den(k * h) * g(e - loss(k * h)) for k in range(lo, hi + 1))
        scale1 = d / z1 * min(1, 3 * q1 + .02)
    other = kind.split('+')[1] if '+' in kind else 'laplace'
    if other == 'gauss':
        ge, fac = gaussian_event(r, loguni(r, .5, 30))
        m = r.choice([1, 2, 20])
        mu = mp.sqrt((fac if replace else 1) * m) / mp.mpf(ge['noise_multiplier'])
        evs.append((ge, m))
        if kind.startswith('sampled') and float(mu) < .3:
            return None  # the trapezoidal rule of the outer integral needs a smooth inner one
        f = lambda side: (lambda e: expect(lambda t: gauss_profile(mu, t), side, e, [e]))
        return replace, evs, f, scale1 + float(mu)
    if other == 'sampled' and kind.startswith('sampled'):
        return None
    if other == 'sampled':
        z, q = nasty_sigma(r), nasty_q(r)
        evs.append((sampled_event(z, q), 1))
        zz, qq = mp.mpf(z), mp.mpf(q)
        def f(side):
            bottom = mp.log1p(-qq)
            def at(e):
                k = {'remove': [e - bottom], 'add': [e + bottom], 'replace': []}[side]
                # the profile curves within about the spread of the loss around e
                w = float(d / z * min(1, 3 * q)) + 1e-9
                k = k + [e + mp.mpf(x) * w for x in (-8, -4, -2, -1, 0, 1, 2, 4, 8)]
                k = k + ([e - bottom - w * mp.mpf(10) ** -j for j in range(0, 12, 2)] if side != 'replace' else [])
                return expect(lambda t: sampled_profile(zz, qq, side, t), side, e, k)
            return at
        return replace, evs, f, scale1 + float(d / z * min(1, 3 * q + .02))
    b2 = loguni(r, .3, 100)
    e2 = d / mp.mpf(b2)
    evs.append(({'mechanism': 'laplace', 'noise_multiplier': b2}, 1))
    f = lambda side: (lambda e: expect(lambda t: laplace_profile(e2, t), side, e, [e - e2, e + e2]))
    return replace, evs, f, scale1 + float(e2)


# ---------------------------------------------------------------- contour, 80-bit
def cexpm1(z):
    x, y = z.real, z.imag
    s = np.sin(y / 2)
    return (np.expm1(x) * np.cos(y) - 2 * s * s) + 1j * (np.exp(x) * np.sin(y))


def clog1p(z):
    return (np.log1p(z.real * (2 + z.real) + z.imag * z.imag) / 2) + 1j * np.arctan2(z.imag, 1 + z.real)


class Sampled:
    """Nodes in x for one sampled Gaussian step."""
    def __init__(self, z, q, side, c, fine):
        s, q = LD(z), LD(q)
        h = s / LD(fine)
        far = (2 * c + 2) / z if side == 'replace' else (c + 2) / z
        lo = -14 - (c + 1) / z if side == 'add' else -14
        k = np.arange(math.floor(lo * fine), math.ceil((14 + far) * fine) + 1).astype(LD)
        x = k * h
        lr = lambda x: self.lr(x, s, q)
        base = -x * x / (2 * s * s) - np.log(s * np.sqrt(2 * LD(np.pi))) + np.log(h)
        if side == 'remove':
            self.l, self.w = lr(x), base + lr(x)
        elif side == 'add':
            self.l, self.w = -lr(x), base
        else:
            self.l, self.w = lr(x) - lr(-x), base + lr(x)

    @staticmethod
    def lr(x, s, q):
        u = (x - LD(.5)) / (s * s)
        small = u < 5000
        out = np.empty_like(u)
        out[small] = np.log1p(q * np.expm1(u[small]))
        v = u[~small]
        out[~small] = v + np.log(q) + (1 - q) / q * np.exp(-v)
        return out

    def K0(self, c):
        # E e^{cL} - 1, minus the error of normalisation
        e = self.w + c * self.l
        if e.max() < 11000 and (c * self.l).max() < 11000:
            return np.log1p(np.sum(np.exp(self.w) * np.expm1(c * self.l)))
        return e.max() + np.log(np.sum(np.exp(e - e.max())))

    def K(self, z):
        """K(z) - K(c) for an array of z = c + it."""
        c = z[0].real
        e = self.w + c * self.l
        p = np.exp(e - e.max()); p /= p.sum()
        out = np.empty(len(z), dtype=CLD)
        for i in range(0, len(z), 256):
            t = z[i:i + 256].imag
            out[i:i + 256] = clog1p((cexpm1(CLD(1j) * np.outer(t, self.l)) * p).sum(axis=1))
        return out


def contour(parts, mu2, eps, side, shift, fine, hfac):
    """parts: [(z, q, n)]."""
    eps = LD(eps); mu2 = LD(mu2)
    def real(c):
        return sum(n * Sampled(z, q, side, float(c), 16).K0(c) for z, q, n in parts) + mu2 * c * (c + 1) / 2
    f = lambda u: real(math.exp(u)) - math.exp(u) * eps - math.log(math.exp(u) * (math.exp(u) + 1))
    a, b = math.log(1e-3), math.log(1e5)
    g = .381966
    for _ in range(40):
        u, v = a + g * (b - a), b - g * (b - a)
        fu, fv = f(u), f(v)
        if not np.isfinite(fv) or fu < fv: b = v
        else: a = u
    c = math.exp((a + b) / 2) * shift
    width = (np.log(LD(1e26)) + abs(float(f(math.log(c))))) / c
    d = 1e-4 * c
    curv = float(real(c + d) - 2 * real(c) + real(c - d)) / d ** 2 + 1 / c ** 2
    dev = math.sqrt(curv)
    W = max(float(width), 60 * dev) * hfac
    h = LD(2 * math.pi / W)
    nodes = [(Sampled(z, q, side, c, fine), n) for z, q, n in parts]
    total, k0, block = LD(0), 0, 128
    k_c = sum(n * s.K0(LD(c)) for s, n in nodes) + mu2 * LD(c) * (LD(c) + 1) / 2
    while True:
        t = (np.arange(k0, k0 + block)).astype(LD) * h
        z = CLD(c) + CLD(1j) * t
        ex = sum(n * s.K(z) for s, n in nodes)
        ex = ex + mu2 * (z * (z + 1) - LD(c) * (LD(c) + 1)) / 2 - CLD(1j) * t * eps
        v = (np.exp(ex) / (z * (z + 1))).real
        if k0 == 0:
            v[0] /= 2
        total += v.sum()
        k0 += block
        size = np.exp(ex[-1].real)
        if size < 1e-22:
            break
        if k0 > 24 * block:
            return None
    return total * h / LD(np.pi) * np.exp(k_c - LD(c) * eps)


def contour_case(r):
    replace = r.random() < .4
    n_parts = r.choice([1, 1, 2, 3])
    parts, evs = [], []
    for _ in range(n_parts):
        z = nasty_sigma(r); q = r.choice([loguni(r, 1e-3, .5), loguni(r, .05, .5), 1 - loguni(r, 1e-5, .3), loguni(r, 1e-6, 1e-3)])
        n = r.randint(2, 50)
        parts.append((z, q, n)); evs.append((sampled_event(z, q), n))
    mu2 = 0.0
    if r.random() < .5:
        ge, fac = gaussian_event(r, loguni(r, .5, 100))
        evs.append((ge, 1))
        mu2 = (LD(fac) if replace else LD(1)) / LD(ge['noise_multiplier']) ** 2
    scale = math.sqrt(sum(n * min(1, 9 * q * q + 1e-4) / z ** 2 for z, q, n in parts) + float(mu2)) * (2 if replace else 1)
    eps = float(f'{scale * loguni(r, .05, 12):.3g}')
    sides = ['replace'] if replace else ['remove', 'add']
    best, err = None, 0
    for side in sides:
        a = contour(parts, mu2, eps, side, 1.0, 14, 1.0)
        b = contour(parts, mu2, eps, side, 1.13, 19, 1.31)
        if a is None or b is None or not (np.isfinite(a) and a > 0):
            return None
        rel = abs(float((a - b) / a))
        if rel > 1e-13:
            return None
        if best is None or a > best:
            best, err = a, rel
    return replace, evs, eps, np.format_float_scientific(best, precision=20), max(3 * err, 1e-16)


def main():
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    which = sys.argv[3] if len(sys.argv) > 3 else 'both'
    r = random.Random(seed)
    done = 0
    while done < count:
        try:
            if which == 'contour' or (which == 'both' and done % 2):
                got = contour_case(r)
                if got is None:
                    continue
                replace, evs, eps, text, err = got
                how = 'contour'
            else:
                got = direct_case(r)
                if got is None:
                    continue
                replace, evs, f, scale = got
                eps = float(f'{scale * loguni(r, .02, 6):.3g}')
                if len(evs) == 1 and r.random() < .3:
                    eps = float(f'{scale * r.random():.3g}')
                val = worst(lambda side: f(side)(mp.mpf(eps)), replace)
                if val <= mp.mpf(10) ** -40:
                    continue
                mp.mp.dps = 44
                again = worst(lambda side: f(side)(mp.mpf(eps)), replace)
                mp.mp.dps = 34
                rel = abs(again / val - 1)
                if rel > 1e-14:
                    continue
                text, err, how = mp.nstr(again, 22), max(float(3 * rel), 1e-18), 'direct'
        except (ZeroDivisionError, ValueError, OverflowError):
            continue
        print(json.dumps({'how': how, 'replace': replace, 'events': evs, 'epsilon': eps,
                          'delta': text, 'uncertainty': err}), flush=True)
        done += 1


main()
