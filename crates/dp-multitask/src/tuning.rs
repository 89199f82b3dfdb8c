//! Choice among settings within the budget: every candidate and the choice are trained and paid
//! for.

use dp_accounting::{CertificateBuilder, Plan, ReleaseRequest, Requests};
use dp_core::{
    Adjacency, ApproxDp, Interactions, InteractionsBuilder, Private, ReplaceFactor, UserRow, params,
};
use dp_mechanism::{Run, SparseBuffer, Trainer, VectorContribution};

use crate::allocation::{fingerprint, mix};
use crate::checked::taken_on_trust;
use crate::factorization::{FactorModel, MatrixFactorization, in_public_range};
use crate::{Error, Result};

const SCORES: &str = "validation scores";

/// How candidates are compared; all settings are public.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TuningParams {
    /// Share of the budget for the comparison, strictly between 0 and 1; candidates get equal parts
    /// of the rest.
    pub score_share: f64,
    /// Share of each user's records that is used for comparing the models instead of training them,
    /// strictly between 0 and 1.
    pub held_out_fraction: f64,
    /// Public seed of the hash that holds records out.
    pub split_seed: u64,
    /// Bound on the differences of one user's losses, in squared data units, or in units of ratings
    /// if these are learned (in hits in a list for implicit feedback).
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

/// Selects the best of several settings on held-out records of the same users, all within one
/// budget.
///
/// ```text
/// candidate c = 1..K:  a fit on the training part with budget (1 - s)/K
/// then                 s_c = sum over users of clipped differences of losses + noise, budget s
/// result               the model with the smallest s_c
/// ```
///
/// The model is one of those trained: nothing is retrained. With K candidates each has
/// `sqrt(K / (1 - s))` times the noise of a single run, so three or four distinct candidates are
/// better than a fine grid.
///
/// # Privacy
/// A composition of the candidates' releases and one vector of `K` scores, whose sensitivity is
/// `score_clip_norm` under add/remove. The choice is post-processing. The guarantee covers the
/// choice: the certificate says so.
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

/// The chosen model, and the comparison of the candidates.
#[derive(Debug, Clone)]
pub struct TunedModel {
    /// The chosen candidate's model.
    pub model: FactorModel,
    /// Index of the candidate, from 0.
    pub chosen: usize,
    /// Released scores, where smaller is better; each with noise of `score_noise_stddev`.
    pub scores: Vec<f64>,
    /// Standard deviation of the noise in a score.
    pub score_noise_stddev: f64,
}

impl Tuning {
    /// Candidates are labelled by their number, from 1.
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

    /// The part of `target` for each of `n_candidates` fits: epsilon at the same delta. For
    /// defaults that depend on epsilon.
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

    /// The settings of the comparison.
    #[must_use]
    pub const fn params(&self) -> &TuningParams {
        &self.params
    }

    /// The Gaussian-DP parameter of each candidate's own releases in `plan`.
    fn mu_of_each(&self, plan: &Plan, n_items: usize) -> Result<Vec<f64>> {
        let (mut first, mut all) = (0, Vec::with_capacity(self.candidates.len()));
        for fit in &self.candidates {
            all.push(fit.mu_in(plan, first, n_items)?);
            first += fit.shares(n_items)?.len();
        }
        Ok(all)
    }

    /// The training data of the candidates: each user's records except those held out. Private,
    /// like the data it comes from.
    ///
    /// # Errors
    /// [`Error::Core`] for records on disk; none for records in memory.
    pub fn training_part(&self, data: &Private<Interactions>) -> Result<Private<Interactions>> {
        let train = self.held_out().training_part(data.expose())?;
        Ok(Private::new(train.unwrap_or_else(|| data.expose().clone())))
    }

    const fn held_out(&self) -> HeldOut {
        HeldOut {
            fraction: self.params.held_out_fraction,
            seed: self.params.split_seed,
        }
    }
}

