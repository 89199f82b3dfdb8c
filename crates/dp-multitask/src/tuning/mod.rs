//! Choice among settings within the budget: every candidate is trained and paid for, and so is the choice.

mod scores;

use dp_accounting::{CertificateBuilder, Plan, PlannedRelease, ReleaseRequest, Requests};
use dp_core::{Adjacency, ApproxDp, Interactions, Private, ReplaceFactor, params};
use dp_mechanism::{Run, Trainer};

use crate::checked::taken_on_trust;
use crate::factorization::{FactorModel, MatrixFactorization, in_public_range};
use crate::{Error, Result};
use scores::{HeldOut, ValidationScores};

const SCORES: &str = "validation scores";

/// How candidates are compared; all public.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TuningParams {
    /// Share of the budget spent on the comparison, strictly between 0 and 1; candidates get equal parts of the
    /// rest.
    pub score_share: f64,
    /// Share of each user's records that the models are compared on and not trained on, strictly between 0 and 1.
    pub held_out_fraction: f64,
    /// Public seed of the hash that holds records out.
    pub split_seed: u64,
    /// Bound on the differences of one user's losses, squared data units (hits in a list with implicit feedback).
    pub score_clip_norm: f64,
}

impl Default for TuningParams {
    fn default() -> Self {
        Self {
            score_share: 0.02,
            held_out_fraction: 0.1,
            split_seed: 0,
            score_clip_norm: 2.0,
        }
    }
}

/// The best of several settings, chosen on held-out records of the same users, all within one budget.
///
/// ```text
/// candidate c = 1..K:  a fit on the training part with budget (1 - s)/K
/// then                 s_c = sum over users of clipped differences of losses + noise, budget s
/// result               the model with the smallest s_c
/// ```
///
/// The model is one of those trained: nothing is trained again. With K candidates each has `sqrt(K / (1 - s))`
/// times the noise of a single run, so three or four that differ are worth more than a fine grid.
///
/// # Privacy
/// A composition of the candidates' releases and one vector of `K` scores, whose sensitivity is `score_clip_norm`
/// under add/remove. Choosing is post-processing. The guarantee covers the choice: the certificate says so.
///
/// # Examples
/// ```
/// use dp_multitask::{Adjacency, ApproxDp, FactorizationParams, Trainer, Tuning, TuningParams};
/// let target = ApproxDp::target(5.0, 1e-5)?;
/// let candidates = [2, 4].map(|dim| FactorizationParams {
///     dim: Some(dim),
///     ..FactorizationParams::for_target(target)
/// });
/// let fits = candidates.map(|params| params.check()).into_iter().collect::<Result<Vec<_>, _>>()?;
/// let tuning = Tuning::new(fits, TuningParams::default())?;
/// let plan = tuning.plan(1_000, target, Adjacency::AddRemoveUser)?;
/// assert!(plan.guarantee().epsilon <= 5.0 && plan.guarantee().epsilon > 4.999);
/// assert_eq!(plan.releases().last().map(|r| r.label()), Some("validation scores"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Tuning {
    candidates: Vec<MatrixFactorization>,
    params: TuningParams,
}

/// The chosen model, and how the candidates compared.
#[derive(Debug, Clone)]
pub struct TunedModel {
    /// The chosen candidate's model.
    pub model: FactorModel,
    /// Which candidate it is, from 0.
    pub chosen: usize,
    /// Released scores, smallest best; each with noise of `score_noise_stddev`.
    pub scores: Vec<f64>,
    /// Standard deviation of the noise in a score.
    pub score_noise_stddev: f64,
}

impl Tuning {
    /// Candidates are labelled by their place, from 1.
    ///
    /// # Errors
    /// [`Error::Param`] when there is no candidate, more than 1000, or a setting is out of range;
    /// [`Error::Unsupported`] when ratings and implicit feedback are mixed.
    pub fn new(candidates: Vec<MatrixFactorization>, params: TuningParams) -> Result<Self> {
        let n = candidates.len();
        params::in_range("candidates", n, 1, 1000, "1 to 1000 candidates")?;
        params::open_unit("score_share", params.score_share)?;
        params::open_unit("held_out_fraction", params.held_out_fraction)?;
        in_public_range("score_clip_norm", params.score_clip_norm)?;
        let implicit = |fit: &MatrixFactorization| fit.params().feedback.implicit().is_some();
        let n_implicit = candidates.iter().filter(|fit| implicit(fit)).count();
        if n_implicit > 0 && n_implicit < n {
            let what = "candidates for ratings and for implicit feedback in one choice";
            return Err(Error::Unsupported { what });
        }
        let label = |(at, fit): (usize, MatrixFactorization)| {
            fit.labelled(&format!("candidate {}: ", at + 1))
        };
        Ok(Self {
            candidates: candidates.into_iter().enumerate().map(label).collect(),
            params,
        })
    }

