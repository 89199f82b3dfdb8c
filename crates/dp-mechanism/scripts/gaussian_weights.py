#!/usr/bin/env python3
"""Generates src/sampler/weights.rs, the bin weights of the floored Gaussian sampler.

    weight(j) = 2^128 exp(-j^2/512) / sum_i exp(-i^2/512),   j = 0, 1, 2, ...

rounded to integers by largest remainders, so that each is within one unit of the real number
and all add up to 2^128 exactly. Trailing zero weights are left out.

    gaussian_weights.py            write the table
    gaussian_weights.py --check    compare the checked-in table with a new one, print the bounds
"""

import pathlib
import sys

from mpmath import erfc, exp, floor, log, mp, mpf, nstr, sqrt

mp.prec = 400
TARGET = pathlib.Path(__file__).parent.parent / "src" / "sampler" / "weights.rs"
N_TERMS = 900  # exp(-900^2/512) is below 2^-2000


def real_weights():
    terms = [exp(-mpf(j * j) / 512) for j in range(N_TERMS)]
    total = sum(terms)
    return [t / total * 2**128 for t in terms]


def rounded(real):
    """Largest-remainder rounding to integers of sum 2^128."""
    weights = [int(floor(w)) for w in real]
    missing = 2**128 - sum(weights)
    by_remainder = sorted(range(len(real)), key=lambda j: weights[j] - real[j])
    for j in by_remainder[:missing]:
        weights[j] += 1
    assert sum(weights) == 2**128
    while weights[-1] == 0:
        weights.pop()
    return weights


def rust(weights):
    lines = "".join(f"    0x{w:032x},\n" for w in weights)
    return f"""// Written by scripts/gaussian_weights.py; `--check` compares. Do not edit.

/// How many bins have a weight above zero.
pub(super) const N_BINS: usize = {len(weights)};

/// The weight of bin j is exp(-j^2/512), scaled so that all of them add up to 2^128.
pub(super) const WEIGHTS: [u128; N_BINS] = [
{lines}];
"""


def total_variation(weights):
    """Exact distance between the accepted bin and the bin of |N|, and the acceptance rate."""
    def mass(j):  # P(j <= 16 |N| < j + 1)
        return erfc(mpf(j) / 16 / sqrt(mpf(2))) - erfc(mpf(j + 1) / 16 / sqrt(mpf(2)))

    masses = [mass(j) for j in range(N_TERMS)]
    # acceptance of bin j: integral over v of exp(-(2 j v + v^2)/512) = mass(j) c / exp(-j^2/512)
    c = 8 * sqrt(2 * mp.pi)
    accepted = [
        (w * c * m / exp(-mpf(j * j) / 512)) / 2**128
        for j, (w, m) in enumerate(zip(weights, masses))
    ]
    rate = sum(accepted)
    accepted += [mpf(0)] * (N_TERMS - len(accepted))
    distance = sum(abs(a / rate - m) for a, m in zip(accepted, masses)) / 2
    return distance + erfc(mpf(N_TERMS) / 16 / sqrt(mpf(2))), rate


def main():
    weights = rounded(real_weights())
    text = rust(weights)
    distance, rate = total_variation(weights)
    print(f"{len(weights)} bins, acceptance rate {nstr(rate, 8)}")
    print(f"log2 of the total variation of the accepted bin: {nstr(log(distance, 2), 8)}")
    if "--check" in sys.argv[1:]:
        same = TARGET.read_text() == text
        print("table agrees" if same else "TABLE DIFFERS")
        sys.exit(0 if same else 1)
    TARGET.write_text(text)


if __name__ == "__main__":
    main()
