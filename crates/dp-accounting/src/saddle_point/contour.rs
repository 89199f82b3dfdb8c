//! Where the contour of integration crosses the real axis.

use super::nodes::{Demand, exponent};
use super::tilted::{Cumulants, Tilted};
use crate::loss::Loss;

/// Every loss of a composition with its count, tilted by e^{cL}, and the totals.
pub(super) struct TiltedComposition {
    pub(super) c: f64,
    pub(super) losses: Vec<(Loss, u64, Tilted)>,
    pub(super) total: Cumulants,
}

impl TiltedComposition {
    /// All losses tilted, with nodes good for |t| up to `t`.
    pub(super) fn new(losses: &[(Loss, u64)], c: f64, t: f64) -> Option<Self> {
        let mut tilted = Vec::with_capacity(losses.len());
        let mut total = Cumulants::default();
        for (loss, count) in losses {
            let one = Tilted::new(
                loss,
                Demand {
                    c,
                    t,
                    exponent: exponent(*count),
                },
            )?;
            let n = *count as f64;
            total.log_mgf += n * one.cumulants.log_mgf;
            total.mean += n * one.cumulants.mean;
            total.variance += n * one.cumulants.variance;
            tilted.push((loss.clone(), *count, one));
        }
        total.log_mgf.is_finite().then_some(Self {
            c,
            losses: tilted,
            total,
        })
    }

    /// Number of nodes of all losses together.
    pub(super) fn n_nodes(&self) -> usize {
        self.losses.iter().map(|(_, _, one)| one.n_nodes()).sum()
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

/// The composition tilted to the saddle point, found to about a hundredth of its width: the
/// integral is the same for every c, only its cost and rounding differ.
pub(super) fn saddle_point(losses: &[(Loss, u64)], aim: Aim) -> Option<TiltedComposition> {
    // Distance from the aim in standard deviations, rising in c.
    let miss = |at: &TiltedComposition| match aim {
        Aim::Epsilon(epsilon) => (at.epsilon() - epsilon) / at.curvature().sqrt(),
        Aim::LogDelta(log_delta) => {
            let gap = log_delta - at.log_delta(at.epsilon());
            gap / (1.0 + at.c * at.curvature().sqrt())
        }
    };
    let (mut low, mut high): (Option<(f64, f64)>, Option<(f64, f64)>) = (None, None);
    let mut log_c = 0.0_f64;
    for _ in 0..80 {
        let c = libm::exp(log_c);
        if !(LEAST..=LARGEST).contains(&c) {
            return None;
        }
        let at = TiltedComposition::new(losses, c, 0.0);
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
        if let (Some(l), Some(h)) = (low, high) {
            if h.0 - l.0 < 1e-9 {
                return at;
            }
        }
    }
    None
}

/// Doubling until the aim is between two points, then a guarded secant.
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