/// Trains all candidates and keeps the best. The sums of candidates are over
/// [`training_part`](Tuning::training_part), the scores over all records.
///
/// # Privacy
/// The plan's guarantee covers the model, the scores and the choice together with all releases of
/// the other candidates. A user's held-out records only affect that user's own contribution to the
/// scores.
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
                "item factors of the chosen candidate, every listed release, settings",
                "anyone",
            )
            .assumption(
                "the candidates and all other settings were not chosen by looking at this data set (the \
                 rules behind the defaults come from MovieLens, Jester, InstEval and other public data sets that their documentation names)",
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
        let train = self.training_part(data)?;
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

/// The index of the smallest score; the first among equal ones.
fn smallest(scores: &[f64]) -> usize {
    let pairs = scores.iter().enumerate();
    pairs
        .min_by(|a, b| a.1.total_cmp(b.1))
        .map_or(0, |(at, _)| at)
}

/// Length of the lists that are scored for implicit feedback.
const LIST_LENGTH: usize = 20;
/// Keeps rounding from pushing a contribution over its bound, in which case the kernel would drop
/// it.
const INSIDE: f64 = 1.0 - 1e-12;

/// Which of a user's records are held out from training, selected by a hash of the user's own
/// records.
#[derive(Debug, Clone, Copy, PartialEq)]
struct HeldOut {
    fraction: f64,
    seed: u64,
}

impl HeldOut {
    /// The training part of all users: a function of each user's own records.
    fn training_part(self, data: &Interactions) -> Result<Option<Interactions>> {
        let own: Vec<u64> = data
            .users()
            .map(|row| fingerprint(self.seed, row))
            .collect();
        let part = |user: usize, item, _| usize::from(self.holds(own[user], item));
        Ok(data.partition(1, part)?.pop())
    }

    fn holds(self, fingerprint: u64, item: u32) -> bool {
        let draw = mix(fingerprint ^ mix(u64::from(item)));
        let uniform = (draw >> 11) as f64 / (1_u64 << 53) as f64;
        uniform < self.fraction
    }

    /// One user's records for the local step, and those held out.
    fn parts(self, user: UserRow<'_>, n_items: usize) -> Option<[Interactions; 2]> {
        let fingerprint = fingerprint(self.seed, user);
        let mut parts = [n_items; 2].map(InteractionsBuilder::new);
        for (item, value) in user.iter() {
            parts[usize::from(self.holds(fingerprint, item))]
                .push(0, item, value)
                .ok()?;
        }
        Some(parts.map(|mut part| {
            part.ensure_users(1);
            part.build().0
        }))
    }
}

/// One user's contribution to the losses of all candidates.
///
/// ```text
/// l_c = sum over the user's held-out records of ((rating - prediction of candidate c) / unit)^2
///       or, with implicit feedback, minus the number of them in candidate c's list of 20
/// s_c = l_c - mean_c l_c,    the vector s scaled down to the clipping norm
/// ```
///
/// The unit is that of ratings if the first candidate [learned](crate::RatingScale) it, and 1
/// otherwise. A loss that is common to all candidates does not indicate which is best; after
/// subtracting it, the bound is on the differences.
///
/// # Privacy
/// `||s|| <= clip_norm` by construction, and the kernel checks it: the L2 sensitivity under
/// add/remove is the clipping norm. The contribution is a function of the user's own records,
/// released models and public constants.
struct ValidationScores<'a> {
    models: Vec<&'a FactorModel>,
    held_out: HeldOut,
    clip_norm: f64,
}

impl ValidationScores<'_> {
    fn losses(&self, user: UserRow<'_>) -> Option<Vec<f64>> {
        let n_items = self.models.iter().map(|m| m.n_items()).min().unwrap_or(0);
        let [own, held_out] = self.held_out.parts(user, n_items)?;
        let (own, held_out) = (own.user(0), held_out.user(0));
        if held_out.is_empty() {
            return None;
        }
        let scale = self.models.first().and_then(|model| model.scale());
        let unit = scale.map_or(1.0, |scale| scale.unit);
        self.models
            .iter()
            .map(|model| loss(model, own, held_out, unit).ok())
            .collect()
    }
}

fn loss(model: &FactorModel, own: UserRow<'_>, held_out: UserRow<'_>, unit: f64) -> Result<f64> {
    let personal = model.fold_in(own)?;
    if model.scoring().unobserved_weight.is_some() {
        let list = model.recommend(&personal, LIST_LENGTH, own.items())?;
        let hits = list
            .iter()
            .filter(|(item, _)| held_out.items().binary_search(item).is_ok());
        return Ok(-(hits.count() as f64));
    }
    let errors = held_out
        .iter()
        .map(|(item, y)| (f64::from(y) - model.predict(&personal, item as usize)) / unit);
    Ok(errors.map(|e| e * e).sum())
}

impl VectorContribution for ValidationScores<'_> {
    type Scratch = ();

    fn scratch(&self) {}

    fn contribute(&self, user: UserRow<'_>, (): &mut (), out: &mut SparseBuffer) {
        // a user with nothing held out adds nothing
        let Some(mut losses) = self.losses(user) else {
            return;
        };
        let mean = losses.iter().sum::<f64>() / losses.len().max(1) as f64;
        losses.iter_mut().for_each(|l| *l -= mean);
        let norm = losses.iter().map(|l| l * l).sum::<f64>().sqrt();
        let scale = INSIDE * (self.clip_norm / norm).min(1.0);
        for (candidate, l) in (0..).zip(&losses) {
            out.push(candidate, scale * l);
        }
    }
}

