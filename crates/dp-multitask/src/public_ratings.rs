//! Item biases and taste factors from public ratings, for an [`ItemPrior`](crate::ItemPrior).
//! Nothing here is private.

use dp_core::{Interactions, ParamError, parallel, params};
use dp_linalg::{cholesky_in_place, cholesky_solve_in_place};

use crate::Result;
use crate::factorization::initial_factors;

/// Number of steps.
const N_STEPS: usize = 60;
/// Steps before the means of the items follow their features.
const N_STEPS_WITHOUT_FEATURES: usize = 5;
/// Passes over the features in a step.
const N_PASSES: usize = 2;
/// Variances at the start, relative to that of the ratings: noise, offsets of users, item biases,
/// taste factors of items and weights of features; and the standard deviation of random taste
/// factors. The variance of users' taste factors is 1 by definition of their unit.
const START: Start = Start {
    noise: 0.7,
    offset: 0.2,
    bias: 0.1,
    taste: 0.05,
    weight: 0.01,
    spread: 0.1,
};
/// Minimum variance, relative to that of the ratings.
const LEAST_VARIANCE: f64 = 1e-8;
/// The same of the noise.
const LEAST_NOISE: f64 = 1e-4;
const SEED: u64 = 0;

struct Start {
    noise: f64,
    offset: f64,
    bias: f64,
    taste: f64,
    weight: f64,
    spread: f64,
}

/// Item information from public ratings: item biases and taste factors by variational Bayes (Lim
/// and Teh 2007), whose means follow the items' features (Agarwal and Chen 2009).
///
/// ```text
/// y_ui = mean + o_u + h_i + <v_u, q_i> + e_ui             e_ui ~ N(0, s^2)
/// (o_u, v_u) ~ N(0, diag(a, 1, ..., 1))
/// x_i = (h_i, q_i) ~ N(b + sum_f w_if beta_f, T)          w_if the weight of feature f for item i
/// beta_f ~ N(0, V_g), g the source of f                   T and V_g diagonal
/// ```
///
/// The posterior is approximated by normal distributions that are independent between users, items
/// and weights of features, except that the weights are updated with the items' own parts integrated
/// out, coordinate by coordinate. The variances s^2, a, T and `V_g` are updated as expected squares
/// (variational EM), so weights of a source without information shrink to 0. Items without ratings
/// get the means that follow from their features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicRatings {
    /// Number of taste factors of an item, 0 to 64.
    pub n_tastes: usize,
}

impl Default for PublicRatings {
    fn default() -> Self {
        Self { n_tastes: 9 }
    }
}

/// Features of items by source, such as genres or actors. The features of a source share one
/// variance.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PublicFeatures {
    rows: Vec<Vec<(u32, f64)>>,
    sizes: Vec<usize>,
}

impl PublicFeatures {
    /// From numbers and weights of each item's features, and the number of features of each source;
    /// features are numbered source by source. Weights of a feature that is given twice add up.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when a number is too large or a weight not from -1e6 to 1e6.
    pub fn new(mut rows: Vec<Vec<(u32, f64)>>, sizes: Vec<usize>) -> Result<Self> {
        let n: usize = sizes.iter().sum();
        for &(feature, weight) in rows.iter().flatten() {
            if feature as usize >= n {
                let expected = "a number below the number of features";
                return Err(ParamError::new("feature", f64::from(feature), expected).into());
            }
            if weight.is_nan() || weight.abs() > 1e6 {
                let expected = "a number from -1e6 to 1e6";
                return Err(ParamError::new("weight of a feature", weight, expected).into());
            }
        }
        for row in &mut rows {
            row.sort_by_key(|(feature, _)| *feature);
            row.dedup_by(|next, kept| {
                let is_same = next.0 == kept.0;
                kept.1 += if is_same { next.1 } else { 0.0 };
                is_same
            });
        }
        Ok(Self { rows, sizes })
    }

    fn n_features(&self) -> usize {
        self.sizes.iter().sum()
    }

