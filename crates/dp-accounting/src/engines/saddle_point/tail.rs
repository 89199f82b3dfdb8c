//! A bound on the part of the inversion integral that is not summed.

use num_complex::Complex64;

use super::nodes::{Demand, Nodes};
use super::tilted::Tilted;
use super::windows::Windows;
use crate::engines::loss::Loss;

/// One loss of the composition, with bounds on its characteristic function.
struct Factor<'a> {
    loss: &'a Loss,
    count: f64,
    tilted: &'a Tilted,
    windows: Option<Windows>,
    /// Tilted nodes that are valid for larger t, created when needed.
    finer: Option<(f64, Tilted)>,
    /// Whether there are no nodes that are fine enough.
    blocked: bool,
}

/// A logarithm of the product below which the rest no longer matters.
const GONE: f64 = -38.0;

/// If atoms prevent the product from becoming that small, an error of this relative size, as a
/// logarithm, is still better than that of another method.
const PASSABLE: f64 = -18.0;

/// The fraction of its limit that a product is followed to.
const MOSTLY: f64 = 0.9;

/// Cells are refined until the product is below this, as a logarithm.
const SMALL: f64 = -33.0;

/// Smallest width of a cell relative to its start.
const SMALLEST: f64 = 1.0 / 256.0;

/// Maximum number of cells tried.
const MAX_CELLS: usize = 2_000;

/// Maximum number of nodes evaluated in all cells together: a few tenths of a second.
const MAX_WORK: usize = 10_000_000;

/// Additional number per loss.
const MAX_WORK_EACH: usize = 20_000;

/// Returns a bound on the sum of h Π |ψ(t)|^n / t² over the grid points t of spacing h beyond `t0`,
/// where ψ are the characteristic functions of the losses tilted by e^{cL} and n their counts;
/// `None` if none is found. `gone` is the result of [`floor`]. A cell from a to b contains at most
/// (b - a)/h + 1 of the points.
///
/// From some t2 on, every factor is bounded for all larger t, by [`Windows`] or, for a Gaussian, in
/// closed form. Up to t2 the integral is divided into cells, and in each a factor is at most the
/// smallest of 1, the bounds that hold from the cell's start on, the quartic bound
///
/// ```text
/// |ψ(t)|² = E[cos(t (L - L'))] <= 1 - t² V + t⁴ (2 m4 + 6 V²) / 24
/// ```
///
/// (V variance, m4 fourth central moment, L' an independent copy) and its value at the midpoint
/// plus half the cell's width w times the largest slope there. By the Cauchy-Schwarz inequality
/// |ψ'(t)| = |E[D (e^{itD} - 1)]| <= √V √(2 - 2 Re ψ(t)) for the centred D, and by Minkowski's inequality the second
/// root increases by at most √V w/2 from the midpoint on.
pub(super) fn bound(
    losses: &[(Loss, u64, Tilted)],
    c: f64,
    t0: f64,
    h: f64,
    gone: f64,
) -> Option<f64> {
    let small = gone + (SMALL - GONE);
    let mut factors: Vec<Factor<'_>> = losses
        .iter()
        .map(|(loss, count, tilted)| Factor::new(loss, *count as f64, tilted))
        .collect();
    let end = |factors: &[Factor<'_>], steps: i32| {
        (0..steps)
            .map(|k| t0 * 1.25_f64.powi(k))
            .find(|t| log_product(factors, |f| f.from(*t)) <= gone)
    };
    let t2 = if let Some(t2) = end(&factors, 14) {
        t2
    } else {
        factors.iter_mut().for_each(|factor| factor.open_windows(c));
        end(&factors, 80)?
    };
    let mut total = libm::exp(log_product(&factors, |f| f.from(t2))) * (1.0 / t2 + h / (t2 * t2));
    let (mut a, mut growth, mut work) = (t0, 1.0 / 16.0, 0);
    for _ in 0..MAX_CELLS {
        if a >= t2 {
            return Some(total);
        }
        let b = (a * (1.0 + growth)).min(t2);
        let mut product = log_product(&factors, |f| f.cheap(a, b));
        if product > gone {
            product = factors
                .iter_mut()
                .map(|f| f.count * f.within(a, b, c))
                .sum();
            work += factors.iter().map(Factor::n_nodes).sum::<usize>();
            if work > MAX_WORK + MAX_WORK_EACH * losses.len() {
                return None;
            }
        }
        if product > small && growth <= SMALLEST && factors.iter().any(|f| f.blocked) {
            return None;
        }
        if product > small && growth > SMALLEST {
            growth *= 0.5;
            continue;
        }
        total += libm::exp(product) * (b - a + h) / (a * a);
        let easy = product < 1.4 * small;
        growth = if easy {
            (growth * 1.6).min(0.25)
        } else {
            growth
        };
        a = b;
    }
    None
}

