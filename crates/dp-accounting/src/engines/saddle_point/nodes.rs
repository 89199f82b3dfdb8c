//! A privacy loss as a weighted sum of point masses that has the same moment generating function.
//!
//! ```text
//! E_P[e^{zL}] = Σ_i w_i e^{z l_i},   z = c + it
//! ```
//!
//! for every |t| up to the bound that the nodes were computed for, up to an error of e^-exponent
//! times its value at t = 0. Losses with atoms are their own nodes; smooth ones are integrated by a
//! rule whose error is bounded below.

use crate::engines::loss::{Loss, MixtureLoss, Side};
use crate::engines::quadrature::panels;

/// If more nodes than this are needed, the loss is left to another method.
pub(super) const MAX_NODES: usize = 20_000;

/// Up to this many nodes, a loss keeps its whole range, so that they are valid for every smaller c.
const KEEP_ALL: usize = 1_500;

/// The requirements for the nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Demand {
    /// Real part of z.
    pub(super) c: f64,
    /// Largest imaginary part of z.
    pub(super) t: f64,
    /// Minus the logarithm of the allowed error, relative to the value at t = 0.
    pub(super) exponent: f64,
}

/// Exponent for a loss that is composed `count` times: all runs together have an error of 6e-17.
pub(super) fn exponent(count: u64) -> f64 {
    37.5 + libm::log(count as f64)
}

/// Point masses: a loss and the logarithm of its weight under P.
#[derive(Debug, Clone, Default)]
pub(super) struct Nodes {
    pub(super) loss: Vec<f64>,
    pub(super) log_weight: Vec<f64>,
    /// The weights themselves.
    pub(super) weight: Vec<f64>,
    /// Probability of an infinite loss.
    pub(super) infinite_mass: f64,
    /// Largest loss in absolute value.
    pub(super) largest: f64,
    /// Smallest logarithm of a weight.
    pub(super) lightest: f64,
    /// Whether nodes that matter at other c than the requested one were omitted.
    is_pruned: bool,
}

impl Nodes {
    fn push(&mut self, loss: f64, log_weight: f64) {
        self.loss.push(loss);
        self.log_weight.push(log_weight);
    }

    /// Computes what follows from losses and logarithms of weights.
    fn finish(mut self) -> Self {
        self.weight = self.log_weight.iter().map(|w| libm::exp(*w)).collect();
        self.largest = self.loss.iter().fold(0.0, |top, l| f64::max(top, l.abs()));
        self.lightest = self.log_weight.iter().copied().fold(0.0, f64::min);
        self
    }

    /// Total weight minus 1: minus the probability of an infinite loss. Without an infinite loss
    /// the total is 1 except for rounding.
    pub(super) fn missing(&self) -> f64 {
        -self.infinite_mass
    }

    pub(super) fn len(&self) -> usize {
        self.loss.len()
    }

    /// Whether these nodes are valid for every c up to the one that they were computed for, and few
    /// enough for that.
    pub(super) fn serve_smaller(&self) -> bool {
        !self.is_pruned && self.len() <= KEEP_ALL
    }

    /// The nodes of `loss`; `None` if there are none that are known to be accurate enough.
    pub(super) fn of(loss: &Loss, demand: Demand) -> Option<Self> {
        let nodes = match loss {
            Loss::Gaussian { .. } | Loss::WithoutReplacement { .. } => return None,
            Loss::Finite(finite) => {
                let mut nodes = Self::default();
                for (value, p) in &finite.atoms {
                    nodes.push(*value, libm::log(*p));
                }
                nodes.infinite_mass = finite.infinite_mass;
                nodes
            }
            &Loss::Laplace { epsilon } => laplace(epsilon, demand),
            &Loss::BoundedRange { epsilon } => bounded_range(epsilon, demand),
            &Loss::SampledLaplace { epsilon, q, side } => sampled_laplace(epsilon, q, side, demand),
            &Loss::DiscreteGaussian { sigma, sensitivity } => {
                discrete_gaussian(sigma, sensitivity as f64, demand)?
            }
            Loss::Mixture(mixture_loss) => mixture(mixture_loss, demand)?,
        };
        (nodes.len() <= MAX_NODES && nodes.loss.iter().all(|l| l.is_finite()))
            .then(|| nodes.finish())
    }
}

