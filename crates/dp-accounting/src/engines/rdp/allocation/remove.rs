//! The direction in which outputs come from the data set with the unit.
//!
//! With `Y_j` = `dN_j/dN` independent lognormals of mean 1 and W their mean over t steps, the moment of
//! integer order a is
//!
//! ```text
//! E W^a = a!/t^a [y^a] (Σ_k y^k/k! e^{k(k-1)μ²/2})^t
//! ```
//!
//! Here it is expanded around 1 instead, so that E W^a - 1 keeps its relative accuracy:
//!
//! ```text
//! E W^a - 1 = Σ_{j=2}^a a(a-1)...(a-j+1) g_j,    Σ_j g_j y^j = (1 + Σ_{k>=2} m_k (y/t)^k / k!)^t
//! ```
//!
//! with `m_k` = E (Y-1)^k. These are positive: with x = e^{μ²} - 1, `m_k` is the sum of x^edges over all
//! graphs on k labelled vertices without an isolated one, by inclusion and exclusion. So every term
//! is positive and nothing cancels. All arithmetic is on logarithms.

/// Step and reach of the trapezoidal rule for `m_k`.
const STEP: f64 = 0.2;
const REACH: f64 = 10.0;
/// Terms this far below the largest are omitted from sums.
const DROP: f64 = 50.0;

/// K(s) = ln E W^{s+1} for s = 1, ..., `max_order` - 1.
pub(super) fn moments(mu: f64, t: u64, max_order: usize) -> Vec<f64> {
    let steps = t as f64;
    let log_m = log_central_moments(mu, max_order);
    let series: Vec<f64> = log_m
        .iter()
        .enumerate()
        .map(|(k, m)| m - k as f64 * libm::log(steps) - libm::lgamma(k as f64 + 1.0))
        .collect();
    let power = if 2.0 * (steps + 1.0) >= max_order as f64 {
        power_by_recurrence(&series, steps)
    } else {
        power_by_squaring(&series, t)
    };
    (2..=max_order).map(|a| log_moment(&power, a)).collect()
}

/// ln(1 + `Σ_j` a!/(a-j)! `g_j`).
fn log_moment(log_g: &[f64], a: usize) -> f64 {
    let top = libm::lgamma(a as f64 + 1.0);
    let terms = (2..=a).map(|j| top - libm::lgamma((a - j) as f64 + 1.0) + log_g[j]);
    let log_excess = log_sum(&terms.collect::<Vec<f64>>());
    if log_excess > DROP {
        log_excess
    } else {
        libm::log1p(libm::exp(log_excess))
    }
}

fn log_sum(terms: &[f64]) -> f64 {
    let largest = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return largest;
    }
    let kept = terms.iter().filter(|&&t| t > largest - DROP);
    largest + libm::log(kept.map(|t| libm::exp(t - largest)).sum())
}

/// ln `m_k` for k = 0, ..., n; `m_1` = 0.
///
/// E (Y-1)^k by the trapezoidal rule over y in ln Y = μy - μ²/2: entire, with the weight of
/// (Y-1)^k within |y| <= √k + 10 and up to kμ + √k + 10.
fn log_central_moments(mu: f64, n: usize) -> Vec<f64> {
    let last = n as f64;
    let reach = last.sqrt() + REACH;
    let count = ((last * mu + 2.0 * reach) / STEP).ceil();
    // (ln |Y-1|, ln of the weight, sign of Y-1)
    let mut nodes: Vec<(f64, f64, bool)> = Vec::new();
    let mut i = 0.0;
    while i <= count {
        // not exactly at the point where Y = 1 except by rounding; there the term is 0 anyway
        let y = -reach + i * STEP;
        let size = libm::expm1(mu * (y - 0.5 * mu));
        if size != 0.0 {
            nodes.push((libm::log(size.abs()), -0.5 * y * y, size > 0.0));
        }
        i += 1.0;
    }
    let scale = libm::log(STEP) - 0.5 * libm::log(2.0 * std::f64::consts::PI);
    let mut out = vec![0.0, f64::NEG_INFINITY];
    out.extend((2..=n).map(|k| scale + log_signed_sum(&nodes, k)));
    out
}

fn log_signed_sum(nodes: &[(f64, f64, bool)], k: usize) -> f64 {
    let power = k as f64;
    let exponent = |&(log, weight, _): &(f64, f64, bool)| power * log + weight;
    let largest = nodes.iter().map(exponent).fold(f64::NEG_INFINITY, f64::max);
    let mut sum = 0.0;
    for node in nodes {
        let e = exponent(node) - largest;
        if e > -DROP {
            let term = libm::exp(e);
            sum += if node.2 || k.is_multiple_of(2) {
                term
            } else {
                -term
            };
        }
    }
    largest + libm::log(sum.max(f64::MIN_POSITIVE))
}

/// Logarithms of the coefficients of f^t, `f_0` = 1, `f_1` = 0:
/// `g_n` = (1/n) `Σ_k` (k (t+1) - n) `f_k` g_{n-k}, with factors >= 0 as long as n <= 2 (t+1).
fn power_by_recurrence(log_f: &[f64], t: f64) -> Vec<f64> {
    let mut log_g = vec![0.0, f64::NEG_INFINITY];
    for n in 2..log_f.len() {
        let total = n as f64;
        let terms: Vec<f64> = (2..=n)
            .map(|k| {
                let factor = (k as f64 * (t + 1.0) - total) / total;
                libm::log(factor.max(0.0)) + log_f[k] + log_g[n - k]
            })
            .collect();
        log_g.push(log_sum(&terms));
    }
    log_g
}

/// The same for few steps, by repeated squaring.
fn power_by_squaring(log_f: &[f64], t: u64) -> Vec<f64> {
    let mut result: Option<Vec<f64>> = None;
    let (mut square, mut left) = (log_f.to_vec(), t);
    while left > 0 {
        if left % 2 == 1 {
            result = Some(match result {
                Some(r) => product(&r, &square),
                None => square.clone(),
            });
        }
        left /= 2;
        if left > 0 {
            square = product(&square, &square);
        }
    }
    result.unwrap_or_default()
}

fn product(a: &[f64], b: &[f64]) -> Vec<f64> {
    (0..a.len())
        .map(|n| log_sum(&(0..=n).map(|k| a[k] + b[n - k]).collect::<Vec<f64>>()))
        .collect()
}