    /// Numbers, in increasing order, and weights of an item's features; empty for other items.
    #[must_use]
    pub fn row(&self, item: usize) -> &[(u32, f64)] {
        self.rows.get(item).map_or(&[], Vec::as_slice)
    }
}

/// Item parameters of public ratings.
#[derive(Debug, Clone, PartialEq)]
pub struct PublicItems {
    /// Rows `[h_i, q_i]`, shape `(n_items, 1 + n_tastes)`.
    pub rows: Vec<f64>,
    /// Posterior standard deviation of `h_i`, in data units.
    pub standard_errors: Vec<f64>,
}

impl PublicRatings {
    /// Fits all items; `features` has a row for each item, or none at all. For public ratings only:
    /// the result reveals them.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when a setting is out of range or there are no ratings,
    /// [`crate::Error::Shape`] when there are features of another number of items.
    pub fn fit(self, ratings: &Interactions, features: &PublicFeatures) -> Result<PublicItems> {
        let expected = "a whole number from 0 to 64";
        let dim = 1 + params::in_range("n_tastes", self.n_tastes, 0, 64, expected)?;
        let n_items = ratings.n_items();
        params::at_least_one("n_records", ratings.n_records())?;
        if !features.rows.is_empty() {
            params::same_size("features", features.rows.len(), n_items)?;
        }
        let (by_user, by_item) = both_ways(ratings);
        let squares: f64 = by_user.values.iter().map(|y| y * y).sum();
        let unit = (squares / by_user.values.len() as f64).max(f64::MIN_POSITIVE.sqrt());

        let is_rated: Vec<bool> = (0..n_items)
            .map(|item| !by_item.range(item).is_empty())
            .collect();
        let mut variances = Variances::at_start(dim, unit);
        let mut means = ItemMeans::new(features, &is_rated, dim, unit);
        let spread = START.spread * unit.sqrt();
        let mut items = Posterior {
            means: initial_factors(n_items, dim, spread, SEED)?,
            covariances: vec![0.0; n_items * dim * dim],
        };
        for step in 0..N_STEPS {
            let zeros = vec![0.0; by_user.len() * dim];
            let users = by_user.posterior(&items, &zeros, &variances.users, variances.noise)?;
            let mut expected = match step < N_STEPS_WITHOUT_FEATURES {
                true => vec![0.0; n_items * dim],
                false => means.of_items(features),
            };
            items = by_item.posterior(&users, &expected, &variances.items, variances.noise)?;
            if step >= N_STEPS_WITHOUT_FEATURES {
                means.update(features, &items, &expected, &variances.items);
                expected = means.of_items(features);
            }
            let uncertain = means.variances_of_items(features);
            let scale = variances.update(&users, &items, (&expected, &uncertain), &is_rated);
            variances.noise = by_user.mean_square(&users, &items).max(LEAST_NOISE * unit);
            items.rescale(&scale);
            means.rescale(&scale);
        }
        let expected = means.of_items(features);
        let uncertain = means.variances_of_items(features);
        let mut standard_errors = Vec::with_capacity(n_items);
        for item in 0..n_items {
            let of_mean = uncertain[item * dim];
            let variance = if is_rated[item] {
                let own = items.covariances[item * dim * dim];
                own + (own / variances.items[0]).powi(2) * of_mean
            } else {
                items.means[item * dim..][..dim].copy_from_slice(&expected[item * dim..][..dim]);
                variances.items[0] + of_mean
            };
            standard_errors.push(variance.sqrt());
        }
        Ok(PublicItems {
            rows: items.means,
            standard_errors,
        })
    }
}

/// Ratings above their mean, row by row.
struct Rows {
    starts: Vec<usize>,
    others: Vec<u32>,
    values: Vec<f64>,
}

