//! One privacy loss under the exponential tilt e^{cL}, and its characteristic function.

use num_complex::Complex64;

use super::nodes::Nodes;
use crate::engines::loss::Loss;
use crate::engines::rounding::{CompensatedSum, accurate_sum};

/// Cumulants of the loss under the tilt, for one run.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Cumulants {
    /// K(c), the logarithm of the mean of e^{cL} over finite L.
    pub(super) log_mgf: f64,
    /// K'(c), the mean.
    pub(super) mean: f64,
    /// K''(c), the variance.
    pub(super) variance: f64,
    /// Fourth central moment.
    pub(super) fourth: f64,
    /// Mean absolute deviation; 0 if nothing is summed.
    pub(super) absolute: f64,
    /// Bound on the error of `log_mgf`, in units of rounding.
    pub(super) rounding: f64,
}

/// Steps of a recurrence between two fresh starts.
pub(super) const RESTART: usize = 32;

/// A loss with probabilities proportional to e^{cL}, given by nodes or in closed form.
#[derive(Debug, Clone)]
pub(super) struct Tilted {
    pub(super) cumulants: Cumulants,
    /// Deviations from the mean and their probabilities; empty for the Gaussian.
    deviations: Vec<f64>,
    probabilities: Vec<f64>,
}

impl Tilted {
    /// The tilted loss, from `nodes` unless it is Gaussian; `None` if there are no nodes or the
    /// moment generating function is beyond f64.
    pub(super) fn new(loss: &Loss, nodes: Option<&Nodes>, c: f64) -> Option<Self> {
        if let &Loss::Gaussian { mu_squared } = loss {
            return Some(Self::gaussian(mu_squared, c));
        }
        Self::from_nodes(nodes?, c)
    }

    fn gaussian(mu_squared: f64, c: f64) -> Self {
        Self {
            cumulants: Cumulants {
                log_mgf: 0.5 * mu_squared * c * (c + 1.0),
                mean: mu_squared * (c + 0.5),
                variance: mu_squared,
                fourth: 3.0 * mu_squared * mu_squared,
                absolute: 0.0,
                rounding: 2.0 * mu_squared * c * (c + 1.0),
            },
            deviations: Vec::new(),
            probabilities: Vec::new(),
        }
    }

    fn from_nodes(nodes: &Nodes, c: f64) -> Option<Self> {
        let fits = c * nodes.largest < PLAIN && nodes.lightest > -2.0 * PLAIN;
        let (mut probabilities, log_mgf, rounding) = if fits {
            plain(nodes, c)
        } else {
            scaled(nodes, c)
        };
        let total = accurate_sum(probabilities.iter().copied());
        probabilities.iter_mut().for_each(|p| *p /= total);
        let mean = dot(&probabilities, &nodes.loss);
        let deviations: Vec<f64> = nodes.loss.iter().map(|l| l - mean).collect();
        let mut cumulants = Cumulants {
            log_mgf,
            mean,
            rounding,
            ..Cumulants::default()
        };
        for (p, d) in probabilities.iter().zip(&deviations) {
            let square = d * d;
            cumulants.variance += p * square;
            cumulants.fourth += p * square * square;
            cumulants.absolute += p * d.abs();
        }
        cumulants.log_mgf.is_finite().then_some(Self {
            cumulants,
            deviations,
            probabilities,
        })
    }

    /// Whether the characteristic function is known in closed form.
    pub(super) fn is_gaussian(&self) -> bool {
        self.deviations.is_empty()
    }

    /// ln E[e^{it(L - mean)}] under the tilt at t = 0, h, 2h, ..., multiplied by `count` and
    /// added to `sums`.
    ///
    /// Each node contributes e^{itd} - 1, which is advanced by e^{ihd} - 1 and recomputed directly
    /// every [`RESTART`] steps. The sum is the characteristic function minus 1 without
    /// cancellation.
    pub(super) fn add_log_characteristic(&self, h: f64, count: f64, sums: &mut [Complex64]) {
        if self.is_gaussian() {
            for (k, sum) in sums.iter_mut().enumerate() {
                let t = h * k as f64;
                *sum -= 0.5 * count * self.cumulants.variance * t * t;
            }
            return;
        }
        let mut excess = vec![(0.0, 0.0); sums.len()];
        let lanes = self.deviations.chunks(LANES);
        for (d, p) in lanes.zip(self.probabilities.chunks(LANES)) {
            add_excess(d, p, h, &mut excess);
        }
        for (sum, (re, im)) in sums.iter_mut().zip(excess) {
            *sum += ln_1p(Complex64::new(re, im)) * count;
        }
    }

    /// E[e^{it(L - mean)}] - 1 under the tilt, for a loss that is not Gaussian.
    pub(super) fn characteristic_less_one(&self, t: f64) -> Complex64 {
        (self.deviations.iter().zip(&self.probabilities))
            .map(|(d, p)| expm1_i(t * d) * *p)
            .sum()
    }