#[cfg(test)]
mod tests {
    use approx::assert_relative_eq;
    use dp_mechanism::{Grid, vector_contribution};

    use super::*;
    use crate::{FactorizationParams, Provenance};

    /// Models of the same dimension that predict the centre plus these biases for every item.
    fn models(biases: &[f64]) -> Vec<FactorModel> {
        let target = ApproxDp::target(1.0, 1e-5).unwrap();
        let scoring = FactorizationParams::adadpals_for_target(target).scoring(1);
        let model = |&bias| FactorModel::new(scoring, vec![bias; 30], Provenance::Private);
        biases.iter().map(|bias| model(bias).unwrap()).collect()
    }

    fn row(value: impl Fn(u32) -> f32) -> Interactions {
        let mut builder = InteractionsBuilder::new(30);
        (0..30).for_each(|item| builder.push(0, item, value(item)).unwrap());
        builder.build().0
    }

    #[test]
    fn candidates_with_more_or_fewer_releases_have_the_same_budget() {
        let target = ApproxDp::target(1.0, 1e-5).unwrap();
        let candidate = |n_rounds| {
            let mut params = FactorizationParams::adadpals_for_target(target);
            (params.dim, params.n_rounds) = (Some(2), n_rounds);
            params.check().unwrap()
        };
        let params = TuningParams::default();
        let tuning = Tuning::new(vec![candidate(1), candidate(4)], params).unwrap();
        let plan = tuning.plan(30, target, Adjacency::AddRemoveUser).unwrap();
        let each = tuning.mu_of_each(&plan, 30).unwrap();
        let whole = plan.gdp().unwrap().mu;
        for mu in each {
            let share = 0.5 * (1.0 - params.score_share);
            assert_relative_eq!((mu / whole).powi(2), share, max_relative = 1e-9);
        }
    }

    #[test]
    fn a_user_adds_bounded_differences_and_wild_ratings_are_not_rejected() {
        let models = models(&[0.0, 0.5, -2.0]);
        let scores = ValidationScores {
            models: models.iter().collect(),
            held_out: HeldOut {
                fraction: 0.3,
                seed: 5,
            },
            clip_norm: 2.0,
        };
        let grid = Grid::new(3.0, 2.0).unwrap();
        let share = |table: &Interactions| {
            let entries = vector_contribution(&grid, 3, &scores, table.user(0));
            let squares = entries.iter().map(|(_, z)| (*z as f64).powi(2));
            let norm = squares.sum::<f64>().sqrt() / grid.l2_bound() as f64;
            (entries, norm)
        };
        // the models differ so little that nothing is clipped: the differences sum to zero
        let (entries, norm) = share(&row(|item| 3.0 + (item % 2) as f32 / 1e3));
        assert!(norm > 0.99 && norm <= 1.0, "{norm}");
        let sum: i64 = entries.iter().map(|(_, z)| z).sum();
        assert!(sum.unsigned_abs() < grid.l2_bound() >> 18);
        // so large that rounding hides the differences between the models, so the loss is
        // uninformative
        for (wild, least) in [(1e6, 0.99), (-3e38, 0.0)] {
            let (_, norm) = share(&row(|item| if item == 7 { wild } else { 3.0 }));
            assert!((least..=1.0).contains(&norm), "{wild}: {norm}");
        }
        let mut nobody = InteractionsBuilder::new(30);
        nobody.ensure_users(1);
        assert!(share(&nobody.build().0).0.is_empty());
    }

    #[test]
    fn what_is_held_out_follows_from_the_user_alone_and_in_the_stated_share() {
        let held_out = HeldOut {
            fraction: 0.25,
            seed: 1,
        };
        let mut builder = InteractionsBuilder::new(400);
        for user in 0..200 {
            (0..400).for_each(|item| builder.push(user, item, user as f32).unwrap());
        }
        let data = builder.build().0;
        let train = held_out.training_part(&data).unwrap().unwrap();
        // 80,000 draws: five deviations are .0077
        let share = train.n_records() as f64 / data.n_records() as f64;
        assert!((share - 0.75).abs() < 0.0077, "{share}");
        for (all, kept) in data.users().zip(train.users()) {
            let [own, rest] = held_out.parts(all, 400).unwrap();
            assert_eq!(own.user(0).items(), kept.items());
            assert_eq!(own.n_records() + rest.n_records(), 400);
        }
    }
}