/// Rows of users and rows of items.
fn both_ways(ratings: &Interactions) -> (Rows, Rows) {
    let n = ratings.n_records();
    let sum: f64 = (ratings.users())
        .flat_map(|user| user.values())
        .map(|y| f64::from(*y))
        .sum();
    let mean = sum / n as f64;
    let mut users = Rows {
        starts: vec![0],
        others: Vec::with_capacity(n),
        values: Vec::with_capacity(n),
    };
    let mut starts = vec![0; ratings.n_items() + 1];
    for user in ratings.users() {
        users.others.extend(user.items());
        users
            .values
            .extend(user.values().iter().map(|y| f64::from(*y) - mean));
        users.starts.push(users.others.len());
        user.items()
            .iter()
            .for_each(|&item| starts[item as usize + 1] += 1);
    }
    (1..starts.len()).for_each(|item| starts[item] += starts[item - 1]);
    let mut next = starts.clone();
    let (mut others, mut values) = (vec![0; n], vec![0.0; n]);
    for user in 0..users.len() {
        for at in users.range(user) {
            let to = &mut next[users.others[at] as usize];
            others[*to] = u32::try_from(user).unwrap_or(u32::MAX);
            values[*to] = users.values[at];
            *to += 1;
        }
    }
    let items = Rows {
        starts,
        others,
        values,
    };
    (users, items)
}

impl Rows {
    fn len(&self) -> usize {
        self.starts.len() - 1
    }

    fn range(&self, row: usize) -> std::ops::Range<usize> {
        self.starts[row]..self.starts[row + 1]
    }

    /// Posteriors of the rows given those of the other side and normal priors with these means and
    /// variances.
    fn posterior(
        &self,
        others: &Posterior,
        means: &[f64],
        variances: &[f64],
        noise: f64,
    ) -> Result<Posterior> {
        let dim = variances.len();
        let moments = others.moments(dim);
        let mut found = Posterior {
            means: vec![0.0; self.len() * dim],
            covariances: vec![0.0; self.len() * dim * dim],
        };
        let rows = (found.means.chunks_mut(dim))
            .zip(found.covariances.chunks_mut(dim * dim))
            .zip(means.chunks(dim));
        parallel::try_for_each(
            rows.enumerate(),
            || Ok(vec![0.0; dim * dim]),
            |matrix, (row, ((x, covariance), mean))| {
                matrix.fill(0.0);
                for at in self.range(row) {
                    let other = self.others[at] as usize;
                    let (second, first) = moments.of(other, dim);
                    matrix.iter_mut().zip(second).for_each(|(a, m)| *a += m);
                    let y = self.values[at] - others.means[other * dim];
                    let a = std::iter::once(1.0)
                        .chain(others.means[other * dim..][1..dim].iter().copied());
                    for ((x, a), c) in x.iter_mut().zip(a).zip(first) {
                        *x += y * a - c;
                    }
                }
                matrix.iter_mut().for_each(|a| *a /= noise);
                for (k, (x, mean)) in x.iter_mut().zip(mean).enumerate() {
                    matrix[k * (dim + 1)] += variances[k].recip();
                    *x = *x / noise + mean / variances[k];
                }
                cholesky_in_place(matrix, dim)?;
                cholesky_solve_in_place(matrix, dim, x)?;
                for (k, column) in covariance.chunks_exact_mut(dim).enumerate() {
                    column[k] = 1.0;
                    cholesky_solve_in_place(matrix, dim, column)?;
                }
                Ok::<(), crate::Error>(())
            },
        )?;
        Ok(found)
    }