    /// What each of `n_candidates` fits gets of `target`: epsilon at the same delta. For defaults that follow from
    /// epsilon.
    ///
    /// # Errors
    /// [`Error::Param`] when a setting is out of range, [`Error::Accounting`] when the target cannot be met.
    pub fn target_of_each(
        n_candidates: usize,
        params: TuningParams,
        target: ApproxDp,
        adjacency: Adjacency,
    ) -> Result<ApproxDp> {
        params::at_least_one("candidates", n_candidates)?;
        params::open_unit("score_share", params.score_share)?;
        let share = (1.0 - params.score_share) / n_candidates as f64;
        let request = |share| ReleaseRequest::new("part", share, ReplaceFactor::Two, 1);
        let whole = Plan::calibrate(target, adjacency, &[request(share), request(1.0 - share)])?;
        let part = whole.releases()[..1].to_vec();
        Ok(Plan::with_noise_multipliers(target.delta, adjacency, part)?.target())
    }

    /// The candidates, in order.
    #[must_use]
    pub fn candidates(&self) -> &[MatrixFactorization] {
        &self.candidates
    }

    /// How they are compared.
    #[must_use]
    pub const fn params(&self) -> &TuningParams {
        &self.params
    }

    /// The Gaussian-DP parameter of each candidate's own releases in `plan`.
    fn mu_of_each(&self, plan: &Plan, n_items: usize) -> Result<Vec<f64>> {
        let mut rest: &[PlannedRelease] = plan.releases();
        let mut all = Vec::with_capacity(self.candidates.len());
        for fit in &self.candidates {
            let n = fit.shares(n_items)?.len().min(rest.len());
            let (own, others) = rest.split_at(n);
            let (delta, adjacency) = (plan.target().delta, plan.adjacency());
            let own = Plan::with_noise_multipliers(delta, adjacency, own.to_vec())?;
            all.push(own.gdp()?.mu);
            rest = others;
        }
        Ok(all)
    }

    /// What the candidates are trained on: each user's records but for those held out. Private, like the data it comes from.
    #[must_use]
    pub fn training_part(&self, data: &Private<Interactions>) -> Private<Interactions> {
        let train = self.held_out().training_part(data.expose());
        Private::new(train.unwrap_or_else(|| data.expose().clone()))
    }

    const fn held_out(&self) -> HeldOut {
        HeldOut {
            fraction: self.params.held_out_fraction,
            seed: self.params.split_seed,
        }
    }
}

/// Trains all candidates and keeps the best. Candidates sum over [`training_part`](Tuning::training_part), the scores over all records.
///
/// # Privacy
/// The model, the scores and the choice are covered by the plan's guarantee together with everything that the
/// other candidates released. What users hold out never leaves their own share of the scores.
impl Trainer for Tuning {
    type Data = Private<Interactions>;
    type Model = TunedModel;
    type Error = Error;

    fn width(&self, data: &Private<Interactions>) -> usize {
        data.expose().n_items()
    }

    fn requests(&self, n_items: usize, _: Adjacency) -> Result<Requests> {
        let n = self.candidates.len();
        let share = (1.0 - self.params.score_share) / n as f64;
        let mut requests = Vec::new();
        for fit in &self.candidates {
            let own = fit.shares(n_items)?;
            let total: f64 = own.iter().map(|request| request.budget_share).sum();
            requests.extend(own.into_iter().map(|mut request| {
                request.budget_share *= share / total;
                request
            }));
        }
        let (share, factor) = (self.params.score_share, ReplaceFactor::Two);
        requests.push(ReleaseRequest::new(SCORES, share, factor, n as u64));
        Ok(Requests::Shares(requests))
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        let certificate = certificate
            .released_output(
                "item factors of the chosen candidate, every release listed below, settings",
                "anyone",
            )
            .assumption(
                "neither the candidates nor any other setting was made by looking at this data set (the \
                 rules behind the defaults come from MovieLens sets)",
            )
            .not_covered("personal models: each is seen by its own user only (joint DP)")
            .tuning_included(true);
        let mut assumptions: Vec<String> = Vec::new();
        let all = self.candidates.iter();
        for assumption in all.flat_map(MatrixFactorization::assumptions) {
            if !assumptions.contains(assumption) {
                assumptions.push(assumption.clone());
            }
        }
        taken_on_trust(certificate, &assumptions)
    }

    fn train(&self, data: &Private<Interactions>, run: &mut Run<'_>) -> Result<TunedModel> {
        let train = self.training_part(data);
        let mut models = Vec::with_capacity(self.candidates.len());
        let each = self.mu_of_each(run.plan(), self.width(data))?;
        for (fit, mu) in self.candidates.iter().zip(each) {
            models.push(fit.train_at(mu, &train, run)?);
        }
        let clip_norm = self.params.score_clip_norm;
        let scores = ValidationScores {
            models: models.iter().collect(),
            held_out: self.held_out(),
            clip_norm,
        };
        let released = run.vector(data, (models.len(), clip_norm), &scores)?;
        let scores = released.values();
        let chosen = smallest(&scores);
        Ok(TunedModel {
            model: models.swap_remove(chosen),
            chosen,
            scores,
            score_noise_stddev: released.noise_stddev(),
        })
    }
}

/// The place of the smallest score; the first where two are equal.
fn smallest(scores: &[f64]) -> usize {
    let pairs = scores.iter().enumerate();
    pairs
        .min_by(|a, b| a.1.total_cmp(b.1))
        .map_or(0, |(at, _)| at)
}
