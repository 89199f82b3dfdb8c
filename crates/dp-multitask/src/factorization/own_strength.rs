//! Regularisation of a user's personal fit, chosen by each user from their own records. Local.

use std::sync::LazyLock;

use dp_core::UserRow;
use dp_linalg::{cholesky_in_place, cholesky_solve_in_place};

use super::item_posterior::dot;
use super::model::PersonalModel;
use super::user_step::{Design, UserScratch};

/// Candidate penalties of the offset, in ratings.
const OFFSETS: [f64; 3] = [1.0, 5.0, 25.0];
/// Candidate penalties of the taste factors, in units of squared item factors; and no taste factors
/// at all.
const TASTES: [Option<f64>; 6] = [
    Some(1.0),
    Some(4.0),
    Some(16.0),
    Some(64.0),
    Some(256.0),
    None,
];
/// Candidate shares of the item biases: all of them, half, and none.
const BIASES: [f64; 3] = [1.0, 0.5, 0.0];

/// One candidate fit of a user, and how well it explains the user's records.
#[derive(Clone, Copy)]
struct Candidate {
    bias_weight: f64,
    /// The user's offset.
    offset: f64,
    /// Logarithm of evidence times prior weight, up to a constant.
    log_weight: f64,
}

/// [`log_prior`] of every candidate, by tastes and then by offset and item biases.
static LOG_PRIORS: LazyLock<[[f64; 9]; 6]> = LazyLock::new(|| {
    TASTES.map(|taste| std::array::from_fn(|at| log_prior(OFFSETS[at / 3], taste, BIASES[at % 3])))
});

/// Logarithm of the public prior weight of a candidate, with its mode in the middle of the grid and
/// at the full item biases. Chosen on splits of `MovieLens`, Jester and `InstEval`
/// (`docs/results.md`).
fn log_prior(offset: f64, taste: Option<f64>, bias_weight: f64) -> f64 {
    let step = |x: f64, middle: f64, ratio: f64| ((x / middle).ln() / ratio.ln()).powi(2);
    let taste = step(taste.unwrap_or(1024.0), 16.0, 4.0);
    let offset = step(offset, 8.0, 5.0);
    -(0.75 * taste + 0.75 * offset + 4.5 * (1.0 - bias_weight))
}

/// `lambda_v` at which weights of records are computed: the mode of [`log_prior`].
const USUAL_TASTES: f64 = 16.0;

/// Sufficient statistics of one user, independent of penalties: `X^T W X`, `X^T W y`, `X^T W h`,
/// `y^T W y`, `y^T W h` and `h^T W h` over the user's records, with rows `x_i = [1, q_i]`, labels
/// `y_i` minus the public centre, item biases `h_i` and weights `w_i` of the records.
struct Evidence<'a> {
    dim: usize,
    n_records: f64,
    gram: &'a [f64],
    labels: &'a [f64],
    biases: &'a [f64],
    squares: [f64; 3],
}

/// `B^-1` times the sums of `q_i`, `y_i q_i` and `h_i q_i`, where `B = sum q_i q_i^T + lambda_v I`.
struct Solved {
    rows: Vec<f64>,
    labels: Vec<f64>,
    biases: Vec<f64>,
}

