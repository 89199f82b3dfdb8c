//! The released model, and each user's personal model.

use dp_core::{Interactions, Private, ShapeError, UserRow, parallel, params};
use dp_linalg::{ItemRanking, top_k, top_k_each};

use super::global_effects::N_EFFECTS;
use super::item_update::ScoreModel;
use super::params::{in_public_range, is_zero};
use super::rating_scale::RatingScale;
use super::taste_votes::TasteVotes;
use super::typical_user::typical_factor;
use super::user_step::{Design, UserScratch, UserStep};
use crate::{Error, LocalBias, NoisyCounts, Provenance, Result};

/// Number of users whose scores are computed together, so that the factors are read once for all of
/// them.
const USERS_AT_ONCE: usize = 16;

/// Number of standard deviations of the noise above which a released value counts as more than
/// noise.
pub const ABOVE_NOISE: f64 = 2.0;

/// Why some models need penalties.
pub(super) const NO_WEIGHING: &str = "penalties of the fold-in by each user's own records, unless records are ratings and scores have biases";

/// Ridge penalties of the local user step, each in units of squared item factors.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserPenalties {
    /// On the user's offset, in ratings.
    pub offset: f64,
    /// On the user's factor.
    pub factor: f64,
    /// On the user's factor, multiplied by the user's number of records.
    pub factor_per_record: f64,
}

impl UserPenalties {
    pub(crate) fn check(&self) -> Result<()> {
        in_public_range("user offset penalty", self.offset)?;
        in_public_range("user factor penalty", self.factor)?;
        params::finite_non_negative("user factor penalty per record", self.factor_per_record)?;
        in_public_range(
            "user factor penalty per record",
            self.factor_per_record.max(1e-6),
        )
    }
}

/// The public constants by which every user computes a personal model from their own records.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scoring {
    /// Dimension of item factors: the item bias, the taste factors and the global effects.
    pub dim: usize,
    /// The initial value of a user's own offset.
    pub bias: LocalBias,
    /// Components of a predicted rating.
    #[serde(default, skip_serializing_if = "ScoreModel::is_biased")]
    pub score_model: ScoreModel,
    /// Ridge of the user step. `None`, for ratings with biases: every user weights candidate
    /// penalties, and the share of the item biases to use, by the evidence of their own records;
    /// see [`FactorModel::fold_in`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub penalties: Option<UserPenalties>,
    /// With implicit feedback, the weight `a0` of every item as a weak negative; `None` for
    /// ratings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unobserved_weight: Option<f64>,
    /// Number of global effects, 0 or 2: the last columns of the factors, which are computed from
    /// released item biases and total weights `W_i` and used like taste factors.
    ///
    /// ```text
    /// [0.3 (h_i - mean h) / sd h,  0.3 (ln W_i - mean ln W) / sd ln W]          mean and sd weighted by W_i
    /// ```
    ///
    /// By the first, a user follows the item biases more or less, by the second they like popular
    /// items more or less. Source: Bell and Koren 2007, "user x movie average" and "user x movie
    /// support".
    #[serde(default, skip_serializing_if = "is_zero")]
    pub n_effects: usize,
}

impl Scoring {
    /// The same with global effects.
    pub(super) const fn with_effects(mut self) -> Self {
        self.dim += N_EFFECTS;
        self.n_effects = N_EFFECTS;
        self
    }

    /// The rows on which users regress.
    pub(crate) fn design(&self, item_factors: &[f64]) -> Design {
        let design = Design::new(item_factors, self.dim, self.score_model);
        match self.unobserved_weight {
            Some(weight) => design.with_unobserved(weight),
            None => design,
        }
    }
}

/// Item factors and the constants needed to use them. Public if its factors were released.
///
/// ```text
/// rating of user j for item i:  offset_j + b_j h_i + <q_i, v_j>
/// ```
///
/// Row `i` of the factors is `[h_i, q_i]`: an item bias and `dim - 1` taste factors, the last
/// [`n_effects`](Scoring::n_effects) of which are global effects. `offset_j`,
/// `v_j` and `b_j`, which is 1 if penalties are fixed, come from [`fold_in`](Self::fold_in) and
/// stay with the user.
#[derive(Debug, Clone, PartialEq)]
pub struct FactorModel {
    scoring: Scoring,
    item_factors: Vec<f64>,
    provenance: Provenance,
    counts: Option<NoisyCounts>,
    scale: Option<RatingScale>,
    prior_votes: Option<TasteVotes>,
    taste_votes: Option<TasteVotes>,
    is_of_cooccurrences: bool,
    standard_errors: Option<Vec<f64>>,
    typical_user: Option<Vec<f64>>,
}

