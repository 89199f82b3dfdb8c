//! A user's factor of likes, between the user's own records and what all users like. Local.

use dp_core::UserRow;
use dp_linalg::{cholesky_in_place, cholesky_solve_in_place};

use super::item_posterior::dot;
use super::model::PersonalModel;
use super::user_step::{Design, UserScratch, UserStep};
use crate::NoisyCounts;

/// Candidate fits: how much larger the penalty is than the model's, whether it pulls toward the
/// typical user or to zero, and the public prior weight. Chosen on splits of generated likes and of
/// `MovieLens` (`docs/decisions/0088-the-typical-user.md`).
const CANDIDATES: [(f64, bool, f64); 3] = [(1.0, false, 0.7), (5.0, true, 0.2), (25.0, true, 0.1)];
/// Exponent of the evidence: a user's records are alike, so each tells less than an independent one.
const EVIDENCE: f64 = 0.5;
/// Share of users taken to have the most popular items: those with the [`TOP`] largest counts.
const MOST: f64 = 0.3;
/// Share of the items whose mean count is that of the most popular ones.
const TOP: f64 = 0.02;
/// Ridge of the typical user's factor, relative to the largest entry of the diagonal.
const RIDGE: f64 = 1e-6;

/// The factor of a user who likes each item as often as all users together do, `[0, v]`. Public:
/// computed from released counts and factors. `None` if the counts are not above their noise.
///
/// ```text
/// v = argmin sum_i p_i (1 - <q_i, v>)^2 + a0 sum_i <q_i, v>^2,     p_i = .3 s_i max(n_i, 0) / (mean of the largest 2 % of the n_i)
/// s_i = n_i^2 / (n_i^2 + sd^2)          sd the standard deviation of the counts' noise
/// ```
pub(super) fn typical_factor(design: &Design, counts: &NoisyCounts) -> Option<Vec<f64>> {
    let dim = design.dim();
    let mut largest = counts.values().to_vec();
    largest.sort_by(|a, b| b.total_cmp(a));
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a length"
    )]
    let n_top = ((largest.len() as f64 * TOP) as usize).max(1);
    let top = largest.iter().take(n_top).sum::<f64>() / n_top as f64;
    let noise = counts.noise_stddev();
    if top <= 3.0 * noise || top <= 0.0 {
        return None;
    }
    let (mut matrix, mut factor) = (design.unobserved()?.to_vec(), vec![0.0; dim]);
    let mut row = vec![0.0; dim];
    for (item, n) in (0_u32..).zip(counts.values()) {
        let signal = n * n / (n * n + noise * noise).max(f64::MIN_POSITIVE);
        let share = (MOST * signal * n / top).clamp(0.0, 1.0);
        if share > 0.0 {
            row.iter_mut()
                .zip(design.row(item))
                .for_each(|(to, x)| *to = x);
            for (k, x) in row.iter().enumerate() {
                factor[k] += share * x;
                let entries = &mut matrix[k * dim..][..dim];
                entries
                    .iter_mut()
                    .zip(&row)
                    .for_each(|(sum, y)| *sum += share * x * y);
            }
        }
    }
    let largest = matrix
        .iter()
        .step_by(dim + 1)
        .fold(0.0, |most: f64, x| most.max(*x));
    matrix
        .iter_mut()
        .step_by(dim + 1)
        .for_each(|x| *x += RIDGE * largest);
    cholesky_in_place(&mut matrix, dim).ok()?;
    cholesky_solve_in_place(&matrix, dim, &mut factor).ok()?;
    factor[0] = 0.0; // without biases its column is empty
    factor.iter().all(|x| x.is_finite()).then_some(factor)
}