impl Evidence<'_> {
    /// The candidates with this penalty of the taste factors: one for each penalty of the offset
    /// and share of the item biases. None when the system cannot be solved.
    ///
    /// With label `y - b h`, noise of unknown variance `s^2` (with a scale-invariant prior) and
    /// `o ~ N(0, s^2/lambda_o)`, `v ~ N(0, s^2/lambda_v)`, the evidence of `n` records is, up to a
    /// constant,
    ///
    /// ```text
    /// -n/2 ln((y - b h)^T (y - b h - X w)) - 1/2 (ln |A| - ln lambda_o - d ln lambda_v),    A = X^T X + diag(lambda)
    /// ```
    ///
    /// The offset is eliminated: with `c = n + lambda_o - s^T B^-1 s` and `s = sum q_i`,
    /// `|A| = c |B|`, and one factorisation of `B` serves all penalties of the offset.
    fn candidates(&self, taste: usize) -> Option<(Solved, [Candidate; 9])> {
        let (penalty, priors) = (TASTES[taste], LOG_PRIORS[taste]);
        let k = penalty.map_or(0, |_| self.dim - 1);
        let mut matrix = vec![0.0; k * k];
        let rows = self.gram.chunks(self.dim).skip(1);
        for (at, (to, from)) in matrix.chunks_exact_mut(k.max(1)).zip(rows).enumerate() {
            to.copy_from_slice(&from[1..]);
            to[at] += penalty.unwrap_or(0.0);
        }
        let sums = [self.gram, self.labels, self.biases].map(|sums| &sums[1..=k]);
        let mut solved = sums.map(<[f64]>::to_vec);
        let mut log_det = 0.0;
        if k > 0 {
            cholesky_in_place(&mut matrix, k).ok()?;
            for solution in &mut solved {
                cholesky_solve_in_place(&matrix, k, solution).ok()?;
            }
            log_det = (0..k).map(|at| 2.0 * matrix[at * k + at].ln()).sum();
            log_det -= k as f64 * penalty.unwrap_or(1.0).ln();
        }
        let [of_rows, of_labels, of_biases] = solved;
        let (n_records, weight) = (self.n_records, self.gram[0]);
        let [yy, yh, hh] = self.squares;
        let quadratic = [
            dot(sums[1], &of_labels),
            dot(sums[1], &of_biases),
            dot(sums[2], &of_biases),
        ];
        let [by_rows, by_labels, by_biases] =
            [&of_rows, &of_labels, &of_biases].map(|solution| dot(sums[0], solution));
        let candidate = |at: usize| {
            let (penalty, b) = (OFFSETS[at / 3], BIASES[at % 3]);
            let c = weight + penalty - by_rows;
            let left = self.labels[0] - b * self.biases[0] - (by_labels - b * by_biases);
            let explained =
                quadratic[0] - 2.0 * b * quadratic[1] + b * b * quadratic[2] + left * left / c;
            let square = yy - 2.0 * b * yh + b * b * hh;
            // if all records of a user are explained, rounding may leave a remainder of 0 or below
            let rest = (square - explained).max(1e-9 * (1.0 + yy));
            Candidate {
                bias_weight: b,
                offset: left / c,
                log_weight: priors[at]
                    - 0.5 * (n_records * rest.ln() + log_det + (c / penalty).ln()),
            }
        };
        let solved = Solved {
            rows: of_rows,
            labels: of_labels,
            biases: of_biases,
        };
        Some((solved, std::array::from_fn(candidate)))
    }
}

