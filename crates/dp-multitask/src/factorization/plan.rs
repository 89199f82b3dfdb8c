//! How the budget is divided among the releases.

use dp_accounting::{Plan, ReleaseRequest};
use dp_core::{ReplaceFactor, params};
use dp_linalg::packed_len;
use dp_mechanism::GramSums;

use super::implicit::ImplicitFeedback;
use super::params::{FactorizationParams, MatrixFactorization};
use crate::{Result, WeightTotals};

const ITEM_WEIGHTS: &str = "item weights";
const RIGHT_HAND_SIDES: &str = "item right-hand sides";

impl MatrixFactorization {
    /// Whether sums over so many items can be made.
    fn check_items(&self, n_items: usize) -> Result<()> {
        params::at_least_one("n_items", n_items)?;
        if self.params().needs_vector_sums() {
            let most = u32::MAX as usize / self.params().largest_dim();
            let expected = "so few that items times the length of factors is below 2^32";
            params::in_range("n_items", n_items, 1, most, expected)?;
        }
        Ok(())
    }

    /// What a fit over `n_items` releases, with this fit's label in front.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when `n_items` is 0 or too large.
    pub(crate) fn shares(&self, n_items: usize) -> Result<Vec<ReleaseRequest>> {
        self.check_items(n_items)?;
        let mut requests = requests(self.params(), n_items);
        for request in &mut requests {
            request.label.insert_str(0, &self.label);
        }
        Ok(requests)
    }

    /// The noise multiplier that a round's right-hand sides are planned with.
    pub(super) fn rhs_noise(&self, plan: &Plan, round: usize) -> Result<f64> {
        let label = format!("{}round {round}: {RIGHT_HAND_SIDES}", self.label);
        let mut releases = plan.releases().iter();
        let planned = releases.find(|release| release.label() == label);
        let planned = planned.ok_or(dp_mechanism::Error::Plan { label })?;
        Ok(planned.noise_multiplier()?)
    }
}

fn requests(settings: &FactorizationParams, n_items: usize) -> Vec<ReleaseRequest> {
    let mut requests = Vec::with_capacity(1 + 2 * settings.n_rounds);
    let mut left = 1.0;
    if settings.releases_counts() {
        left -= settings.count_share;
        requests.push(ReleaseRequest::new(
            "item counts",
            settings.count_share,
            ReplaceFactor::Two,
            n_items as u64,
        ));
    }
    if let Some(weight_share) = settings.weight_share() {
        let share = left * weight_share;
        left -= share;
        requests.push(WeightTotals::request(ITEM_WEIGHTS, n_items, share));
    }
    let dim = settings.score_model.coordinates(settings.largest_dim());
    for (round, share) in (1..).zip(round_shares(settings)) {
        let share = share * left;
        if let Some(implicit) = settings.feedback.implicit() {
            let matrix_share = settings.matrix_share;
            requests.extend(implicit_requests(
                implicit,
                matrix_share,
                n_items,
                dim,
                round,
                share,
            ));
            continue;
        }
        let rhs_draws = GramSums::rhs_draws(n_items, dim);
        if !settings.item_update.releases_statistics(round - 1) {
            let what = format!("round {round}: item residuals");
            let factor = ReplaceFactor::Two;
            requests.push(ReleaseRequest::new(what, share, factor, rhs_draws));
            continue;
        }
        let (what, draws) = match settings.pooled_matrices {
            None => ("item matrices", GramSums::matrix_draws(n_items, dim)),
            Some(_) => ("pooled matrices", GramSums::pooled_matrix_draws(dim)),
        };
        requests.push(ReleaseRequest::new(
            format!("round {round}: {what}"),
            share * settings.matrix_share,
            ReplaceFactor::SqrtTwo,
            draws,
        ));
        requests.push(ReleaseRequest::new(
            format!("round {round}: {RIGHT_HAND_SIDES}"),
            share * (1.0 - settings.matrix_share),
            ReplaceFactor::Two,
            rhs_draws,
        ));
    }
    requests
}

