//! Where the contour of integration crosses the real axis.

use super::nodes::{Demand, Nodes, exponent};
use super::tilted::{Cumulants, Tilted};
use crate::engines::loss::Loss;
use crate::engines::rounding::CompensatedSum;

/// The losses of one direction with their counts, and cached nodes for them.
pub(super) struct Losses<'a> {
    losses: &'a [(Loss, u64)],
    nodes: Vec<Option<Nodes>>,
    /// The range for which the cached nodes are valid.
    good_for: (f64, f64),
}

impl<'a> Losses<'a> {
    pub(super) fn new(losses: &'a [(Loss, u64)]) -> Self {
        Self {
            losses,
            nodes: Vec::new(),
            good_for: (-1.0, -1.0),
        }
    }

    /// The losses with their counts.
    pub(super) const fn all(&self) -> &'a [(Loss, u64)] {
        self.losses
    }

    /// Whether any loss is smooth enough for its characteristic function to decay.
    pub(super) fn any_decays(&self) -> bool {
        let decays = |loss: &Loss| {
            matches!(
                loss,
                Loss::Gaussian { .. }
                    | Loss::Mixture(_)
                    | Loss::Laplace { .. }
                    | Loss::BoundedRange { .. }
                    | Loss::SampledLaplace { .. }
            )
        };
        self.losses.iter().any(|(loss, _)| decays(loss))
    }

    /// Makes sure that there are nodes for c + iu, |u| <= t.
    fn prepare(&mut self, c: f64, t: f64) -> Option<()> {
        if c <= self.good_for.0 && t <= self.good_for.1 {
            return Some(());
        }
        let wide = if t > 0.0 { c } else { 1.5 * c + 1.0 };
        self.good_for = (-1.0, -1.0);
        self.nodes.clear();
        let (mut reusable, mut n_nodes) = (true, 0);
        for (loss, count) in self.losses {
            let demand = |c| Demand {
                c,
                t,
                exponent: exponent(*count),
            };
            if matches!(loss, Loss::Gaussian { .. }) {
                self.nodes.push(None);
                continue;
            }
            let mut nodes = Nodes::of(loss, demand(wide));
            if !nodes.as_ref().is_some_and(Nodes::serve_smaller) && wide > c {
                nodes = Nodes::of(loss, demand(c));
                reusable = false;
            }
            let nodes = nodes?;
            n_nodes += nodes.len();
            reusable &= nodes.serve_smaller();
            if n_nodes > MAX_TOTAL {
                return None;
            }
            self.nodes.push(Some(nodes));
        }
        if reusable {
            self.good_for = (wide, t);
        }
        Some(())
    }

    /// All losses tilted by e^{cL}, with nodes valid for |t| up to `t`.
    pub(super) fn tilted(&mut self, c: f64, t: f64) -> Option<TiltedComposition> {
        self.prepare(c, t)?;
        let mut tilted = Vec::with_capacity(self.losses.len());
        let mut total = Cumulants::default();
        let (mut log_mgf, mut mean) = (CompensatedSum::default(), CompensatedSum::default());
        for ((loss, count), nodes) in self.losses.iter().zip(&self.nodes) {
            let one = Tilted::new(loss, nodes.as_ref(), c)?;
            let n = *count as f64;
            log_mgf.add(n * one.cumulants.log_mgf);
            mean.add(n * one.cumulants.mean);
            total.variance += n * one.cumulants.variance;
            tilted.push((loss.clone(), *count, one));
        }
        (total.log_mgf, total.mean) = (log_mgf.total(), mean.total());
        total.log_mgf.is_finite().then_some(TiltedComposition {
            c,
            losses: tilted,
            total,
        })
    }
}

/// Maximum number of nodes of all losses together: about 100 MB including what is derived from
/// them.
const MAX_TOTAL: usize = 1_500_000;

/// Every loss of a composition with its count, tilted by e^{cL}, and the totals.
pub(super) struct TiltedComposition {
    pub(super) c: f64,
    pub(super) losses: Vec<(Loss, u64, Tilted)>,
    pub(super) total: Cumulants,
}

impl TiltedComposition {
    /// Number of nodes of all losses together.
    pub(super) fn n_nodes(&self) -> usize {
        self.losses.iter().map(|(_, _, one)| one.n_nodes()).sum()
    }

