use dp_core::{ApproxDp, ParamError, params};

use super::defaults;
use super::implicit::Feedback;
use super::item_update::{GradientRounds, ItemUpdate, PooledMatrices, RecordSampling, ScoreModel};
use super::model::{Scoring, UserPenalties};
use crate::allocation::n_head;
use crate::{Error, LocalBias, Result};

/// Settings of private matrix factorisation by task-weighted sufficient statistics (AdaDPALS) or
/// gradients, not yet checked. All are public and must not be chosen by looking at the data.
///
/// Defaults come from [`for_target`](Self::for_target): some follow from epsilon, the others are
/// constants. Ranges are checked by [`check`](Self::check), which rejects NaN everywhere.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FactorizationParams {
    /// Length of the item factors, 1 to 256: an item bias and `dim - 1` tastes. `None` chooses it by
    /// rule from the released counts (or from epsilon when the run releases none); see
    /// [`rule_dim`](Self::rule_dim).
    pub dim: Option<usize>,
    /// Privacy target that the rule for `dim` looks at, nats; finite and above 0.
    pub rule_epsilon: f64,
    /// Rounds of alternating minimisation `T`, 1 to 1000; each releases the item statistics once.
    pub n_rounds: usize,
    /// Budget share of a round relative to the round before it, above 0.
    pub round_growth: f64,
    /// Exponent of the adaptive weights `n_i^-mu`, 0 or above; 0 weighs all items of a user alike
    /// and needs no counts, unless tail sampling, a head or implicit feedback does.
    pub weight_exponent: f64,
    /// Share of the budget (of the squared Gaussian-DP parameter) spent on the counts, strictly
    /// between 0 and 1; without effect when none are released.
    pub count_share: f64,
    /// Largest L2 norm of one user's votes in the count release, above 0: a user with up to its
    /// square of items counts in full.
    pub count_clip_norm: f64,
    /// Noisy counts below this are raised to it, above 0.
    pub count_floor: f64,
    /// Share of each round's budget spent on the matrices (or on the one for all items), strictly between 0 and 1; the rest goes
    /// to the right-hand sides.
    pub matrix_share: f64,
    /// Norm of the taste part of a user's factor, above 0 and below 1; the constant coordinate,
    /// which learns the item bias, gets the rest of the norm 1.
    pub clip_norm: f64,
    /// Public centre of the ratings, data units.
    pub label_center: f64,
    /// Bound on the weighted root mean square of a user's labels after centre and offset, above 0,
    /// data units; single labels are first clipped to three times this.
    pub label_bound: f64,
    /// Shrinkage of the local user bias, in ratings, 0 or above.
    pub bias_shrinkage: f64,
    /// Penalties of the local user step while training.
    pub training_penalties: UserPenalties,
    /// Penalties of the local user step with the finished factors (fold-in).
    pub fold_in_penalties: UserPenalties,
    /// Ridge of the item step in units of `noise stddev * sqrt(dim)`, above 0: noise of the matrices where each
    /// item has one, of the right-hand sides where they are pooled.
    pub item_ridge_factor: f64,
    /// Constant ridge of the item step on top, 0 or above.
    pub item_l2_penalty: f64,
    /// Standard deviation of the initial item factors, above 0.
    pub init_stddev: f64,
    /// Seed of the initial item factors. Public; it has no part in the noise.
    pub init_seed: u64,
    /// What records mean. With implicit feedback the settings of labels and of the local bias have no effect.
    #[serde(default)]
    pub feedback: Feedback,
    /// What a predicted rating is made of.
    #[serde(default)]
    pub score_model: ScoreModel,
    /// Which of a user's records enter the item statistics.
    #[serde(default)]
    pub record_sampling: RecordSampling,
    /// The head: this fraction of the items, strictly between 0 and 1, those with the largest released counts, is all that is
    /// learnt. Users spend nothing on other items, whose factors are 0. `None` learns all items, and needs no counts for it.
    /// See [`TaskWeights::head`](crate::TaskWeights::head).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_fraction: Option<f64>,
    /// The head has at least this many items, or all there are; without effect when `head_fraction` is `None`. In a small
    /// catalogue a fraction of the items may be fewer than a list needs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub least_head: usize,
    /// How items learn.
    #[serde(default)]
    pub item_update: ItemUpdate,
    /// One matrix for all items in place of one each; for ratings with biases, and rounds of statistics. Implicit
    /// feedback has [`ItemGramian`](super::ItemGramian).
    #[serde(default)]
    pub pooled_matrices: Option<PooledMatrices>,
}

