//! Settings of the rounds.

use dp_core::{ApproxDp, params};

use super::{AmResidualSsp, LevelStep};
use crate::features::in_public_range;
use crate::{ExampleWeights, Result, ShrinkingBound};

/// Settings of [`AmResidualSsp`], not yet checked. All are public and must not be chosen by looking at the data.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AmResidualSspParams {
    /// Length `d` of item vectors, 1 to 256: a bias and `d - 1` tastes.
    pub dim: usize,
    /// Rounds, 1 to 1000; each makes one release.
    pub n_rounds: usize,
    /// Budget of a round over that of the round before it, from 1e-6 to 1e6.
    pub round_growth: f64,
    /// Share of the budget for the items' total weights, strictly between 0 and 1.
    pub totals_share: f64,
    /// How a user's budget is spread over the user's items.
    pub weights: ExampleWeights,
    /// Bound on a user's weighted residuals, data units of a rating.
    pub bound: ShrinkingBound,
    /// Norm of a user's tastes in what is released, strictly between 0 and 1; the constant coordinate gets the rest of the norm 1.
    pub taste_norm: f64,
    /// What users do with released item vectors.
    pub user_step: LevelStep,
    /// What the evidence of older rounds still counts when a round is added, 0 to 1.
    pub memory: f64,
    /// Least total weight of an item that is believed, in standard deviations of its noise, from 1e-6 to 1e6.
    pub totals_floor: f64,
    /// Prior variance of a coordinate of an item vector, per unit of the features' kernel, from 1e-6 to 1e6.
    pub item_variance: f64,
    /// Variance of what ratings are beyond users' and items' vectors, from 1e-6 to 1e6.
    pub label_variance: f64,
    /// Seed of the tastes of items before the first round. Public; it has no part in the noise.
    pub init_seed: u64,
}

impl AmResidualSspParams {
    /// Defaults that follow from epsilon alone. Found on the validation part of MovieLens-1M (`docs/results.md`).
    #[must_use]
    pub fn for_target(target: ApproxDp) -> Self {
        defaults_for(target)
    }

    /// The same settings for ratings in other units: what is measured in ratings times `scale`, what is measured in their squares times its square. The centre stays.
    ///
    /// # Examples
    /// ```
    /// use dp_core::ApproxDp;
    /// use dp_pubfeat::AmResidualSspParams;
    /// // ratings from 0 to 100 in place of 1 to 5
    /// let mut params = AmResidualSspParams::for_target(ApproxDp::target(1.0, 1e-5)?).in_units(25.0);
    /// params.user_step.label_center = 62.5;
    /// assert_eq!(params.bound.first, 0.95 * 25.0);
    /// assert!(params.check().is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn in_units(mut self, scale: f64) -> Self {
        let square = scale * scale;
        self.bound.first *= scale;
        self.bound.floor *= scale;
        self.item_variance *= square;
        self.label_variance *= square;
        self.user_step.l2_penalty *= square;
        self
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first setting out of range.
    pub fn check(self) -> Result<AmResidualSsp> {
        params::in_range("dim", self.dim, 1, 256, "a whole number from 1 to 256")?;
        let range = "a whole number from 1 to 1000";
        params::in_range("n_rounds", self.n_rounds, 1, 1000, range)?;
        params::open_unit("totals_share", self.totals_share)?;
        params::open_unit("taste_norm", self.taste_norm)?;
        params::closed_unit("memory", self.memory)?;
        for (name, value) in [
            ("round_growth", self.round_growth),
            ("totals_floor", self.totals_floor),
            ("item_variance", self.item_variance),
            ("label_variance", self.label_variance),
        ] {
            in_public_range(name, value)?;
        }
        self.weights.check()?;
        self.bound.check()?;
        self.user_step.check()?;
        Ok(AmResidualSsp::of(self))
    }

    /// The constant `a` in front of users' tastes.
    pub(super) fn constant(&self) -> f64 {
        constant(self.dim, self.taste_norm)
    }

    /// Shares of the rounds, each `round_growth` times the one before, of what the totals leave.
    pub(super) fn round_shares(&self) -> Vec<f64> {
        round_shares(self.n_rounds, self.round_growth, self.totals_share)
    }
}

