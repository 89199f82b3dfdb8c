//! A privacy loss as a weighted sum of point masses that has the same moment generating function.
//!
//! ```text
//! E_P[e^{zL}] = Σ_i w_i e^{z l_i},   z = c + it
//! ```
//!
//! for every |t| up to the bound that the nodes were made for, up to an error of e^-exponent
//! times its value at t = 0. Losses with atoms are their own nodes; smooth ones are integrated by a rule whose error
//! is bounded below.

use super::legendre;
use super::mixture_nodes;
use crate::engines::loss::{Loss, Side};

/// More nodes than this and the loss is left to another method.
pub(super) const MAX_NODES: usize = 20_000;

/// What the nodes must be good for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Demand {
    /// Real part of z.
    pub(super) c: f64,
    /// Largest imaginary part of z.
    pub(super) t: f64,
    /// Minus the logarithm of the error allowed, relative to the value at t = 0.
    pub(super) exponent: f64,
}

/// Exponent for a loss that is composed `count` times: all runs together are off by 6e-17.
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
}

impl Nodes {
    pub(super) fn push(&mut self, loss: f64, log_weight: f64) {
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

    /// Total weight less 1: minus the probability of an infinite loss. Without one the total is 1 but
    /// for rounding.
    pub(super) fn missing(&self) -> f64 {
        -self.infinite_mass
    }

    pub(super) fn len(&self) -> usize {
        self.loss.len()
    }

    /// The nodes of `loss`, `None` where it has none that are known to be good enough.
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
            Loss::Mixture(mixture) => mixture_nodes::of(mixture, demand, MAX_NODES)?,
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
    for (l, w) in legendre::panels(-epsilon, epsilon, rate) {
        nodes.push(l, libm::log(0.25 * w) + 0.5 * (l - epsilon));
    }
    nodes
}

/// The density e^((epsilon + l)/2) / (2 (e^epsilon - 1)).
fn bounded_range(epsilon: f64, demand: Demand) -> Nodes {
    let mut nodes = Nodes::default();
    let scale = libm::log(2.0) + epsilon + libm::log(-libm::expm1(-epsilon));
    for (l, w) in legendre::panels(-epsilon, epsilon, demand.c + demand.t + 1.0) {
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
    // Beyond the outer kinks the density is exponential with rate epsilon.
    nodes.push(loss(first), log_density(first) - libm::log(epsilon));
    nodes.push(loss(last), log_density(last) - libm::log(epsilon));
    let rate = epsilon * legendre::sampled_rate(demand.c, demand.t);
    for ends in kinks.windows(2) {
        for (x, w) in legendre::panels(ends[0], ends[1], rate) {
            nodes.push(loss(x), libm::log(w) + log_density(x));
        }
    }
    nodes
}

/// Atoms x of P = discrete Gaussian at s, loss (2 s x - s^2) / (2 sigma^2), cut where what is left
/// out is below e^-exponent of the whole both under P and tilted by e^{cL}.
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
