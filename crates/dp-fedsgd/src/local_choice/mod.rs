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
/// With [`with_own_level`](Self::with_own_level) there is a level `b` too, the user's own and without penalty, fitted anew whenever a row is left out: `X` and `y`
/// are taken less their means, `h_kk` gains `1 / m`, and `b = mean(y) - <mean(x), c w + theta>`. A user with one row then has none to choose by.
///
/// Errors that differ by less than a part in 1e9 are ties. Of these the weight closest to 1 is taken, then the largest penalty, then the last round: what is nearest to the
/// released model as it is.
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
    /// From the one closest to 1.
    weights: Vec<f64>,
    /// From the largest.
    penalties: Vec<f64>,
    own_level: bool,
}

/// Errors closer than this share are ties: leaving out one of two rows leaves nothing to a ridge, whatever its penalty.
const TIE: f64 = 1e-9;

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
    /// `b`; 0 without an own level.
    pub level: f64,
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
        let (mut weights, mut penalties) = (weights, penalties);
        weights.sort_by(|a, b| (a - 1.0).abs().total_cmp(&(b - 1.0).abs()));
        penalties.sort_by(|a, b| b.total_cmp(a));
        Ok(Self {
            weights,
            penalties,
            own_level: false,
        })
    }

    /// The same for models with a level of every user's own.
    ///
    /// # Examples
    /// ```
    /// use dp_fedsgd::{LocalChoice, Minibatch};
    /// let choice = LocalChoice::new(vec![0.0, 1.0], vec![0.1])?.with_own_level();
    /// let mut rows = Minibatch::new(1);
    /// rows.push(&[2.0], 9.0);
    /// let own = choice.choose(&[&[3.0]], &rows); // one row tells the level, and nothing of slopes
    /// assert_eq!((own.coefficients[0], own.level), (3.0, 3.0));
    /// # Ok::<(), dp_fedsgd::Error>(())
    /// ```
    #[must_use]
    pub const fn with_own_level(mut self) -> Self {
        self.own_level = true;
        self
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

    /// The choice among `offered` shared models, each as long as the rows' features. Without usable rows, and with one row and an own level: the last one as it is, with
    /// weight 1.
    #[must_use]
    pub fn choose(&self, offered: &[&[f64]], rows: &Minibatch) -> ChosenModel {
        let own = OwnRows::of(rows, self.own_level);
        let mut best = as_it_is(offered);
        if own.can_leave_one_out() {
            self.search(offered, &own, &mut best);
        }
        best.level = own.level(&best.coefficients);
        best
    }

    /// The least error over all candidates; what is preferred among ties comes first.
    fn search(&self, offered: &[&[f64]], own: &OwnRows, best: &mut ChosenModel) {
        let scores: Vec<Vec<f64>> = offered.iter().map(|shared| own.scores(shared)).collect();
        let ridges = self.penalties.iter();
        let ridges: Vec<_> = ridges.filter_map(|&r| Some((r, own.ridge(r)?))).collect();
        for &weight in &self.weights {
            for (l2_penalty, ridge) in &ridges {
                for (round, shared) in offered.iter().enumerate().rev() {
                    let fit = ridge.fit(own, own.residuals(&scores[round], weight));
                    if fit.left_out_error < best.error * (1.0 - TIE) {
                        *best = ChosenModel {
                            round,
                            weight,
                            l2_penalty: *l2_penalty,
                            coefficients: sum_of(weight, shared, &fit.own_part),
                            level: 0.0,
                            error: fit.left_out_error,
                        };
                    }
                }
            }
        }
    }
}

impl ChosenModel {
    /// `b + <x, c w + theta>`; features beyond its length are ignored.
    #[must_use]
    pub fn predict(&self, x: &[f32]) -> f64 {
        let terms = self.coefficients.iter().zip(x);
        self.level + terms.map(|(c, &x)| c * f64::from(x)).sum::<f64>()
    }
}

/// The last of the offered models, of nobody's choice.
fn as_it_is(offered: &[&[f64]]) -> ChosenModel {
    ChosenModel {
        round: offered.len().saturating_sub(1),
        weight: 1.0,
        l2_penalty: f64::INFINITY,
        coefficients: offered.last().map_or_else(Vec::new, |w| w.to_vec()),
        level: 0.0,
        error: f64::INFINITY,
    }
}

/// `c w + theta`.
fn sum_of(weight: f64, shared: &[f64], own_part: &[f64]) -> Vec<f64> {
    let both = shared.iter().zip(own_part);
    both.map(|(w, theta)| weight * w + theta).collect()
}

#[cfg(test)]
mod level_tests;
#[cfg(test)]
mod tests;
