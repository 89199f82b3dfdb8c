//! Training: counts, total weights, then rounds of user steps, sums and item steps.

use chacha20::ChaCha20Rng;
use dp_accounting::{CertificateBuilder, Plan, Requests};
use dp_core::{Adjacency, Interactions, Private, ShapeError};
use dp_mechanism::{
    Error as RunError, GramLayout, ReleasedGrams, ReleasedVector, Round, Run, Trainer,
};
use rand::SeedableRng;
use rand_distr::{Distribution, Normal};

use super::axes::spread_alike;
use super::global_effects::{N_EFFECTS, with_global_effects};
use super::implicit::LikesRound;
use super::item_posterior::ItemEvidence;
use super::item_update::{ItemUpdate, ScoreModel, UserMatrix};
use super::model::{FactorModel, Scoring};
use super::params::{FactorizationParams, MatrixFactorization};
#[cfg(privacy_mutants)]
use super::rating_scale::RatingScale;
use super::rating_scale::ScaleContribution;
use super::taste_votes::TasteVotes;
use crate::checked::taken_on_trust;
use crate::regression::TaskScales;
use crate::{Error, NoisyCounts, Result, TaskWeights, WeightTotals};

/// State of the item factors after the rounds so far. Everything in it was released or is public.
pub(super) struct RoundState {
    pub(super) dim: usize,
    pub(super) n_rounds: usize,
    pub(super) factors: Vec<f64>,
    /// Sum of the inverse noise variances of the rounds so far.
    precision: f64,
    /// Share of the last round in the factors.
    share_of_last: f64,
    /// The last released matrices of the items, for residual rounds and standard errors.
    pub(super) matrices: Option<ReleasedGrams>,
    /// The last released matrix of all users, if one matrix is used for all items.
    pub(super) users: Option<UserMatrix>,
    /// Whether users' factors come from taste factors that a prior had.
    pub(super) are_described: bool,
    /// The users' votes on these, if there were any.
    pub(super) prior_votes: Option<TasteVotes>,
    /// Whether they have to vote on newly learned taste factors.
    pub(super) tastes_are_open: bool,
    /// Their votes on these, if there were any.
    pub(super) taste_votes: Option<TasteVotes>,
    /// Evidence from the rounds about the items, if one matrix is used for all.
    pub(super) evidence: ItemEvidence,
    /// The releases of the last round of implicit feedback.
    pub(super) likes: Option<LikesRound>,
}

/// A part of [`RoundState`].
struct Learned {
    dim: usize,
    users: Option<UserMatrix>,
    evidence: ItemEvidence,
    tastes_are_open: bool,
}

/// Common inputs of every round of a run: users, and the weights of their records.
pub(super) struct Weighted<'a> {
    pub(super) data: &'a Private<Interactions>,
    pub(super) weights: &'a TaskWeights,
    /// From the released total weights of the items, for gradient steps and pooled matrices.
    pub(super) scales: Option<&'a TaskScales>,
}