impl FactorModel {
    /// A model from rows `[h_i, q_i]`, shape `(n_items, dim)`, row-major.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when the length is not a multiple of `dim`,
    /// [`crate::Error::Param`] when a constant is out of range.
    pub fn new(scoring: Scoring, item_factors: Vec<f64>, provenance: Provenance) -> Result<Self> {
        params::at_least_one("dim", scoring.dim)?;
        params::finite("label_center", scoring.bias.center)?;
        params::finite_non_negative("bias_shrinkage", scoring.bias.shrinkage)?;
        match &scoring.penalties {
            Some(penalties) => penalties.check()?,
            None if scoring.unobserved_weight.is_none() && scoring.score_model.is_biased() => {}
            None => return Err(Error::Unsupported { what: NO_WEIGHING }),
        }
        if let Some(weight) = scoring.unobserved_weight {
            params::finite_non_negative("unobserved_weight", weight)?;
            in_public_range("unobserved_weight", weight.max(1e-6))?;
        }
        let n = scoring.n_effects;
        if n > 0 && (n >= scoring.dim || n != N_EFFECTS || scoring.penalties.is_some()) {
            let expected = "0, or 2 besides an item bias, if users choose their penalties";
            return Err(dp_core::ParamError::new("n_effects", n as f64, expected).into());
        }
        if !item_factors.len().is_multiple_of(scoring.dim) {
            return Err(ShapeError {
                name: "item_factors",
                found: item_factors.len(),
                expected: item_factors.len().div_ceil(scoring.dim) * scoring.dim,
            }
            .into());
        }
        Ok(Self {
            scoring,
            item_factors,
            provenance,
            counts: None,
            scale: None,
            prior_votes: None,
            taste_votes: None,
            is_of_cooccurrences: false,
            standard_errors: None,
            typical_user: None,
        })
    }

    /// The same model with the item counts that were released with it. If they are the item biases,
    /// their noise is that of the biases; likes without biases get a
    /// [typical user](Self::typical_user).
    #[must_use]
    pub fn with_counts(mut self, counts: Option<NoisyCounts>) -> Self {
        self.counts = counts;
        let is_plain = self.scoring.score_model == ScoreModel::Plain;
        if is_plain && self.scoring.unobserved_weight.is_some() && self.dim() > 1 {
            let counts = self
                .counts
                .as_ref()
                .filter(|of| of.values().len() == self.n_items());
            self.typical_user = counts.and_then(|counts| typical_factor(&self.design(), counts));
        }
        if let Some(counts) = self.counts.as_ref().filter(|_| self.ranks_by_counts()) {
            let error = counts.noise_stddev() / counts.unit();
            self.standard_errors = Some(vec![error; self.item_factors.len()]);
        }
        self
    }

    /// The same model with the standard errors of its factors: for item counts the standard
    /// deviation of the mechanism's noise, for biases and taste factors of ratings the posterior
    /// standard deviation given all releases, and for factors of likes that of the noise of the
    /// last round (of all rounds, for co-occurrences), without what the ridge shrinks away; in the units of each coordinate. Those of
    /// ratings include a variance for the sampling of users where items share one matrix. Errors of
    /// the coordinates of an item are assumed to be uncorrelated.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] unless there is one for each number of the factors,
    /// [`crate::Error::Param`] for one that is negative or not finite.
    pub fn with_standard_errors(mut self, errors: Vec<f64>) -> Result<Self> {
        let expected = self.item_factors.len();
        params::same_size("standard errors", errors.len(), expected)?;
        for &error in &errors {
            params::finite_non_negative("standard error", error)?;
        }
        self.standard_errors = Some(errors);
        Ok(self)
    }

    /// Standard errors of the factors due to the mechanism's noise, rows as in
    /// [`item_factors`](Self::item_factors), if they are known.
    #[must_use]
    pub fn standard_errors(&self) -> Option<&[f64]> {
        self.standard_errors.as_deref()
    }

    /// The same model with the factor of a typical user, as [`typical_user`](Self::typical_user)
    /// of the model that it was read from.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] unless it has length `dim`, [`crate::Error::Param`] for a number that
    /// is not finite, [`crate::Error::Unsupported`] unless the model is one of likes without biases.
    pub fn with_typical_user(mut self, factor: Vec<f64>) -> Result<Self> {
        params::same_size("factor of the typical user", factor.len(), self.dim())?;
        for &x in &factor {
            params::finite("factor of the typical user", x)?;
        }
        if self.scoring.unobserved_weight.is_none() || self.scoring.score_model != ScoreModel::Plain
        {
            let what = "a typical user, unless records are likes and scores have no biases";
            return Err(Error::Unsupported { what });
        }
        self.typical_user = Some(factor);
        Ok(self)
    }

    /// For likes without biases with released counts: the factor, length `dim`, of a user who likes
    /// each item as often as all users together do. Public. Users with few records are near it; see
    /// [`fold_in`](Self::fold_in).
    #[must_use]
    pub fn typical_user(&self) -> Option<&[f64]> {
        self.typical_user.as_deref()
    }

    /// The released item counts, if the run made any.
    #[must_use]
    pub const fn counts(&self) -> Option<&NoisyCounts> {
        self.counts.as_ref()
    }

    /// The same model with the scale of ratings that was released with it.
    #[must_use]
    pub(super) const fn with_scale(mut self, scale: RatingScale) -> Self {
        self.scale = Some(scale);
        self
    }

    /// The released scale of the ratings, if the run made one.
    #[must_use]
    pub const fn scale(&self) -> Option<&RatingScale> {
        self.scale.as_ref()
    }

    /// The same model with the outcomes of the users' votes on the taste factors of its prior and on
    /// those that it has learned.
    #[must_use]
    pub(super) const fn with_votes(
        mut self,
        (of_prior, of_tastes): (Option<TasteVotes>, Option<TasteVotes>),
    ) -> Self {
        (self.prior_votes, self.taste_votes) = (of_prior, of_tastes);
        self
    }

