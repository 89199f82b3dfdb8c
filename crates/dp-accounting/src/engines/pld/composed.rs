//! The composition of discretised losses, as the Fourier series of its tilted masses, and its
//! profile.
//!
//! With the tilted masses `c_J` of the sum on the lattice `l_J` = O + J h, reduced modulo N,
//!
//! ```text
//! δ(ε) = e^(K - λε) Σ_{l_J > ε} c_J g(l_J - ε),        g(x) = e^(-λx) (1 - e^-x)
//!      = e^(K - λε) (1/N) Σ_k Φ_k S_k(ε),     Φ_k = Π_i φ_i(z_k)^(n_i),   z_k = 2πk/N
//! S_k(ε) = Σ_{J in the window, l_J > ε} g(l_J - ε) e^(i z_k J)       (two geometric series)
//! ```
//!
//! so an evaluation takes one pass over the frequencies that matter. The errors, all added up:
//! omitted frequencies (certified to be below a bound), mass outside the window (Chernoff),
//! rounding of the weights, of the transform (norm-wise) and of the sums.

use num_complex::Complex64;

use super::lattice::Lattice;
use super::spectrum::{Direct, Factor, Sweep, angle};
use super::tilt::{Window, log_peak};
use crate::engines::loss::ULP;
use crate::engines::rounding::CompensatedSum;

/// ln of a modulus that is negligible.
const NEGLIGIBLE: f64 = -56.0;
/// Relative error of a term due to its rotation (16 products of complex numbers, 3 roundings each,
/// and the first sine and cosine) and to the products with it.
const TURNED: f64 = 80.0 * ULP;

/// Error of a geometric series with its decay, relative to the series: the difference, its
/// reciprocal, two exponentials and two products, a few roundings each.
const SERIES: f64 = 32.0 * ULP;

/// Points times frequencies up to which direct evaluation is worthwhile.
const DIRECT_WORK: usize = 20_000_000;

/// Up to this many points, a transform is not worthwhile.
const FEW_POINTS: usize = 32;

/// Points times frequencies up to which every sine is computed directly.
const EXACT_WORK: usize = 1 << 20;

#[derive(Debug, Clone)]
struct Frequency {
    phi: Complex64,
    /// Bound on the error of `phi`.
    error: f64,
    /// 1 / (1 - e^(-λh + iz)) and the same with λ + 1.
    slow: Complex64,
    fast: Complex64,
}

/// A composition that can be evaluated.
#[derive(Debug, Clone)]
pub(super) struct Composed {
    step: f64,
    lambda: f64,
    /// K and a bound on its rounding error.
    log_k: f64,
    origin: f64,
    /// First index of the window.
    start: i64,
    period: i64,
    frequencies: Vec<Frequency>,
    /// Tilted mass outside the window.
    outside: f64,
    /// Error of c in the Euclidean norm.
    norm_error: f64,
    /// ln of the probability that no loss is infinite.
    log_finite: f64,
    /// Bound on the distance of the losses from their nominal positions.
    shift: f64,
}

/// The inputs of a composition.
pub(super) struct Recipe<'a> {
    pub(super) lattices: &'a [Lattice],
    pub(super) step: f64,
    pub(super) lambda: f64,
    pub(super) window: &'a Window,
    /// Number of points of the window, a power of two.
    pub(super) period: i64,
}

impl Composed {
    /// `None` if the frequencies cannot be computed with a proof at an affordable cost.
    #[allow(clippy::cast_possible_truncation, reason = "checked to be below 1e17")]
    pub(super) fn new(recipe: &Recipe<'_>) -> Option<Self> {
        let &Recipe {
            lattices,
            step,
            lambda,
            window,
            period,
        } = recipe;
        let sum =
            |f: &dyn Fn(&Lattice) -> f64| lattices.iter().map(|l| l.count * f(l)).sum::<f64>();
        let origin = sum(&|l| l.anchor);
        let middle = 0.5 * (window.low + window.high);
        let start = ((middle - origin) / step).round() - 0.5 * period as f64;
        if !(start.abs() < 1e17) {
            return None;
        }
        let directs: Vec<(Direct, f64)> =
            lattices.iter().map(|l| (Direct::new(l), l.count)).collect();
        let (factors, norm_error) = powers(&directs, period)?;
        let mut composed = Self {
            step,
            lambda,
            log_k: sum(&|l| l.log_m),
            origin,
            start: start as i64,
            period,
            frequencies: Vec::new(),
            outside: 0.0,
            norm_error,
            log_finite: sum(&|l| libm::log1p(-l.infinite.min(1.0))),
            shift: sum(&|l| l.shift) + 4.0 * ULP * (origin.abs() + middle.abs()),
        };
        composed.frequencies = composed.attach(factors);
        composed.outside = composed.mass_outside(lattices, window);
        Some(composed)
    }

