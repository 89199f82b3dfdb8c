//! Each user's own choice of how much of the shared model to use, after the run and at no privacy
//! cost.

use dp_core::params;
use dp_linalg::{cholesky_in_place, cholesky_solve_in_place};

use crate::{KeptRound, Minibatch, Result, SharedModel};

/// A user's choice among the rounds of one released trajectory, weights on the shared model and
/// ridge penalties of a personal part, by leave-one-out squared error on the user's own rows.
///
/// ```text
/// for each w of the trajectory, weight c, penalty r:   theta = argmin_t sum_k (y_k - <x_k, c w + t>)^2 + r m ||t||^2
/// leave-one-out error = mean_k (e_k / (1 - h_kk))^2,   e residuals, h hat matrix of the ridge
/// ```
///
/// [`with_own_level`](Self::with_own_level) adds an unpenalised intercept `b` for each user,
/// refitted for every row that is left out: `X` and `y` are centred, `h_kk` gains `1 / m`, and
/// `b = mean(y) - <mean(x), c w + theta>`. A user with one row then has no row to choose by.
///
/// Errors that differ by less than a part in 1e9 are ties. Among ties, the weight closest to 1 is
/// taken, then the largest penalty, then the last round: the candidate closest to the released
/// model.
///
/// An infinite penalty gives `theta = 0`; weight 0 means learning alone. Each user thus chooses
/// their own level of personalisation, for which the paper needs one run per `alpha`.
///
/// # Privacy
/// Not a release: every user looks at released models and their own rows, and keeps the result
/// (post-processing of a released trajectory, in the billboard model). It costs nothing, however
/// many candidates there are. [`AlphaSelection`](crate::AlphaSelection) states what it costs to
/// choose on *other* users' data.
///
/// # Numerics
/// For `m` rows of `d` features, the ridge system is solved in rows (`m x m`) or in features
/// (`d x d`), whichever is smaller, and leaving a row out needs no further solve. O(m d min(m, d))
/// for each penalty and O(m d) for each candidate. In features `1 - h_kk` is a difference: relative
/// error about `1e-16 ||x_k||^2 / (r m)`.
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
    /// Sorted, the one closest to 1 first.
    weights: Vec<f64>,
    /// Sorted, the largest first.
    penalties: Vec<f64>,
    own_level: bool,
}

/// Errors closer than this relative difference are ties: with two rows and an intercept, leaving
/// one out leaves nothing for the ridge to fit, whatever its penalty.
const TIE: f64 = 1e-9;

/// A user's personal model.
#[derive(Clone, PartialEq)]
#[allow(
    missing_debug_implementations,
    reason = "a private model; printing it is never wanted"
)]
pub struct ChosenModel {
    /// Index of the chosen shared model.
    pub round: usize,
    /// Weight `c` on the shared model.
    pub weight: f64,
    /// Ridge penalty `r` of the personal part.
    pub l2_penalty: f64,
    /// `c w + theta`.
    pub coefficients: Vec<f64>,
    /// `b`; 0 without an intercept.
    pub level: f64,
    /// Mean squared leave-one-out error.
    pub error: f64,
}

impl LocalChoice {
    /// Candidates: weights on the shared model, and penalties per row of the personal part.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when a list is empty, for a weight that is not finite, and for a
    /// penalty that is not above 0 (infinity is allowed).
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

    /// Adds an intercept for each user.
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

    /// Chooses among all kept rounds of a model and its last round, for a model with one score.
    ///
    /// [`ChosenModel::round`] is an index into [`SharedModel::kept`] followed by the last round.
    #[must_use]
    pub fn choose_from(&self, model: &SharedModel, rows: &Minibatch) -> ChosenModel {
        let kept = model
            .kept()
            .iter()
            .map(|KeptRound { shared, .. }| &shared[..]);
        let offered: Vec<&[f64]> = kept.chain([model.last()]).collect();
        self.choose(&offered, rows)
    }

    /// Chooses among `offered` shared models, each with as many coefficients as the rows have
    /// features. Without usable rows, or with one row and an intercept, the result is the last
    /// model unchanged, with weight 1.
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

