"""Values for tests of the single-mechanism profile: closed form with 50 digits."""
from mpmath import mp, mpf, log, exp, erfc, sqrt
mp.dps = 50
def above(x, m, s): return erfc((x - m) / (s * sqrt(mpf(2)))) / 2
for s, q, e in [(1.3, 0.02, 0.4), (0.35, 2e-6, 1.5), (700.0, 0.25, 1e-4), (0.6, 0.05, 40.0)]:
    s, q, e = mpf(s), mpf(q), mpf(e)
    x = s * s * log((exp(e) - 1 + q) / q) + mpf(1) / 2
    p = q * above(x, 1, s) + (1 - q) * above(x, 0, s)
    print(float(s), float(q), float(e), mp.nstr(p - exp(e) * above(x, 0, s), 17))
