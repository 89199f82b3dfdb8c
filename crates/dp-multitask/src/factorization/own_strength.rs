//! How strongly a user's own fit is held back, chosen by each user from own records. Local.

use dp_core::UserRow;
use dp_linalg::{cholesky_in_place, cholesky_solve_in_place};

use super::model::PersonalModel;
use super::user_step::{Design, UserScratch};

/// Penalties of the offset that are weighed, in ratings.
const OFFSETS: [f64; 3] = [1.0, 5.0, 25.0];
/// Penalties of the tastes that are weighed, in units of squared item factors; and no tastes at all.
const TASTES: [Option<f64>; 6] = [
    Some(1.0),
    Some(4.0),
    Some(16.0),
    Some(64.0),
    Some(256.0),
    None,
];
/// Parts of the item biases that are weighed: all of them, half, and nothing that was shared.
const BIASES: [f64; 3] = [1.0, 0.5, 0.0];

/// One way to fit a user, and how well it explains the user's records.
struct Candidate {
    log_weight: f64,
    bias_weight: f64,
    /// Offset and tastes, the latter none or all.
    solution: Vec<f64>,
}

/// Logarithm of the public prior weight of a candidate, with its mode in the middle of the grid and at the whole of the item biases. Chosen
/// on splits of `MovieLens`, Jester and `InstEval` (`docs/results.md`).
fn log_prior(offset: f64, taste: Option<f64>, bias_weight: f64) -> f64 {
    let step = |x: f64, middle: f64, ratio: f64| ((x / middle).ln() / ratio.ln()).powi(2);
    let taste = step(taste.unwrap_or(1024.0), 16.0, 4.0);
    let offset = step(offset, 8.0, 5.0);
    -(0.75 * taste + 0.75 * offset + 4.5 * (1.0 - bias_weight))
}

/// What is known of one user before any penalty: `X^T X`, `X^T y`, `X^T h`, `y^T y`, `y^T h` and `h^T h` over the user's records,
/// with rows `x_i = [1, q_i]`, labels `y_i` above the public centre and item biases `h_i`.
struct Evidence<'a> {
    n_records: usize,
    dim: usize,
    gram: &'a [f64],
    labels: &'a [f64],
    biases: Vec<f64>,
    squares: [f64; 3],
}

impl Evidence<'_> {
    /// Every candidate of these penalties: one for each weight of the item biases. None when the system cannot be solved.
    ///
    /// With label `y - b h`, noise of unknown variance `s^2` (all scales alike likely) and `o ~ N(0, s^2/lambda_o)`,
    /// `v ~ N(0, s^2/lambda_v)`, the evidence of `n` records is, up to a constant,
    ///
    /// ```text
    /// -n/2 ln((y - b h)^T (y - b h - X w)) - 1/2 (ln |A| - ln lambda_o - d ln lambda_v),    A = X^T X + diag(lambda)
    /// ```
    fn candidates(&self, offset: f64, taste: Option<f64>) -> Option<[Candidate; 3]> {
        let k = if taste.is_some() { self.dim } else { 1 };
        let mut matrix = vec![0.0; k * k];
        for (to, from) in matrix.chunks_exact_mut(k).zip(self.gram.chunks(self.dim)) {
            to.copy_from_slice(&from[..k]);
        }
        matrix[0] += offset;
        for at in 1..k {
            matrix[at * k + at] += taste.unwrap_or(0.0);
        }
        cholesky_in_place(&mut matrix, k).ok()?;
        let mut by_labels = self.labels[..k].to_vec();
        let mut by_biases = self.biases[..k].to_vec();
        cholesky_solve_in_place(&matrix, k, &mut by_labels).ok()?;
        cholesky_solve_in_place(&matrix, k, &mut by_biases).ok()?;
        let log_det: f64 = (0..k).map(|at| 2.0 * matrix[at * k + at].ln()).sum();
        let log_penalties = offset.ln() + (k - 1) as f64 * taste.unwrap_or(1.0).ln();
        let [yy, yh, hh] = self.squares;
        Some(BIASES.map(|bias_weight| {
            let solution: Vec<f64> = (by_labels.iter().zip(&by_biases))
                .map(|(y, h)| y - bias_weight * h)
                .collect();
            let explained: f64 = (0..k)
                .map(|at| solution[at] * (self.labels[at] - bias_weight * self.biases[at]))
                .sum();
            let square = yy - 2.0 * bias_weight * yh + bias_weight * bias_weight * hh;
            // rounding may leave nothing of the rest of a user whose records are all explained
            let rest = (square - explained).max(1e-9 * (1.0 + yy));
            let evidence = -0.5 * (self.n_records as f64 * rest.ln() + log_det - log_penalties);
            Candidate {
                log_weight: evidence + log_prior(offset, taste, bias_weight),
                bias_weight,
                solution,
            }
        }))
    }
}