/// Trains item factors.
///
/// Source: Krichene et al. 2023, Algorithm 3 with Algorithm 1 or 2 as the item update
/// ([`ItemUpdate`]), with the corrections in `docs/errata.md`: counts once; then in each round a
/// local user step, the item sums with exact noise, and a step based on the release.
///
/// The releases are: the [scale of the ratings](crate::RatingScale) if the settings spend on it;
/// the counts if the weights or the sampling need them; for likes without biases, with the dimension
/// by rule, the number of users, which decides whether the rounds release co-occurrences of likes in
/// place of right-hand sides; the items' total weights if items learn by
/// gradient steps or share one matrix; users' votes on the taste factors of a prior, if it has any;
/// then in each round those of [`ItemUpdate`], and once users' votes on learned taste factors
/// ([`TasteVotes`]). A replay of a list that ends early gives the model after the last complete round
/// in it, if there is one, without taste factors if the vote on them has not taken place.
///
/// # Privacy
/// The returned factors and counts are (epsilon, delta)-DP for every user under the plan's
/// adjacency. Per-user vectors never leave the kernel's contribution buffers.
///
/// # Examples
/// ```
/// use dp_multitask::{Adjacency, ApproxDp, FactorizationParams, Trainer};
/// let target = ApproxDp::target(1.0, 1e-5)?;
/// let fit = FactorizationParams::for_target(target).check()?;
/// let plan = fit.plan(3_706, target, Adjacency::AddRemoveUser)?;
/// assert!(plan.guarantee().epsilon <= 1.0 && plan.guarantee().epsilon > 0.9999);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl Trainer for MatrixFactorization {
    type Data = Private<Interactions>;
    type Model = FactorModel;
    type Error = Error;

    fn width(&self, data: &Private<Interactions>) -> usize {
        data.expose().n_items()
    }

    fn requests(&self, n_items: usize, _: Adjacency) -> Result<Requests> {
        Ok(Requests::Shares(self.shares(n_items)?))
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        let certificate = certificate
            .released_output("item factors, every listed release, settings", "anyone")
            .assumption(
                "settings were not chosen by looking at this data set (the rules behind the defaults come from \
                 MovieLens, Jester, InstEval and other public data sets that their documentation names)",
            )
            .not_covered("personal models: each is seen by its own user only (joint DP)")
            .tuning_included(false);
        taken_on_trust(certificate, self.assumptions())
    }

    fn train(&self, data: &Private<Interactions>, run: &mut Run<'_>) -> Result<FactorModel> {
        let mu = self.mu_in(run.plan(), 0, self.width(data))?;
        self.train_at(mu, data, run)
    }
}

impl MatrixFactorization {
    /// The Gaussian-DP parameter of the releases of one training in `plan`, starting at release
    /// `first`, excluding additional releases such as metrics.
    ///
    /// # Errors
    /// As [`shares`](Self::shares), and when a release is not Gaussian.
    pub(crate) fn mu_in(&self, plan: &Plan, first: usize, n_items: usize) -> Result<f64> {
        let n = self.shares(n_items)?.len();
        let own = plan.releases().iter().skip(first).take(n).cloned();
        let (delta, adjacency) = (plan.target().delta, plan.adjacency());
        let own = Plan::with_noise_multipliers(delta, adjacency, own.collect())?;
        Ok(own.gdp()?.mu)
    }