    /// Mean of the squared residuals over ratings and both posteriors; rows are users.
    fn mean_square(&self, users: &Posterior, items: &Posterior) -> f64 {
        let dim = users.means.len() / self.len();
        let of_user = |user: usize| -> f64 {
            let (z, of_z) = users.row(user, dim);
            let each = self.range(user).map(|at| {
                let (x, of_x) = items.row(self.others[at] as usize, dim);
                let mut residual = self.values[at] - z[0] - x[0];
                let mut variance = of_z[0] + of_x[0];
                for k in 1..dim {
                    residual -= z[k] * x[k];
                    variance += 2.0 * (x[k] * of_z[k] + z[k] * of_x[k]);
                    for l in 1..dim {
                        let (of_z, of_x) = (of_z[k * dim + l], of_x[k * dim + l]);
                        variance += x[k] * x[l] * of_z + z[k] * z[l] * of_x + of_z * of_x;
                    }
                }
                residual * residual + variance
            });
            each.sum()
        };
        let sums = parallel::map(self.len(), of_user);
        sums.iter().sum::<f64>() / self.values.len() as f64
    }
}

/// Normal distributions of the rows of one side.
struct Posterior {
    means: Vec<f64>,
    /// Row-major, one matrix for each row.
    covariances: Vec<f64>,
}

/// Moments of rows `(x_0, x')` as regressors `a = (1, x')`: `E a a^T` and `Cov(x_0, a)`.
struct Moments {
    second: Vec<f64>,
    first: Vec<f64>,
}

impl Moments {
    fn of(&self, row: usize, dim: usize) -> (&[f64], &[f64]) {
        (
            &self.second[row * dim * dim..][..dim * dim],
            &self.first[row * dim..][..dim],
        )
    }
}

impl Posterior {
    fn row(&self, row: usize, dim: usize) -> (&[f64], &[f64]) {
        (
            &self.means[row * dim..][..dim],
            &self.covariances[row * dim * dim..][..dim * dim],
        )
    }

    fn moments(&self, dim: usize) -> Moments {
        let (mut second, mut first) = (self.covariances.clone(), Vec::new());
        for (matrix, x) in second
            .chunks_exact_mut(dim * dim)
            .zip(self.means.chunks_exact(dim))
        {
            first.push(0.0);
            first.extend(&matrix[1..dim]);
            let a = |k: usize| if k == 0 { 1.0 } else { x[k] };
            for k in 0..dim {
                for l in 0..dim {
                    let own = if k == 0 || l == 0 {
                        0.0
                    } else {
                        matrix[k * dim + l]
                    };
                    matrix[k * dim + l] = own + a(k) * a(l);
                }
            }
        }
        Moments { second, first }
    }

    /// Multiplies each coordinate by its number.
    fn rescale(&mut self, scale: &[f64]) {
        let dim = scale.len();
        for x in self.means.chunks_exact_mut(dim) {
            x.iter_mut().zip(scale).for_each(|(x, s)| *x *= s);
        }
        for matrix in self.covariances.chunks_exact_mut(dim * dim) {
            for (row, a) in matrix.chunks_exact_mut(dim).zip(scale) {
                row.iter_mut().zip(scale).for_each(|(c, b)| *c *= a * b);
            }
        }
    }
}

/// The learned variances.
struct Variances {
    users: Vec<f64>,
    items: Vec<f64>,
    noise: f64,
    least: f64,
}

impl Variances {
    fn at_start(dim: usize, unit: f64) -> Self {
        let first = |first: f64, others: f64| {
            let others = std::iter::repeat_n(others, dim - 1);
            std::iter::once(first).chain(others).collect()
        };
        Self {
            users: first(START.offset * unit, 1.0),
            items: first(START.bias * unit, START.taste * unit),
            noise: START.noise * unit,
            least: LEAST_VARIANCE * unit,
        }
    }