    fn attach(&self, factors: Vec<(Complex64, f64)>) -> Vec<Frequency> {
        let series = |rate: f64, z: f64| {
            let half = libm::sin(0.5 * z);
            let decay = libm::exp(-rate * self.step);
            let re = -libm::expm1(-rate * self.step) + 2.0 * decay * half * half;
            Complex64::new(re, -decay * libm::sin(z)).inv()
        };
        let frequency = |(k, (phi, error)): (usize, (Complex64, f64))| {
            let z = angle(k as u64, 1, self.period);
            Frequency {
                phi,
                error,
                slow: series(self.lambda, z),
                fast: series(self.lambda + 1.0, z),
            }
        };
        factors.into_iter().enumerate().map(frequency).collect()
    }

    /// Chernoff's bound at the two tilts of the window.
    fn mass_outside(&self, lattices: &[Lattice], window: &Window) -> f64 {
        let log_mgf = |s: f64| {
            let terms = lattices.iter().map(|l| l.count * l.retilted(s, self.step));
            terms.sum::<f64>()
        };
        let low = self.loss(self.start);
        let high = self.loss(self.start + self.period - 1);
        let above = log_mgf(window.up) - window.up * high;
        let below = log_mgf(-window.down) + window.down * low;
        // The tilted masses need not add up to 1, so a bound above 1 is possible.
        let bound = |x: f64| {
            if x.is_nan() {
                f64::INFINITY
            } else {
                libm::exp(x + 1e-6)
            }
        };
        bound(above) + bound(below)
    }

    fn loss(&self, index: i64) -> f64 {
        self.origin + index as f64 * self.step
    }

    /// A lower and an upper bound on delta of the composition.
    pub(super) fn delta(&self, epsilon: f64) -> (f64, f64) {
        let infinite = -libm::expm1(self.log_finite);
        let (value, error) = self.finite_part(epsilon);
        let bound = |x: f64| (infinite + x).clamp(0.0, 1.0);
        (
            bound(value - error) * (1.0 - 4.0 * ULP),
            bound(value + error) * (1.0 + 4.0 * ULP),
        )
    }

    pub(super) const fn shift(&self) -> f64 {
        self.shift
    }

    /// E[(1 - e^(ε - L))_+ ; L finite] and a bound on its error.
    #[allow(clippy::cast_possible_truncation, reason = "clamped to the window")]
    fn finite_part(&self, epsilon: f64) -> (f64, f64) {
        let end = self.start + self.period;
        let place = ((epsilon - self.origin) / self.step).floor() + 1.0;
        let first = place.clamp(self.start as f64, end as f64) as i64;
        let log_scale = self.log_k - self.lambda * epsilon;
        let scale = libm::exp(log_scale);
        let relative = ULP * (16.0 + 2.0 * self.log_k.abs() + 2.0 * (self.lambda * epsilon).abs());
        let g_max = libm::exp(log_peak(self.lambda));
        let (sum, error) = if first < end {
            self.series(self.loss(first) - epsilon, first, end)
        } else {
            (0.0, 0.0)
        };
        let s = 2.0 * self.lambda;
        let norm = (2.0 / (s * (s + 1.0) * (s + 2.0)) / self.step + g_max * g_max).sqrt();
        let error = error + self.norm_error * norm + self.outside * g_max + relative * sum.abs();
        let (value, error) = (scale * sum.max(0.0), scale * error);
        if value.is_finite() && error.is_finite() && !sum.is_nan() {
            (value, error)
        } else {
            (0.0, f64::INFINITY)
        }
    }

    /// (1/N) Σ `Φ_k` `S_k` and a bound on its error.
    fn series(&self, theta: f64, first: i64, end: i64) -> (f64, f64) {
        let rest = theta + (end - first) as f64 * self.step;
        let decay = |x: f64| {
            let slow = libm::exp(-self.lambda * x);
            (slow, slow * libm::exp(-x))
        };
        let (head, tail) = (decay(theta), decay(rest));
        let (mut first_turn, mut end_turn) =
            (Turn::new(first, self.period), Turn::new(end, self.period));
        let (mut sum, mut error) = (CompensatedSum::default(), 0.0);
        for (k, f) in self.frequencies.iter().enumerate() {
            let inner = f.slow * head.0 - f.fast * head.1;
            let outer = f.slow * tail.0 - f.fast * tail.1;
            let s = first_turn.at(k) * inner - end_turn.at(k) * outer;
            let weight = if k == 0 || 2 * k as i64 == self.period {
                1.0
            } else {
                2.0
            };
            sum.add(weight * (f.phi * s).re);
            let size = inner.l1_norm() + outer.l1_norm();
            let rounding = TURNED * size + SERIES * (f.slow.l1_norm() + f.fast.l1_norm());
            error += weight * (f.error * size + f.phi.l1_norm() * rounding);
        }
        let n = self.period as f64;
        let sum = sum.total();
        (sum / n, (error * (1.0 + 1e-9) + ULP * sum.abs()) / n)
    }
}

