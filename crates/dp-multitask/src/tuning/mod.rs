//! Choice among settings within the budget: every candidate is trained and paid for, and so is the choice.

mod scores;

use dp_accounting::{Certificate, Plan, PlannedRelease, ReleaseRecord, ReleaseRequest, Spend};
use dp_core::{Adjacency, ApproxDp, Interactions, Private, ReplaceFactor, params};
use dp_mechanism::{Grid, NoiseSource, VectorSum, vector_contribution};

use crate::factorization::{FittedModel, MatrixFactorization, Progress, Released, in_public_range};
use crate::paid::{check_plan, check_spends, complete, data_set_of};
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
/// use dp_core::{Adjacency, ApproxDp};
/// use dp_multitask::{FactorizationParams, Tuning, TuningParams};
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
    /// The chosen candidate's model, with the certificate of the whole.
    pub fitted: FittedModel,
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

    /// What all candidates and the comparison will release over `n_items`, calibrated to `target`.
    ///
    /// # Errors
    /// As [`MatrixFactorization::plan`].
    pub fn plan(&self, n_items: usize, target: ApproxDp, adjacency: Adjacency) -> Result<Plan> {
        for fit in &self.candidates {
            fit.check_items(n_items)?;
        }
        let plan = Plan::calibrate(target, adjacency, &self.requests(n_items))?;
        for (fit, own) in self.candidates.iter().zip(self.plans(&plan, n_items)?) {
            fit.check_grids(&own)?;
        }
        if let Some(scores) = plan.releases().last() {
            Grid::new(scores.noise_multiplier()?, self.params.score_clip_norm)?;
        }
        Ok(plan)
    }

    fn requests(&self, n_items: usize) -> Vec<ReleaseRequest> {
        let n = self.candidates.len();
        let share = (1.0 - self.params.score_share) / n as f64;
        let mut requests = Vec::new();
        for fit in &self.candidates {
            let own = fit.requests(n_items);
            let total: f64 = own.iter().map(|request| request.budget_share).sum();
            requests.extend(own.into_iter().map(|mut request| {
                request.budget_share *= share / total;
                request
            }));
        }
        let (share, factor) = (self.params.score_share, ReplaceFactor::Two);
        requests.push(ReleaseRequest::new(SCORES, share, factor, n as u64));
        requests
    }

    /// The part of `plan` that belongs to each candidate.
    fn plans(&self, plan: &Plan, n_items: usize) -> Result<Vec<Plan>> {
        let mut rest: &[PlannedRelease] = plan.releases();
        let mut plans = Vec::with_capacity(self.candidates.len());
        for fit in &self.candidates {
            let n = fit.requests(n_items).len().min(rest.len());
            let (own, others) = rest.split_at(n);
            let (delta, adjacency) = (plan.target().delta, plan.adjacency());
            plans.push(Plan::with_noise_multipliers(
                delta,
                adjacency,
                own.to_vec(),
            )?);
            rest = others;
        }
        Ok(plans)
    }

    /// Trains all candidates and keeps the best, consuming exactly the spends of `plan`.
    ///
    /// # Privacy
    /// The model, the scores and the choice are covered by the plan's guarantee together with everything that the
    /// other candidates released. What users hold out never leaves their own share of the scores.
    ///
    /// # Errors
    /// As [`MatrixFactorization::fit`].
    pub fn fit(
        &self,
        data: &Private<Interactions>,
        plan: &Plan,
        spends: Vec<Spend>,
        noise: &mut NoiseSource,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<TunedModel> {
        self.fit_watched(data, plan, spends, noise, progress, &mut |_| {})
    }

    /// [`fit`](Self::fit), showing each release to `watch` as it is made, in the order of the plan: those of the candidates, then
    /// the scores. Candidates sum over [`training_part`](Self::training_part), the scores over `data`.
    ///
    /// # Privacy
    /// As [`fit`](Self::fit): `watch` sees releases, which are covered by the guarantee.
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    pub fn fit_watched(
        &self,
        data: &Private<Interactions>,
        plan: &Plan,
        spends: Vec<Spend>,
        noise: &mut NoiseSource,
        progress: &mut dyn FnMut(Progress),
        watch: &mut dyn FnMut(Released<'_>),
    ) -> Result<TunedModel> {
        let n_items = data.expose().n_items();
        check_plan(plan, &self.requests(n_items))?;
        check_spends(plan, plan.releases(), &spends)?;
        let records: Vec<ReleaseRecord> = spends.iter().map(Spend::record).collect();
        let data_set_id = data_set_of(&spends);
        let train = self.training_part(data);
        let (mut spends, total) = (spends.into_iter(), plan.releases().len());
        let mut fitted = Vec::with_capacity(self.candidates.len());
        let mut before = 0;
        for (fit, own) in self.candidates.iter().zip(self.plans(plan, n_items)?) {
            let n = own.releases().len();
            let mut report = |at: Progress| {
                let done = before + at.done;
                progress(Progress { done, total });
            };
            let paid = spends.by_ref().take(n).collect();
            fitted.push(fit.fit_watched(&train, &own, paid, noise, &mut report, watch)?);
            before += n;
        }
        let scores = ValidationScores {
            models: fitted.iter().map(|fit| &fit.model).collect(),
            held_out: self.held_out(),
            clip_norm: self.params.score_clip_norm,
        };
        let Some(spend) = spends.next() else {
            return Err(crate::paid::mismatch(plan.releases(), &[], SCORES));
        };
        let grid = Grid::new(spend.noise_multiplier()?, self.params.score_clip_norm)?;
        let sum = VectorSum::accumulate(data, fitted.len(), grid, &scores)?;
        let released = sum.release(spend, noise)?;
        watch(Released::Sum {
            label: SCORES,
            released: &released,
            grid: &grid,
            one_user: &|row| vector_contribution(&grid, fitted.len(), &scores, row),
        });
        progress(Progress { done: total, total });
        let scores = released.values();
        let chosen = smallest(&scores);
        let certificate = self.certificate(plan, data_set_id, records, noise.is_insecure())?;
        Ok(TunedModel {
            fitted: FittedModel {
                certificate,
                ..fitted.swap_remove(chosen)
            },
            chosen,
            scores,
            score_noise_stddev: released.noise_stddev(),
        })
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

    fn certificate(
        &self,
        plan: &Plan,
        data_set_id: String,
        records: Vec<ReleaseRecord>,
        insecure: bool,
    ) -> Result<Certificate> {
        let builder = Certificate::builder(plan, data_set_id)
            .releases(records)
            .released_output(
                "item factors of the chosen candidate, every release listed below, settings",
                "anyone",
            )
            .assumption(
                "neither the candidates nor any other setting was made by looking at this data set (the \
                 rules behind the defaults come from MovieLens sets)",
            )
            .not_covered("personal models: each is seen by its own user only (joint DP)");
        let mut assumptions: Vec<String> = Vec::new();
        for assumption in self
            .candidates
            .iter()
            .flat_map(MatrixFactorization::assumptions)
        {
            if !assumptions.contains(assumption) {
                assumptions.push(assumption.clone());
            }
        }
        complete(builder, &assumptions, insecure, true)
    }
}

/// The place of the smallest score; the first where two are equal.
fn smallest(scores: &[f64]) -> usize {
    let pairs = scores.iter().enumerate();
    pairs
        .min_by(|a, b| a.1.total_cmp(b.1))
        .map_or(0, |(at, _)| at)
}
