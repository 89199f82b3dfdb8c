//! Settings of the rounds.

use dp_core::{ApproxDp, params};

use super::{AmImplicitSsp, LikesStep};
use crate::features::in_public_range;
use crate::{ExampleWeights, Result, am_residual};

/// Settings of [`AmImplicitSsp`], not yet checked. All are public and must not be chosen by looking at the data.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AmImplicitSspParams {
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
    /// Norm of a user's tastes in what is released, strictly between 0 and 1; the constant coordinate gets the rest of the norm 1.
    pub taste_norm: f64,
    /// What users do in training.
    pub user_step: LikesStep,
    /// What users do with the finished item vectors.
    pub fold_in: LikesStep,
    /// Weight `a0` of every user as a weak no in the item step, relative to users' normalised weights, from 1e-6 to 1e6.
    pub item_unobserved_weight: f64,
    /// Power of an item's released popularity that its vector is expected to grow with, 0 to 1.
    pub popularity_exponent: f64,
    /// Least total weight of an item that is believed, in standard deviations of its noise, from 1e-6 to 1e6.
    pub totals_floor: f64,
    /// Prior variance of a coordinate of an item vector of average popularity, per unit of the features' kernel, from 1e-6 to 1e6.
    pub item_variance: f64,
    /// Variance of what likes are beyond users' and items' vectors, from 1e-6 to 1e6.
    pub label_variance: f64,
    /// Largest taste, in absolute value, of an item before the first round, from 1e-6 to 1e6.
    pub init_scale: f64,
    /// Seed of these tastes. Public; it has no part in the noise.
    pub init_seed: u64,
}

impl AmImplicitSspParams {
    /// Defaults that follow from epsilon alone. Found on validation users of MovieLens-1M (`docs/reproductions.md`).
    #[must_use]
    pub fn for_target(target: ApproxDp) -> Self {
        defaults_for(target)
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first setting out of range.
    pub fn check(self) -> Result<AmImplicitSsp> {
        params::in_range("dim", self.dim, 1, 256, "a whole number from 1 to 256")?;
        let range = "a whole number from 1 to 1000";
        params::in_range("n_rounds", self.n_rounds, 1, 1000, range)?;
        params::open_unit("totals_share", self.totals_share)?;
        params::open_unit("taste_norm", self.taste_norm)?;
        params::closed_unit("popularity_exponent", self.popularity_exponent)?;
        for (name, value) in [
            ("round_growth", self.round_growth),
            ("item_unobserved_weight", self.item_unobserved_weight),
            ("totals_floor", self.totals_floor),
            ("item_variance", self.item_variance),
            ("label_variance", self.label_variance),
            ("init_scale", self.init_scale),
        ] {
            in_public_range(name, value)?;
        }
        self.weights.check()?;
        self.user_step.check()?;
        self.fold_in.check()?;
        Ok(AmImplicitSsp::of(self))
    }

    /// The constant `a` in front of users' tastes.
    pub(super) fn constant(&self) -> f64 {
        am_residual::constant(self.dim, self.taste_norm)
    }
}

fn defaults_for(target: ApproxDp) -> AmImplicitSspParams {
    // from much noise to little: ridge of training, weight of noes in it, growth of rounds, prior
    let (l2_penalty, user_noes, item_noes, round_growth) = match target.epsilon {
        e if e < 2.5 => (1.0, 0.1, 0.01, 1.5),
        e if e < 10.0 => (0.3, 0.1, 0.03, 2.0),
        _ => (0.1, 0.03, 0.03, 3.0),
    };
    let (item_variance, label_variance) = match target.epsilon {
        e if e < 2.5 => (0.015, 0.003),
        e if e < 10.0 => (0.02, 0.001),
        _ => (0.025, 0.003),
    };
    let step = |unobserved_weight, l2_penalty| LikesStep {
        unobserved_weight,
        level_penalty: 1.0,
        l2_penalty,
    };
    AmImplicitSspParams {
        dim: 33,
        n_rounds: 3,
        round_growth,
        totals_share: 0.05,
        weights: ExampleWeights::equal(),
        taste_norm: 0.98,
        user_step: step(user_noes, l2_penalty),
        fold_in: step(0.3, 3.0),
        item_unobserved_weight: item_noes,
        popularity_exponent: 0.5,
        totals_floor: 0.5,
        item_variance,
        label_variance,
        init_scale: 0.05,
        init_seed: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_out_of_range_is_refused() {
        let refused: [fn(&mut AmImplicitSspParams); 16] = [
            |p| p.dim = 0,
            |p| p.dim = 257,
            |p| p.n_rounds = 0,
            |p| p.n_rounds = 1001,
            |p| p.round_growth = f64::NAN,
            |p| p.totals_share = 1.0,
            |p| p.taste_norm = 1.0,
            |p| p.popularity_exponent = 1.1,
            |p| p.totals_floor = 0.0,
            |p| p.item_variance = 0.0,
            |p| p.label_variance = f64::INFINITY,
            |p| p.init_scale = -1.0,
            |p| p.item_unobserved_weight = 0.0,
            |p| p.user_step.unobserved_weight = -1.0,
            |p| p.user_step.level_penalty = 0.0,
            |p| p.fold_in.l2_penalty = f64::NAN,
        ];
        let target = ApproxDp::target(5.0, 1e-5).unwrap();
        let params = AmImplicitSspParams::for_target(target);
        assert!(params.clone().check().is_ok());
        for (at, change) in refused.into_iter().enumerate() {
            let mut params = params.clone();
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