/// The constant coordinate that completes tastes of norm `taste_norm` to norm 1; 1 where there are no tastes.
pub(crate) fn constant(dim: usize, taste_norm: f64) -> f64 {
    if dim == 1 {
        1.0
    } else {
        (1.0 - taste_norm * taste_norm).sqrt()
    }
}

/// Shares of rounds, each `growth` times the one before, of what `totals_share` leaves.
pub(crate) fn round_shares(n_rounds: usize, growth: f64, totals_share: f64) -> Vec<f64> {
    // counted from the largest, so that growth to a high power cannot overflow; no share underflows
    let (up, down) = (growth.min(1.0), growth.max(1.0));
    let share = |round: usize| {
        let from_last = (n_rounds - 1 - round) as f64;
        (up.powf(round as f64) * down.powf(-from_last)).max(1e-12)
    };
    let shares: Vec<f64> = (0..n_rounds).map(share).collect();
    let whole = shares.iter().sum::<f64>() / (1.0 - totals_share);
    shares.iter().map(|share| share / whole).collect()
}

fn defaults_for(target: ApproxDp) -> AmResidualSspParams {
    let (dim, n_rounds, taste_norm, l2_penalty) = match target.epsilon {
        e if e < 2.0 => (3, 6, 0.5, 5.0),
        e if e < 10.0 => (4, 10, 0.7, 5.0),
        _ => (8, 12, 0.7, 8.0),
    };
    AmResidualSspParams {
        dim,
        n_rounds,
        round_growth: 1.2,
        totals_share: 0.08,
        weights: ExampleWeights::equal(),
        bound: ShrinkingBound {
            first: 0.95,
            ratio: 0.95,
            floor: 0.7,
        },
        taste_norm,
        user_step: LevelStep {
            label_center: 3.5,
            level_penalty: 5.0,
            l2_penalty,
        },
        memory: 0.8,
        totals_floor: 0.5,
        item_variance: 0.15,
        label_variance: 0.08,
        init_seed: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params() -> AmResidualSspParams {
        AmResidualSspParams::for_target(ApproxDp::target(5.0, 1e-5).unwrap())
    }

    #[test]
    fn shares_grow_as_stated_and_spend_everything() {
        for growth in [0.5, 1.0, 1.7] {
            let mut params = params();
            params.round_growth = growth;
            let shares = params.round_shares();
            let whole: f64 = shares.iter().sum();
            assert!((whole + params.totals_share - 1.0).abs() < 1e-12);
            for pair in shares.windows(2) {
                assert!((pair[1] / pair[0] - growth).abs() < 1e-9);
            }
        }
        let mut params = params();
        (params.n_rounds, params.round_growth) = (1000, 1e6);
        assert!(
            params
                .round_shares()
                .iter()
                .all(|s| *s > 0.0 && s.is_finite())
        );
    }

    #[test]
    fn every_setting_out_of_range_is_refused() {
        let refused: [fn(&mut AmResidualSspParams); 14] = [
            |p| p.dim = 0,
            |p| p.dim = 257,
            |p| p.n_rounds = 0,
            |p| p.n_rounds = 1001,
            |p| p.round_growth = f64::NAN,
            |p| p.totals_share = 1.0,
            |p| p.taste_norm = 1.0,
            |p| p.memory = -0.1,
            |p| p.totals_floor = 0.0,
            |p| p.item_variance = 0.0,
            |p| p.label_variance = f64::INFINITY,
            |p| p.bound.ratio = 1.1,
            |p| p.user_step.level_penalty = 0.0,
            |p| p.user_step.label_center = f64::NAN,
        ];
        assert!(params().check().is_ok());
        for (at, change) in refused.into_iter().enumerate() {
            let mut params = params();
            change(&mut params);
            assert!(params.check().is_err(), "{at}");
        }
    }

    #[test]
    fn defaults_pass_their_own_checks_at_every_epsilon() {
        for epsilon in [1e-6, 0.1, 1.0, 5.0, 20.0, 1e6] {
            let target = ApproxDp {
                epsilon,
                delta: 1e-5,
            };
            assert!(defaults_for(target).check().is_ok(), "epsilon {epsilon}");
        }
    }
}