/// Atoms at both ends and the density e^((l - epsilon)/2) / 4 between them.
fn laplace(epsilon: f64, demand: Demand) -> Nodes {
    let mut nodes = Nodes::default();
    nodes.push(epsilon, libm::log(0.5));
    nodes.push(-epsilon, libm::log(0.5) - epsilon);
    let rate = demand.c + demand.t + 1.0;
    for (l, w) in panels(-epsilon, epsilon, rate, MAX_NODES) {
        nodes.push(l, libm::log(0.25 * w) + 0.5 * (l - epsilon));
    }
    nodes
}

/// The density e^((epsilon + l)/2) / (2 (e^epsilon - 1)).
fn bounded_range(epsilon: f64, demand: Demand) -> Nodes {
    let mut nodes = Nodes::default();
    let scale = libm::log(2.0) + epsilon + libm::log(-libm::expm1(-epsilon));
    for (l, w) in panels(-epsilon, epsilon, demand.c + demand.t + 1.0, MAX_NODES) {
        nodes.push(l, libm::log(w) + 0.5 * (epsilon + l) - scale);
    }
    nodes
}

/// The Laplace pair at x in units of the sensitivity: noise density epsilon e^(-epsilon |x|) / 2,
/// mixture weights 1-q at 0 and q at 1. Outside the kinks the loss is constant.
fn sampled_laplace(epsilon: f64, q: f64, side: Side, demand: Demand) -> Nodes {
    let base = |x: f64, at: f64| epsilon * ((x).abs() - (x - at).abs());
    let ratio = |x: f64, at: f64| libm::log1p(q * libm::expm1(base(x, at)));
    let loss = |x: f64| match side {
        Side::Remove => ratio(x, 1.0),
        Side::Add => -ratio(x, 1.0),
        Side::Replace => ratio(x, 1.0) - ratio(x, -1.0),
    };
    let log_density = |x: f64| {
        let noise = libm::log(0.5 * epsilon) - epsilon * x.abs();
        match side {
            Side::Add => noise,
            Side::Remove | Side::Replace => noise + ratio(x, 1.0),
        }
    };
    let kinks: &[f64] = match side {
        Side::Replace => &[-1.0, 0.0, 1.0],
        Side::Remove | Side::Add => &[0.0, 1.0],
    };
    let mut nodes = Nodes::default();
    let (first, last) = (kinks[0], kinks[kinks.len() - 1]);
    // beyond the outer kinks the density is exponential with rate epsilon
    nodes.push(loss(first), log_density(first) - libm::log(epsilon));
    nodes.push(loss(last), log_density(last) - libm::log(epsilon));
    let rate = epsilon * sampled_rate(demand.c, demand.t);
    for ends in kinks.windows(2) {
        for (x, w) in panels(ends[0], ends[1], rate, MAX_NODES) {
            nodes.push(loss(x), libm::log(w) + log_density(x));
        }
    }
    nodes
}

/// Atoms x of P = discrete Gaussian at s, loss (2 s x - s^2) / (2 sigma^2), truncated where the
/// omitted part is below e^-exponent of the whole, both under P and tilted by e^{cL}.
fn discrete_gaussian(sigma: f64, s: f64, demand: Demand) -> Option<Nodes> {
    let reach = (2.0 * (demand.exponent + 6.0)).sqrt() * sigma + 2.0;
    let (low, high) = ((s - reach).floor(), (s * (1.0 + demand.c) + reach).ceil());
    if high - low > MAX_NODES as f64 {
        return None;
    }
    let variance = sigma * sigma;
    let mut nodes = Nodes::default();
    let mut x = low;
    while x <= high {
        nodes.push(
            s * (x - 0.5 * s) / variance,
            -0.5 * (x - s) * (x - s) / variance,
        );
        x += 1.0;
    }
    let total: f64 = nodes.log_weight.iter().map(|w| libm::exp(*w)).sum();
    let log_total = libm::log(total);
    nodes.log_weight.iter_mut().for_each(|w| *w -= log_total);
    Some(nodes)
}

/// The rate, in units of epsilon, of (1 - q + q e^l)^z e^(-epsilon x) with l = epsilon (2 x - 1).
///
/// On the ellipse l moves by |v| <= 80/rate <= 2, so its imaginary part β stays below 2. There the
/// modulus of 1 - q + q e^l is at least cos(β/2) times that of its real counterpart and its
/// argument at most β, and it grows at most like e^|Re v|: in total the integrand grows by less
/// than exp((t + c + 2) |v|) <= e^40.
fn sampled_rate(c: f64, t: f64) -> f64 {
    (2.0 * (c + t + 2.0)).max(40.0)
}

/// Maximum number of candidates examined.
const MAX_CANDIDATES: f64 = 2e5;