impl UserStep<'_> {
    /// The user's personal model: the mean of three fits, weighted by how well they rank the user's
    /// own records.
    ///
    /// ```text
    /// v_c = argmin sum_i (1 - <q_i, v>)^2 + a0 sum over all items <q, v>^2 + lambda_c ||v - m_c||^2
    /// weight of c = prior of c * product over the records i of rank_c(i)^(-1/2)
    /// ```
    ///
    /// `m_c` is 0 or the factor of the typical user. `rank_c(i)` is the position that record `i`
    /// has among the items that the user does not have, if it is left out of the fit: the weights
    /// are posterior probabilities if the chance of an item is proportional to the reciprocal of
    /// its rank and two records tell as much as one. A user without records has the zero factor and
    /// is ranked by the counts themselves.
    ///
    /// Cost O(n d^2 + N d + n log n) for each fit, with n records and N items.
    pub(crate) fn weighed_likes(
        &self,
        typical: &[f64],
        item_factors: &[f64],
        user: UserRow<'_>,
        scratch: &mut UserScratch,
    ) -> PersonalModel {
        let dim = self.design.dim();
        let mut model = PersonalModel {
            offset: 0.0,
            bias_weight: 1.0,
            factor: vec![0.0; dim - 1],
        };
        if user.is_empty() {
            return model;
        }
        let Ok((gram, sums)) = self.design.sums(user, |_| 1.0, None, scratch) else {
            return model;
        };
        let penalty = self.penalties.factor + user.len() as f64 * self.penalties.factor_per_record;
        let found: Vec<(f64, Vec<f64>)> = CANDIDATES
            .iter()
            .filter_map(|&(times, is_typical, prior)| {
                let (mut matrix, mut factor) = (gram.to_vec(), sums.to_vec());
                let all = self.design.unobserved()?;
                matrix.iter_mut().zip(all).for_each(|(sum, x)| *sum += x);
                for k in 0..dim {
                    matrix[k * dim + k] += times * penalty;
                    if is_typical {
                        factor[k] += times * penalty * typical[k];
                    }
                }
                cholesky_in_place(&mut matrix, dim).ok()?;
                cholesky_solve_in_place(&matrix, dim, &mut factor).ok()?;
                let evidence = self.evidence(&matrix, &factor, item_factors, user)?;
                Some((EVIDENCE.mul_add(evidence, prior.ln()), factor))
            })
            .filter(|(weight, _)| weight.is_finite())
            .collect();
        let best = found
            .iter()
            .fold(f64::NEG_INFINITY, |best: f64, of| best.max(of.0));
        let total: f64 = found.iter().map(|of| (of.0 - best).exp()).sum();
        for (weight, factor) in &found {
            let share = (weight - best).exp() / total;
            let own = model.factor.iter_mut().zip(&factor[1..]);
            own.for_each(|(sum, x)| *sum += share * x);
        }
        model
    }

    /// `-sum over the user's records of ln rank`, each record left out of the fit with this
    /// factorised matrix.
    fn evidence(
        &self,
        matrix: &[f64],
        factor: &[f64],
        item_factors: &[f64],
        user: UserRow<'_>,
    ) -> Option<f64> {
        let dim = self.design.dim();
        let (mut row, mut solved) = (vec![0.0; dim], vec![0.0; dim]);
        let mut left_out = Vec::with_capacity(user.len());
        for &item in user.items() {
            row.iter_mut()
                .zip(self.design.row(item))
                .for_each(|(to, x)| *to = x);
            solved.copy_from_slice(&row);
            cholesky_solve_in_place(matrix, dim, &mut solved).ok()?;
            let leverage = dot(&row, &solved).min(1.0 - 1e-9);
            left_out.push((dot(&row, factor) - leverage) / (1.0 - leverage));
        }
        left_out.sort_by(f64::total_cmp);
        // how many of the other items are ahead of the records up to each one
        let mut ahead = vec![0_usize; user.len() + 1];
        let mut own = user.items().iter().copied().peekable();
        for (item, row) in (0_u32..).zip(item_factors.chunks_exact(dim)) {
            if own.next_if_eq(&item).is_some() {
                continue;
            }
            let score = dot(&row[1..], &factor[1..]);
            ahead[left_out.partition_point(|of| *of < score)] += 1;
        }
        let (mut rank, mut sum) = (1, 0.0);
        for n in ahead.into_iter().skip(1).rev() {
            rank += n;
            sum -= (rank as f64).ln();
        }
        Some(sum)
    }
}

#[cfg(test)]
mod tests {
    use dp_core::InteractionsBuilder;

    use super::super::{FactorModel, ScoreModel, Scoring, UserPenalties};
    use crate::{LocalBias, NoisyCounts, Provenance};

    const COUNTS: [f64; 6] = [90.0, 60.0, 30.0, 20.0, 10.0, 5.0];

    /// Two kinds of items, three of each, the even and the odd ones.
    fn model(noise: f64) -> FactorModel {
        let scoring = Scoring {
            dim: 3,
            bias: LocalBias {
                center: 0.0,
                shrinkage: 1.0,
            },
            score_model: ScoreModel::Plain,
            penalties: Some(UserPenalties {
                offset: 1.0,
                factor: 0.2,
                factor_per_record: 0.0,
            }),
            unobserved_weight: Some(0.1),
            n_effects: 0,
        };
        let even = |n: f64| [0.0, n, 0.0];
        let odd = |n: f64| [0.0, 0.0, n];
        let factors = [
            even(1.0),
            odd(0.9),
            even(0.8),
            odd(0.7),
            even(0.6),
            odd(0.5),
        ];
        let model = FactorModel::new(scoring, factors.concat(), Provenance::NonPrivate).unwrap();
        let counts = NoisyCounts::released_elsewhere(COUNTS.to_vec(), noise, false).unwrap();
        model.with_counts(Some(counts))
    }