/// The intervals where one tilted loss is smooth.
fn windows(loss: &Loss, tilted: &Tilted, c: f64) -> Windows {
    let demand = Demand {
        c,
        t: 0.0,
        exponent: 40.0,
    };
    Windows::new(loss, demand, tilted.cumulants.log_mgf)
}

/// The logarithm down to which the product of the characteristic functions may be followed; `None`
/// if it never becomes small.
pub(super) fn floor(losses: &[(Loss, u64, Tilted)], c: f64) -> Option<f64> {
    let mut limit = 0.0;
    for (loss, count, tilted) in losses {
        if tilted.is_gaussian() {
            return Some(GONE);
        }
        limit += *count as f64 * windows(loss, tilted, c).log_rest();
        if MOSTLY * limit < GONE {
            return Some(GONE);
        }
    }
    (MOSTLY * limit < PASSABLE).then_some(MOSTLY * limit)
}

fn log_product(factors: &[Factor<'_>], log_modulus: impl Fn(&Factor<'_>) -> f64) -> f64 {
    factors.iter().map(|f| f.count * log_modulus(f)).sum()
}

impl<'a> Factor<'a> {
    fn new(loss: &'a Loss, count: f64, tilted: &'a Tilted) -> Self {
        Self {
            loss,
            count,
            tilted,
            windows: None,
            finer: None,
            blocked: false,
        }
    }

    /// Computes the windows.
    fn open_windows(&mut self, c: f64) {
        if !self.tilted.is_gaussian() {
            self.windows = Some(windows(self.loss, self.tilted, c));
        }
    }

    fn n_nodes(&self) -> usize {
        self.finer
            .as_ref()
            .map_or(0, |(_, tilted)| tilted.n_nodes())
    }

    /// ln of a bound for all u >= t.
    fn from(&self, t: f64) -> f64 {
        if self.tilted.is_gaussian() {
            return -0.5 * self.tilted.cumulants.variance * t * t;
        }
        self.windows
            .as_ref()
            .map_or(0.0, |windows| windows.log_modulus_from(t))
    }

    /// ln of a bound on [a, b] that does not evaluate nodes.
    fn cheap(&self, a: f64, b: f64) -> f64 {
        if self.tilted.is_gaussian() {
            return self.from(a);
        }
        let cumulants = self.tilted.cumulants;
        let spread = 2.0 * cumulants.fourth + 6.0 * cumulants.variance * cumulants.variance;
        let squared_less_one = |t: f64| {
            let square = t * t;
            -square * (cumulants.variance - square * spread / 24.0)
        };
        let quartic = squared_less_one(a).max(squared_less_one(b));
        let quartic = if quartic < 0.0 {
            0.5 * libm::log1p(quartic.max(-1.0 + 1e-12))
        } else {
            0.0
        };
        quartic.min(self.from(a))
    }

    /// ln of a bound on [a, b], using nodes if there are any that are fine enough.
    fn within(&mut self, a: f64, b: f64, c: f64) -> f64 {
        let cheap = self.cheap(a, b);
        if self.tilted.is_gaussian() || self.blocked {
            return cheap;
        }
        let Some((value, error)) = self.characteristic(0.5 * (a + b), c) else {
            self.blocked = true;
            return cheap;
        };
        let wander = 0.5 * (b - a) * self.tilted.cumulants.variance.sqrt();
        let slope = (-2.0 * value.re + 2.0 * error).max(0.0).sqrt() + wander;
        let modulus_less_one = {
            let square = value.re * (2.0 + value.re) + value.im * value.im;
            square / (1.0 + (1.0 + square).max(0.0).sqrt())
        };
        let bound = modulus_less_one + wander * slope + error;
        cheap.min(libm::log1p(bound.clamp(-1.0, 0.0)))
    }

    /// ψ(t) - 1 and its error, with nodes fine enough for t.
    fn characteristic(&mut self, t: f64, c: f64) -> Option<(Complex64, f64)> {
        let exponent = 8.0 + libm::log(self.count);
        if self.finer.as_ref().is_none_or(|(good, _)| *good < t) {
            let demand = Demand {
                c,
                t: 1.25 * t,
                exponent,
            };
            let nodes = Nodes::of(self.loss, demand)?;
            self.finer = Some((demand.t, Tilted::new(self.loss, Some(&nodes), c)?));
        }
        let error = 2.0 * libm::exp(-exponent);
        (self.finer.as_ref()).map(|(_, tilted)| (tilted.characteristic_less_one(t), error))
    }
}