    /// The same model, learned from co-occurrences of likes.
    #[must_use]
    pub(super) const fn of_cooccurrences(mut self) -> Self {
        self.is_of_cooccurrences = true;
        self
    }

    /// Whether training learned the factors from co-occurrences of likes and not by alternating
    /// minimisation. Not stored with the model.
    #[must_use]
    pub const fn is_of_cooccurrences(&self) -> bool {
        self.is_of_cooccurrences
    }

    /// The released outcome of the users' votes on the taste factors of the prior, if they voted.
    #[must_use]
    pub const fn prior_votes(&self) -> Option<&TasteVotes> {
        self.prior_votes.as_ref()
    }

    /// The released outcome of the users' votes on newly learned taste factors, if they voted.
    #[must_use]
    pub const fn taste_votes(&self) -> Option<&TasteVotes> {
        self.taste_votes.as_ref()
    }

    /// Whether the item biases are exactly the released counts, as after
    /// [`popularity_for_target`](crate::FactorizationParams::popularity_for_target).
    #[must_use]
    pub fn ranks_by_counts(&self) -> bool {
        let counts = self.counts.as_ref().filter(|_| self.dim() == 1);
        counts.is_some_and(|counts| counts.as_biases() == self.item_factors)
    }

    /// The origin of the factors.
    #[must_use]
    pub const fn provenance(&self) -> Provenance {
        self.provenance
    }

    /// The constants of the user step.
    #[must_use]
    pub const fn scoring(&self) -> &Scoring {
        &self.scoring
    }

    /// Rows `[h_i, q_i]`, shape `(n_items, dim)`, row-major.
    #[must_use]
    pub fn item_factors(&self) -> &[f64] {
        &self.item_factors
    }

    /// Number of learned taste factors: those that are not global effects.
    #[must_use]
    pub const fn n_tastes(&self) -> usize {
        self.scoring.dim - 1 - self.scoring.n_effects
    }

    /// The learned taste factors of an item, length [`n_tastes`](Self::n_tastes).
    ///
    /// # Panics
    /// When `item` is not below [`n_items`](Self::n_items).
    #[must_use]
    pub fn tastes(&self, item: usize) -> &[f64] {
        &self.item_factors[item * self.dim() + 1..][..self.n_tastes()]
    }

    /// Length of a row.
    #[must_use]
    pub const fn dim(&self) -> usize {
        self.scoring.dim
    }

    /// Number of items.
    #[must_use]
    pub const fn n_items(&self) -> usize {
        self.item_factors.len() / self.dim()
    }

    /// A personal model from one user's own records, whether or not the user was in training.
    ///
    /// If the model has no penalties, the user weights 54 fits (three penalties of the offset, five
    /// of the taste factors or no taste factors, and all, half or none of the item biases) by their
    /// marginal likelihood given the user's own records and a fixed public prior, and takes the
    /// mean of the fits. The shared parameters are thus used only as far as they help the user:
    /// with no item biases and no taste factors a fit is the user's own shrunken mean. Records of
    /// items with large [standard errors](Self::standard_errors) count less.
    ///
    /// If the model has a [typical user](Self::typical_user), the user weights three fits: one with
    /// the model's penalty, and two that are nearer the typical user, by how well they rank each of
    /// the user's own records when it is left out.
    ///
    /// # Privacy
    /// Local: computed from released factors and the user's own records, and intended to stay with
    /// the user. Together with the released factors the whole is jointly private.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when an item is outside the model's catalogue.
    pub fn fold_in(&self, user: UserRow<'_>) -> Result<PersonalModel> {
        self.check_items(user)?;
        let design = self.design();
        let fit = self.user_fit(&design);
        Ok(fit(user, &mut UserScratch::new(self.dim())?))
    }

    /// Personal models of all users, in user order. Private, like the data they come from.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when the table has more items than the model.
    pub fn fold_in_all(&self, data: &Private<Interactions>) -> Result<Private<Vec<PersonalModel>>> {
        let data = data.expose();
        self.check_n_items(data)?;
        let design = self.design();
        let fit = self.user_fit(&design);
        let models = parallel::try_map(
            data.n_users(),
            || UserScratch::new(self.dim()),
            |scratch, user| Ok(fit(data.user(user), scratch)),
        );
        Ok(Private::new(models?))
    }

    /// Pairs of predicted and true value for every held-out record, from personal models folded in
    /// from the users' `own` records. Private, like the data they come from.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when `own` has more items than the model, `held_out` has another
    /// number of items, or the tables differ in their number of users.
    pub fn predict_held_out(
        &self,
        own: &Private<Interactions>,
        held_out: &Private<Interactions>,
    ) -> Result<Private<Vec<(f64, f64)>>> {
        let (own, held_out) = (own.expose(), held_out.expose());
        self.check_n_items(own)?;
        params::same_size(
            "users of the held-out table",
            held_out.n_users(),
            own.n_users(),
        )?;
        params::same_size(
            "items of the held-out table",
            held_out.n_items(),
            self.n_items(),
        )?;
        let design = self.design();
        let fit = self.user_fit(&design);
        // users without held-out records are not fitted, and no model is stored
        let asked = (0..own.n_users()).filter(|&user| !held_out.user(user).is_empty());
        let asked: Vec<usize> = asked.collect();
        let pairs = parallel::try_map(
            asked.len(),
            || UserScratch::new(self.dim()),
            |scratch, at| {
                let model = fit(own.user(asked[at]), scratch);
                let records = held_out.user(asked[at]).iter();
                let pair = |(item, y)| (self.predict(&model, item as usize), f64::from(y));
                Ok(records.map(pair).collect::<Vec<_>>())
            },
        );
        Ok(Private::new(pairs?.concat()))
    }