    #[test]
    fn only_models_with_counts_have_a_typical_user_and_only_users_with_likes_are_near_it() {
        let model = model(1.0);
        let own = |likes: &[u32]| {
            let mut table = InteractionsBuilder::new(6);
            table.ensure_users(1);
            likes
                .iter()
                .for_each(|item| table.push(0, *item, 1.0).unwrap());
            model.fold_in(table.build().0.user(0)).unwrap()
        };
        assert_eq!(own(&[]).factor, [0.0, 0.0]);
        // somebody who likes an odd item is not sure to dislike the even ones
        assert!(own(&[5]).factor[0] > 0.05);
        // a model without counts knows no typical user
        let factors = model.item_factors().to_vec();
        let none = FactorModel::new(*model.scoring(), factors, Provenance::NonPrivate).unwrap();
        assert_eq!(none.typical_user(), None);
    }

    /// The kinds are orthogonal, so every fit is a quotient for each of them; records are left out
    /// by fitting again.
    #[test]
    fn fits_are_weighted_by_the_ranks_of_records_left_out() {
        let model = model(0.0);
        let typical = &model.typical_user().unwrap()[1..];
        let q = [1.0_f64, 0.9, 0.8, 0.7, 0.6, 0.5];
        for likes in [&[1, 3, 4][..], &[0, 5], &[5], &[0, 2, 4]] {
            let fit = |items: &[u32], penalty: f64, mean: [f64; 2]| -> [f64; 2] {
                std::array::from_fn(|kind| {
                    let of_kind = |item: &&u32| **item as usize % 2 == kind;
                    let sum = |power: i32| {
                        let own = items.iter().filter(of_kind);
                        own.map(|item| q[*item as usize].powi(power)).sum::<f64>()
                    };
                    let all: f64 = (0..3).map(|at| q[2 * at + kind].powi(2)).sum();
                    (sum(1) + penalty * mean[kind]) / (sum(2) + 0.1 * all + penalty)
                })
            };
            let mut mean = [0.0; 2];
            let mut total = 0.0;
            for (times, is_typical, prior) in super::CANDIDATES {
                let penalty = times * 0.2;
                let toward = if is_typical {
                    [typical[0], typical[1]]
                } else {
                    [0.0; 2]
                };
                let all = fit(likes, penalty, toward);
                let score = |v: [f64; 2], item: u32| q[item as usize] * v[item as usize % 2];
                let mut weight = prior;
                for item in likes {
                    let others: Vec<u32> = likes.iter().copied().filter(|of| of != item).collect();
                    let own = score(fit(&others, penalty, toward), *item);
                    let rest = (0..6).filter(|of| !likes.contains(of));
                    let ahead = rest.filter(|of| score(all, *of) > own).count();
                    weight /= (1.0 + ahead as f64).sqrt();
                }
                total += weight;
                mean = [mean[0] + weight * all[0], mean[1] + weight * all[1]];
            }
            let mut table = InteractionsBuilder::new(6);
            likes
                .iter()
                .for_each(|item| table.push(0, *item, 1.0).unwrap());
            let own = model.fold_in(table.build().0.user(0)).unwrap();
            for (found, expected) in own.factor.iter().zip(mean) {
                approx::assert_relative_eq!(*found, expected / total, epsilon = 1e-6);
            }
        }
    }

    #[test]
    fn the_typical_user_solves_the_weighted_equations() {
        let model = model(0.0);
        let typical = model.typical_user().unwrap();
        // two orthogonal kinds: sum p q / (sum p q^2 + a0 sum q^2), with p = .3 n / 90
        let of = |items: [usize; 3], q: [f64; 3]| {
            let p = items.map(|item| 0.3 * COUNTS[item] / 90.0);
            let sum = |power: i32| (0..3).map(|k| p[k] * q[k].powi(power)).sum::<f64>();
            sum(1) / (sum(2) + 0.1 * q.map(|x| x * x).iter().sum::<f64>())
        };
        approx::assert_relative_eq!(typical[1], of([0, 2, 4], [1.0, 0.8, 0.6]), epsilon = 1e-5);
        approx::assert_relative_eq!(typical[2], of([1, 3, 5], [0.9, 0.7, 0.5]), epsilon = 1e-5);
        // counts that are not above their noise say nothing
        assert!(super::tests::model(40.0).typical_user().is_none());
    }
}