/// One round of implicit feedback: the Gramian of all users, the matrices of the items, and the right-hand sides, as
/// far as they are released.
fn implicit_requests(
    implicit: &ImplicitFeedback,
    matrix_share: f64,
    n_items: usize,
    dim: usize,
    round: usize,
    share: f64,
) -> Vec<ReleaseRequest> {
    let mut requests = Vec::with_capacity(3);
    let mut left = 1.0;
    let mut push = |what: &str, part: f64, factor, draws| {
        requests.push(ReleaseRequest::new(
            format!("round {round}: {what}"),
            share * part,
            factor,
            draws,
        ));
    };
    let gramian_share = if implicit.releases_gramian() {
        implicit.gramian_share
    } else {
        0.0
    };
    left -= gramian_share;
    let matrix_share = if implicit.releases_matrices() {
        left * matrix_share
    } else {
        0.0
    };
    left -= matrix_share;
    if implicit.releases_gramian() {
        let draws = packed_len(dim) as u64;
        push(
            "Gramian of all users",
            gramian_share,
            ReplaceFactor::Two,
            draws,
        );
    }
    if implicit.releases_matrices() {
        let draws = GramSums::matrix_draws(n_items, dim);
        push("item matrices", matrix_share, ReplaceFactor::SqrtTwo, draws);
    }
    let draws = GramSums::rhs_draws(n_items, dim);
    push(RIGHT_HAND_SIDES, left, ReplaceFactor::Two, draws);
    requests
}

/// Shares of the rounds: each `round_growth` times the one before, summing to 1.
fn round_shares(settings: &FactorizationParams) -> Vec<f64> {
    // counted from the last round, so that growth to a high power cannot overflow
    let mut shares: Vec<f64> = Vec::with_capacity(settings.n_rounds);
    let toward_last = settings.round_growth.min(1.0);
    let toward_first = settings.round_growth.max(1.0).recip();
    for round in 0..settings.n_rounds {
        let from_last = settings.n_rounds - 1 - round;
        shares.push(power(toward_last, round) * power(toward_first, from_last));
    }
    let total: f64 = shares.iter().sum();
    shares.iter().map(|share| share / total).collect()
}

fn power(base: f64, exponent: usize) -> f64 {
    // a share that underflowed would ask for infinite noise
    base.powf(exponent as f64).max(1e-12)
}

#[cfg(test)]
mod tests {
    use dp_core::{Adjacency, ApproxDp};
    use dp_mechanism::Trainer;

    use super::*;

    #[test]
    fn rounds_grow_by_the_stated_factor_and_spend_everything() {
        let target = ApproxDp::target(1.0, 1e-5).unwrap();
        for growth in [0.5, 1.0, 1.7] {
            let mut settings = FactorizationParams::adadpals_for_target(target);
            settings.n_rounds = 4;
            settings.round_growth = growth;
            let shares = round_shares(&settings);
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            for pair in shares.windows(2) {
                assert!((pair[1] / pair[0] - growth).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn a_share_too_small_for_any_grid_is_refused_before_it_is_paid_for() {
        let target = ApproxDp::target(1.0, 1e-5).unwrap();
        let mut settings = FactorizationParams::adadpals_for_target(target);
        settings.count_share = 1e-20;
        let plan = settings
            .check()
            .unwrap()
            .plan(10, target, Adjacency::AddRemoveUser);
        assert!(matches!(plan, Err(crate::Error::Mechanism(_))));
    }

    #[test]
    fn the_plan_lists_counts_only_when_weights_need_them() {
        let target = ApproxDp::target(1.0, 1e-5).unwrap();
        let mut settings = FactorizationParams::adadpals_for_target(target);
        settings.weight_exponent = 0.25;
        let with = requests(&settings, 10).len();
        settings.weight_exponent = 0.0;
        assert_eq!(requests(&settings, 10).len() + 1, with);
    }
}