    /// The smallest error over all candidates, which are visited in order of preference among ties.
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

/// The last of the offered models, unchanged.
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

/// `m` rows of `d` features, centred if there is an intercept.
struct OwnRows {
    n_features: usize,
    /// `X`, row by row.
    x: Vec<f64>,
    y: Vec<f64>,
    /// Means of features and target, if there is an intercept.
    means: Option<(Vec<f64>, f64)>,
    /// `X X^T` where there are no more rows than features, otherwise `X^T X`.
    products: Vec<f64>,
}

impl OwnRows {
    fn of(rows: &Minibatch, own_level: bool) -> Self {
        let x = rows.rows().flat_map(|(x, _)| x.iter().map(|&x| x.into()));
        let mut own = Self {
            n_features: rows.n_features(),
            x: x.collect(),
            y: rows.rows().map(|(_, y)| y.into()).collect(),
            means: None,
            products: Vec::new(),
        };
        if own_level {
            own.center();
        }
        own.products = if own.in_rows() {
            own.products_of_rows()
        } else {
            own.products_of_features()
        };
        own
    }

    const fn n_features(&self) -> usize {
        self.n_features
    }

    /// Centres the rows: the intercept is a column without penalty.
    fn center(&mut self) {
        let share = 1.0 / self.y.len().max(1) as f64;
        let y_mean = share * self.y.iter().sum::<f64>();
        let x_mean = self.combination(&vec![share; self.y.len()]);
        self.y.iter_mut().for_each(|y| *y -= y_mean);
        for x in self.x.chunks_exact_mut(self.n_features.max(1)) {
            x.iter_mut().zip(&x_mean).for_each(|(x, mean)| *x -= mean);
        }
        self.means = Some((x_mean, y_mean));
    }

    /// Whether there are enough rows to leave one out: at least one, or two with an intercept.
    const fn can_leave_one_out(&self) -> bool {
        self.y.len() > self.means.is_some() as usize
    }

    /// The intercept for these coefficients, `mean(y) - <mean(x), coefficients>`; 0 where none is
    /// fitted, and where rows overflow.
    fn level(&self, coefficients: &[f64]) -> f64 {
        let level = |(x, y): &(Vec<f64>, f64)| y - inner(x, coefficients);
        let level = self.means.as_ref().map(level);
        level.filter(|b| b.is_finite()).unwrap_or(0.0)
    }

    /// The intercept's contribution to every `h_kk`.
    fn leverage_of_level(&self) -> f64 {
        match self.means {
            Some(_) => 1.0 / self.y.len() as f64,
            None => 0.0,
        }
    }

    /// Whether the ridge system is solved in rows; otherwise in features.
    const fn in_rows(&self) -> bool {
        self.y.len() <= self.n_features
    }

    fn rows(&self) -> impl Iterator<Item = &[f64]> {
        self.x.chunks_exact(self.n_features.max(1))
    }

    fn products_of_rows(&self) -> Vec<f64> {
        let each = self.rows();
        each.flat_map(|a| self.rows().map(move |b| inner(a, b)))
            .collect()
    }

    fn products_of_features(&self) -> Vec<f64> {
        let d = self.n_features;
        let mut products = vec![0.0; d * d];
        for x in self.rows() {
            for (line, &a) in products.chunks_exact_mut(d).zip(x) {
                line.iter_mut().zip(x).for_each(|(p, b)| *p += a * b);
            }
        }
        products
    }

    /// The ridge with penalty `r` per row. None where its system cannot be solved, for example
    /// because rows overflow.
    fn ridge(&self, penalty: f64) -> Option<Ridge> {
        if penalty.is_infinite() {
            return Some(Ridge::Nothing);
        }
        let size = self.y.len().min(self.n_features);
        let level = penalty * self.y.len() as f64;
        let inverse = inverse_of(&self.products, size, level)?;
        Some(if self.in_rows() {
            Ridge::in_rows(inverse, level)
        } else {
            Ridge::in_features(inverse, self)
        })
    }

    /// `X w`.
    fn scores(&self, shared: &[f64]) -> Vec<f64> {
        self.rows().map(|x| inner(x, shared)).collect()
    }

    /// `y - c X w` from the scores `X w`.
    fn residuals(&self, scores: &[f64], weight: f64) -> Vec<f64> {
        let rows = self.y.iter().zip(scores);
        rows.map(|(y, score)| y - weight * score).collect()
    }