    pub(super) fn design(&self) -> Design {
        let design = self.scoring.design(&self.item_factors);
        match &self.standard_errors {
            Some(errors) => design.with_standard_errors(errors),
            None => design,
        }
    }

    /// How one user is fitted.
    fn user_fit<'a>(
        &'a self,
        design: &'a Design,
    ) -> impl Fn(UserRow<'_>, &mut UserScratch) -> PersonalModel + Sync + use<'a> {
        let bias = self.scoring.bias;
        let step = self.scoring.penalties.map(|penalties| UserStep {
            design,
            bias,
            penalties,
        });
        move |user, scratch| match (&step, &self.typical_user) {
            (Some(step), Some(typical)) => {
                step.weighed_likes(typical, &self.item_factors, user, scratch)
            }
            (Some(step), None) => step.personal_model(user, scratch),
            (None, _) => design.weighed_model(bias.center, user, scratch),
        }
    }

    fn check_n_items(&self, table: &Interactions) -> Result<()> {
        let (found, known) = (table.n_items(), self.n_items());
        if found > known {
            return Err(ShapeError::new("items of the table", found, known).into());
        }
        Ok(())
    }

    fn check_items(&self, user: UserRow<'_>) -> Result<()> {
        match user.items().last() {
            Some(&item) if item as usize >= self.n_items() => {
                Err(
                    ShapeError::new("item index plus one", item as usize + 1, self.n_items())
                        .into(),
                )
            }
            _ => Ok(()),
        }
    }

    /// The `k` best items of every user who has `held_out` records, best first, excluding those in
    /// the user's `own` records; a user without own records gets the common list of all such users.
    /// An empty list for every other user: a table of users distributed over parts has empty rows
    /// for users who are elsewhere. Private, like the data they come from.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when `own` has more items than the model, or the tables differ in their number of users.
    pub fn recommend_held_out(
        &self,
        own: &Private<Interactions>,
        held_out: &Private<Interactions>,
        k: usize,
    ) -> Result<Private<Vec<Vec<u32>>>> {
        let (own, held_out) = (own.expose(), held_out.expose());
        params::same_size(
            "users of the held-out table",
            held_out.n_users(),
            own.n_users(),
        )?;
        self.check_n_items(own)?;
        let design = self.design();
        let fit = self.user_fit(&design);
        // without taste factors, all users who use the item biases in full have the same ranking
        let shared = (self.dim() == 1).then(|| ItemRanking::new(&self.item_factors));
        let asked = (0..own.n_users()).filter(|&user| !held_out.user(user).is_empty());
        let asked: Vec<usize> = asked.collect();
        let together: Vec<&[usize]> = asked.chunks(USERS_AT_ONCE).collect();
        let best = |scratch: &mut UserScratch, at: usize| {
            let users = together[at];
            let rows = users.iter().map(|&user| own.user(user));
            let vectors: Vec<Vec<f64>> = rows.map(|row| fit(row, scratch).vector()).collect();
            let alike = vectors.iter().all(|vector| vector == &[1.0]);
            if let (Some(ranking), true) = (&shared, alike) {
                let lists = users
                    .iter()
                    .map(|&user| ranking.best(k, own.user(user).items()));
                return Ok(lists.collect::<Result<Vec<_>, _>>()?);
            }
            let queries = vectors.iter().zip(users);
            let queries: Vec<_> = queries
                .map(|(vector, &user)| (&vector[..], own.user(user).items()))
                .collect();
            let lists = top_k_each(&self.item_factors, &queries, k)?.into_iter();
            Ok(lists
                .map(|list| list.into_iter().map(|scored| scored.item).collect())
                .collect())
        };
        let scratch = || Ok(UserScratch::new(self.dim())?);
        let lists: Result<Vec<Vec<Vec<u32>>>> = parallel::try_map(together.len(), scratch, best);
        let mut all = vec![Vec::new(); own.n_users()];
        for (&user, list) in asked.iter().zip(lists?.into_iter().flatten()) {
            all[user] = list;
        }
        Ok(Private::new(all))
    }

    /// Predicted rating of one item, in data units; with implicit feedback a score that ranks
    /// items.
    ///
    /// # Panics
    /// When `item` is not below [`n_items`](Self::n_items).
    #[must_use]
    pub fn predict(&self, personal: &PersonalModel, item: usize) -> f64 {
        let row = &self.item_factors[item * self.dim()..][..self.dim()];
        let taste: f64 = row[1..]
            .iter()
            .zip(&personal.factor)
            .map(|(q, v)| q * v)
            .sum();
        personal.offset + personal.bias_weight * row[0] + taste
    }

    /// Standard deviation of the mechanism's noise in [`predict`](Self::predict):
    /// `sqrt(b^2 e_0^2 + sum_k v_k^2 e_k^2)` for [standard errors](Self::standard_errors) `e` of
    /// the item's row; the effect of the item bias has the same error as the bias, so its `v e` is
    /// added to `b e_0`. The user's own `b` and `v` are treated as exact, although they were fitted
    /// to noisy factors. Errors of the coordinates of an item are taken as uncorrelated; for likes
    /// they are not, and the result is an upper estimate for most users; where items have a matrix
    /// each, its noise correlates them, and 95 % intervals cover about 92 %. `None` if the errors are
    /// not known, or nothing was learned of the item: its factors and their errors are 0.
    ///
    /// # Panics
    /// When `item` is not below [`n_items`](Self::n_items).
    #[must_use]
    pub fn predict_stddev(&self, personal: &PersonalModel, item: usize) -> Option<f64> {
        let own = item * self.dim()..(item + 1) * self.dim();
        let errors = &self.standard_errors.as_ref()?[own.clone()];
        let known = errors.iter().chain(&self.item_factors[own]);
        if known.copied().all(|x| x == 0.0) {
            return None;
        }
        let own = personal.vector();
        let mut parts: Vec<f64> = errors.iter().zip(own).map(|(e, v)| e * v).collect();
        if self.scoring.n_effects > 0 {
            let effect = parts.get_mut(1 + self.n_tastes());
            let of_bias = effect.map_or(0.0, std::mem::take);
            parts[0] += of_bias;
        }
        Some(parts.iter().map(|part| part * part).sum::<f64>().sqrt())
    }

    /// The `k` items with the highest lower bound `predict - width * predict_stddev`, with that
    /// bound, best first, excluding those in `exclude` (sorted, increasing). Items of which nothing
    /// was learned come last, with a bound of minus infinity. `None` if standard errors are not
    /// known.
    ///
    /// # Errors
    /// As [`recommend`](Self::recommend).
    pub fn recommend_by_lower(
        &self,
        personal: &PersonalModel,
        width: f64,
        k: usize,
        exclude: &[u32],
    ) -> Result<Option<Vec<(u32, f64)>>> {
        if self.standard_errors.is_none() {
            return Ok(None);
        }
        let bounds = (0..self.n_items()).map(|item| {
            let error = self.predict_stddev(personal, item);
            error.map_or(f64::NEG_INFINITY, |error| {
                self.predict(personal, item) - width * error
            })
        });
        let best = top_k(&bounds.collect::<Vec<_>>(), &[1.0], k, exclude)?.into_iter();
        Ok(Some(best.map(|of| (of.item, of.score)).collect()))
    }

    /// The `k` items with the highest [predicted rating](Self::predict), up to rounding, best first,
    /// excluding those in `exclude` (sorted, increasing).
    ///
    /// # Errors
    /// [`crate::Error::Linalg`] when `exclude` is not sorted.
    pub fn recommend(
        &self,
        personal: &PersonalModel,
        k: usize,
        exclude: &[u32],
    ) -> Result<Vec<(u32, f64)>> {
        let best = top_k(&self.item_factors, &personal.vector(), k, exclude)?.into_iter();
        // the ranking adds up its scores in another order, so that their last bits differ
        let scored = best.map(|of| (of.item, self.predict(personal, of.item as usize)));
        let mut scored: Vec<_> = scored.collect();
        scored.sort_by(|a, b| b.1.total_cmp(&a.1));
        Ok(scored)
    }

    /// The squares of an item's learned taste factors in units of their standard errors, summed;
    /// [`n_tastes`](Self::n_tastes) on average for estimates that are noise alone, and less for posterior means, which shrink. `None`
    /// if the errors are not known.
    ///
    /// # Panics
    /// When `item` is not below [`n_items`](Self::n_items).
    #[must_use]
    pub fn tastes_over_noise(&self, item: usize) -> Option<f64> {
        let errors = &self.standard_errors()?[item * self.dim() + 1..];
        let ratios = self.tastes(item).iter().zip(errors);
        let squares = ratios.filter(|(q, _)| **q != 0.0);
        Some(squares.map(|(q, e)| (q / e).powi(2)).sum())
    }

    /// Whether an item's taste factors are above their noise:
    /// [`tastes_over_noise`](Self::tastes_over_noise) exceeds that of noise by [`ABOVE_NOISE`]
    /// standard deviations. Without standard errors, whether there are any.
    ///
    /// # Panics
    /// When `item` is not below [`n_items`](Self::n_items).
    #[must_use]
    pub fn has_tastes_above_noise(&self, item: usize) -> bool {
        let tastes = self.tastes(item);
        let Some(squares) = self.tastes_over_noise(item) else {
            return tastes.iter().any(|q| *q != 0.0);
        };
        // the sum of squares of n standard normals has mean n and variance 2n
        let n = tastes.len() as f64;
        squares > n + ABOVE_NOISE * (2.0 * n).sqrt()
    }

    /// The `k` items whose learned taste factors are most similar to those of `item`, most similar
    /// first, among the others that `may_be_near` accepts. `nearest_items` leaves out those
    /// [within their noise](Self::has_tastes_above_noise); here the caller decides.
    ///
    /// ```text
    /// cos = <a, b> / (|a| |b|)
    /// stddev^2 = sum_k ((b_k/|b| - cos a_k/|a|) e_k/|a|)^2 + ((a_k/|a| - cos b_k/|b|) f_k/|b|)^2 + (cos (t_a + t_b) / 2)^2
    /// t_a = sum_k (1 - a_k^2/|a|^2) e_k^2/|a|^2,    t_b likewise
    /// ```
    ///
    /// with the standard errors e of a and f of b. The last term is of second order: near 1, where
    /// the slope vanishes, noise that turns a vector only lowers the cosine. Items are listed
    /// because their cosine is large, so noise has raised it more often than lowered it: that is
    /// not included. Empty if the item has no taste factors.
    ///
    /// # Panics
    /// When `item` is not below [`n_items`](Self::n_items).
    #[must_use]
    pub fn nearest_to(
        &self,
        item: usize,
        k: usize,
        may_be_near: impl Fn(usize) -> bool,
    ) -> Vec<SimilarItem> {
        let others = (0..self.n_items()).filter(|&other| other != item && may_be_near(other));
        let mut all: Vec<SimilarItem> = others.filter_map(|of| self.similar(item, of)).collect();
        all.sort_by(|a, b| b.cosine.total_cmp(&a.cosine));
        all.truncate(k);
        all
    }

    /// `None` if one of them has no taste factors.
    fn similar(&self, item: usize, other: usize) -> Option<SimilarItem> {
        let norm = |q: &[f64]| q.iter().map(|x| x * x).sum::<f64>().sqrt();
        let (a, b) = (self.tastes(item), self.tastes(other));
        let (of_a, of_b) = (norm(a), norm(b));
        let cosine = a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>() / (of_a * of_b);
        let errors = |of: usize| Some(&self.standard_errors()?[of * self.dim() + 1..][..a.len()]);
        let stddev = errors(item).zip(errors(other)).map(|(of_item, of_other)| {
            let pairs = a.iter().zip(b).zip(of_item.iter().zip(of_other));
            let variance = pairs.map(|((a, b), (e, f))| {
                let (a, b, e, f) = (a / of_a, b / of_b, e / of_a, f / of_b);
                let slopes = ((b - cosine * a) * e).powi(2) + ((a - cosine * b) * f).powi(2);
                let turns = (1.0 - a * a) * e * e + (1.0 - b * b) * f * f;
                (slopes, turns)
            });
            let (slopes, turns) = variance.fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
            slopes.sqrt().hypot(cosine * turns / 2.0)
        });
        cosine.is_finite().then_some(SimilarItem {
            item: other,
            cosine,
            stddev,
        })
    }

    /// The `k` nearest items of each item, nearest first, by the cosine of their learned taste factors,
    /// excluding the item itself. Items whose tastes are [within their
    /// noise](Self::has_tastes_above_noise) are left out: their direction is random. Empty for such
    /// an item, and for all items if there are no learned taste factors.
    ///
    /// Post-processing of the factors, and as public as they are.
    ///
    /// # Errors
    /// [`crate::Error::Linalg`] when factors are not finite.
    ///
    /// # Examples
    /// ```
    /// use dp_core::ApproxDp;
    /// use dp_multitask::{FactorModel, FactorizationParams, Provenance};
    /// let scoring = FactorizationParams::for_target(ApproxDp::target(1.0, 1e-5)?).scoring(3);
    /// let rows = vec![0.5, 1.0, 0.0, -0.5, 0.2, 2.0, 0.0, 3.0, 0.1];
    /// let model = FactorModel::new(scoring, rows, Provenance::NonPrivate)?;
    /// assert_eq!(model.nearest_items(1)?, [[2], [2], [0]]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn nearest_items(&self, k: usize) -> Result<Vec<Vec<u32>>> {
        let n_tastes = self.n_tastes();
        if n_tastes == 0 {
            return Ok(vec![Vec::new(); self.n_items()]);
        }
        let mut directions = Vec::with_capacity(self.n_items() * n_tastes);
        let mut noisy = Vec::new();
        for (number, item) in (0_u32..).zip(0..self.n_items()) {
            let tastes = self.tastes(item);
            let norm = tastes.iter().map(|q| q * q).sum::<f64>().sqrt();
            let is_above = self.has_tastes_above_noise(item);
            let scale = if is_above { norm.recip() } else { 0.0 };
            directions.extend(tastes.iter().map(|q| q * scale));
            noisy.extend((!is_above).then_some(number));
        }
        let nearest = parallel::map(self.n_items(), |item| {
            let direction = &directions[item * n_tastes..][..n_tastes];
            if direction.iter().all(|q| *q == 0.0) {
                return Ok(Vec::new());
            }
            let itself = u32::try_from(item).unwrap_or(u32::MAX); // items are numbered in 32 bits
            let mut left_out = noisy.clone();
            left_out.insert(noisy.partition_point(|other| *other < itself), itself);
            let best = top_k(&directions, direction, k, &left_out)?;
            Ok(best.into_iter().map(|scored| scored.item).collect())
        });
        nearest.into_iter().collect()
    }
}