    /// Variances of users and items given their posteriors; returns by what the taste factors of
    /// items are to be multiplied for users' to have variance 1.
    ///
    /// Items are at `m + rho (x - m)` for the `x` that the ratings say and a mean `m` with a variance
    /// of its own: `E (x_i - m_i)^2` has `rho_i^2 Var(m_i)` besides the variance given the mean.
    fn update(
        &mut self,
        users: &Posterior,
        items: &Posterior,
        (expected, uncertain): (&[f64], &[f64]),
        is_rated: &[bool],
    ) -> Vec<f64> {
        let dim = self.users.len();
        let of_users = squares(users, dim, &[], |_| true);
        let scale = |v: &f64| v.max(LEAST_VARIANCE).sqrt();
        let mut scale: Vec<f64> = of_users.iter().map(scale).collect();
        scale[0] = 1.0;
        self.users[0] = of_users[0].max(self.least);
        let rated = || (0..is_rated.len()).filter(|item| is_rated[*item]);
        let n = rated().count() as f64;
        let mut of_items = squares(items, dim, expected, |item| is_rated[item]);
        for item in rated() {
            for (k, v) in of_items.iter_mut().enumerate() {
                let own = items.covariances[item * dim * dim + k * (dim + 1)];
                let rho = 1.0 - own / self.items[k];
                *v += rho * rho * uncertain[item * dim + k] / n;
            }
        }
        for ((v, found), s) in self.items.iter_mut().zip(of_items).zip(&scale) {
            *v = (found * s * s).max(self.least);
        }
        scale
    }
}

/// Means over rows of `(x - expected)^2` plus the variance, for each coordinate.
fn squares(
    of: &Posterior,
    dim: usize,
    expected: &[f64],
    is_used: impl Fn(usize) -> bool,
) -> Vec<f64> {
    let (mut sums, mut n) = (vec![0.0; dim], 0.0);
    for row in (0..of.means.len() / dim).filter(|row| is_used(*row)) {
        let (x, covariance) = of.row(row, dim);
        n += 1.0;
        for k in 0..dim {
            let rest = x[k] - expected.get(row * dim + k).unwrap_or(&0.0);
            sums[k] += rest * rest + covariance[k * (dim + 1)];
        }
    }
    sums.iter().map(|sum| sum / n).collect()
}

/// The means of items: a constant and the weights of features, with their variances.
struct ItemMeans {
    constant: Vec<f64>,
    /// Rows of features.
    weights: Vec<f64>,
    variances: Vec<f64>,
    /// Rows of sources.
    priors: Vec<f64>,
    /// Rated items that have a feature, and its weight.
    holders: Vec<Vec<(usize, f64)>>,
    is_rated: Vec<bool>,
    least: f64,
}

impl ItemMeans {
    fn new(features: &PublicFeatures, is_rated: &[bool], dim: usize, unit: f64) -> Self {
        let n = features.n_features();
        let mut holders = vec![Vec::new(); n];
        for (item, row) in features
            .rows
            .iter()
            .enumerate()
            .filter(|(i, _)| is_rated[*i])
        {
            for &(feature, weight) in row {
                holders[feature as usize].push((item, weight));
            }
        }
        Self {
            constant: vec![0.0; dim],
            weights: vec![0.0; n * dim],
            variances: vec![0.0; n * dim],
            priors: vec![START.weight * unit; features.sizes.len() * dim],
            holders,
            is_rated: is_rated.to_vec(),
            least: LEAST_VARIANCE * unit,
        }
    }

    /// `b + sum_f w_if beta_f`.
    fn of_items(&self, features: &PublicFeatures) -> Vec<f64> {
        let dim = self.constant.len();
        let mut rows = self.constant.repeat(self.is_rated.len());
        for (x, own) in rows.chunks_exact_mut(dim).zip(&features.rows) {
            for &(feature, weight) in own {
                let of = &self.weights[feature as usize * dim..][..dim];
                x.iter_mut().zip(of).for_each(|(x, b)| *x += weight * b);
            }
        }
        rows
    }

    /// Variances of the same: `sum_f w_if^2 Var(beta_f)`.
    fn variances_of_items(&self, features: &PublicFeatures) -> Vec<f64> {
        let dim = self.constant.len();
        let mut rows = vec![0.0; self.is_rated.len() * dim];
        for (v, own) in rows.chunks_exact_mut(dim).zip(&features.rows) {
            for &(feature, weight) in own {
                let of = &self.variances[feature as usize * dim..][..dim];
                v.iter_mut()
                    .zip(of)
                    .for_each(|(v, b)| *v += weight * weight * b);
            }
        }
        rows
    }