    /// Number of nodes.
    pub(super) fn n_nodes(&self) -> usize {
        self.deviations.len()
    }
}

/// Exponents up to this size need no scaling.
const PLAIN: f64 = 300.0;

/// Weights times e^{cL}, and K(c) with the bound on its error. Relative to K, this error is due to
/// cancellation in the sum of w (e^{cL} - 1). The relative error of a term is four units of the
/// components of its exponents, where the exponent of the noise is at most |ln w| + |L|.
fn plain(nodes: &Nodes, c: f64) -> (Vec<f64>, f64, f64) {
    let (mut excess, mut rounding) = (CompensatedSum::default(), 0.0);
    let tilted: Vec<f64> = (nodes.loss.iter().zip(&nodes.weight).zip(&nodes.log_weight))
        .map(|((l, w), log_weight)| {
            let more = w * libm::expm1(c * l);
            excess.add(more);
            rounding += more.abs() * (16.0 + 4.0 * (log_weight.abs() + (c + 2.0) * l.abs()));
            w + more
        })
        .collect();
    let excess = excess.total();
    let total = 1.0 + excess + nodes.missing();
    let log_mgf = libm::log1p(excess + nodes.missing());
    (tilted, log_mgf, rounding / total + 4.0 * log_mgf.abs())
}

/// Like [`plain`], for exponents of any size: everything is relative to the largest. The error of a
/// term is four units of the components of its exponent.
fn scaled(nodes: &Nodes, c: f64) -> (Vec<f64>, f64, f64) {
    let terms = || nodes.loss.iter().zip(&nodes.log_weight);
    let exponents: Vec<f64> = terms().map(|(l, w)| w + c * l).collect();
    let top = exponents.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let tilted: Vec<f64> = exponents.iter().map(|e| libm::exp(e - top)).collect();
    let total = accurate_sum(tilted.iter().copied());
    let log_mgf = top + libm::log(total);
    let off = |(t, (l, w)): (&f64, (&f64, &f64))| t * (w.abs() + (c + 2.0) * l.abs());
    let rounding = tilted.iter().zip(terms()).map(off).sum::<f64>() / total;
    (
        tilted,
        log_mgf,
        16.0 + 4.0 * rounding + 4.0 * top.abs() + 4.0 * log_mgf.abs(),
    )
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// Number of nodes advanced in parallel.
pub(super) const LANES: usize = 4;

/// Adds Σ p (e^{ikhd} - 1) to `excess[k]`, for at most [`LANES`] nodes.
fn add_excess(d: &[f64], p: &[f64], h: f64, excess: &mut [(f64, f64)]) {
    let (mut turn_re, mut turn_im) = ([0.0; LANES], [0.0; LANES]);
    let (mut step_re, mut step_im) = ([0.0; LANES], [0.0; LANES]);
    for (i, (d, p)) in d.iter().zip(p).enumerate() {
        let turn = expm1_i(h * d);
        (turn_re[i], turn_im[i]) = (turn.re, turn.im);
        (step_re[i], step_im[i]) = (p * turn.re, p * turn.im);
    }
    for (block, places) in excess.chunks_mut(RESTART).enumerate() {
        let (mut re, mut im) = ([0.0; LANES], [0.0; LANES]);
        for (i, (d, p)) in d.iter().zip(p).enumerate() {
            let start = expm1_i(h * (block * RESTART) as f64 * d);
            (re[i], im[i]) = (p * start.re, p * start.im);
        }
        for place in places {
            place.0 += (re[0] + re[1]) + (re[2] + re[3]);
            place.1 += (im[0] + im[1]) + (im[2] + im[3]);
            for i in 0..LANES {
                let turned_re = turn_re[i] * re[i] - turn_im[i] * im[i];
                let turned_im = turn_re[i] * im[i] + turn_im[i] * re[i];
                re[i] += step_re[i] + turned_re;
                im[i] += step_im[i] + turned_im;
            }
        }
    }
}

/// e^{ix} - 1.
fn expm1_i(x: f64) -> Complex64 {
    let half = libm::sin(0.5 * x);
    Complex64::new(-2.0 * half * half, libm::sin(x))
}

/// ln(1 + z), with an error of at most 8 |z| / |1 + z| and 6 |ln(1 + z)| units of rounding. Far
/// from 0 it is computed from 1 + z itself, because |1 + z|² - 1 has no digits left if that is
/// close to -1.
pub(super) fn ln_1p(z: Complex64) -> Complex64 {
    let near = Complex64::new(1.0 + z.re, z.im);
    let modulus = if z.norm_sqr() <= 0.25 {
        libm::log1p(z.re * (2.0 + z.re) + z.im * z.im)
    } else {
        libm::log(near.norm_sqr())
    };
    Complex64::new(0.5 * modulus, libm::atan2(near.im, near.re))
}
