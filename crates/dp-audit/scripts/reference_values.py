#!/usr/bin/env python3
"""Reference values for tests/audits/reference_values.rs: mpmath with 40 digits, scipy for the
Clopper-Pearson bounds. Run: python3 crates/dp-audit/scripts/reference_values.py"""
from mpmath import mp, mpf, gammainc, quad, exp, log, loggamma, erfc, erfinv, sqrt
from scipy.stats import beta

mp.dps = 40

def upper(degrees, x):
    return gammainc(mpf(degrees) / 2, mpf(x) / 2, regularized=True)

def upper_large(degrees, x):
    # quadrature of the density, scaled by its value at the peak of the integrand
    a, x = mpf(degrees) / 2, mpf(x) / 2
    f = lambda t: exp((a - 1) * log(t) - t - loggamma(a))
    sd = sqrt(a)
    return quad(f, [x + k * sd for k in range(0, 21)])

print("CHI: (degrees, x, upper)")
for d, x in [(1, "0.01"), (3, "7.8"), (10, "2.5"), (100, "180"), (413, "600"), (5000, "4700")]:
    print(f"({d}.0, {x}, {mp.nstr(upper(d, x), 18)}),")
for d, x in [(572618, 579000), (572618, 572000), (10**7, 10026000)]:
    print(f"({d}.0, {x}.0, {mp.nstr(upper_large(d, x), 18)}),")
print("QUANTILE: (p, x)")
for p in ["1e-300", "1e-9", "1e-6", "0.001", "0.3", "0.5", "0.8", "0.999999"]:
    q = mpf(p)
    x = mp.findroot(lambda t: log(erfc(-t / sqrt(2)) / 2) - log(q), -37 if p == "1e-300" else -6 if q < 1e-4 else 0.1 + sqrt(2) * erfinv(2 * q - 1)) if q != mpf("0.5") else mpf(0)
    print(f"({p}, {mp.nstr(x, 18)}),")
print("CP: (hits, trials, level, low, high)")
for k, n, l in [(1, 10, 0.05), (5, 10, 0.025), (4600, 16000, 1e-9), (0, 16000, 1e-9), (15999, 16000, 5e-4), (2539, 16000, 5e-10)]:
    low = beta.ppf(l, k, n - k + 1) if k else 0.0
    high = beta.isf(l, k + 1, n - k)
    print(f"({k}, {n}, {l}, {low:.12}, {high:.12}),")