    /// The distribution of the weights given the items' posteriors around `expected`, whose prior
    /// variances are `of_items`.
    ///
    /// The items' own parts are integrated out: the ratings measure `x_i` with variance `S / rho_i`,
    /// `rho_i = 1 - S / T` for a posterior variance S, at `m_i + (x_i - m_i) / rho_i`.
    fn update(
        &mut self,
        features: &PublicFeatures,
        items: &Posterior,
        expected: &[f64],
        of_items: &[f64],
    ) {
        let dim = self.constant.len();
        let (mut rests, mut precisions) = (items.means.clone(), vec![0.0; items.means.len()]);
        for item in (0..self.is_rated.len()).filter(|item| self.is_rated[*item]) {
            for (k, t) in of_items.iter().enumerate() {
                let at = item * dim + k;
                let s = items.covariances[item * dim * dim + k * (dim + 1)];
                let rho = (1.0 - s / t).max(1e-9);
                rests[at] = (rests[at] - expected[at]) / rho;
                precisions[at] = rho / t;
            }
        }
        for _ in 0..N_PASSES {
            self.update_constant(&mut rests, &precisions);
            let mut feature = 0;
            for (source, size) in features.sizes.iter().enumerate() {
                let mut squares = vec![0.0; dim];
                let mut n = 0.0_f64;
                for _ in 0..*size {
                    self.update_weight(feature, source, &mut rests, &precisions, &mut squares);
                    n += f64::from(u8::from(!self.holders[feature].is_empty()));
                    feature += 1;
                }
                if n < 1.0 {
                    continue;
                }
                let priors = self.priors[source * dim..][..dim].iter_mut();
                for (prior, sum) in priors.zip(&squares) {
                    *prior = (sum / n).max(self.least);
                }
            }
        }
    }

    fn update_constant(&mut self, rests: &mut [f64], precisions: &[f64]) {
        let dim = self.constant.len();
        for k in 0..dim {
            let each = || (k..rests.len()).step_by(dim);
            let total: f64 = each().map(|at| precisions[at]).sum();
            let sum: f64 = each().map(|at| precisions[at] * rests[at]).sum();
            let change = sum / total;
            self.constant[k] += change;
            let each = (k..rests.len()).step_by(dim);
            each.for_each(|at| rests[at] -= change);
        }
    }

    /// Adds the weights' expected squares to `squares`.
    fn update_weight(
        &mut self,
        feature: usize,
        source: usize,
        rests: &mut [f64],
        precisions: &[f64],
        squares: &mut [f64],
    ) {
        let dim = self.constant.len();
        for (k, square) in squares.iter_mut().enumerate() {
            let (at, holders) = (feature * dim + k, &self.holders[feature]);
            let mut precision = 0.0;
            let mut sum = 0.0;
            for (item, w) in holders {
                let p = w * precisions[item * dim + k];
                precision += w * p;
                sum += p * rests[item * dim + k];
            }
            let before = self.weights[at];
            sum += precision * before;
            let variance = (precision + self.priors[source * dim + k].recip()).recip();
            let change = variance * sum - before;
            for (item, w) in holders {
                rests[item * dim + k] -= w * change;
            }
            self.weights[at] += change;
            self.variances[at] = variance;
            if !holders.is_empty() {
                *square += self.weights[at].powi(2) + variance;
            }
        }
    }

    fn rescale(&mut self, scale: &[f64]) {
        let dim = scale.len();
        for x in [&mut self.constant, &mut self.weights] {
            for row in x.chunks_exact_mut(dim) {
                row.iter_mut().zip(scale).for_each(|(x, s)| *x *= s);
            }
        }
        for x in [&mut self.variances, &mut self.priors] {
            for row in x.chunks_exact_mut(dim) {
                row.iter_mut().zip(scale).for_each(|(v, s)| *v *= s * s);
            }
        }
    }
}