/// e^(i k z) for k = 0, 1, 2, ..., computed directly at every sixteenth.
struct Turn {
    index: i64,
    period: i64,
    step: Complex64,
    now: Complex64,
}

impl Turn {
    fn new(index: i64, period: i64) -> Self {
        let (sin, cos) = libm::sincos(angle(1, index, period));
        Self {
            index,
            period,
            step: Complex64::new(cos, sin),
            now: Complex64::new(1.0, 0.0),
        }
    }

    fn at(&mut self, k: usize) -> Complex64 {
        if k.is_multiple_of(16) {
            let (sin, cos) = libm::sincos(angle(k as u64, self.index, self.period));
            self.now = Complex64::new(cos, sin);
        }
        let now = self.now;
        self.now *= self.step;
        now
    }
}

/// `Φ_k` with its error for the frequencies that matter, and the error in the Euclidean norm.
fn powers(directs: &[(Direct, f64)], period: i64) -> Option<(Vec<(Complex64, f64)>, f64)> {
    few_frequencies(directs, period).or_else(|| all_frequencies(directs, period))
}

/// The lowest frequencies one by one, with a proof that no other matters.
fn few_frequencies(directs: &[(Direct, f64)], period: i64) -> Option<(Vec<(Complex64, f64)>, f64)> {
    let by_count = |a: &usize, b: &usize| directs[*a].1.total_cmp(&directs[*b].1);
    let place = (0..directs.len()).max_by(by_count)?;
    let (dominant, count) = &directs[place];
    if *count < 64.0 {
        return None;
    }
    let points: usize = directs.iter().map(|d| d.0.len()).sum();
    let most = (DIRECT_WORK / points.max(1)).min(1 << 20);
    let mut sweeps: Vec<Sweep<'_>> = Vec::new();
    sweeps.extend(directs.iter().map(|(d, _)| Sweep::new(d, period)));
    let centre = centre(directs);
    let (mut others, mut out) = (0.0, Vec::new());
    for k in 0..=most as u64 {
        if 2 * k as i64 > period {
            return Some((out, 0.0));
        }
        let factors: Vec<Factor> = sweeps.iter_mut().map(Sweep::advance).collect();
        if k == 0 {
            let totals = directs.iter().zip(&factors);
            others = totals.map(|((_, n), f)| n * f.log.max(0.0)).sum();
        }
        let mut product = Factor::turned(-angle(k, centre, period));
        for ((_, n), factor) in directs.iter().zip(&factors) {
            product.times(factor, *n);
        }
        out.push(product.value());
        if count * factors[place].log + others < NEGLIGIBLE - 2.0 {
            let z = angle(k, 1, period);
            return dominant
                .stays_below(*count, NEGLIGIBLE, z)
                .then_some((out, libm::exp(NEGLIGIBLE + others)));
        }
    }
    None
}

/// Every frequency up to the last that matters, by transforms.
fn all_frequencies(directs: &[(Direct, f64)], period: i64) -> Option<(Vec<(Complex64, f64)>, f64)> {
    let n = usize::try_from(period).ok().filter(|n| *n <= 1 << 20)?;
    let centre = centre(directs);
    let turned = |k: usize| Factor::turned(-angle(k as u64, centre, period));
    let mut products: Vec<Factor> = (0..=n / 2).map(turned).collect();
    let mut norm_error = 0.0;
    for (direct, count) in directs {
        let mut include = |k: usize, factor: &Factor| products[k].times(factor, *count);
        if direct.len() <= FEW_POINTS && direct.len() * n <= EXACT_WORK {
            (0..=n / 2).for_each(|k| include(k, &direct.at(k as u64, period)));
        } else if direct.len() <= FEW_POINTS {
            let mut sweep = Sweep::new(direct, period);
            (0..=n / 2).for_each(|k| include(k, &sweep.advance()));
        } else {
            let (factors, error) = direct.transform(n);
            factors.iter().enumerate().for_each(|(k, f)| include(k, f));
            norm_error += count * error;
        }
    }
    let mut out: Vec<(Complex64, f64)> = products.iter().map(Factor::value).collect();
    let negligible = libm::exp(NEGLIGIBLE);
    let counts = |(phi, error): &(Complex64, f64)| !(phi.l1_norm() + error <= negligible);
    out.truncate(1 + out.iter().rposition(counts).unwrap_or(0));
    Some((out, norm_error + negligible))
}

/// The index at the centre of the composition, modulo 2^64 and therefore modulo the period.
#[allow(clippy::cast_possible_truncation, reason = "counts are below 2^53")]
fn centre(directs: &[(Direct, f64)]) -> i64 {
    let one = |(direct, count): &(Direct, f64)| direct.centre.wrapping_mul(*count as i64);
    directs.iter().map(one).fold(0, i64::wrapping_add)
}