    /// Trains as a run, or a part of one, whose releases together have the Gaussian-DP parameter
    /// `mu`.
    pub(crate) fn train_at(
        &self,
        mu: f64,
        data: &Private<Interactions>,
        run: &mut Run<'_>,
    ) -> Result<FactorModel> {
        if self.params().releases_scale() {
            let shape = (ScaleContribution::LEN, ScaleContribution::CLIP_NORM);
            let released = run.vector(data, shape, &ScaleContribution)?;
            let scale = self.scale_from(&released);
            #[cfg(privacy_mutants)]
            let scale = self.mutated(scale, data);
            let model = self.at_scale(&scale).train_at(mu, data, run)?;
            return Ok(model.with_scale(scale));
        }
        let (params, n_items) = (self.params(), data.expose().n_items());
        let mut counts = None;
        if params.releases_counts() {
            counts = Some(NoisyCounts::release(data, params.count_clip_norm, run)?);
        }
        if let (0, Some(counts)) = (params.n_rounds, &counts) {
            let (scoring, biases) = (params.scoring(1), counts.as_biases());
            let model = FactorModel::new(scoring, biases, run.provenance())?;
            return Ok(model.with_counts(Some(counts.clone())));
        }
        if let (true, Some(counts)) = (params.considers_cooccurrences(), &counts)
            && let Some(model) = self.by_cooccurrences(counts, data, run)?
        {
            return Ok(model);
        }
        if let Some(counts) = counts
            .as_ref()
            .filter(|of| self.falls_back_to_popularity(mu, of))
        {
            return self.popularity(counts, data, run);
        }
        let weights = self.weights(n_items, counts.as_ref())?;
        #[cfg(privacy_mutants)]
        let weights = match &counts {
            Some(noisy) if dp_core::mutants::active("weights-by-the-true-n") => {
                TaskWeights::from_counts(noisy, 1.0, data.expose().n_users() as f64)?
            }
            _ => weights,
        };
        let dim = self.dim(mu, counts.as_ref(), n_items);
        let mut scales = None;
        if params.weight_share().is_some() {
            let totals = WeightTotals {
                dim: params.score_model.coordinates(dim),
                weights: &weights,
            };
            let released = run.vector(data, (n_items, 1.0), &totals)?;
            scales = Some(totals.scales(&released, counts.as_ref().map(NoisyCounts::values)));
        }
        let on = Weighted {
            data,
            weights: &weights,
            scales: scales.as_ref(),
        };
        if let Some(prior) = &self.prior {
            dp_core::params::same_size("items of the prior", prior.n_items(), n_items)?;
        }
        let mut rounds = RoundState::new(params, n_items, dim)?;
        let most = params.prior_tastes(mu, counts.as_ref().map(NoisyCounts::mean_in_use));
        let voted = self.voted(data, most, &mut rounds, run)?;
        let fit = voted.as_ref().unwrap_or(self);
        weights.clear_others(&mut rounds.factors);
        self.show(&rounds, counts.as_ref(), on.scales, run)?;
        while rounds.n_rounds < params.n_rounds {
            let before = rounds.learned();
            match fit.round(&on, &mut rounds, run) {
                // the model of a list that ends early is that of its last complete round
                Err(Error::Mechanism(RunError::EndOfList))
                    if rounds.n_rounds > 0 && run.is_at_end()? =>
                {
                    rounds.restore(before);
                    break;
                }
                made => made?,
            }
            weights.clear_others(&mut rounds.factors);
            self.show(&rounds, counts.as_ref(), on.scales, run)?;
        }
        if let (true, Some(scales)) = (rounds.tastes_are_open, on.scales) {
            // the list ends before the vote
            let biases = fit.drop_tastes(&on, scales, &mut rounds)?;
            rounds.factors = fit.rows(biases, 1);
        }
        // a model that is paid for is not lost because its errors cannot be computed
        let errors = fit.standard_errors(&rounds).ok().flatten();
        let errors = errors.filter(|errors| errors.iter().all(|e| e.is_finite()));
        let (scoring, factors, errors) =
            self.as_released(&rounds, errors, counts.as_ref(), on.scales)?;
        let model = FactorModel::new(scoring, factors, run.provenance())?;
        let votes = (rounds.prior_votes, rounds.taste_votes);
        let model = model.with_counts(counts).with_votes(votes);
        match errors {
            Some(errors) => model.with_standard_errors(errors),
            None => Ok(model),
        }
    }

    /// Bug: a centre that depends on the exact number of users.
    #[cfg(privacy_mutants)]
    fn mutated(&self, scale: RatingScale, data: &Private<Interactions>) -> RatingScale {
        let center = scale.center + 1e-6 * data.expose().n_users() as f64;
        match dp_core::mutants::active("scale-by-the-true-n") {
            true => RatingScale { center, ..scale },
            false => scale,
        }
    }

    /// The weights of users' records, from the released counts if the settings require them.
    /// Post-processing.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when there is not one count for each item, or none although a head
    /// requires them.
    pub fn weights(&self, n_items: usize, counts: Option<&NoisyCounts>) -> Result<TaskWeights> {
        let params = self.params();
        let found = counts.map_or(0, |counts| counts.values().len());
        if (counts.is_some() || params.releases_counts()) && found != n_items {
            return Err(ShapeError::new("item counts", found, n_items).into());
        }
        let weights = match counts {
            Some(counts) => {
                TaskWeights::from_counts(counts, params.weight_exponent, params.count_floor)?
            }
            None => TaskWeights::uniform(n_items),
        };
        let weights = weights.keeping(params.record_sampling.selection(counts));
        match (params.n_head(n_items, counts), counts) {
            (Some(n_head), Some(counts)) => weights.with_head(counts, n_head),
            _ => Ok(weights),
        }
    }