/// An item with its similarity to another one.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct SimilarItem {
    /// Its number.
    pub item: usize,
    /// Cosine of the learned taste factors of both, -1 to 1.
    pub cosine: f64,
    /// Standard deviation of `cosine` that is due to the noise in both; `None` if their errors are
    /// not known.
    pub stddev: Option<f64>,
}

/// One user's personal model. Private to the user.
#[derive(Clone, PartialEq)]
#[allow(
    missing_debug_implementations,
    reason = "derived from one user's records; printing it is never wanted by accident"
)]
pub struct PersonalModel {
    pub(crate) offset: f64,
    pub(crate) bias_weight: f64,
    pub(crate) factor: Vec<f64>,
}

impl PersonalModel {
    /// The vector that rows of the item factors are multiplied with: the predicted rating is the
    /// inner product plus the [`offset`](Self::offset), so the inner product ranks items as
    /// [`FactorModel::recommend`] does. Length `dim`.
    #[must_use]
    pub fn vector(&self) -> Vec<f64> {
        let tastes = self.factor.iter().copied();
        std::iter::once(self.bias_weight).chain(tastes).collect()
    }

    /// The public centre plus the user's own deviation from it, in data units.
    #[must_use]
    pub const fn offset(&self) -> f64 {
        self.offset
    }