    /// Variance of the Gaussian losses among them.
    pub(super) fn gaussian_variance(&self) -> f64 {
        let gaussian = self.losses.iter().filter(|(_, _, one)| one.is_gaussian());
        gaussian
            .map(|(_, count, one)| *count as f64 * one.cumulants.variance)
            .sum()
    }

    /// Curvature of ln of the integrand at c.
    pub(super) fn curvature(&self) -> f64 {
        let c = self.c;
        self.total.variance + 1.0 / (c * c) + 1.0 / ((c + 1.0) * (c + 1.0))
    }

    /// The epsilon whose saddle point is c.
    pub(super) fn epsilon(&self) -> f64 {
        self.total.mean - 1.0 / self.c - 1.0 / (self.c + 1.0)
    }

    /// An upper bound on ln delta at `epsilon`, from (1 - e^-y)_+ <= e^(cy) c^c / (c+1)^(c+1): the
    /// conversion of Renyi divergences at order c + 1.
    pub(super) fn log_delta_bound(&self, epsilon: f64) -> f64 {
        let c = self.c;
        let peak = -libm::log1p(c) - c * libm::log1p(1.0 / c);
        self.total.log_mgf + peak - c * epsilon
    }

    /// An upper bound on the epsilon at which ln delta is `log_delta`.
    pub(super) fn epsilon_bound(&self, log_delta: f64) -> f64 {
        (self.log_delta_bound(0.0) - log_delta) / self.c
    }

    /// First-order saddle-point approximation of ln delta at `epsilon` from this c.
    pub(super) fn log_delta(&self, epsilon: f64) -> f64 {
        let c = self.c;
        let shape = libm::log(c) + libm::log1p(c);
        let spread = 0.5 * libm::log(2.0 * std::f64::consts::PI * self.curvature());
        self.total.log_mgf - c * epsilon - shape - spread
    }
}

/// What the contour is chosen for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Aim {
    /// The saddle point of this epsilon.
    Epsilon(f64),
    /// The epsilon at which ln delta is this.
    LogDelta(f64),
}

const LEAST: f64 = 1e-7;
const LARGEST: f64 = 1e9;

/// The composition tilted to the saddle point, which is located to about a hundredth of its width:
/// the integral is the same for every c, only its cost and rounding differ.
pub(super) fn saddle_point(
    losses: &mut Losses<'_>,
    aim: Aim,
    start: f64,
) -> Option<TiltedComposition> {
    // distance from the aim in standard deviations, increasing in c
    let miss = |at: &TiltedComposition| match aim {
        Aim::Epsilon(epsilon) => (at.epsilon() - epsilon) / at.curvature().sqrt(),
        Aim::LogDelta(log_delta) => {
            let gap = log_delta - at.log_delta(at.epsilon());
            gap / (1.0 + at.c * at.curvature().sqrt())
        }
    };
    let (mut low, mut high) = (None, None);
    let mut log_c = libm::log(start);
    for _ in 0..80 {
        let c = libm::exp(log_c);
        if !(LEAST..=LARGEST).contains(&c) {
            return None;
        }
        let at = losses.tilted(c, 0.0);
        let off = at.as_ref().map_or(f64::INFINITY, miss);
        if off.abs() < 1e-2 {
            return at;
        }
        if off > 0.0 {
            high = Some((log_c, off));
        } else {
            low = Some((log_c, off));
        }
        log_c = next(low, high);
        if let (Some(l), Some(h)) = (low, high)
            && h.0 - l.0 < 1e-9
        {
            return at;
        }
    }
    None
}

/// Doubles until the aim is between two points, then uses a safeguarded secant.
fn next(low: Option<(f64, f64)>, high: Option<(f64, f64)>) -> f64 {
    match (low, high) {
        (Some((l, at_l)), Some((h, at_h))) => {
            let share = if at_h.is_finite() {
                (at_l / (at_l - at_h)).clamp(0.1, 0.9)
            } else {
                0.5
            };
            l + share * (h - l)
        }
        (Some((l, _)), None) => l + 1.0,
        (None, Some((h, _))) => h - 1.0,
        (None, None) => 0.0,
    }
}