    /// The items' total weights in the form required by [`solve_items`](Self::solve_items), from
    /// their released sum: at least the standard deviation of the noise. Post-processing.
    #[must_use]
    pub fn item_weights(&self, released: &ReleasedVector) -> Vec<f64> {
        let sd = released.noise_stddev();
        released.values().iter().map(|w| w.max(sd)).collect()
    }

    /// The factors that a round is shown with, rows of length `dim`, without the global effects if
    /// the settings have any: those from which the next round starts.
    #[must_use]
    pub fn without_effects(&self, factors: &[f64], dim: usize) -> Vec<f64> {
        let n = match self.params().global_effects {
            true => N_EFFECTS.min(dim.saturating_sub(1)),
            false => 0,
        };
        let rows = factors.chunks_exact(dim.max(1));
        rows.flat_map(|row| &row[..dim - n]).copied().collect()
    }

    /// How many complete rounds a run has made with the first `n_releases` of its plan.
    #[must_use]
    pub fn n_rounds_after(&self, n_releases: usize) -> usize {
        let params = self.params();
        let before = [
            params.releases_scale(),
            params.releases_counts(),
            params.considers_cooccurrences(),
            params.weight_share().is_some(),
            self.has_prior_tastes(),
        ];
        let before = before.into_iter().map(usize::from).sum();
        let of_rounds = n_releases.saturating_sub(before);
        (1..=params.n_rounds)
            .take_while(|&n| params.releases_of(n) <= of_rounds)
            .count()
    }

    /// Dimension of the factors as set, or by rule from releases.
    fn dim(&self, mu: f64, counts: Option<&NoisyCounts>, n_items: usize) -> usize {
        let params = self.params();
        let by_rule = || params.rule_dim(mu, counts.map(NoisyCounts::mean_in_use), n_items);
        params.dim.unwrap_or_else(by_rule)
    }

    /// The factors as stored in a model, with their standard errors: taste factors in the axes of
    /// [`spread_alike`] if users weight penalties, global effects, and the popularity of items if
    /// likes are scored without biases.
    fn as_released(
        &self,
        rounds: &RoundState,
        mut errors: Option<Vec<f64>>,
        counts: Option<&NoisyCounts>,
        scales: Option<&TaskScales>,
    ) -> Result<(Scoring, Vec<f64>, Option<Vec<f64>>)> {
        let params = self.params();
        let mut factors = self.in_final_axes(rounds, rounds.factors.clone())?;
        let scoring = params.scoring(rounds.dim);
        let is_plain = params.score_model == ScoreModel::Plain;
        if let (true, Some(_), Some(counts)) = (is_plain, params.feedback.implicit(), counts) {
            let errors = errors.as_deref_mut().unwrap_or_default();
            write_popularity((&mut factors, errors), rounds.dim, counts);
        }
        let Some(scales) = scales.filter(|_| params.global_effects) else {
            return Ok((scoring, factors, errors));
        };
        let rows = (&factors[..], errors.as_deref());
        let totals = (scales.totals(), scales.noise_stddev());
        let (factors, errors) = with_global_effects(rows, rounds.dim, totals);
        Ok((scoring.with_effects(), factors, errors))
    }

    /// Rows of length `dim` in the axes of a model.
    fn in_final_axes(&self, rounds: &RoundState, mut rows: Vec<f64>) -> Result<Vec<f64>> {
        let params = self.params();
        let weighs = params.fold_in_penalties.is_none() && rounds.dim > 1;
        if let (true, Some(users)) = (weighs, &rounds.users) {
            let matrix = (&users.sum_for(rounds.dim)[..], users.noise_stddev);
            spread_alike(&mut rows, rounds.dim, matrix, params.label_bound)?;
        }
        Ok(rows)
    }

