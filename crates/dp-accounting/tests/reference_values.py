# Prints the tables of all/reference_values.rs: python3 reference_values.py (mpmath, 420 digits; about 20 s).
# Both are computed from the definition, delta = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), with enough
# digits (420) that cancellation does not matter; epsilon by bisection. Inputs are the doubles nearest to the literals.
from mpmath import mp, mpf, ncdf, exp, nstr
mp.dps = 420
def delta(mu, eps):
    mu, eps = mpf(mu), mpf(eps)
    return ncdf(mu/2 - eps/mu) - exp(eps)*ncdf(-mu/2 - eps/mu)
def epsilon(mu, d):
    lo, hi = mpf(0), mpf(mu)**2/2 + mpf(mu)*40 + 1
    if delta(mu, 0) <= d: return mpf(0)
    for _ in range(200):
        m = (lo+hi)/2
        if delta(mu, m) > d: lo = m
        else: hi = m
    return hi
print("DELTA")
for mu, eps in [(1e-3,0.0),(1e-3,1e-6),(1e-3,1e-3),(1e-3,5e-3),(1e-3,0.0367),(1e-2,0.05),(0.1,0.1),(0.1,3.6),(0.3,0.01),(0.5,0.0),(0.999,0.3),(1.0,0.3),(1.0,0.5),(1.0,1.0),(1.0,10.0),(1.0,30.0),(1.0,37.0),(2.0,0.0),(2.0,5.0),(2.0,74.0),(5.0,12.4),(5.0,12.6),(5.0,190.0),(10.0,0.1),(10.0,60.0),(10.0,400.0),(30.0,450.0),(30.0,1500.0),(100.0,5100.0),(100.0,8600.0)]:
    print(f"    ({mu!r}, {eps!r}, {nstr(delta(mu,eps),25)}),")
print("EPS")
for mu, d in [(1e-3,1e-5),(1e-3,1e-300),(0.01,1e-3),(0.1,1e-12),(0.5,0.05),(1.0,1e-1),(1.0,1e-5),(1.0,1e-100),(1.0,1e-300),(3.0,1e-6),(3.0,0.5),(3.0,0.86),(10.0,1e-9),(10.0,1e-300),(30.0,1e-5),(100.0,1e-12)]:
    print(f"    ({mu!r}, {d!r}, {nstr(epsilon(mu,mpf(d)),25)}),")
