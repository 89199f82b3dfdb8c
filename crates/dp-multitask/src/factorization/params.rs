use dp_accounting::{Plan, ReleaseRequest};
use dp_core::{ApproxDp, ParamError, ReplaceFactor, params};
use dp_linalg::packed_len;
use dp_mechanism::{GramSums, ReleasedVector};

use super::cooccurrence::MOST_COOCCURRING;
use super::implicit::{Feedback, ImplicitFeedback, ItemGramian};
use super::item_prior::ItemPrior;
use super::item_update::{
    GradientRounds, ItemUpdate, PooledMatrices, RecordSampling, ResidualRounds, ScoreModel,
};
use super::model::{NO_WEIGHING, Scoring, UserPenalties};
use super::prior_rounds::VOTE_SHARE;
use super::rating_scale::{RatingScale, ScaleContribution};
use crate::allocation::n_head;
use crate::regression::{GradientClip, ResidualBounds};
use crate::{Error, LocalBias, NoisyCounts, Result, WeightTotals};

/// Settings of private matrix factorisation by task-weighted sufficient statistics (AdaDPALS) or
/// gradients, before validation. All are public and must not be chosen by looking at the data.
///
/// Defaults come from [`for_target`](Self::for_target): some follow from epsilon, the others are
/// constants. [`check`](Self::check) checks the ranges and rejects NaN everywhere.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FactorizationParams {
    /// Dimension of the item factors, 1 to 256: an item bias and `dim - 1` taste factors. `None`
    /// chooses it by rule from the released counts (or from epsilon if the run releases none); see
    /// [`rule_dim`](Self::rule_dim).
    pub dim: Option<usize>,
    /// Privacy target used by the rule for `dim`, in nats; finite and above 0.
    pub rule_epsilon: f64,
    /// Number of rounds of alternating minimisation `T`, 1 to 1000; each releases the item
    /// statistics once. With implicit feedback also 0: the whole budget is spent on the counts,
    /// which alone rank the items ([`popularity_for_target`](Self::popularity_for_target)).
    pub n_rounds: usize,
    /// Ratio of a round's budget share to that of the previous round, above 0.
    pub round_growth: f64,
    /// Exponent of the adaptive weights `n_i^-mu`, 0 or above; 0 gives all items of a user equal
    /// weight and needs no counts, unless tail sampling, a head or implicit feedback does.
    pub weight_exponent: f64,
    /// Share of the budget (of the squared Gaussian-DP parameter) spent on the counts, strictly
    /// between 0 and 1; no effect if none are released, or if nothing else is.
    pub count_share: f64,
    /// Maximum L2 norm of one user's votes in the count release, above 0: a user with up to its
    /// square of items counts in full.
    pub count_clip_norm: f64,
    /// Lower bound on noisy counts, above 0.
    pub count_floor: f64,
    /// Share of each round's budget spent on the matrices (or on the one for all items), strictly between 0 and 1; the rest goes
    /// to the right-hand sides.
    pub matrix_share: f64,
    /// Norm of the taste part of a user's factor, above 0 and below 1; the constant coordinate,
    /// which learns the item bias, completes it to norm 1.
    pub clip_norm: f64,
    /// Share of the budget spent on the [scale of the ratings](super::RatingScale), 0 or above and
    /// below 1: centre and unit are learned, as described at [`at_scale`](Self::at_scale). 0 uses
    /// the settings unchanged. No effect with implicit feedback.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub scale_share: f64,
    /// Public centre of the ratings, in data units.
    pub label_center: f64,
    /// Bound on the weighted root mean square of a user's labels after subtracting centre and
    /// offset, above 0, in data units; single labels are first clipped to three times this.
    pub label_bound: f64,
    /// Shrinkage of the local user bias, in ratings, 0 or above.
    pub bias_shrinkage: f64,
    /// Penalties of the local user step during training.
    pub training_penalties: UserPenalties,
    /// Penalties of the local user step with the finished factors (fold-in). `None`, for ratings
    /// with biases: chosen by each user's own records; see
    /// [`FactorModel::fold_in`](crate::FactorModel::fold_in).
    #[serde(default)]
    pub fold_in_penalties: Option<UserPenalties>,
    /// Whether the finished factors include global effects: two more taste factors, computed from
    /// the released item biases and total weights at no privacy cost, by which users follow the
    /// item biases more or less and like popular items more or less. For ratings with biases,
    /// pooled matrices and `fold_in_penalties` `None`. See
    /// [`Scoring::n_effects`](crate::Scoring::n_effects).
    #[serde(default, skip_serializing_if = "is_off")]
    pub global_effects: bool,
    /// Ridge of the item step in units of `noise stddev * sqrt(dim)`, above 0: the noise of the
    /// matrices if each item has one, that of the right-hand sides if they are pooled.
    pub item_ridge_factor: f64,
    /// Constant added to the ridge of the item step, 0 or above.
    pub item_l2_penalty: f64,
    /// Standard deviation of the initial item factors, above 0.
    pub init_stddev: f64,
    /// Seed of the initial item factors. Public; it does not affect the noise.
    pub init_seed: u64,
    /// Meaning of the records. With implicit feedback the settings of labels and of the local bias
    /// have no effect.
    #[serde(default)]
    pub feedback: Feedback,
    /// Components of a predicted rating.
    #[serde(default)]
    pub score_model: ScoreModel,
    /// Which of a user's records enter the item statistics.
    #[serde(default)]
    pub record_sampling: RecordSampling,
    /// The head: only this fraction of the items, strictly between 0 and 1, those with the largest
    /// released counts, is learned. Users spend nothing on other items, whose factors are 0. `None`
    /// learns all items, and does not need counts for this. See
    /// [`TaskWeights::head`](crate::TaskWeights::head).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_fraction: Option<f64>,
    /// Minimum number of items in the head (all, if there are fewer); no effect if `head_fraction`
    /// is `None`. In a small catalogue a fraction of the items may be fewer than a list needs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub least_head: usize,
    /// The item update.
    #[serde(default)]
    pub item_update: ItemUpdate,
    /// One matrix for all items instead of one each; for ratings with biases, and rounds of
    /// statistics. Implicit feedback has [`ItemGramian`](super::ItemGramian).
    #[serde(default)]
    pub pooled_matrices: Option<PooledMatrices>,
}