    /// The share of the item biases that the user uses, 0 to 1; 1 if the model has fixed penalties.
    #[must_use]
    pub const fn bias_weight(&self) -> f64 {
        self.bias_weight
    }

    /// The user's factor, length `dim - 1`.
    #[must_use]
    pub fn factor(&self) -> &[f64] {
        &self.factor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> FactorModel {
        let scoring = Scoring {
            dim: 2,
            bias: LocalBias {
                center: 3.0,
                shrinkage: 1.0,
            },
            score_model: ScoreModel::Biased,
            penalties: None,
            unobserved_weight: None,
            n_effects: 0,
        };
        let factors = vec![0.5, 0.0, 0.4, 1.0, 0.3, 0.0];
        FactorModel::new(scoring, factors, Provenance::NonPrivate).unwrap()
    }

    #[test]
    fn errors_of_similarities_are_those_of_their_slopes() {
        let scoring = Scoring {
            dim: 3,
            ..*model().scoring()
        };
        let rows = [0.5, 0.8, -0.3, 0.1, 0.4, 0.9, 0.2, 0.0, 0.0];
        let of = |rows: &[f64]| {
            FactorModel::new(scoring, rows.to_vec(), Provenance::NonPrivate).unwrap()
        };
        let cosine = |rows: &[f64]| of(rows).nearest_to(0, 3, |_| true)[0].cosine;
        let errors = [0.3, 0.05, 0.02, 0.3, 0.04, 0.08, 0.3, 0.1, 0.1];
        let slopes = (0..6).map(|at| {
            let moved = |by: f64| {
                let mut rows = rows;
                rows[at] += by;
                cosine(&rows)
            };
            (moved(1e-5) - moved(-1e-5)) / 2e-5
        });
        let first: f64 = slopes.zip(errors).map(|(s, e)| (s * e).powi(2)).sum();
        // of second order: the mean of cos (1 - angle^2 / 2) over errors across the vectors
        let (a, b) = ([0.8, -0.3], [0.4, 0.9]);
        let turned = |v: [f64; 2], e: [f64; 2]| {
            (v[1] * v[1] * e[0] * e[0] + v[0] * v[0] * e[1] * e[1])
                / (v[0] * v[0] + v[1] * v[1]).powi(2)
        };
        let turns = turned(a, [0.05, 0.02]) + turned(b, [0.04, 0.08]);
        let expected = first + (cosine(&rows) * turns / 2.0).powi(2);
        let model = of(&rows);
        assert_eq!(model.nearest_to(0, 3, |_| true)[0].stddev, None);
        let found = model.with_standard_errors(errors.to_vec()).unwrap();
        let near = found.nearest_to(0, 3, |_| true);
        // item 2 has no taste factors
        assert_eq!(near.len(), 1);
        assert!((near[0].stddev.unwrap() - expected.sqrt()).abs() < 1e-8);
        assert!(found.nearest_to(0, 3, |other| other == 2).is_empty());
        assert!(found.nearest_to(2, 3, |_| true).is_empty());
    }

    #[test]
    fn noise_of_a_prediction_follows_what_the_user_takes_of_the_item() {
        let own = PersonalModel {
            offset: 3.0,
            bias_weight: 0.5,
            factor: vec![-2.0],
        };
        let bare = model();
        assert_eq!(bare.predict_stddev(&own, 0), None);
        assert_eq!(bare.recommend_by_lower(&own, 1.0, 3, &[]).unwrap(), None);
        let errors = vec![0.6, 0.2, 0.0, 0.0, 0.1, 0.0];
        let model = bare.with_standard_errors(errors).unwrap();
        let found = [0, 1, 2].map(|item| model.predict_stddev(&own, item).unwrap());
        // sqrt(.3^2 + .4^2), 0, .5 * .1
        for (found, expected) in found.into_iter().zip([0.5, 0.0, 0.05]) {
            assert!((found - expected).abs() < 1e-12, "{found}");
        }
    }

    #[test]
    fn the_effect_of_the_bias_has_the_error_of_the_bias() {
        let scoring = Scoring {
            dim: 4,
            n_effects: 2,
            ..model().scoring
        };
        let rows = vec![0.5, 0.2, 0.3, 0.1];
        let model = FactorModel::new(scoring, rows, Provenance::NonPrivate).unwrap();
        let model = model
            .with_standard_errors(vec![0.6, 0.2, 0.4, 0.3])
            .unwrap();
        assert_eq!((model.n_tastes(), model.tastes(0)), (1, &[0.2][..]));
        let own = PersonalModel {
            offset: 3.0,
            bias_weight: 0.5,
            factor: vec![2.0, 0.25, -1.0],
        };
        // sqrt((.5 * .6 + .25 * .4)^2 + (2 * .2)^2 + .3^2)
        let found = model.predict_stddev(&own, 0).unwrap();
        assert!((found - 0.41_f64.sqrt()).abs() < 1e-12, "{found}");
    }

    #[test]
    fn effects_are_the_last_columns_of_a_model_whose_users_choose_their_penalties() {
        for (dim, n_effects) in [(2, 2), (4, 1), (4, 3)] {
            let scoring = Scoring {
                dim,
                n_effects,
                ..model().scoring
            };
            let made = FactorModel::new(scoring, vec![0.0; dim], Provenance::NonPrivate);
            assert!(made.is_err(), "{dim} {n_effects}");
        }
    }

    #[test]
    fn the_noisiest_item_does_not_lead_by_its_lower_bound() {
        let own = PersonalModel {
            offset: 3.0,
            bias_weight: 1.0,
            factor: vec![0.0],
        };
        let errors = vec![0.2, 0.0, 0.01, 0.0, 0.01, 0.0];
        let model = model().with_standard_errors(errors).unwrap();
        let by_score = model.recommend(&own, 3, &[]).unwrap();
        assert_eq!(
            by_score.iter().map(|of| of.0).collect::<Vec<_>>(),
            [0, 1, 2]
        );
        let ranked = model
            .recommend_by_lower(&own, 2.0, 3, &[])
            .unwrap()
            .unwrap();
        assert_eq!(ranked.iter().map(|of| of.0).collect::<Vec<_>>(), [1, 2, 0]);
        assert!((ranked[2].1 - 3.1).abs() < 1e-12, "{ranked:?}");
        let without = model
            .recommend_by_lower(&own, 2.0, 1, &[1])
            .unwrap()
            .unwrap();
        assert_eq!(without[0].0, 2);
    }

    #[test]
    fn items_of_which_nothing_was_learned_come_last_by_lower_bounds() {
        let own = PersonalModel {
            offset: 0.0,
            bias_weight: 1.0,
            factor: vec![1.0],
        };
        let scoring = model().scoring;
        let rows = vec![0.0, 0.0, 0.1, 0.3, 0.0, 0.0, 0.0, 0.9];
        let model = FactorModel::new(scoring, rows, Provenance::NonPrivate).unwrap();
        // the third is a learned item whose estimate happens to be 0
        let errors = vec![0.0, 0.0, 0.0, 0.5, 0.0, 2.0, 0.0, 0.5];
        let model = model.with_standard_errors(errors).unwrap();
        assert_eq!(model.predict_stddev(&own, 0), None);
        let list = model
            .recommend_by_lower(&own, 2.0, 4, &[])
            .unwrap()
            .unwrap();
        let items: Vec<u32> = list.iter().map(|of| of.0).collect();
        assert_eq!(items, [3, 1, 2, 0], "{list:?}");
    }

    #[test]
    fn scores_of_a_list_are_the_predictions_to_the_last_bit() {
        let (dim, n_items) = (13, 300);
        let scoring = Scoring {
            dim,
            ..model().scoring
        };
        let rows = (0..dim * n_items).map(|at| (at as f64 * 0.7).sin() / 3.0);
        let model = FactorModel::new(scoring, rows.collect(), Provenance::NonPrivate).unwrap();
        let own = PersonalModel {
            offset: 3.1,
            bias_weight: 0.7,
            factor: (1..dim).map(|at| (at as f64).cos()).collect(),
        };
        let list = model.recommend(&own, n_items, &[]).unwrap();
        assert_eq!(list.len(), n_items);
        assert!(list.is_sorted_by(|a, b| a.1 >= b.1));
        for (item, score) in list {
            let predicted = model.predict(&own, item as usize);
            assert_eq!(score.to_bits(), predicted.to_bits(), "{item}");
        }
    }

    #[test]
    fn an_item_within_the_noise_is_nobodys_neighbour() {
        let scoring = Scoring {
            dim: 3,
            ..model().scoring
        };
        let rows = [[0.0, 1.0, 0.1], [0.0, 1.0, 0.3], [0.0, 9.0, 0.9], [0.0; 3]];
        let model = FactorModel::new(scoring, rows.concat(), Provenance::NonPrivate).unwrap();
        let nearest = |model: &FactorModel| model.nearest_items(2).unwrap();
        assert_eq!(
            nearest(&model),
            [vec![2, 1], vec![0, 2], vec![0, 1], vec![]]
        );
        // item 2 is in the direction of item 0 by chance: 1.8 standard errors long
        let errors = [[0.1; 3], [0.1; 3], [5.0; 3], [0.1; 3]].concat();
        let model = model.with_standard_errors(errors).unwrap();
        assert_eq!(nearest(&model), [vec![1], vec![0], vec![], vec![]]);
    }

    #[test]
    fn standard_errors_must_be_of_every_factor() {
        for errors in [vec![0.1; 5], vec![-0.1; 6], vec![f64::NAN; 6]] {
            assert!(model().with_standard_errors(errors).is_err());
        }
    }
}