    /// Posterior standard deviations of the factors if items are the posterior of all rounds, and
    /// those of the noise of the last round if they are its solution: for likes, and for statistics
    /// with a matrix for each item. None for gradient steps, and for residual rounds with a matrix
    /// for each item: nothing released says how much of the noise of earlier steps is left.
    fn standard_errors(&self, rounds: &RoundState) -> Result<Option<Vec<f64>>> {
        let (dim, factors) = (rounds.dim, (&rounds.factors[..], rounds.dim));
        let of_last = match (self.params().feedback.implicit(), &rounds.likes) {
            (Some(implicit), Some(last)) => self.noise_of_likes(implicit, last, factors)?,
            _ => match (&self.params().item_update, &rounds.matrices) {
                (ItemUpdate::Ssp, Some(last)) => {
                    Some(self.noise_of_grams(last, (&[], 0.0), factors)?)
                }
                _ => {
                    let map = |axes| self.in_final_axes(rounds, self.rows(axes, dim));
                    return rounds.evidence.standard_deviations(map);
                }
            },
        };
        // the noise of rounds that are averaged by its precision
        let averaged = rounds.share_of_last.sqrt();
        Ok(of_last.map(|errors| errors.into_iter().map(|e| e * averaged).collect()))
    }

    fn show(
        &self,
        rounds: &RoundState,
        counts: Option<&NoisyCounts>,
        scales: Option<&TaskScales>,
        run: &mut Run<'_>,
    ) -> Result<()> {
        let (scoring, factors, _) = self.as_released(rounds, None, counts, scales)?;
        run.round(&shown(rounds.n_rounds, &factors, scoring.dim));
        Ok(())
    }

    /// One round: user steps, sums, noise, item step.
    fn round(&self, on: &Weighted<'_>, rounds: &mut RoundState, run: &mut Run<'_>) -> Result<()> {
        if let Some(implicit) = self.params().feedback.implicit() {
            return self.implicit_round(implicit, on, rounds, run);
        }
        match (&self.params().item_update, on.scales) {
            (ItemUpdate::NoisyGd(settings), Some(scales)) => {
                return self.gradient_round(settings, scales, on, rounds, run);
            }
            (ItemUpdate::Residual(settings), _)
                if rounds.n_rounds >= settings.n_statistics_rounds =>
            {
                return self.residual_round(settings, on, rounds, run);
            }
            _ => {}
        }
        let mut rhs_noise = 1.0;
        let grids = |of_matrix, of_rhs| {
            let grids = self.grids(of_matrix, of_rhs)?;
            rhs_noise = grids.rhs().noise_multiplier();
            Ok::<_, Error>(grids)
        };
        if let (true, Some(scales)) = (rounds.are_described, on.scales) {
            return self.described_round(on, scales, rounds, run);
        }
        let statistics = self.statistics(rounds.dim, &rounds.factors, on.weights)?;
        let released = run.grams(on.data, grids, &statistics)?;
        match on.scales {
            Some(scales) if statistics.are_residuals() => {
                let dim = rounds.dim;
                let mut sums = vec![0.0; released.n_items() * dim];
                let mut matrix = vec![0.0; dim * dim];
                for (item, sum) in sums.chunks_exact_mut(dim).enumerate() {
                    released.write_item(item, &mut matrix, sum);
                }
                let around = self.coefficients(&rounds.factors, dim);
                let noise_stddev = released.rhs_noise_stddev();
                rounds.keep(released, self.params());
                let x = self.posterior(
                    rounds,
                    (scales, on.weights.omega()),
                    (&sums, &around, noise_stddev),
                )?;
                rounds.refine(self.rows(x, dim), rhs_noise);
            }
            scales => {
                let solved = self.solve_items(&released, scales.map(TaskScales::totals))?;
                let pooled = released.layout() == GramLayout::Pooled;
                if !pooled || matches!(self.params().item_update, ItemUpdate::Residual(_)) {
                    rounds.keep(released, self.params());
                }
                rounds.advance(solved, rhs_noise);
            }
        }
        #[cfg(privacy_mutants)]
        if dp_core::mutants::active("mean-by-the-true-n") {
            let n_users = on.data.expose().n_users() as f64;
            rounds.factors.iter_mut().for_each(|f| *f /= n_users);
        }
        Ok(())
    }
}