/// Fold-in penalties for models of ratings that use the same for all users. Chosen on the
/// validation part of MovieLens-1M.
const COMMON_FOLD_IN: UserPenalties = UserPenalties {
    offset: 20.0,
    factor: 5.0,
    factor_per_record: 0.0,
};

impl FactorizationParams {
    /// Defaults that follow from the privacy target alone: one matrix for all items, rounds of
    /// statistics and then of residuals. Chosen on the validation part of MovieLens-1M
    /// (`docs/results.md`).
    ///
    /// # Examples
    /// ```
    /// use dp_core::ApproxDp;
    /// use dp_multitask::FactorizationParams;
    /// let mut params = FactorizationParams::for_target(ApproxDp::target(1.0, 1e-5)?);
    /// params.dim = Some(4);
    /// assert!(params.check().is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn for_target(target: ApproxDp) -> Self {
        Self {
            n_rounds: 7,
            round_growth: 1.2,
            matrix_share: 0.01,
            item_ridge_factor: 1.0,
            item_l2_penalty: 3.0,
            item_update: ItemUpdate::Residual(ResidualRounds {
                n_statistics_rounds: 2,
                bounds: ResidualBounds::Geometric { ratio: 0.9 },
                pull: 0.25,
                leave_one_out: true,
                least_signal: 3.8,
                taste_vote_share: 0.01,
                clip: GradientClip::Joint,
            }),
            pooled_matrices: Some(PooledMatrices { weight_share: 0.08 }),
            fold_in_penalties: None,
            global_effects: true,
            scale_share: 0.01,
            ..Self::adadpals_for_target(target)
        }
    }

    /// Defaults of the published algorithm with biases: a separate matrix for every item, released
    /// again in every round (AdaDPALS, Krichene et al. 2023, Algorithms 1 and 3).
    ///
    /// # Examples
    /// ```
    /// use dp_core::ApproxDp;
    /// use dp_multitask::FactorizationParams;
    /// let params = FactorizationParams::adadpals_for_target(ApproxDp::target(1.0, 1e-5)?);
    /// assert!(params.pooled_matrices.is_none() && params.check().is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn adadpals_for_target(target: ApproxDp) -> Self {
        Self {
            dim: None,
            rule_epsilon: target.epsilon,
            n_rounds: 5,
            round_growth: 2.5,
            weight_exponent: 0.25,
            count_share: 0.03,
            count_clip_norm: 10.0,
            count_floor: 50.0,
            matrix_share: 0.2,
            clip_norm: 0.95,
            scale_share: 0.0,
            label_center: 3.0,
            label_bound: 1.0,
            bias_shrinkage: 30.0,
            training_penalties: UserPenalties {
                offset: 20.0,
                factor: 0.3,
                factor_per_record: 0.0,
            },
            fold_in_penalties: Some(COMMON_FOLD_IN),
            global_effects: false,
            item_ridge_factor: 0.7,
            item_l2_penalty: 2.0,
            init_stddev: 0.3,
            init_seed: 0,
            feedback: Feedback::Explicit,
            score_model: ScoreModel::Biased,
            record_sampling: RecordSampling::All,
            head_fraction: None,
            least_head: 0,
            item_update: ItemUpdate::Ssp,
            pooled_matrices: None,
        }
    }

    /// The same with one set of fold-in penalties for all users, those of
    /// [`adadpals_for_target`](Self::adadpals_for_target): for comparisons of models in which only
    /// the models differ.
    #[must_use]
    pub const fn with_common_fold_in(mut self) -> Self {
        self.fold_in_penalties = Some(COMMON_FOLD_IN);
        self.global_effects = false;
        self
    }

    /// Checks every range.
    ///
    /// In addition to the ranges of the fields, every magnitude must be between 1e-6 and 1e6 (or 0
    /// where 0 is allowed): otherwise a run could overflow after its budget is spent.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first setting out of range.
    pub fn check(self) -> Result<MatrixFactorization> {
        if let Some(dim) = self.dim {
            params::in_range("dim", dim, 1, 256, "a whole number from 1 to 256")?;
        }
        params::finite_positive("rule_epsilon", self.rule_epsilon)?;
        let (least, expected) = match self.feedback {
            Feedback::Explicit => (1, "a whole number from 1 to 1000"),
            Feedback::Implicit(_) => (0, "a whole number from 0 to 1000"),
        };
        params::in_range("n_rounds", self.n_rounds, least, 1000, expected)?;
        params::open_unit("count_share", self.count_share)?;
        params::open_unit("matrix_share", self.matrix_share)?;
        if !is_nothing(&self.scale_share) {
            params::open_unit("scale_share", self.scale_share)?;
        }
        params::open_unit("clip_norm", self.clip_norm)?;
        params::finite("label_center", self.label_center)?;
        in_public_range("label_center", self.label_center.abs().max(LEAST))?;
        for (name, value) in [
            ("round_growth", self.round_growth),
            ("count_clip_norm", self.count_clip_norm),
            ("count_floor", self.count_floor),
            ("label_bound", self.label_bound),
            ("item_ridge_factor", self.item_ridge_factor),
            ("init_stddev", self.init_stddev),
        ] {
            in_public_range(name, value)?;
        }
        for (name, value) in [
            ("bias_shrinkage", self.bias_shrinkage),
            ("item_l2_penalty", self.item_l2_penalty),
            ("weight_exponent", self.weight_exponent),
        ] {
            params::finite_non_negative(name, value)?;
            in_public_range(name, value.max(LEAST))?;
        }
        self.training_penalties.check()?;
        if let Some(penalties) = &self.fold_in_penalties {
            penalties.check()?;
        }
        self.record_sampling.check()?;
        if let Some(fraction) = self.head_fraction {
            params::open_unit("head_fraction", fraction)?;
        }
        self.item_update.check(self.n_rounds)?;
        if let Some(pooled) = &self.pooled_matrices {
            params::open_unit("weight_share", pooled.weight_share)?;
        }
        if let Some(implicit) = self.feedback.implicit() {
            implicit.check()?;
        }
        self.check_together()?;
        Ok(MatrixFactorization {
            params: self,
            assumptions: Vec::new(),
            prior: None,
            label: String::new(),
        })
    }

    /// Checks for settings that are each in range but conflict.
    fn check_together(&self) -> Result<()> {
        let implicit = self.feedback.implicit().is_some();
        if implicit && self.item_update != ItemUpdate::Ssp {
            let what = "implicit feedback with another item update than SSP";
            return Err(Error::Unsupported { what });
        }
        if self.fold_in_penalties.is_none() && (implicit || !self.score_model.is_biased()) {
            return Err(Error::Unsupported { what: NO_WEIGHING });
        }
        if self.global_effects
            && (self.pooled_matrices.is_none() || self.fold_in_penalties.is_some())
        {
            let what =
                "global effects, unless matrices are pooled and users choose their penalties";
            return Err(Error::Unsupported { what });
        }
        let per_item_only = implicit
            || !self.score_model.is_biased()
            || matches!(self.item_update, ItemUpdate::NoisyGd(_));
        if self.pooled_matrices.is_some() && per_item_only {
            let what = "pooled matrices without biases, in gradient steps or for implicit feedback \
                        (which has its own setting)";
            return Err(Error::Unsupported { what });
        }
        let drops_tastes =
            matches!(&self.item_update, ItemUpdate::Residual(of) if of.least_signal > 0.0);
        if drops_tastes && self.pooled_matrices.is_none() {
            let what = "dropping tastes without signal, unless matrices are pooled";
            return Err(Error::Unsupported { what });
        }
        if self.n_rounds == 0 && (self.dim != Some(1) || self.head_fraction.is_some()) {
            let what = "no rounds, unless dim is 1 and all items are ranked";
            return Err(Error::Unsupported { what });
        }
        let by_rule = implicit && self.dim.is_none();
        if self.score_model == ScoreModel::Plain && !by_rule && self.dim.is_none_or(|dim| dim < 2) {
            let what = "scores without biases, unless dim is set to 2 or above";
            return Err(Error::Unsupported { what });
        }
        Ok(())
    }

    pub(super) const fn bias(&self) -> LocalBias {
        LocalBias {
            center: self.label_center,
            shrinkage: self.bias_shrinkage,
        }
    }

    /// The constants that users of a finished model of dimension `dim`, without global effects,
    /// need.
    #[must_use]
    pub const fn scoring(&self, dim: usize) -> Scoring {
        Scoring {
            dim,
            bias: self.bias(),
            score_model: self.score_model,
            penalties: self.fold_in_penalties,
            n_effects: 0,
            unobserved_weight: match &self.feedback {
                Feedback::Explicit => None,
                Feedback::Implicit(implicit) => Some(implicit.fold_in_unobserved_weight),
            },
        }
    }

    /// Defaults for implicit feedback, which follow from the privacy target alone: pooled Gramian,
    /// and settings chosen on the validation users of MovieLens-1M (`docs/results.md`). If there
    /// are few data for the epsilon, items get a bias and no taste factors; if there are more,
    /// lists of [`implicit_plain_for_target`](Self::implicit_plain_for_target) are better.
    ///
    /// # Examples
    /// ```
    /// use dp_core::ApproxDp;
    /// use dp_multitask::FactorizationParams;
    /// let params = FactorizationParams::implicit_for_target(ApproxDp::target(1.0, 1e-5)?);
    /// assert!(params.feedback.implicit().is_some() && params.check().is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn implicit_for_target(target: ApproxDp) -> Self {
        // from low noise to high: the user step may use what is above the noise
        let noisy = target.epsilon < 3.0;
        Self {
            n_rounds: 3,
            round_growth: 2.0,
            weight_exponent: if noisy { 0.0 } else { 0.1 },
            count_share: 0.03,
            clip_norm: if noisy { 0.95 } else { 0.98 },
            training_penalties: UserPenalties {
                offset: if noisy { 10.0 } else { 1.0 },
                factor: 0.1,
                factor_per_record: 0.0,
            },
            fold_in_penalties: Some(UserPenalties {
                offset: 1.0,
                factor: if noisy { 1.0 } else { 0.3 },
                factor_per_record: 0.0,
            }),
            item_ridge_factor: if noisy { 0.1 } else { 3.0 },
            item_l2_penalty: 1.0,
            init_stddev: 0.1,
            feedback: Feedback::Implicit(ImplicitFeedback {
                training_unobserved_weight: if noisy { 0.01 } else { 0.3 },
                fold_in_unobserved_weight: 0.3,
                item_unobserved_weight: if noisy { 0.3 } else { 0.01 },
                item_gramian: ItemGramian::Pooled,
                gramian_share: 0.05,
            }),
            ..Self::adadpals_for_target(target)
        }
    }

    /// Implicit feedback with the whole budget spent on the item counts: the same ranking for all
    /// users, in which the bias of an item is its released count divided by the largest one. Each
    /// user's list excludes the user's own items.
    ///
    /// # Examples
    /// ```
    /// use dp_multitask::{Adjacency, ApproxDp, FactorizationParams, Trainer};
    /// let target = ApproxDp::target(1.0, 1e-5)?;
    /// let fit = FactorizationParams::popularity_for_target(target).check()?;
    /// let plan = fit.plan(100, target, Adjacency::AddRemoveUser)?;
    /// assert_eq!(plan.releases().len(), 1);
    /// assert_eq!(plan.releases()[0].label(), "item counts");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn popularity_for_target(target: ApproxDp) -> Self {
        Self {
            dim: Some(1),
            n_rounds: 0,
            count_clip_norm: 3.0,
            ..Self::implicit_for_target(target)
        }
    }

    /// Defaults for implicit feedback without biases: pooled Gramian, users' factors shortened to a
    /// small norm, and only the head of the items learned, at least 250. Chosen on the validation
    /// users of MovieLens-1M (`docs/results.md`, which states for which data these are better).
    ///
    /// # Examples
    /// ```
    /// use dp_core::ApproxDp;
    /// use dp_multitask::{FactorizationParams, ScoreModel};
    /// let params = FactorizationParams::implicit_plain_for_target(ApproxDp::target(5.0, 1e-5)?);
    /// assert!(params.score_model == ScoreModel::Plain && params.head_fraction.is_some());
    /// assert!(params.check().is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn implicit_plain_for_target(target: ApproxDp) -> Self {
        let of = ImplicitPlain::at(target.epsilon);
        let penalties = |factor| UserPenalties {
            offset: 1.0, // without biases there is no offset
            factor,
            factor_per_record: 0.0,
        };
        Self {
            score_model: ScoreModel::Plain,
            n_rounds: of.n_rounds,
            round_growth: of.round_growth,
            weight_exponent: of.weight_exponent,
            count_share: of.count_share,
            count_clip_norm: of.count_clip_norm,
            head_fraction: Some(of.head),
            least_head: LEAST_HEAD,
            clip_norm: of.clip_norm,
            training_penalties: penalties(of.penalties[0]),
            fold_in_penalties: Some(penalties(of.penalties[1])),
            item_ridge_factor: of.ridge,
            item_l2_penalty: of.l2_penalty,
            init_stddev: of.init_stddev,
            feedback: Feedback::Implicit(ImplicitFeedback {
                training_unobserved_weight: of.unobserved[0],
                fold_in_unobserved_weight: of.unobserved[1],
                item_unobserved_weight: of.unobserved[2],
                item_gramian: ItemGramian::Pooled,
                gramian_share: 0.05,
            }),
            ..Self::implicit_for_target(target)
        }
    }

    /// The same for ratings from `low` to `high`, finite and `low < high`: the centre is the middle
    /// of the range, and the unit is a quarter of it. Nothing is spent on the scale. The range must
    /// be public: a range read from the data is not.
    #[must_use]
    pub fn with_rating_range(self, low: f64, high: f64) -> Self {
        self.at_scale(low.midpoint(high), (high - low) / 4.0)
    }

    /// The same for ratings around `center`, finite, with `unit`, above 0, as the unit of labels,
    /// item factors and penalties, corresponding to 1 for ratings from 1 to 5. Nothing is spent on
    /// the scale. Both must be public, or released.
    #[must_use]
    pub fn at_scale(mut self, center: f64, unit: f64) -> Self {
        self.scale_share = 0.0;
        self.label_center = center;
        self.label_bound *= unit;
        self.init_stddev *= unit;
        self.training_penalties.factor *= unit * unit;
        self.training_penalties.factor_per_record *= unit * unit;
        if let Some(penalties) = &mut self.fold_in_penalties {
            penalties.factor *= unit * unit;
            penalties.factor_per_record *= unit * unit;
        }
        match &mut self.item_update {
            ItemUpdate::NoisyGd(settings) => {
                settings.residual_bound *= unit;
                settings.radius *= unit;
            }
            ItemUpdate::Residual(settings) => {
                if let ResidualBounds::Listed { values } = &mut settings.bounds {
                    values.iter_mut().for_each(|bound| *bound *= unit);
                }
            }
            ItemUpdate::Ssp => (),
        }
        self
    }

    /// Whether the run releases the scale of the ratings.
    #[must_use]
    pub fn releases_scale(&self) -> bool {
        !is_nothing(&self.scale_share) && self.feedback.implicit().is_none()
    }

    /// Bound on the right-hand sides: that on the labels, or 1 if every label is a positive.
    pub(super) const fn rhs_bound(&self) -> f64 {
        match self.feedback {
            Feedback::Explicit => self.label_bound,
            Feedback::Implicit(_) => 1.0,
        }
    }

    /// Bound on the norm of a user's factor in the item statistics.
    pub(super) const fn factor_bound(&self) -> f64 {
        match self.score_model {
            ScoreModel::Biased => 1.0,
            ScoreModel::Plain => self.clip_norm,
        }
    }

    /// The round (from 0), after its residuals, in which users vote on taste factors, and the share
    /// of the budget: the second residual round, or the last of all if there is only one.
    fn taste_votes(&self) -> Option<(usize, f64)> {
        let ItemUpdate::Residual(settings) = &self.item_update else {
            return None;
        };
        let last = self.n_rounds.checked_sub(1)?;
        let votes = self.dim.is_none()
            && settings.leave_one_out
            && settings.least_signal > 0.0
            && settings.taste_vote_share > 0.0
            && last >= settings.n_statistics_rounds;
        votes.then(|| {
            let round = (settings.n_statistics_rounds + 1).min(last);
            (round, settings.taste_vote_share)
        })
    }

    /// Whether the run has a release for votes on taste factors.
    pub(super) fn votes_on_tastes(&self) -> bool {
        self.taste_votes().is_some()
    }

    /// Whether users vote on taste factors in round `round` (from 0).
    pub(super) fn votes_on_tastes_in(&self, round: usize) -> bool {
        self.taste_votes().is_some_and(|(at, _)| at == round)
    }

    /// Total number of releases of the first `n_rounds` rounds.
    pub(super) fn releases_of(&self, n_rounds: usize) -> usize {
        let Some(implicit) = self.feedback.implicit() else {
            let votes = (0..n_rounds).any(|round| self.votes_on_tastes_in(round));
            return self.item_update.releases_of(n_rounds) + usize::from(votes);
        };
        let sums = [implicit.releases_gramian(), implicit.releases_matrices()];
        n_rounds * (1 + sums.into_iter().map(usize::from).sum::<usize>())
    }

    /// Whether the run releases counts: for ratings, weights with exponent 0 need none, unless rare
    /// items are sampled or only the head is learned. With implicit feedback they are always
    /// released; they determine the dimension of the factors and are the popularity baseline.
    #[must_use]
    pub fn releases_counts(&self) -> bool {
        self.weight_exponent > 0.0
            || self.record_sampling.needs_counts()
            || self.head_fraction.is_some()
            || self.feedback.implicit().is_some()
    }

    /// How many of `n_items` items are learned; `None` if all of them are. With a [minimum head
    /// size](Self::least_head) the fraction is of the [items in use](NoisyCounts::items_in_use), if
    /// their number can be determined from the released counts.
    #[must_use]
    pub fn n_head(&self, n_items: usize, counts: Option<&NoisyCounts>) -> Option<usize> {
        let by_rule = counts.filter(|_| self.least_head > 0);
        let in_use = by_rule.and_then(NoisyCounts::items_in_use);
        let in_use = in_use.map_or(1.0, |n| n / n_items as f64);
        let n_head = n_head(self.head_fraction? * in_use, n_items).max(self.least_head);
        (n_head < n_items).then_some(n_head)
    }

    /// Whether the run releases the number of users, which decides between co-occurrences of likes,
    /// alternating minimisation and popularity: likes without biases, with one matrix for all items, and the
    /// dimension of the factors by rule.
    #[must_use]
    pub fn considers_cooccurrences(&self) -> bool {
        let pooled = self.feedback.implicit();
        let pooled = pooled.is_some_and(|of| of.releases_gramian() && !of.releases_matrices());
        let by_rule = self.dim.is_none() && self.score_model == ScoreModel::Plain;
        by_rule && pooled && self.n_rounds > 0
    }

    /// Whether a round sums vectors, whose coordinates have 32-bit indices.
    pub(super) fn needs_vector_sums(&self) -> bool {
        self.feedback.implicit().is_some() || self.item_update != ItemUpdate::Ssp
    }

    /// Share of the budget (after the counts) for the items' total weights, if the run releases them.
    pub(super) fn weight_share(&self) -> Option<f64> {
        let pooled = self.pooled_matrices.as_ref().map(|p| p.weight_share);
        self.gradient_rounds().map(|g| g.weight_share).or(pooled)
    }

    /// The settings of gradient steps.
    pub(super) const fn gradient_rounds(&self) -> Option<&GradientRounds> {
        match &self.item_update {
            ItemUpdate::NoisyGd(settings) => Some(settings),
            _ => None,
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_nothing(x: &f64) -> bool {
    x.to_bits() == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
pub(super) const fn is_zero(n: &usize) -> bool {
    *n == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
const fn is_off(setting: &bool) -> bool {
    !*setting
}

/// Octaves from the smallest to the largest magnitude of a setting.
const MOST_OCTAVES: usize = 40;
const LEAST: f64 = 1e-6;
const MOST: f64 = 1e6;

/// Accepts magnitudes for which no sum or solve can overflow.
pub(crate) fn in_public_range(name: &'static str, value: f64) -> Result<()> {
    if (LEAST..=MOST).contains(&value) {
        return Ok(());
    }
    Err(ParamError::new(name, value, "a number from 1e-6 to 1e6").into())
}

/// Validated settings of private matrix factorisation: a [`Trainer`](crate::Trainer).
#[derive(Debug, Clone, PartialEq)]
pub struct MatrixFactorization {
    pub(super) params: FactorizationParams,
    assumptions: Vec<String>,
    pub(super) prior: Option<ItemPrior>,
    /// Prefix of the labels of all releases.
    pub(super) label: String,
}

settings_and_assumptions!(MatrixFactorization, FactorizationParams);

impl MatrixFactorization {
    /// The same with `label` as a prefix of the labels of its releases, for runs of several fits.
    pub(crate) fn labelled(mut self, label: &str) -> Self {
        label.clone_into(&mut self.label);
        self
    }

    /// The same with public columns of the items that it will be trained on. If users vote for
    /// them, factors contain as many of the prior's taste directions as the budget supports, or as
    /// `dim` permits if it is set.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`] if items do not share one matrix.
    pub fn with_prior(mut self, prior: ItemPrior) -> Result<Self> {
        let is_pooled = self.params.pooled_matrices.is_some();
        if !is_pooled || !matches!(self.params.item_update, ItemUpdate::Residual(_)) {
            let what = "a prior of items without residual rounds and a pooled matrix";
            return Err(Error::Unsupported { what });
        }
        self.prior = Some(prior);
        Ok(self)
    }

    /// The scale of ratings that these settings learn from its released sum, with the unit as close
    /// to the released one as the ranges of the settings permit. Post-processing.
    #[must_use]
    pub fn scale_from(&self, released: &ReleasedVector) -> RatingScale {
        let own = RatingScale::of_settings(self.params.label_center, self.params.label_bound);
        let mut found = own.learnt_from(released);
        for _ in 0..2 * MOST_OCTAVES {
            if self.at_scale(&found).params.check().is_ok() {
                return found;
            }
            found = found.nearer(own.unit);
        }
        own
    }

    /// The same with its settings [at this scale](FactorizationParams::at_scale).
    #[must_use]
    pub fn at_scale(&self, scale: &RatingScale) -> Self {
        let unit = scale.unit / self.params.label_bound;
        Self {
            params: self.params.clone().at_scale(scale.center, unit),
            ..self.clone()
        }
    }

    /// The caller's assumptions.
    #[must_use]
    pub fn assumptions(&self) -> &[String] {
        &self.assumptions
    }
}

const RATING_SCALE: &str = "rating scale";
const ITEM_WEIGHTS: &str = "item weights";
const USERS: &str = "number of users";
const PRIOR_VOTES: &str = "votes on public taste factors";
const TASTE_VOTES: &str = "votes on taste factors";
const RIGHT_HAND_SIDES: &str = "item right-hand sides";

impl MatrixFactorization {
    /// Checks that sums over this many items can be made.
    fn check_items(&self, n_items: usize) -> Result<()> {
        params::at_least_one("n_items", n_items)?;
        if self.params().needs_vector_sums() {
            let most = u32::MAX as usize / self.params().largest_dim();
            let expected = "so few that items times the length of factors is below 2^32";
            params::in_range("n_items", n_items, 1, most, expected)?;
        }
        Ok(())
    }

    /// The releases of a fit over `n_items`, with this fit's label as a prefix.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when `n_items` is 0 or too large.
    pub(crate) fn shares(&self, n_items: usize) -> Result<Vec<ReleaseRequest>> {
        self.check_items(n_items)?;
        let largest_dim = self.params().largest_dim();
        let mut requests = requests(
            self.params(),
            (n_items, largest_dim),
            self.has_prior_tastes(),
        );
        for request in &mut requests {
            request.label.insert_str(0, &self.label);
        }
        Ok(requests)
    }

    /// The noise multiplier planned for a round's right-hand sides.
    pub(super) fn rhs_noise(&self, plan: &Plan, round: usize) -> Result<f64> {
        let label = format!("{}round {round}: {RIGHT_HAND_SIDES}", self.label);
        let mut releases = plan.releases().iter();
        let planned = releases.find(|release| release.label() == label);
        let planned = planned.ok_or(dp_mechanism::Error::Plan { label })?;
        Ok(planned.noise_multiplier()?)
    }
}

/// With taste factors of a prior, users vote on them, and if they are kept, rounds of statistics
/// release the users' matrix as a sum of vectors.
fn requests(
    settings: &FactorizationParams,
    (n_items, largest_dim): (usize, usize),
    has_prior_tastes: bool,
) -> Vec<ReleaseRequest> {
    let mut requests = Vec::with_capacity(1 + 2 * settings.n_rounds);
    let mut left = 1.0;
    if settings.releases_scale() {
        left -= settings.scale_share;
        let (share, n_draws) = (settings.scale_share, ScaleContribution::LEN as u64);
        requests.push(ReleaseRequest::new(
            RATING_SCALE,
            share,
            ReplaceFactor::Two,
            n_draws,
        ));
    }
    if settings.releases_counts() {
        let share = match settings.n_rounds {
            0 => 1.0,
            _ => left * settings.count_share,
        };
        left -= share;
        requests.push(ReleaseRequest::new(
            "item counts",
            share,
            ReplaceFactor::Two,
            n_items as u64,
        ));
    }
    if settings.considers_cooccurrences() {
        let share = left * USERS_SHARE;
        left -= share;
        requests.push(ReleaseRequest::new(USERS, share, ReplaceFactor::Two, 1));
    }
    if let Some(weight_share) = settings.weight_share() {
        let share = left * weight_share;
        left -= share;
        requests.push(WeightTotals::request(ITEM_WEIGHTS, n_items, share));
    }
    if has_prior_tastes {
        let share = left * VOTE_SHARE;
        left -= share;
        requests.push(ReleaseRequest::new(
            PRIOR_VOTES,
            share,
            ReplaceFactor::Two,
            1,
        ));
    }
    let votes = settings.taste_votes().map(|(round, share)| {
        let share = left * share;
        left -= share;
        (round + 1, share)
    });
    let dim = settings.score_model.coordinates(largest_dim);
    for (round, share) in (1..).zip(round_shares(settings)) {
        let share = share * left;
        if let Some(implicit) = settings.feedback.implicit() {
            let mut draws = GramSums::rhs_draws(n_items, dim);
            if settings.considers_cooccurrences() {
                draws = draws.max(packed_len(n_items.min(MOST_COOCCURRING)) as u64);
            }
            let sums = (settings.matrix_share, draws);
            requests.extend(implicit_requests(
                implicit,
                sums,
                (n_items, dim),
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
            if let Some((_, share)) = votes.filter(|(at, _)| *at == round) {
                let what = format!("round {round}: {TASTE_VOTES}");
                requests.push(ReleaseRequest::new(what, share, factor, 1));
            }
            continue;
        }
        let (what, draws) = match settings.pooled_matrices {
            None => ("item matrices", GramSums::matrix_draws(n_items, dim)),
            Some(_) => ("pooled matrices", GramSums::pooled_matrix_draws(dim)),
        };
        let factor = match has_prior_tastes {
            true => ReplaceFactor::Two,
            false => ReplaceFactor::SqrtTwo,
        };
        requests.push(ReleaseRequest::new(
            format!("round {round}: {what}"),
            share * settings.matrix_share,
            factor,
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

/// One round of implicit feedback: those of the Gramian of all users, the matrices of the items,
/// and the right-hand sides that are released.
fn implicit_requests(
    implicit: &ImplicitFeedback,
    (matrix_share, sum_draws): (f64, u64),
    (n_items, dim): (usize, usize),
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
    push(RIGHT_HAND_SIDES, left, ReplaceFactor::Two, sum_draws);
    requests
}

/// Shares of the rounds: each `round_growth` times the previous one, summing to 1.
fn round_shares(settings: &FactorizationParams) -> Vec<f64> {
    // relative to the last round, so that growth to a high power cannot overflow
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
    // a share that underflows would require infinite noise
    base.powf(exponent as f64).max(1e-12)
}

/// Maximum dimension that the rule chooses: an item bias and 24 taste factors.
const LARGEST_RULE_DIM: usize = 25;
/// Maximum number of taste factors that the rule for implicit feedback chooses.
const IMPLICIT_TASTES: usize = 32;
/// The rule for implicit feedback has at most one taste factor for this many items: more would fit
/// each user's chance items.
const ITEMS_PER_TASTE: usize = 20;
/// The rule for ratings has at most one taste factor for this many items: of few items, users have too few ratings each for more.
const ITEMS_PER_RATED_TASTE: usize = 4;
/// With fewer taste factors than this, the noise costs more than they gain.
const LEAST_TASTES: usize = 2;
/// If the counts give fewer than this, before rounding, item biases and global effects alone are
/// better (decision 0086).
const LEAST_BY_COUNTS: f64 = 2.0;
/// Taste factors of a prior need less signal than those that are learned from 0: this many more pay
/// (decision 0083).
const MORE_BY_PRIOR: f64 = 2.5;

/// Share of the budget spent on the number of users.
const USERS_SHARE: f64 = 0.003;
/// Minimum number of items in the head of the model without biases: lists of smaller catalogues
/// need all items.
const LEAST_HEAD: usize = 250;

/// Remaining settings of the model without biases at a small, medium and large epsilon.
struct ImplicitPlain {
    tastes: usize,
    n_rounds: usize,
    round_growth: f64,
    weight_exponent: f64,
    head: f64,
    count_share: f64,
    count_clip_norm: f64,
    clip_norm: f64,
    /// Penalties of the user step: training, fold-in.
    penalties: [f64; 2],
    ridge: f64,
    l2_penalty: f64,
    init_stddev: f64,
    /// Weights of unobserved items: training, fold-in, items.
    unobserved: [f64; 3],
}

impl ImplicitPlain {
    fn at(epsilon: f64) -> Self {
        let middle = Self {
            tastes: 24,
            n_rounds: 3,
            round_growth: 3.0,
            weight_exponent: 0.25,
            head: 0.15,
            count_share: 0.1,
            count_clip_norm: 5.0,
            clip_norm: 0.1,
            penalties: [0.15, 2.9],
            ridge: 0.12,
            l2_penalty: 1.8,
            init_stddev: 0.1,
            unobserved: [0.27, 0.35, 0.37],
        };
        match epsilon {
            epsilon if epsilon < 2.5 => Self {
                tastes: 8,
                n_rounds: 4,
                weight_exponent: 0.0,
                head: 0.1,
                count_share: 0.15,
                count_clip_norm: 3.0,
                clip_norm: 0.08,
                penalties: [0.87, 1.4],
                ridge: 0.7,
                l2_penalty: 2.2,
                unobserved: [0.33, 0.24, 0.02],
                ..middle
            },
            epsilon if epsilon < 10.0 => middle,
            _ => Self {
                tastes: 40,
                n_rounds: 4,
                round_growth: 2.0,
                head: 0.2,
                count_share: 0.03,
                clip_norm: 0.2,
                penalties: [0.15, 4.0],
                l2_penalty: 1.0,
                init_stddev: 0.03,
                ..middle
            },
        }
    }
}

impl FactorizationParams {
    /// The dimension of the factors if `dim` is not set: an item bias, and as many taste factors as
    /// the signal supports above the noise.
    ///
    /// ```text
    /// tastes = round(0.3 sqrt(mu * count) - 0.6)     with counts
    /// tastes = round(log2(epsilon) + 0.68)             without
    /// ```
    ///
    /// `mu` is the Gaussian-DP parameter of the training's own releases, `count` the mean released
    /// count of the [items in use](NoisyCounts::mean_in_use). Below two taste factors, or with
    /// counts below 2 before rounding, there are none; above twenty-four there are twenty-four, and with few items one for every four.
    /// With implicit feedback `tastes = mu * count / 4` (`4 epsilon` without counts), at most 32,
    /// and without biases 8, 24 or 40 by epsilon (co-occurrences have as many as are above the noise,
    /// at most 60); in both cases at most one taste factor for every
    /// 20 items. Chosen on MovieLens-1M, see `docs/results.md`.
    ///
    /// # Privacy
    /// Post-processing: uses released counts and public settings only.
    #[must_use]
    pub fn rule_dim(&self, mu: f64, count: Option<f64>, n_items: usize) -> usize {
        if self.feedback.implicit().is_some() {
            let tastes = match self.score_model {
                ScoreModel::Biased => self.rule_tastes_implicit(mu, count),
                ScoreModel::Plain => ImplicitPlain::at(self.rule_epsilon).tastes,
            };
            return 1 + tastes.min((n_items / ITEMS_PER_TASTE).max(1));
        }
        let signal = self.taste_signal(mu, count);
        let tastes = match count {
            Some(_) if signal < LEAST_BY_COUNTS => 0.0,
            _ => signal.round(),
        };
        let most = (n_items / ITEMS_PER_RATED_TASTE).clamp(LEAST_TASTES, LARGEST_RULE_DIM - 1);
        (LEAST_TASTES..=most)
            .rev()
            .find(|&n| tastes >= n as f64)
            .map_or(1, |n| n + 1)
    }

    /// The number of taste factors by rule, before rounding.
    fn taste_signal(&self, mu: f64, count: Option<f64>) -> f64 {
        match count {
            Some(count) => 0.3 * (mu * count.max(0.0)).sqrt() - 0.6,
            None => self.rule_epsilon.log2() + 0.68,
        }
    }

    /// The largest number of taste factors of a prior that users vote on: [`MORE_BY_PRIOR`] more
    /// than the rule has without a prior, at least one and at most twenty-four. If `dim` is set, as
    /// many as it has.
    ///
    /// # Privacy
    /// As [`rule_dim`](Self::rule_dim).
    pub(super) fn prior_tastes(&self, mu: f64, count: Option<f64>) -> usize {
        if let Some(dim) = self.dim {
            return dim.saturating_sub(1);
        }
        let tastes = (self.taste_signal(mu, count) + MORE_BY_PRIOR).round();
        (1..LARGEST_RULE_DIM)
            .rev()
            .find(|&n| tastes >= n as f64)
            .unwrap_or(1)
    }

    /// The rule for implicit feedback: `tastes = mu * count / 4`, or `4 epsilon` without counts, at
    /// most 32; below two there are none. Chosen on MovieLens-1M like the other rule.
    fn rule_tastes_implicit(&self, mu: f64, count: Option<f64>) -> usize {
        let tastes = count.map_or(4.0 * self.rule_epsilon, |count| mu * count / 4.0);
        (LEAST_TASTES..=IMPLICIT_TASTES)
            .rev()
            .find(|&n| tastes.round() >= n as f64)
            .unwrap_or(0)
    }

    /// The maximum dimension of factors that a fit with these settings can release.
    pub(super) fn largest_dim(&self) -> usize {
        self.dim.unwrap_or(match self.feedback {
            Feedback::Explicit => LARGEST_RULE_DIM,
            Feedback::Implicit(_) if self.score_model == ScoreModel::Plain => {
                1 + ImplicitPlain::at(self.rule_epsilon).tastes
            }
            Feedback::Implicit(_) => IMPLICIT_TASTES + 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use dp_core::Adjacency;
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
        let with = requests(&settings, (10, settings.largest_dim()), false).len();
        settings.weight_exponent = 0.0;
        assert_eq!(
            requests(&settings, (10, settings.largest_dim()), false).len() + 1,
            with
        );
    }

    #[test]
    fn no_rounds_are_for_item_counts_alone_and_these_have_the_whole_budget() {
        let target = ApproxDp::target(1.0, 1e-5).unwrap();
        let popularity = FactorizationParams::popularity_for_target(target);
        let found = requests(&popularity, (10, popularity.largest_dim()), false);
        assert_eq!(found.len(), 1);
        assert!((found[0].budget_share - 1.0).abs() < 1e-15);
        assert!(popularity.clone().check().is_ok());
        for wrong in [
            FactorizationParams {
                dim: Some(2),
                ..popularity.clone()
            },
            FactorizationParams {
                dim: None,
                ..popularity.clone()
            },
            FactorizationParams {
                head_fraction: Some(0.5),
                ..popularity
            },
            FactorizationParams {
                n_rounds: 0,
                dim: Some(1),
                ..FactorizationParams::for_target(target)
            },
        ] {
            assert!(wrong.check().is_err());
        }
    }

    fn at(epsilon: f64) -> FactorizationParams {
        FactorizationParams::for_target(ApproxDp {
            epsilon,
            delta: 1e-5,
        })
    }

    #[test]
    fn defaults_pass_their_own_checks_at_every_epsilon() {
        for epsilon in [1e-6, 0.1, 1.0, 5.0, 20.0, 1e6] {
            assert!(at(epsilon).check().is_ok(), "epsilon {epsilon}");
            let target = ApproxDp {
                epsilon,
                delta: 1e-5,
            };
            assert!(
                FactorizationParams::adadpals_for_target(target)
                    .check()
                    .is_ok()
            );
            assert!(
                FactorizationParams::implicit_for_target(target)
                    .check()
                    .is_ok()
            );
            assert!(
                FactorizationParams::implicit_plain_for_target(target)
                    .check()
                    .is_ok()
            );
        }
    }

    #[test]
    fn the_rule_for_dim_is_the_documented_one() {
        // (epsilon, mu, the best number of taste factors on MovieLens-1M, whose mean released count
        // is 147)
        for (epsilon, mu, tastes) in [
            (0.5, 0.1422, 0),
            (1.0, 0.2681, 0),
            (1.5, 0.3872, 0),
            (2.0, 0.5016, 0),
            (3.0, 0.7236, 2),
            (5.0, 1.1212, 3),
            (10.0, 2.0004, 5),
            (20.0, 3.4478, 6),
        ] {
            assert_eq!(at(epsilon).rule_dim(mu, Some(146.5), 3_706), tastes + 1);
        }
        for (epsilon, tastes) in [(0.5, 0), (1.0, 0), (2.0, 2), (5.0, 3), (10.0, 4), (20.0, 5)] {
            assert_eq!(at(epsilon).rule_dim(f64::NAN, None, 3_706), tastes + 1);
        }
    }

    #[test]
    fn small_catalogues_have_few_tastes() {
        let target = ApproxDp::target(5.0, 1e-5).unwrap();
        let params = FactorizationParams::implicit_plain_for_target(target);
        let rule = |of: &FactorizationParams, n| of.rule_dim(1.1, Some(1e6), n);
        assert_eq!([5, 100, 3_706].map(|n| rule(&params, n)), [2, 6, 25]);
        let biased = FactorizationParams::implicit_for_target(target);
        assert_eq!([5, 100, 3_706].map(|n| rule(&biased, n)), [2, 6, 33]);
        assert_eq!([5, 16, 25, 3_706].map(|n| rule(&at(5.0), n)), [3, 5, 7, 25]);
    }

    #[test]
    fn the_rule_stays_in_range_whatever_was_released() {
        for count in [
            f64::NAN,
            f64::NEG_INFINITY,
            -1e300,
            0.0,
            1e300,
            f64::INFINITY,
        ] {
            let dim = at(1.0).rule_dim(1.0, Some(count), 3_706);
            assert!((1..=LARGEST_RULE_DIM).contains(&dim));
        }
        assert_eq!(at(1.0).rule_dim(1.0, Some(1e300), 3_706), LARGEST_RULE_DIM);
    }
}