/// Trapezoidal nodes for a mixture of normals; `None` if there would be too many.
///
/// With x = σ y the integrand N(y) M(x)^p ... is analytic in a strip. On the line Im y = b let
/// β = b s/σ, s the largest shift: |N| grows by e^(b²/2), |M| does not grow and shrinks at most by
/// cos(β/2) (all its terms lie within a cone of opening β), and |arg M| <= β. So |integrand| is
/// at most e^(b²/2 + τ b) cos(β/2)^-n times its value on the real line, τ = t s/σ (twice that for
/// replacement) and n the negative power of M. Two such lines bound the error of the trapezoidal
/// rule with step h, relative to the integral at t = 0, by
///
/// ```text
/// 2 exp(b²/2 + τ b - n ln cos(β/2)) / (exp(2 π b / h) - 1)
/// ```
///
/// (Trefethen, Weideman, The exponentially convergent trapezoidal rule, 2014, Theorem 5.1).
fn mixture(mixture: &MixtureLoss, demand: Demand) -> Option<Nodes> {
    let step = mixture.sigma * step(mixture, demand);
    let (low, high) = range(mixture, demand);
    // the omitted part, tilted or not, is below e^-negligible of the largest
    let negligible = demand.exponent + 6.0;
    let (first, last) = ((low / step).floor(), (high / step).ceil());
    let candidates = last - first;
    if !candidates.is_finite() || candidates > MAX_CANDIDATES {
        return None;
    }
    let log_step = libm::log(step / mixture.sigma);
    let mut all = Nodes::default();
    let (mut top, mut k) = (f64::NEG_INFINITY, first);
    while k <= last {
        let x = k * step;
        let (loss, log_weight) = (mixture.loss_at(x), mixture.log_density(x) + log_step);
        top = top.max(log_weight + demand.c * loss);
        all.push(loss, log_weight);
        k += 1.0;
    }
    if all.len() <= KEEP_ALL {
        return Some(all);
    }
    let mut nodes = Nodes {
        is_pruned: true,
        ..Nodes::default()
    };
    for (&loss, &log_weight) in all.loss.iter().zip(&all.log_weight) {
        let tilted = log_weight + demand.c * loss;
        if log_weight > -negligible || tilted > top - negligible {
            nodes.push(loss, log_weight);
        }
    }
    (nodes.len() <= MAX_NODES).then_some(nodes)
}

/// The step in y, from the best of a few strips.
fn step(mixture: &MixtureLoss, demand: Demand) -> f64 {
    let shift = mixture.largest_shift() / mixture.sigma;
    let (negative_power, phases) = match mixture.side {
        Side::Remove => (0.0, 1.0),
        Side::Add => (demand.c, 1.0),
        Side::Replace => (demand.c, 2.0),
    };
    let widest = (0.98 * std::f64::consts::PI / shift).min(9.0);
    let strips = (1..=48).map(|i| widest * f64::from(i) / 48.0);
    let frequency = strips
        .map(|b| {
            let shrink = -negative_power * libm::log(libm::cos(0.5 * b * shift));
            (demand.exponent + 1.0 + 0.5 * b * b + shrink) / b
        })
        .fold(f64::INFINITY, f64::min);
    2.0 * std::f64::consts::PI / (frequency + phases * demand.t * shift)
}

/// The range that contains the tilted integrand; the rest is below e^-exponent of the whole.
///
/// By convexity, with r the likelihood ratios of the components and s their shifts,
///
/// ```text
/// M(x)^(c+1) <= Σ w r(x)^(c+1)                          and N r^(c+1) is a normal at (c+1) s
/// M(x)^(c+1) M(-x)^-c <= Σ w r(x)^(c+1) r(-x)^-c        and N times that one at (2c+1) s
/// M(x)^-c <= (weight at 0)^-c                           where the first shift is 0
/// ```
pub(super) fn range(mixture: &MixtureLoss, demand: Demand) -> (f64, f64) {
    let (sigma, shift, c) = (mixture.sigma, mixture.largest_shift(), demand.c);
    let reach = (2.0 * (demand.exponent + 4.0)).sqrt();
    match mixture.side {
        Side::Remove => (-reach * sigma, (c + 1.0) * shift + reach * sigma),
        Side::Replace => (-reach * sigma, (2.0 * c + 1.0) * shift + reach * sigma),
        Side::Add => {
            let far = c * shift + reach * sigma;
            let floor = if mixture.shifts.first() == Some(&0.0) {
                -libm::log(mixture.weights[0])
            } else {
                f64::INFINITY
            };
            let near = sigma * (reach * reach + 2.0 * c * floor).sqrt();
            (-far.min(near), reach * sigma)
        }
    }
}
