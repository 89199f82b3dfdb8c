//! How much of the shared model a user takes: each user's own choice, after the run, for nothing.

mod own_rows;
mod ridge;

use dp_core::params;

use crate::{KeptRound, Minibatch, Result, SharedModel};
use own_rows::OwnRows;

/// A user's choice among the rounds of one released trajectory, weights on the shared model and ridges of an own part, by least
/// squared error on own rows left out one at a time.
///
/// ```text
/// for each w of the trajectory, weight c, penalty r:   theta = argmin_t sum_k (y_k - <x_k, c w + t>)^2 + r m ||t||^2
/// leave-one-out error = mean_k (e_k / (1 - h_kk))^2,   e residuals, h hat matrix of the ridge
/// ```
///
/// An infinite penalty leaves `theta = 0`; weight 0 is learning alone. So the level of personalisation, which the paper leaves to a run per `alpha`,
/// is settled user by user.
///
/// # Privacy
/// Not a release: every user looks at released models and own rows, and keeps the result (post-processing of a released trajectory, in the
/// billboard model). It costs nothing, however many candidates there are. What choosing on *other* users' data would cost is in
/// [`AlphaSelection`](crate::AlphaSelection).
///
/// # Numerics
/// `m` rows of `d` features: the ridge is solved in rows (`m x m`) or in features (`d x d`), whichever are fewer, and leaving a row out takes no solution of its own.
/// O(m d min(m, d)) for each penalty and O(m d) for each candidate. In features `1 - h_kk` is a difference: relative error about `1e-16 ||x_k||^2 / (r m)`.
///
/// # Examples
/// ```
/// use dp_fedsgd::{LocalChoice, Minibatch};
/// let choice = LocalChoice::new(vec![0.0, 1.0], vec![0.1, f64::INFINITY])?;
/// let mut rows = Minibatch::new(2);
/// for k in 0..3_u8 {
///     rows.push(&[f32::from(k), 1.0], 3.0 * f32::from(k));
/// }
/// let own = choice.choose(&[&[3.0, 0.0], &[-8.0, 2.0]], &rows); // two released models
/// assert_eq!((own.round, own.weight), (0, 1.0));
/// assert!((own.predict(&[10.0, 1.0]) - 30.0).abs() < 1e-9);
/// # Ok::<(), dp_fedsgd::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct LocalChoice {
    weights: Vec<f64>,
    penalties: Vec<f64>,
}

/// A user's own model.
#[derive(Clone, PartialEq)]
#[allow(
    missing_debug_implementations,
    reason = "a private model; printing it is never wanted"
)]
pub struct ChosenModel {
    /// Which of the offered shared models.
    pub round: usize,
    /// Weight `c` on it.
    pub weight: f64,
    /// Penalty `r` of the own part.
    pub l2_penalty: f64,
    /// `c w + theta`.
    pub coefficients: Vec<f64>,
    /// Mean squared error on rows left out.
    pub error: f64,
}

impl LocalChoice {
    /// Candidates: weights on the shared model and penalties per row of the own part.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when there are none, for a weight that is not finite, and for a penalty that is not above 0 (infinity is).
    pub fn new(weights: Vec<f64>, penalties: Vec<f64>) -> Result<Self> {
        params::at_least_one("weights", weights.len())?;
        params::at_least_one("penalties", penalties.len())?;
        for &weight in &weights {
            params::finite("weight", weight)?;
        }
        for &penalty in &penalties {
            if !penalty.is_infinite() || penalty < 0.0 {
                params::finite_positive("l2_penalty", penalty)?;
            }
        }
        Ok(Self { weights, penalties })
    }

    /// The choice among all kept rounds of a model and its last, for a model with one score.
    ///
    /// [`ChosenModel::round`] counts [`SharedModel::kept`], and then the last.
    #[must_use]
    pub fn choose_from(&self, model: &SharedModel, rows: &Minibatch) -> ChosenModel {
        let kept = model
            .kept()
            .iter()
            .map(|KeptRound { shared, .. }| &shared[..]);
        let offered: Vec<&[f64]> = kept.chain([model.last()]).collect();
        self.choose(&offered, rows)
    }

    /// The choice among `offered` shared models, each as long as the rows' features. Without usable rows: the last one as it is, with
    /// weight 1. Ties go to the first.
    #[must_use]
    pub fn choose(&self, offered: &[&[f64]], rows: &Minibatch) -> ChosenModel {
        let own = OwnRows::of(rows);
        let fallback = offered.last().map_or_else(Vec::new, |w| w.to_vec());
        let mut best = ChosenModel {
            round: offered.len().saturating_sub(1),
            weight: 1.0,
            l2_penalty: f64::INFINITY,
            coefficients: fallback,
            error: f64::INFINITY,
        };
        let scores: Vec<Vec<f64>> = offered.iter().map(|shared| own.scores(shared)).collect();
        for &l2_penalty in &self.penalties {
            let Some(ridge) = own.ridge(l2_penalty) else {
                continue;
            };
            for (round, shared) in offered.iter().enumerate() {
                for &weight in &self.weights {
                    let fit = ridge.fit(&own, own.residuals(&scores[round], weight));
                    if fit.left_out_error < best.error {
                        best = ChosenModel {
                            round,
                            weight,
                            l2_penalty,
                            coefficients: sum_of(weight, shared, &fit.own_part),
                            error: fit.left_out_error,
                        };
                    }
                }
            }
        }
        best
    }
}

impl ChosenModel {
    /// `<x, c w + theta>`; features beyond its length are ignored.
    #[must_use]
    pub fn predict(&self, x: &[f32]) -> f64 {
        let terms = self.coefficients.iter().zip(x);
        terms.map(|(c, &x)| c * f64::from(x)).sum()
    }
}

/// `c w + theta`.
fn sum_of(weight: f64, shared: &[f64], own_part: &[f64]) -> Vec<f64> {
    let both = shared.iter().zip(own_part);
    both.map(|(w, theta)| weight * w + theta).collect()
}

#[cfg(test)]
mod tests;
