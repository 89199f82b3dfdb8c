//! How much of the shared model a user takes: each user's own choice, after the run, for nothing.

use dp_core::params;
use dp_linalg::{cholesky_in_place, cholesky_solve_in_place};

use crate::{KeptRound, Minibatch, Result, SharedModel};

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
/// With `m` rows the ridge is solved in rows (`m x m`) where that is smaller. O(min(m, d)^3) for each penalty and O(m d + m^2) for each candidate.
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
        for &l2_penalty in &self.penalties {
            let Some(hat) = own.hat(l2_penalty) else {
                continue;
            };
            for (round, shared) in offered.iter().enumerate() {
                for &weight in &self.weights {
                    let residuals = own.residuals(shared, weight);
                    let error = own.left_out_error(&hat, &residuals);
                    if error < best.error {
                        best = ChosenModel {
                            round,
                            weight,
                            l2_penalty,
                            coefficients: own.model(&hat, &residuals, shared, weight),
                            error,
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

/// A user's rows and their inner products.
struct OwnRows {
    n_features: usize,
    /// `X`, row by row.
    x: Vec<f64>,
    y: Vec<f64>,
    /// `X X^T`.
    products: Vec<f64>,
}

/// The ridge in rows: `K = X X^T + r m I`.
struct Hat {
    /// `K^-1`, row by row; empty for an infinite penalty.
    inverse: Vec<f64>,
}

impl OwnRows {
    fn of(rows: &Minibatch) -> Self {
        let x: Vec<f64> = rows
            .rows()
            .flat_map(|(x, _)| x.iter().map(|&x| f64::from(x)))
            .collect();
        let d = rows.n_features();
        let inner = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let each = || x.chunks_exact(d.max(1));
        let products = each()
            .flat_map(|a| each().map(move |b| inner(a, b)))
            .collect();
        Self {
            n_features: d,
            products,
            y: rows.rows().map(|(_, y)| f64::from(y)).collect(),
            x,
        }
    }

    /// None where the system cannot be solved, as with rows that overflow.
    fn hat(&self, penalty: f64) -> Option<Hat> {
        let m = self.y.len();
        if penalty.is_infinite() {
            return Some(Hat {
                inverse: Vec::new(),
            });
        }
        let mut factor = self.products.clone();
        for k in 0..m {
            factor[k * m + k] += penalty * m as f64;
        }
        if !factor.iter().all(|f| f.is_finite()) {
            return None;
        }
        cholesky_in_place(&mut factor, m).ok()?;
        let mut inverse = vec![0.0; m * m];
        for (k, column) in inverse.chunks_exact_mut(m.max(1)).enumerate() {
            column[k] = 1.0;
            cholesky_solve_in_place(&factor, m, column).ok()?;
        }
        Some(Hat { inverse })
    }

    /// `y - c X w`.
    fn residuals(&self, shared: &[f64], weight: f64) -> Vec<f64> {
        let rows = self.x.chunks_exact(self.n_features.max(1)).zip(&self.y);
        rows.map(|(x, y)| {
            let score: f64 = x.iter().zip(shared).map(|(x, w)| x * w).sum();
            y - weight * score
        })
        .collect()
    }

    /// With `a = K^-1 r`: the ridge's residual is `p m a_k` and `1 - h_kk = p m (K^-1)_kk`, so the error on row `k` left out is
    /// `a_k / (K^-1)_kk`. (The penalty `p m` stays that of all rows.)
    fn left_out_error(&self, hat: &Hat, residuals: &[f64]) -> f64 {
        let m = residuals.len();
        let squares: f64 = if hat.inverse.is_empty() {
            residuals.iter().map(|r| r * r).sum()
        } else {
            let duals = self.duals(hat, residuals);
            let errors = duals
                .iter()
                .enumerate()
                .map(|(k, a)| a / hat.inverse[k * m + k]);
            errors.map(|e| e * e).sum()
        };
        if m == 0 {
            f64::INFINITY
        } else {
            squares / m as f64
        }
    }

    fn duals(&self, hat: &Hat, residuals: &[f64]) -> Vec<f64> {
        let rows = hat.inverse.chunks_exact(residuals.len().max(1));
        let inner = |row: &[f64]| row.iter().zip(residuals).map(|(k, r)| k * r).sum();
        rows.map(inner).collect()
    }

    /// `c w + X^T K^-1 r`.
    fn model(&self, hat: &Hat, residuals: &[f64], shared: &[f64], weight: f64) -> Vec<f64> {
        let mut model: Vec<f64> = shared.iter().map(|w| weight * w).collect();
        let duals = self.duals(hat, residuals);
        for (x, a) in self.x.chunks_exact(self.n_features.max(1)).zip(duals) {
            for (c, x) in model.iter_mut().zip(x) {
                *c += a * x;
            }
        }
        model
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(at: &[usize]) -> Minibatch {
        let mut rows = Minibatch::new(2);
        let all = [
            [1.0_f32, 0.5],
            [0.3, -1.0],
            [-0.7, 0.2],
            [0.1, 0.9],
            [2.0, 1.0],
        ];
        let y = [2.0_f32, 1.0, 0.0, 3.0, 4.5];
        at.iter().for_each(|&k| rows.push(&all[k], y[k]));
        rows
    }

    #[test]
    fn the_error_by_the_hat_matrix_is_that_of_leaving_rows_out() {
        let shared = [1.0, 0.5];
        for penalty in [0.02, 0.5, f64::INFINITY] {
            let choice = LocalChoice::new(vec![0.7], vec![penalty]).unwrap();
            let found = choice.choose(&[&shared], &rows(&[0, 1, 2, 3, 4])).error;
            let mut expected = 0.0;
            for out in 0..5 {
                let kept: Vec<usize> = (0..5).filter(|&k| k != out).collect();
                // the penalty of five rows, for the four that are left
                let same = LocalChoice::new(vec![0.7], vec![penalty * 5.0 / 4.0]).unwrap();
                let model = same.choose(&[&shared], &rows(&kept));
                let one = rows(&[out]);
                let (x, y) = one.rows().next().unwrap();
                expected += (model.predict(x) - f64::from(y)).powi(2) / 5.0;
            }
            assert!((found / expected - 1.0).abs() < 1e-9, "{penalty}");
        }
    }

    #[test]
    fn users_choose_what_predicts_them() {
        let choice = LocalChoice::new(vec![0.0, 1.0], vec![1e-3, 1.0, f64::INFINITY]).unwrap();
        let mut own = Minibatch::new(3);
        for k in 0..5_u8 {
            let x = [f32::from(k) - 2.0, f32::from(k % 3) - 1.0, f32::from(k % 2)];
            own.push(&x, 2.0 * x[0] - x[1] + 4.0 * x[2]);
        }
        let (right, wrong) = ([2.0, -1.0, 4.0], [-9.0, 30.0, 5.0]);
        let found = choice.choose(&[&wrong, &right], &own);
        assert_eq!((found.round, found.weight, found.error), (1, 1.0, 0.0));
        let alone = choice.choose(&[&wrong], &own);
        assert!(alone.weight == 0.0 && alone.l2_penalty < 1.0);
    }

    #[test]
    fn users_without_rows_or_with_absurd_ones_get_the_last_model() {
        let choice = LocalChoice::new(vec![0.0, 1.0], vec![0.1]).unwrap();
        let found = choice.choose(&[&[1.0, 1.0], &[2.0, 3.0]], &Minibatch::new(2));
        assert_eq!((found.round, found.coefficients), (1, vec![2.0, 3.0]));
        let mut absurd = Minibatch::new(2);
        absurd.push(&[f32::INFINITY, 1.0], 1.0);
        let found = choice.choose(&[&[2.0, 3.0]], &absurd);
        assert_eq!(found.coefficients, [2.0, 3.0]);
        for bad in [0.0, -1.0, f64::NAN] {
            assert!(LocalChoice::new(vec![1.0], vec![bad]).is_err());
            assert!(LocalChoice::new(vec![1.0 / bad, f64::NAN], vec![1.0]).is_err());
        }
        assert!(LocalChoice::new(vec![], vec![1.0]).is_err());
    }
}