    /// `X^T a`.
    fn combination(&self, a: &[f64]) -> Vec<f64> {
        let mut sum = vec![0.0; self.n_features];
        for (x, a) in self.rows().zip(a) {
            sum.iter_mut().zip(x).for_each(|(s, x)| *s += a * x);
        }
        sum
    }
}

fn inner(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// `(P + level I)^-1`, row by row; none unless it is positive definite.
fn inverse_of(products: &[f64], size: usize, level: f64) -> Option<Vec<f64>> {
    let mut factor = products.to_vec();
    factor
        .iter_mut()
        .step_by(size + 1)
        .for_each(|f| *f += level);
    if !factor.iter().all(|f| f.is_finite()) {
        return None;
    }
    cholesky_in_place(&mut factor, size).ok()?;
    let mut inverse = vec![0.0; size * size];
    for (k, column) in inverse.chunks_exact_mut(size.max(1)).enumerate() {
        column[k] = 1.0;
        cholesky_solve_in_place(&factor, size, column).ok()?;
    }
    Some(inverse)
}

/// The ridge with one penalty `r`, prepared for any residuals of the shared part.
enum Ridge {
    /// An infinite penalty: no personal part.
    Nothing,
    /// `K^-1` of `K = X X^T + r m I`, row by row, and `r m`.
    Rows { inverse: Vec<f64>, level: f64 },
    /// `A^-1` of `A = X^T X + r m I`, row by row, and `1 - h_kk` of every row, where `h_kk` is
    /// `x_k^T A^-1 x_k` plus the intercept's contribution.
    Features {
        inverse: Vec<f64>,
        remainders: Vec<f64>,
    },
}

/// A personal part and its error on rows that were left out.
struct RidgeFit {
    /// `theta`.
    own_part: Vec<f64>,
    /// Mean squared leave-one-out error; infinite without rows.
    left_out_error: f64,
}

impl Ridge {
    const fn in_rows(inverse: Vec<f64>, level: f64) -> Self {
        Self::Rows { inverse, level }
    }

    fn in_features(inverse: Vec<f64>, own: &OwnRows) -> Self {
        let most = 1.0 - own.leverage_of_level();
        let remainder = |x: &[f64]| most - inner(x, &times(&inverse, x));
        Self::Features {
            remainders: own.rows().map(remainder).collect(),
            inverse,
        }
    }

    /// Fits the ridge to these residuals. The penalty stays `r m`, that of all rows, when one is
    /// left out.
    fn fit(&self, own: &OwnRows, residuals: Vec<f64>) -> RidgeFit {
        let of_level = own.leverage_of_level();
        match self {
            Self::Nothing => RidgeFit {
                own_part: vec![0.0; own.n_features()],
                left_out_error: mean_square(residuals.iter().map(|r| r / (1.0 - of_level))),
            },
            Self::Rows { inverse, level } => {
                // a = K^-1 r: the ridge leaves r m a_k of row k, and 1 - h_kk = r m (K^-1)_kk
                let duals = times(inverse, &residuals);
                let diagonal = inverse.iter().step_by(residuals.len() + 1);
                let left_out = duals.iter().zip(diagonal);
                let left_out = left_out.map(|(a, k)| a / (k - of_level / level));
                RidgeFit {
                    own_part: own.combination(&duals),
                    left_out_error: mean_square(left_out),
                }
            }
            Self::Features {
                inverse,
                remainders,
            } => {
                let theta = times(inverse, &own.combination(&residuals));
                let left = own.scores(&theta).into_iter().zip(residuals);
                let left_out = left.zip(remainders).map(|((s, r), rest)| (r - s) / rest);
                RidgeFit {
                    left_out_error: mean_square(left_out),
                    own_part: theta,
                }
            }
        }
    }
}

/// A square matrix, row by row, times a vector.
fn times(matrix: &[f64], v: &[f64]) -> Vec<f64> {
    let lines = matrix.chunks_exact(v.len().max(1));
    lines.map(|line| inner(line, v)).collect()
}

fn mean_square(errors: impl ExactSizeIterator<Item = f64>) -> f64 {
    match errors.len() {
        0 => f64::INFINITY,
        n => errors.map(|e| e * e).sum::<f64>() / n as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [[f32; 2]; 5] = [[1.0, 0.5], [0.3, -1.0], [-0.7, 0.2], [0.1, 0.9], [2.0, 1.0]];
    const Y: [f32; 5] = [2.0, 1.0, 0.0, 3.0, 4.5];

    /// Rows of two features and additional ones.
    fn rows(at: &[usize], further: impl Fn(usize, usize) -> f32, n_further: usize) -> Minibatch {
        let mut rows = Minibatch::new(2 + n_further);
        for &k in at {
            let more = (0..n_further).map(|c| further(k, c));
            let x: Vec<f32> = ALL[k].into_iter().chain(more).collect();
            rows.push(&x, Y[k]);
        }
        rows
    }

    const COEFFICIENTS: [f64; 2] = [1.570_022_84, 1.110_958_58];

    fn wave(k: usize, c: usize) -> f32 {
        (1.3 * k as f32 + 2.1 * c as f32).sin()
    }

    #[test]
    fn the_error_by_the_hat_matrix_is_that_of_leaving_rows_out() {
        // solved in features, in rows, and where leaving one out moves from one to the other
        for n_further in [0, 6, 2] {
            let shared: Vec<f64> = (0..2 + n_further).map(|c| 1.0 - 0.3 * c as f64).collect();
            for penalty in [0.02, 0.5, f64::INFINITY] {
                let choice = LocalChoice::new(vec![0.7], vec![penalty]).unwrap();
                let all = rows(&[0, 1, 2, 3, 4], wave, n_further);
                let found = choice.choose(&[&shared], &all).error;
                let mut expected = 0.0;
                for out in 0..5 {
                    let kept: Vec<usize> = (0..5).filter(|&k| k != out).collect();
                    // the penalty of five rows, for the four remaining rows
                    let same = LocalChoice::new(vec![0.7], vec![penalty * 5.0 / 4.0]).unwrap();
                    let model = same.choose(&[&shared], &rows(&kept, wave, n_further));
                    let one = rows(&[out], wave, n_further);
                    let (x, y) = one.rows().next().unwrap();
                    expected += (model.predict(x) - f64::from(y)).powi(2) / 5.0;
                }
                assert!(
                    (found / expected - 1.0).abs() < 1e-9,
                    "{n_further} {penalty}"
                );
            }
        }
    }

    #[test]
    fn in_rows_and_in_features_it_is_the_same_ridge() {
        let choice = LocalChoice::new(vec![0.7], vec![0.1]).unwrap();
        let at = [0, 1, 2, 3, 4];
        let zero = |_: usize, _: usize| 0.0;
        let [tall, wide] = [0, 6].map(|n_further| {
            let shared: Vec<f64> = [1.0, 0.5].into_iter().chain(vec![0.0; n_further]).collect();
            choice.choose(&[&shared], &rows(&at, zero, n_further))
        });
        assert!((tall.error / wide.error - 1.0).abs() < 1e-12);
        for (a, b) in tall.coefficients.iter().zip(&wide.coefficients) {
            assert!((a - b).abs() < 1e-12);
        }
        assert!(wide.coefficients[2..].iter().all(|c| c.abs() < 1e-12));
        // numpy: solve(X.T @ X + 5 * 0.1 * eye(2), X.T @ (y - 0.7 * X @ w)) + 0.7 * w
        assert!((tall.coefficients[0] - COEFFICIENTS[0]).abs() < 1e-6);
        assert!((tall.coefficients[1] - COEFFICIENTS[1]).abs() < 1e-6);
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

    /// Intercepts, compared with fits from scratch for every row that is left out.
    mod levels {
        use super::super::*;

        const X: [[f32; 3]; 5] = [
            [1.0, 0.5, -0.3],
            [0.3, -1.0, 0.8],
            [-0.7, 0.2, 0.1],
            [0.1, 0.9, -1.2],
            [2.0, 1.0, 0.4],
        ];
        const Y: [f32; 5] = [12.0, 11.0, 10.0, 13.0, 14.5];

        fn rows(at: &[usize], n_features: usize) -> Minibatch {
            let mut rows = Minibatch::new(n_features);
            for &k in at {
                rows.push(&X[k][..n_features], Y[k]);
            }
            rows
        }

        /// Coefficients and intercept of the ridge around `c w`: its normal equations by
        /// elimination, with the constant as an unpenalised column.
        fn from_scratch(at: &[usize], shared: &[f64], weight: f64, penalty: f64) -> Vec<f64> {
            let d = shared.len();
            let mut system = vec![vec![0.0; d + 2]; d + 1];
            for &k in at {
                let mut row: Vec<f64> = X[k][..d].iter().map(|&x| x.into()).collect();
                let offset: f64 = row.iter().zip(shared).map(|(x, w)| weight * w * x).sum();
                row.extend([1.0, f64::from(Y[k]) - offset]);
                for (line, a) in system.iter_mut().zip(&row) {
                    line.iter_mut().zip(&row).for_each(|(s, b)| *s += a * b);
                }
            }
            (0..d).for_each(|c| system[c][c] += penalty);
            for pivot in 0..=d {
                let line: Vec<f64> = system[pivot]
                    .iter()
                    .map(|s| s / system[pivot][pivot])
                    .collect();
                for target in &mut system {
                    let factor = target[pivot];
                    target
                        .iter_mut()
                        .zip(&line)
                        .for_each(|(t, l)| *t -= factor * l);
                }
                system[pivot] = line;
            }
            let solved = (0..=d).map(|c| system[c][d + 1] + weight * shared.get(c).unwrap_or(&0.0));
            solved.collect()
        }

        fn predicted(model: &[f64], k: usize) -> f64 {
            let terms = model.iter().zip(X[k]).take(model.len() - 1);
            model[model.len() - 1] + terms.map(|(c, x)| c * f64::from(x)).sum::<f64>()
        }

        #[test]
        fn a_level_is_fitted_anew_for_every_row_that_is_left_out() {
            for (m, d) in [(2, 3), (3, 3), (3, 2), (5, 3), (2, 1), (5, 1)] {
                let all: Vec<usize> = (0..m).collect();
                let shared = &[1.0, 0.4, -0.2][..d];
                for penalty in [0.02, 0.5, 1e12] {
                    let choice = LocalChoice::new(vec![0.7], vec![penalty]).unwrap();
                    let found = choice.with_own_level().choose(&[shared], &rows(&all, d));
                    let total = penalty * m as f64;
                    let expected = all.iter().map(|&out| {
                        let kept: Vec<usize> = all.iter().copied().filter(|&k| k != out).collect();
                        let model = from_scratch(&kept, shared, 0.7, total);
                        (predicted(&model, out) - f64::from(Y[out])).powi(2) / m as f64
                    });
                    let expected: f64 = expected.sum();
                    assert!(
                        (found.error / expected - 1.0).abs() < 1e-8,
                        "{m} {d} {penalty}: {} {expected}",
                        found.error
                    );
                    let model = from_scratch(&all, shared, 0.7, total);
                    let both = found.coefficients.iter().chain([&found.level]).zip(&model);
                    for (a, b) in both {
                        assert!((a - b).abs() < 1e-8, "{m} {d} {penalty}: {a} {b}");
                    }
                    assert!((found.predict(&X[0][..d]) - predicted(&model, 0)).abs() < 1e-8);
                }
            }
            // without a personal part, the result is the limit for an infinite penalty
            let of = |penalty| {
                let choice = LocalChoice::new(vec![0.7], vec![penalty]).unwrap();
                let choice = choice.with_own_level();
                choice.choose(&[&[1.0, 0.4]], &rows(&[0, 1, 2], 2)).error
            };
            assert!((of(f64::INFINITY) / of(1e12) - 1.0).abs() < 1e-8);
        }

        fn choice() -> LocalChoice {
            let penalties = vec![1e-2, 1.0, f64::INFINITY];
            LocalChoice::new(vec![0.0, 0.5, 1.0], penalties).unwrap()
        }

        #[test]
        fn one_row_and_a_level_leave_the_shared_model_as_it_is() {
            let offered: [&[f64]; 2] = [&[5.0, 5.0], &[2.0, -1.0]];
            let found = choice().with_own_level().choose(&offered, &rows(&[0], 2));
            assert_eq!((found.round, found.weight), (1, 1.0));
            assert_eq!(found.coefficients, [2.0, -1.0]);
            // 12 - (2 * 1 - 0.5)
            assert!((found.level - 10.5).abs() < 1e-12);
            let nobody = choice().with_own_level().choose(&offered, &rows(&[], 2));
            assert_eq!((nobody.coefficients, nobody.level), (vec![2.0, -1.0], 0.0));
        }

        #[test]
        fn ties_go_to_what_is_nearest_to_the_released_model() {
            // with one of two rows left out, the ridge has nothing to fit: all penalties give the
            // same error
            let two = rows(&[0, 2], 2);
            let found = choice().with_own_level().choose(&[&[1.0, 0.4]], &two);
            assert!(found.l2_penalty.is_infinite());
            // a feature that is always 0 predicts nothing: all candidates give the same error
            let mut empty = Minibatch::new(1);
            (0..3_u8).for_each(|k| empty.push(&[0.0], f32::from(k)));
            let found = choice().choose(&[&[3.0], &[4.0]], &empty);
            assert_eq!((found.round, found.weight), (1, 1.0));
            assert!(found.l2_penalty.is_infinite() && found.coefficients == [4.0]);
        }
    }
}