impl Design {
    /// The user's personal model around the public `center`, with penalties weighted by the
    /// evidence of the user's own records: the mean of the candidates' fits, by their posterior
    /// weights. Without records all weights are those of the prior.
    ///
    /// If the standard errors of the item factors are known, a record of an uncertain item counts
    /// less (errors in variables):
    ///
    /// ```text
    /// y_i = o + b h_i + <q_i, v> + e_i,     V e_i = s^2 / w_i,     1 / w_i = 1 + V h_i / s^2 + sum_k V q_ik / 16
    /// ```
    ///
    /// with `b = 1` and `v ~ N(0, s^2/16)`, and `s^2` the user's mean squared residual after
    /// subtracting the item biases and its mean. Factors are posterior means, so their errors are
    /// uncorrelated with them, and the fit is not attenuated.
    ///
    /// Cost O(n d^2) for the sums and O(d^3) for each penalty of the taste factors.
    pub(crate) fn weighed_model(
        &self,
        center: f64,
        user: UserRow<'_>,
        scratch: &mut UserScratch,
    ) -> PersonalModel {
        let dim = self.dim();
        let mut model = PersonalModel {
            offset: center,
            bias_weight: 1.0,
            factor: vec![0.0; dim - 1],
        };
        let label = |y: f32| f64::from(y) - center;
        let weights = self.record_weights(user, label);
        let Ok((gram, labels)) = self.sums(user, label, weights.as_deref(), scratch) else {
            return model;
        };
        let (mut biases, mut squares) = (vec![0.0; dim], [0.0; 3]);
        for (at, (item, y)) in user.iter().enumerate() {
            let w = weights.as_ref().map_or(1.0, |weights| weights[at]);
            let (y, h) = (label(y), self.item_bias(item));
            squares[0] += w * y * y;
            squares[1] += w * y * h;
            squares[2] += w * h * h;
            for (sum, x) in biases.iter_mut().zip(self.row(item)) {
                *sum += w * h * x;
            }
        }
        let evidence = Evidence {
            dim,
            n_records: user.len() as f64,
            gram,
            labels,
            biases: &biases,
            squares,
        };
        // if the model has no taste factors, there is nothing to choose
        let tastes = (0..TASTES.len()).filter(|&taste| dim > 1 || TASTES[taste].is_none());
        let found: Vec<_> = tastes.filter_map(|at| evidence.candidates(at)).collect();
        let all = || found.iter().flat_map(|(_, candidates)| candidates);
        let best = all()
            .map(|candidate| candidate.log_weight)
            .filter(|weight| weight.is_finite())
            .fold(f64::NEG_INFINITY, f64::max);
        let weight = |candidate: &Candidate| match candidate.log_weight - best {
            less if less > -40.0 => less.exp(),
            _ => 0.0, // also if it is not a number
        };
        let total: f64 = all().map(weight).sum();
        if best.is_finite() && total > 0.0 {
            model.bias_weight = 0.0;
            for (solved, candidates) in &found {
                let (mut share, mut bias, mut offset) = (0.0, 0.0, 0.0);
                for candidate in candidates {
                    let weight = weight(candidate) / total;
                    if weight > 0.0 {
                        share += weight;
                        bias += weight * candidate.bias_weight;
                        offset += weight * candidate.offset;
                    }
                }
                model.bias_weight += bias;
                model.offset += offset;
                let solved = (solved.labels.iter().zip(&solved.biases)).zip(&solved.rows);
                for (v, ((y, h), row)) in model.factor.iter_mut().zip(solved) {
                    *v += share * y - bias * h - offset * row;
                }
            }
        }
        model
    }

    /// `w_i` of the user's records, if the standard errors of the item factors are known.
    fn record_weights(&self, user: UserRow<'_>, label: impl Fn(f32) -> f64) -> Option<Vec<f64>> {
        let variances = self.variances()?;
        let n = user.len() as f64;
        let above = || user.iter().map(|(item, y)| label(y) - self.item_bias(item));
        let mean = above().sum::<f64>() / n;
        // one label in addition, so that a single record has a residual
        let squares: f64 = above().map(|y| (y - mean).powi(2)).sum();
        let s2 = (squares + mean * mean) / n;
        let weight = |item: &u32| {
            let [of_bias, of_tastes] = variances[*item as usize];
            (1.0 + of_bias / s2.max(f64::MIN_POSITIVE) + of_tastes / USUAL_TASTES).recip()
        };
        Some(user.items().iter().map(weight).collect())
    }
}

#[cfg(test)]
mod tests {
    use approx::assert_relative_eq;
    use chacha20::ChaCha20Rng;
    use dp_core::{Interactions, InteractionsBuilder};
    use rand::{RngExt, SeedableRng};

    use super::super::item_update::ScoreModel;
    use super::*;

    const DIM: usize = 3;
    const N_ITEMS: usize = 60;