impl Design {
    /// The user's own model around the public `center`, with penalties by the evidence of the user's own records: the mean of the candidates' fits, by
    /// their posterior weights. Without records all weights are those of the prior.
    ///
    /// Cost O(n d^2) for the sums and O(d^3) for each of the pairs of penalties.
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
        let Ok((gram, by_labels)) = self.sums(user, label, scratch) else {
            return model;
        };
        let mut evidence = Evidence {
            n_records: user.len(),
            dim,
            gram,
            labels: by_labels,
            biases: vec![0.0; dim],
            squares: [0.0; 3],
        };
        for (item, y) in user.iter() {
            let (y, h) = (label(y), self.item_bias(item));
            evidence.squares[0] += y * y;
            evidence.squares[1] += y * h;
            evidence.squares[2] += h * h;
            for (sum, x) in evidence.biases.iter_mut().zip(self.row(item)) {
                *sum += h * x;
            }
        }
        // without tastes in the model they are no choice
        let tastes = TASTES
            .into_iter()
            .filter(|taste| dim > 1 || taste.is_none());
        let pairs = tastes.flat_map(|taste| OFFSETS.map(|offset| (offset, taste)));
        let candidates: Vec<Candidate> = pairs
            .filter_map(|(offset, taste)| evidence.candidates(offset, taste))
            .flatten()
            .filter(|candidate| candidate.log_weight.is_finite())
            .collect();
        let best = (candidates.iter().map(|c| c.log_weight)).fold(f64::NEG_INFINITY, f64::max);
        let weight = |candidate: &Candidate| (candidate.log_weight - best).exp();
        let total: f64 = candidates.iter().map(weight).sum();
        if total > 0.0 {
            model.bias_weight = 0.0;
            for candidate in &candidates {
                let share = weight(candidate) / total;
                model.bias_weight += share * candidate.bias_weight;
                model.offset += share * candidate.solution[0];
                for (v, own) in model.factor.iter_mut().zip(&candidate.solution[1..]) {
                    *v += share * own;
                }
            }
        }
        model
    }
}

#[cfg(test)]
mod tests {
    use approx::assert_relative_eq;
    use dp_core::{Interactions, InteractionsBuilder};
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha20Rng;

    use super::super::item_update::ScoreModel;
    use super::*;

    const DIM: usize = 3;
    const N_ITEMS: usize = 60;

    /// Rows `[h_i, q_i]` and, for one user, ratings of every second item by `rating`, of the item's row and noise.
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
        let (gram, labels) = design.sums(table.user(0), label, &mut scratch).unwrap();
        let ys: Vec<f64> = table.user(0).values().iter().map(|&y| label(y)).collect();
        let with_biases = |f: fn(f64, f64) -> f64| -> f64 {
            ys.iter().zip(&rows).map(|(&y, row)| f(y, row[0])).sum()
        };
        let squares = [
            with_biases(|y, _| y * y),
            with_biases(|y, h| y * h),
            with_biases(|_, h| h * h),
        ];
        let biases = (0..DIM)
            .map(|k| {
                (rows.iter())
                    .map(|row| row[0] * if k == 0 { 1.0 } else { row[k] })
                    .sum()
            })
            .collect();
        let evidence = Evidence {
            n_records: ys.len(),
            dim: DIM,
            gram,
            labels,
            biases,
            squares,
        };
        for taste in TASTES {
            for offset in OFFSETS {
                for candidate in evidence.candidates(offset, taste).unwrap() {
                    let left: Vec<f64> = (ys.iter().zip(&rows))
                        .map(|(y, row)| y - candidate.bias_weight * row[0])
                        .collect();
                    let found =
                        candidate.log_weight - log_prior(offset, taste, candidate.bias_weight);
                    let dense = dense_evidence(&rows, &left, offset, taste);
                    assert_relative_eq!(found, dense, max_relative = 1e-4);
                }
            }
        }
    }

    #[test]
    fn what_was_shared_is_taken_by_who_gains_from_it() {
        // 40 users of each kind, 30 records each; means of what they take lie many standard errors apart
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
