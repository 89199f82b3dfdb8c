//! Convex losses of a linear prediction, and a user's own model under them.

use dp_core::params;
use dp_linalg::{cholesky_in_place, cholesky_solve_in_place};

use crate::Result;
use crate::design::UserDesign;

/// Steps of a user's own fit for losses without a closed form: the same for everybody.
const N_ITERATIONS: usize = 40;

/// A convex loss `l(p; y)` of the prediction `p = <x, U v>`.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "snake_case",
    tag = "kind",
    deny_unknown_fields
)]
pub enum ConvexLoss {
    /// `(p - y)^2 / 2`.
    #[default]
    Squared,
    /// `log(1 + exp(-s p))`, `s = 1` for labels above 0 and -1 for others.
    Logistic,
    /// `(p - y)^2 / 2` up to `|p - y| = threshold`, linear from there on.
    Huber {
        /// Where it turns linear, label units.
        threshold: f64,
    },
}

impl ConvexLoss {
    pub(crate) fn check(self) -> Result<()> {
        if let Self::Huber { threshold } = self {
            params::finite_positive("threshold", threshold)?;
        }
        Ok(())
    }

    /// `dl/dp`.
    #[must_use]
    pub fn slope(self, prediction: f64, label: f64) -> f64 {
        match self {
            Self::Squared => prediction - label,
            Self::Huber { threshold } => (prediction - label).clamp(-threshold, threshold),
            Self::Logistic if label > 0.0 => -1.0 / (1.0 + prediction.exp()),
            Self::Logistic => 1.0 / (1.0 + (-prediction).exp()),
        }
    }

    /// Largest `d^2 l / dp^2`.
    const fn smoothness(self) -> f64 {
        match self {
            Self::Logistic => 0.25,
            Self::Squared | Self::Huber { .. } => 1.0,
        }
    }
}

impl UserDesign {
    /// `v = argmin sum_i l(<z_i, v>; y_i) + (lambda/2) t ||v||^2`, `t = tr(Z^T Z) / k`, into `own`; zeros where that is not
    /// finite.
    ///
    /// By minimising, again and again, the quadratic that has the loss's largest curvature everywhere: every such step lowers the loss, and all
    /// share one Cholesky factor.
    pub(crate) fn solve_convex(&mut self, loss: ConvexLoss, ridge: f64) {
        if loss == ConvexLoss::Squared {
            self.solve(ridge);
            return;
        }
        let (rank, smoothness) = (self.rank, loss.smoothness());
        let (mut factor, trace) = self.gram();
        let lift = ridge * trace / rank as f64;
        for (at, g) in factor.iter_mut().enumerate() {
            *g *= smoothness;
            if at % (rank + 1) == 0 {
                *g += lift;
            }
        }
        self.own.fill(0.0);
        if cholesky_in_place(&mut factor, rank).is_err() {
            return;
        }
        let mut step = vec![0.0; rank];
        for _ in 0..N_ITERATIONS {
            step.iter_mut()
                .zip(&self.own)
                .for_each(|(s, v)| *s = -lift * v);
            for (z, y) in self.projected.chunks_exact(rank).zip(&self.labels) {
                let slope = loss.slope(crate::small::inner(z, &self.own), *y);
                step.iter_mut().zip(z).for_each(|(s, z)| *s -= slope * z);
            }
            if cholesky_solve_in_place(&factor, rank, &mut step).is_err() {
                break;
            }
            self.own.iter_mut().zip(&step).for_each(|(v, s)| *v += s);
        }
        if self.own.iter().any(|v| !v.is_finite()) {
            self.own.fill(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_model_has_no_slope_left() {
        let rows = [
            ([1.0_f32, 0.5], 2.0_f32),
            ([0.3, -1.0], -1.0),
            ([-0.7, 0.2], 0.4),
            ([0.1, 0.9], -3.0),
        ];
        let identity = [1.0, 0.0, 0.0, 1.0];
        for loss in [
            ConvexLoss::Squared,
            ConvexLoss::Logistic,
            ConvexLoss::Huber { threshold: 0.5 },
        ] {
            let mut design = UserDesign::new(2);
            design.read(rows.iter().map(|(x, y)| (&x[..], *y)), &identity);
            design.solve_convex(loss, 0.3);
            let trace = design.gram().1;
            for k in 0..2 {
                let z = design.projected.chunks_exact(2).zip(&design.labels);
                let pull: f64 = z
                    .map(|(z, y)| {
                        z[k] * loss.slope(z[0] * design.own[0] + z[1] * design.own[1], *y)
                    })
                    .sum();
                let slope = pull + 0.3 * trace / 2.0 * design.own[k];
                assert!(slope.abs() < 1e-6, "{loss:?}: {slope}");
            }
        }
    }

    #[test]
    fn separable_labels_and_huge_rows_give_finite_models() {
        let identity = [1.0];
        for x in [1.0_f32, f32::MAX, f32::MIN_POSITIVE] {
            let mut design = UserDesign::new(1);
            let row = [x];
            design.read([(&row[..], 1.0), (&row[..], 1.0)].into_iter(), &identity);
            design.solve_convex(ConvexLoss::Logistic, 1e-9);
            assert!(design.own[0].is_finite());
        }
        assert!(ConvexLoss::Huber { threshold: 0.0 }.check().is_err());
        for p in [1e300, -1e300] {
            for y in [-1.0, 1.0] {
                assert!(ConvexLoss::Logistic.slope(p, y).abs() <= 1.0);
            }
        }
    }
}