    /// Rows `[h_i, q_i]` and, for one user, ratings of every second item computed by `rating` from
    /// the item's row and noise.
    fn user(seed: u64, rating: impl Fn(&[f64], f64) -> f64) -> (Vec<f64>, Interactions) {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut draw = |scale: f64| {
            // four uniform draws have a third of this variance each
            let sum: f64 = (0..4).map(|_| rng.random_range(-1.0..1.0)).sum();
            scale * sum * 0.75_f64.sqrt()
        };
        let factors: Vec<f64> = (0..N_ITEMS * DIM).map(|_| draw(0.7)).collect();
        let mut builder = InteractionsBuilder::new(N_ITEMS);
        for item in (0..60_u32).step_by(2) {
            let row = &factors[item as usize * DIM..][..DIM];
            #[allow(clippy::cast_possible_truncation, reason = "ratings are single")]
            builder
                .push(0, item, (3.0 + rating(row, draw(1.0))) as f32)
                .unwrap();
        }
        (factors, builder.build().0)
    }

    fn fitted(factors: &[f64], table: &Interactions) -> PersonalModel {
        let design = Design::new(factors, DIM, ScoreModel::Biased);
        let mut scratch = UserScratch::new(DIM).unwrap();
        design.weighed_model(3.0, table.user(0), &mut scratch)
    }