impl FactorizationParams {
    /// Defaults that follow from the privacy target alone: one matrix for all items, rounds of statistics and then
    /// of residuals. Found on the validation part of MovieLens-1M (`docs/results.md`).
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
        defaults::for_target(target)
    }

    /// Defaults of the published algorithm with biases: a matrix of its own for every item, released anew in
    /// every round (AdaDPALS, Krichene et al. 2023, Algorithms 1 and 3).
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
        defaults::adadpals_for_target(target)
    }

    /// Checks every range.
    ///
    /// Besides the ranges of the fields, every magnitude must lie between 1e-6 and 1e6 (or be 0
    /// where 0 is allowed): outside, a run could overflow after its budget is spent.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first setting out of range.
    pub fn check(self) -> Result<MatrixFactorization> {
        if let Some(dim) = self.dim {
            params::in_range("dim", dim, 1, 256, "a whole number from 1 to 256")?;
        }
        params::finite_positive("rule_epsilon", self.rule_epsilon)?;
        params::in_range(
            "n_rounds",
            self.n_rounds,
            1,
            1000,
            "a whole number from 1 to 1000",
        )?;
        params::open_unit("count_share", self.count_share)?;
        params::open_unit("matrix_share", self.matrix_share)?;
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
        self.fold_in_penalties.check()?;
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
            label: String::new(),
        })
    }

    /// Settings that are in range each but do not go together.
    fn check_together(&self) -> Result<()> {
        let implicit = self.feedback.implicit().is_some();
        if implicit && self.item_update != ItemUpdate::Ssp {
            let what = "implicit feedback with another item update than SSP";
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
        if self.score_model == ScoreModel::Plain && self.dim.is_none_or(|dim| dim < 2) {
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

    /// The constants that users of a finished model of length `dim` need.
    #[must_use]
    pub const fn scoring(&self, dim: usize) -> Scoring {
        Scoring {
            dim,
            bias: self.bias(),
            score_model: self.score_model,
            penalties: self.fold_in_penalties,
            unobserved_weight: match &self.feedback {
                Feedback::Explicit => None,
                Feedback::Implicit(implicit) => Some(implicit.fold_in_unobserved_weight),
            },
        }
    }

    /// Defaults for implicit feedback, which follow from the privacy target alone: pooled Gramian,
    /// and settings found on the validation users of MovieLens-1M (`docs/results.md`). Where there is little data for the
    /// epsilon, items get a bias and no tastes; where there is more, lists of
    /// [`implicit_plain_for_target`](Self::implicit_plain_for_target) are better.
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
        defaults::implicit_for_target(target)
    }

    /// Defaults for implicit feedback without biases: pooled Gramian, users' factors cut short to a small norm, and only the
    /// head of the items learnt, at least 250. Found on the validation users of MovieLens-1M (`docs/results.md`, which says
    /// for which data these are the better ones).
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
        defaults::implicit_plain_for_target(target)
    }

    /// Bound on the right-hand sides: that on the labels, or 1 where every label is a yes.
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

    /// Releases of the first `n_rounds` rounds together.
    pub(super) fn releases_of(&self, n_rounds: usize) -> usize {
        let Some(implicit) = self.feedback.implicit() else {
            return self.item_update.releases_of(n_rounds);
        };
        let sums = [implicit.releases_gramian(), implicit.releases_matrices()];
        n_rounds * (1 + sums.into_iter().map(usize::from).sum::<usize>())
    }

    /// Whether the run releases counts: with ratings, weights with exponent 0 need none, unless rare items are
    /// sampled or the head alone is learnt. With implicit feedback they are always released; they choose the length of the factors and are
    /// the popularity baseline.
    #[must_use]
    pub fn releases_counts(&self) -> bool {
        self.weight_exponent > 0.0
            || self.record_sampling.needs_counts()
            || self.head_fraction.is_some()
            || self.feedback.implicit().is_some()
    }

    /// How many of `n_items` items are learnt; `None` where it is all of them.
    #[must_use]
    pub fn n_head(&self, n_items: usize) -> Option<usize> {
        let n_head = n_head(self.head_fraction?, n_items).max(self.least_head);
        (n_head < n_items).then_some(n_head)
    }

    /// Whether a round sums vectors, whose coordinates are numbered in 32 bits.
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
const fn is_zero(n: &usize) -> bool {
    *n == 0
}

const LEAST: f64 = 1e-6;
const MOST: f64 = 1e6;

/// Accepts magnitudes that no sum or solve on the way can overflow.
pub(crate) fn in_public_range(name: &'static str, value: f64) -> Result<()> {
    if (LEAST..=MOST).contains(&value) {
        return Ok(());
    }
    Err(ParamError {
        name,
        value,
        expected: "a number from 1e-6 to 1e6",
    }
    .into())
}

/// Checked settings of private matrix factorisation: a [`Trainer`](crate::Trainer).
#[derive(Debug, Clone, PartialEq)]
pub struct MatrixFactorization {
    params: FactorizationParams,
    assumptions: Vec<String>,
    /// In front of the labels of all releases.
    pub(super) label: String,
}

settings_and_assumptions!(MatrixFactorization, FactorizationParams);

impl MatrixFactorization {
    /// The same with `label` in front of the labels of its releases, for runs of several fits.
    pub(crate) fn labelled(mut self, label: &str) -> Self {
        label.clone_into(&mut self.label);
        self
    }

    /// What the caller takes on trust.
    #[must_use]
    pub fn assumptions(&self) -> &[String] {
        &self.assumptions
    }
}