impl RoundState {
    fn new(params: &FactorizationParams, n_items: usize, dim: usize) -> Result<Self> {
        Ok(Self {
            dim,
            n_rounds: 0,
            factors: initial_factors(n_items, dim, params.init_stddev, params.init_seed)?,
            precision: 0.0,
            share_of_last: 1.0,
            matrices: None,
            users: None,
            are_described: false,
            prior_votes: None,
            tastes_are_open: false,
            taste_votes: None,
            evidence: ItemEvidence::default(),
            likes: None,
        })
    }

    /// What a round with one matrix for all items changes before its last release.
    fn learned(&self) -> Learned {
        Learned {
            dim: self.dim,
            users: self.users.clone(),
            evidence: self.evidence.clone(),
            tastes_are_open: self.tastes_are_open,
        }
    }

    fn restore(&mut self, before: Learned) {
        self.dim = before.dim;
        self.users = before.users;
        self.evidence = before.evidence;
        self.tastes_are_open = before.tastes_are_open;
    }

    /// Stores the matrices of a round.
    fn keep(&mut self, released: ReleasedGrams, params: &FactorizationParams) {
        match released.layout() {
            GramLayout::PerItem => self.matrices = Some(released),
            GramLayout::Pooled => {
                self.users = Some(UserMatrix::of_grams(&released, params.clip_norm));
            }
        }
    }

    /// Stores factors that a round computed from the previous ones.
    pub(super) fn refine(&mut self, factors: Vec<f64>, noise_multiplier: f64) {
        self.precision += noise_multiplier.powi(-2);
        self.n_rounds += 1;
        self.factors = factors;
    }

    /// Stores a round's factors. Item biases alone do not depend on the users' factors in the
    /// round, so rounds are averaged by their precision; taste factors are those of the last round.
    pub(super) fn advance(&mut self, solved: Vec<f64>, noise_multiplier: f64) {
        let precision = noise_multiplier.powi(-2);
        self.precision += precision;
        self.n_rounds += 1;
        if self.dim > 1 {
            self.factors = solved;
            return;
        }
        self.share_of_last = precision / self.precision;
        for (average, new) in self.factors.iter_mut().zip(solved) {
            *average += self.share_of_last * (new - *average);
        }
    }
}

/// The factors after a round as shown to an observer.
pub(super) const fn shown(round: usize, factors: &[f64], dim: usize) -> Round<'_> {
    Round {
        round,
        parameters: factors,
        shape: (factors.len() / dim, dim),
        local: None,
    }
}

/// Scores of the items for users without records: at most this, too small to affect other users.
pub(super) const POPULARITY: f64 = 1e-6;

/// Overwrites the item biases, which scores without biases do not use, of the learned items with
/// the released counts, in units in which the largest is [`POPULARITY`]: a user without records has
/// no taste factors and gets the items that most users have. Standard errors are overwritten too,
/// unless there are none.
pub(super) fn write_popularity(
    (factors, errors): (&mut [f64], &mut [f64]),
    dim: usize,
    counts: &NoisyCounts,
) {
    let (most, noise) = (counts.unit(), counts.noise_stddev());
    let rows = factors.chunks_exact_mut(dim).zip(counts.values());
    for (item, (row, n)) in rows.enumerate() {
        if row[1..].iter().any(|q| *q != 0.0) {
            row[0] = POPULARITY * n.max(0.0) / most;
            if let Some(error) = errors.get_mut(item * dim) {
                *error = POPULARITY * noise / most;
            }
        }
    }
}

/// Rows `[0, q_i]` with `q_i` normal, shape `(n_items, dim)`.
pub(crate) fn initial_factors(
    n_items: usize,
    dim: usize,
    stddev: f64,
    seed: u64,
) -> Result<Vec<f64>> {
    let normal = Normal::new(0.0, stddev)
        .map_err(|_| dp_core::ParamError::new("init_stddev", stddev, "a finite number above 0"))?;
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    Ok((0..n_items * dim)
        .map(|at| {
            if at % dim == 0 {
                0.0
            } else {
                normal.sample(&mut rng)
            }
        })
        .collect())
}