    /// `ln p(y)` of labels with covariance `I + 1 1^T / lambda_o + Q Q^T / lambda_v` and unknown scale, from the dense matrix.
    fn dense_evidence(rows: &[[f64; DIM]], labels: &[f64], offset: f64, taste: Option<f64>) -> f64 {
        let n = labels.len();
        let mut matrix = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..n {
                let tastes: f64 = (1..DIM).map(|k| rows[i][k] * rows[j][k]).sum();
                matrix[i * n + j] = f64::from(u8::from(i == j))
                    + offset.recip()
                    + taste.map_or(0.0, |taste| tastes / taste);
            }
        }
        cholesky_in_place(&mut matrix, n).unwrap();
        let mut solved = labels.to_vec();
        cholesky_solve_in_place(&matrix, n, &mut solved).unwrap();
        let square: f64 = labels.iter().zip(&solved).map(|(y, x)| y * x).sum();
        let log_det: f64 = (0..n).map(|i| 2.0 * matrix[i * n + i].ln()).sum();
        -0.5 * (n as f64 * square.ln() + log_det)
    }

    #[test]
    fn evidence_is_that_of_the_dense_covariance() {
        let (factors, table) = user(1, |row, noise| row[0] + 0.8 * row[1] + 0.5 * noise);
        let rows: Vec<[f64; DIM]> = (table.user(0).items().iter())
            .map(|&item| std::array::from_fn(|k| factors[item as usize * DIM + k]))
            .collect();
        let design = Design::new(&factors, DIM, ScoreModel::Biased);
        let mut scratch = UserScratch::new(DIM).unwrap();
        let label = |y: f32| f64::from(y) - 3.0;
        let (gram, labels) = (design.sums(table.user(0), label, None, &mut scratch)).unwrap();
        let ys: Vec<f64> = table.user(0).values().iter().map(|&y| label(y)).collect();
        let with_biases = |f: fn(f64, f64) -> f64| -> f64 {
            ys.iter().zip(&rows).map(|(&y, row)| f(y, row[0])).sum()
        };
        let squares = [
            with_biases(|y, _| y * y),
            with_biases(|y, h| y * h),
            with_biases(|_, h| h * h),
        ];
        let biases: Vec<f64> = (0..DIM)
            .map(|k| {
                (rows.iter())
                    .map(|row| row[0] * if k == 0 { 1.0 } else { row[k] })
                    .sum()
            })
            .collect();
        let evidence = Evidence {
            dim: DIM,
            n_records: gram[0],
            gram,
            labels,
            biases: &biases,
            squares,
        };
        for (at, taste) in TASTES.into_iter().enumerate() {
            let candidates = evidence.candidates(at).unwrap().1;
            for (candidate, offset) in candidates.iter().zip(OFFSETS.map(|x| [x; 3]).concat()) {
                let left: Vec<f64> = (ys.iter().zip(&rows))
                    .map(|(y, row)| y - candidate.bias_weight * row[0])
                    .collect();
                let found = candidate.log_weight - log_prior(offset, taste, candidate.bias_weight);
                let dense = dense_evidence(&rows, &left, offset, taste);
                assert_relative_eq!(found, dense, max_relative = 1e-4);
            }
        }
    }

    #[test]
    fn what_was_shared_is_taken_by_who_gains_from_it() {
        // 40 users of each kind, 30 records each; the means of their shares are many standard
        // errors apart
        let mean = |rating: fn(&[f64], f64) -> f64| {
            let mut found = [0.0; 2];
            for seed in 0..40 {
                let (factors, table) = user(seed, rating);
                let model = fitted(&factors, &table);
                found[0] += model.bias_weight / 40.0;
                found[1] += model.factor.iter().map(|v| v * v).sum::<f64>().sqrt() / 40.0;
            }
            found
        };
        let [bias, taste] = mean(|row, noise| 1.0 + row[0] + row[1] - row[2] + 0.3 * noise);
        assert!(bias > 0.95, "{bias}");
        assert!((1.2..1.5).contains(&taste), "{taste}");
        let [bias, taste] = mean(|_, noise| noise);
        assert!(bias < 0.6, "{bias}");
        assert!(taste < 0.2, "{taste}");
    }

    #[test]
    fn records_of_uncertain_items_count_less() {
        // item biases of standard deviation .7; of every second item a user rates nothing is known,
        // so its estimate is 0 with that error; the others are exact
        let mut squares = [0.0; 2];
        for seed in 0..200 {
            let (mut factors, table) = user(seed, |row, noise| 0.5 + row[0] + 0.3 * noise);
            let mut errors = vec![0.0; N_ITEMS * DIM];
            for item in (0..N_ITEMS).step_by(4) {
                factors[item * DIM] = 0.0;
                errors[item * DIM] = 0.7;
            }
            let bare = Design::new(&factors, DIM, ScoreModel::Biased);
            let aware =
                Design::new(&factors, DIM, ScoreModel::Biased).with_standard_errors(&errors);
            let mut scratch = UserScratch::new(DIM).unwrap();
            for (sum, design) in squares.iter_mut().zip([bare, aware]) {
                let model = design.weighed_model(3.0, table.user(0), &mut scratch);
                *sum += (model.offset - 3.5).powi(2);
            }
        }
        // relative standard error of each sum .1, and both are of the same users: a ratio above .9
        // by chance has a probability below 1e-4
        assert!(squares[1] < 0.9 * squares[0], "{squares:?}");
    }

    #[test]
    fn exact_factors_weigh_all_records_equally() {
        let (factors, table) = user(5, |row, noise| row[0] + row[1] + 0.3 * noise);
        let none = vec![0.0; factors.len()];
        let design = Design::new(&factors, DIM, ScoreModel::Biased).with_standard_errors(&none);
        let mut scratch = UserScratch::new(DIM).unwrap();
        let model = design.weighed_model(3.0, table.user(0), &mut scratch);
        assert!(model == fitted(&factors, &table));
    }

    #[test]
    fn users_without_records_and_without_spread_have_a_model() {
        let (factors, _) = user(2, |_, _| 0.0);
        let mut empty = InteractionsBuilder::new(N_ITEMS);
        empty.ensure_users(1);
        let model = fitted(&factors, &empty.build().0);
        assert!(model.factor.iter().all(|v| *v == 0.0) && (model.offset - 3.0).abs() < 1e-12);
        assert!((0.5..1.0).contains(&model.bias_weight));
        let (factors, table) = user(2, |_, _| 1.0);
        let model = fitted(&factors, &table);
        assert!((model.offset - 4.0).abs() < 0.1, "{}", model.offset);
        assert!(model.bias_weight < 0.1);
    }
}
