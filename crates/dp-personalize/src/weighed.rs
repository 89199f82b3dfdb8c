//! A user's personal model as a mean of many fits, weighted by how well each explains the user's
//! own rows.

use dp_core::{ParamError, SampleRows};
use dp_linalg::{cholesky_in_place, cholesky_solve_in_place, symmetric_eigen};

use crate::design::{read_rows, take_off_means};
use crate::embedding::ConvexLoss;
use crate::model_prior::N_MODEL_VOTES;
use crate::small::inner;
use crate::subspace::parts;
use crate::user_prior::n_votes;
use crate::{ModelPrior, PersonalModel, Result, Subspace, UserLevels, UserPrior};

/// Candidate prior variances of the own part's score at an average row, in units of the noise.
pub(crate) const SIGNALS: [f64; N_STRENGTHS] = [1e-2, 0.1, 1.0, 10.0, 1e2, 1e3, 1e4, 1e6, 1e8];
pub(crate) const N_STRENGTHS: usize = 9;
/// The same for the logistic loss, in logits: for separable classes larger values would add no
/// information.
const LOGISTIC_SIGNALS: [f64; 7] = [1e-2, 0.1, 1.0, 10.0, 1e2, 1e3, 1e4];
/// Candidate ratios of the prior standard deviation of coefficients within the subspace to that of
/// coefficients outside.
const TILTS: [f64; 3] = [3.0, 10.0, 30.0];
/// Kinds of own part with a subspace: within it, and near it.
pub(crate) const N_NEAR: usize = 1 + TILTS.len();
/// Kinds of own part without one: none, and two that use nothing shared.
pub(crate) const N_PLAIN: usize = 3;
/// Candidate weights on a shared model.
const WEIGHTS: [f64; 2] = [0.5, 1.0];
/// Those, and none.
pub(crate) const N_WEIGHTS: usize = 1 + WEIGHTS.len();
/// Candidate prior variances of a level that is near the shared model's, in units of the noise.
const LEVELS: [f64; 5] = [1e-2, 0.1, 1.0, 10.0, 100.0];
/// Those, and the level of the shared model.
pub(crate) const N_LEVELS: usize = LEVELS.len() + 1;
/// The same for the logistic loss, where 5 is a probability of .993.
const LOGISTIC_LEVELS: [f64; 3] = [0.25, 2.5, 25.0];
/// Degrees of freedom of the prior of the variance of a user's labels, if the typical one is known.
const VARIANCE_FREEDOM: f64 = 2.0;
/// Number of rows that are used if there are more features than this.
const MOST_ROWS: usize = 256;
/// Directions with a smaller share of the largest squared singular value are considered rounding
/// errors.
const NEGLIGIBLE: f64 = 1e-12;
/// Newton's method stops when a step would lower the objective by less than half of this.
const DECREMENT: f64 = 1e-10;
const NEWTON_STEPS: usize = 100;

/// Kinds of own part with a subspace of this rank: none, two that use nothing shared, and for each part of the subspace within it and near it.
pub(crate) fn n_kinds(rank: usize) -> usize {
    N_PLAIN + N_NEAR * parts(rank).count()
}

/// How a user's level is modelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnLevel {
    /// There is none: scores depend on the features only.
    None,
    /// All levels are equally likely, unless it is known [where they lie](SharedParts::prior).
    Free,
    /// Near that of the shared model, and near 0 without one.
    Near,
}

/// The values that a server released for all users.
#[derive(Debug, Clone, Copy, Default)]
pub struct SharedParts<'a> {
    /// Users' coefficients are near it.
    pub subspace: Option<&'a Subspace>,
    /// Coefficients of whole models, such as the rounds of one run; the last is used unchanged if
    /// there are no rows to weight fits by.
    pub models: &'a [&'a [f64]],
    /// Weights of the fits, and where levels lie, learned from all users: for the squared loss, with
    /// a subspace and without shared models.
    pub prior: Option<&'a UserPrior>,
    /// Weights of the fits around shared models, learned from all users; without a subspace.
    pub model_prior: Option<&'a ModelPrior>,
}

/// The weight of an own part that explains `s` noise variances, where nothing was learned from others.
pub(crate) fn slow_decay(s: f64) -> f64 {
    1.0 / (1.0 + s).sqrt() // rounded alike everywhere, unlike powers
}

/// Whether a shared model is without overflow.
fn is_finite(model: &[f64]) -> bool {
    model.iter().all(|w| w.is_finite())
}

/// A user's personal model: the mean of many fits, each weighted by the marginal likelihood of the
/// user's own rows.
///
/// ```text
/// y_i = c <w, x_i> + b + <x_i - mean(x), T v> + noise,    v ~ N(0, I tau^2)
///
/// shared part   none, or a weight c of .5 or 1 on each of the released models w
/// own part      none, or T = I                                         coefficients with equal prior
///                        T = diag(1 / sd of the feature)               features with equal influence
///                        T = U_q                                       within the subspace, or a part of it
///                        T = I + (r - 1) U_q U_q^T, r = 3, 10, 30      near it; U_q the first q = 1, 2, 4, ..., k columns of U
/// strength      tau^2 E||T^T (x - mean(x))||^2 = s noise variances,  s = .01, .1, ..., 10^4, 10^6, 10^8
/// model         sum_k p_k theta_k,   p_k proportional to prior_k times p(y | X, k)
/// ```
///
/// The basis begins with the leading directions of the sum that a run starts from, so users for whom the rank is too large are
/// near the span of its first columns.
/// Half of the prior is divided among models that use nothing shared, and half among all others,
/// unless there is one learned from all users ([`UserPrior`], [`ModelPrior`]). An own part
/// has a part in proportion to `(1 + s)^-1/2`: with few rows, large strengths fit the noise, and the
/// likelihood alone does not tell, since it knows no noise variance. A level near that of the shared
/// model has one of five prior variances from .01 to 100 noise variances. With a [`UserPrior`], the
/// expected length of a row and the spread of each feature include one row of the usual length,
/// since two rows may happen to be alike, and levels have a normal prior. For the
/// squared loss the likelihood is exact, with the noise variance integrated out under its Jeffreys
/// prior or the learned one, and also the level, under a flat prior if none was learned. Rows
/// whose features are all 0 do not count ([`SampleRows::iter`]). For the logistic loss it is Laplace's
/// approximation at the minimiser, which Newton's method finds up to a decrease of `5e-11` in the
/// log likelihood; `s` is in logits then, and 10^4 at most, and levels have one of three prior
/// variances, .25, 2.5 and 25.
///
/// # Privacy
/// Local: a function of the user's own rows and of released values, seen by nobody else. Weighting
/// costs nothing, however many candidates there are.
///
/// # Numerics
/// One eigendecomposition of size `min(m, d)` for each `T`, from which all strengths and shared
/// parts follow in O(m d); for the logistic loss a few Cholesky factorisations of that size for
/// each candidate. With more than 256 features only the first 256 rows are used.
///
/// # Examples
/// ```
/// use dp_core::UserSamplesBuilder;
/// use dp_personalize::{ConvexLoss, OwnLevel, SharedParts, WeighedFit};
/// let mut user = UserSamplesBuilder::new(2, 8)?;
/// for k in 0..8_u8 {
///     let x = [f32::from(k % 3), f32::from(k)];
///     user.push(0, &x, 5.0 + 2.0 * x[0] - x[1])?;
/// }
/// let fit = WeighedFit::new(ConvexLoss::Squared, OwnLevel::Free)?;
/// let wrong: [&[f64]; 1] = [&[-40.0, 9.0]];
/// let shared = SharedParts { models: &wrong, ..SharedParts::default() };
/// let model = fit.fit(&shared, user.build().0.rows(0));
/// assert!((model.predict(&[1.0, 1.0]) - 6.0).abs() < 1e-2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WeighedFit {
    loss: ConvexLoss,
    level: OwnLevel,
    resolution: f64,
}

impl WeighedFit {
    /// # Errors
    /// [`crate::Error::Param`] for a loss other than the squared and the logistic one.
    pub fn new(loss: ConvexLoss, level: OwnLevel) -> Result<Self> {
        if let ConvexLoss::Huber { threshold } = loss {
            return Err(ParamError {
                name: "threshold",
                value: threshold,
                expected: "the squared or the logistic loss, whose likelihoods can be compared",
            }
            .into());
        }
        Ok(Self {
            loss,
            level,
            resolution: 0.0,
        })
    }

    /// The same without trust in differences between rows that are smaller than this in a feature, 0 or above: without a
    /// [`UserPrior`], one row is added to the usual length of rows in which every feature is off by it. Two rows that happen to be nearly alike, with different
    /// labels, would otherwise have a slope without bound.
    ///
    /// # Errors
    /// [`crate::Error::Param`] for a negative or infinite number.
    pub fn with_resolution(self, resolution: f64) -> Result<Self> {
        let resolution = dp_core::params::finite_non_negative("resolution", resolution)?;
        Ok(Self { resolution, ..self })
    }

    /// The user's model. If the rows carry no information, the last shared model unchanged, or
    /// zeros.
    ///
    /// # Panics
    /// When the rows or the shared parts have different dimensions.
    #[must_use]
    pub fn fit(&self, shared: &SharedParts<'_>, rows: SampleRows<'_>) -> PersonalModel {
        let own = OwnRows::read(rows, shared, *self);
        let model = own.weighed(shared);
        let is_finite = |model: &PersonalModel| {
            model.level().is_finite() && model.coefficients().iter().all(|t| t.is_finite())
        };
        let model = model
            .filter(is_finite)
            .unwrap_or_else(|| own.as_it_is(shared));
        if is_finite(&model) {
            return model;
        }
        PersonalModel::of_coefficients(vec![0.0; own.dim])
    }

    /// The user's votes on the prior of fits around shared models, in four vectors one after the other; none if the rows say nothing.
    pub(crate) fn model_votes(
        &self,
        shared: &SharedParts<'_>,
        rows: SampleRows<'_>,
    ) -> Option<Vec<f64>> {
        OwnRows::read(rows, shared, *self).model_votes(shared)
    }

    /// The user's votes on the prior, in three vectors one after the other; none if the rows say nothing.
    pub(crate) fn votes(&self, shared: &SharedParts<'_>, rows: SampleRows<'_>) -> Option<Vec<f64>> {
        OwnRows::read(rows, shared, *self).votes(shared)
    }
}

/// The rows of a user, centred if there is a level.
struct OwnRows {
    of: WeighedFit,
    dim: usize,
    x: Vec<f64>,
    /// For the squared loss unchanged, for the logistic loss 1 or -1.
    y: Vec<f64>,
    means: Vec<f64>,
    /// Scores of the shared models at every row.
    scores: Vec<Vec<f64>>,
    /// What was learned from all users, if it applies.
    prior: Option<UserPrior>,
    model_prior: Option<ModelPrior>,
    /// Number of shared models that are finite.
    n_models: usize,
}

/// Coefficients `T v` of an own part, with one coordinate for each direction of the rows.
struct Shape {
    uses_shared: bool,
    n_directions: usize,
    /// Singular values.
    sizes: Vec<f64>,
    /// Rows in these directions, one direction after the other: `sizes[i]` times a unit vector.
    columns: Vec<f64>,
    /// Coefficients of each direction, one after the other.
    back: Vec<f64>,
    /// Mean squared norm of a row.
    length: f64,
    /// The share of what features can explain that lies in the directions of the rows.
    seen: f64,
}

impl Shape {
    /// Sum of the squared norms of the rows.
    fn trace(&self) -> f64 {
        self.sizes.iter().map(|size| size * size).sum()
    }
}

/// What the level adds to a likelihood, and its value at the mean row.
struct LevelPart {
    quadratic: f64,
    log: f64,
    freedom: f64,
    level: f64,
}

/// One model for the user's rows.
struct Candidate {
    log_likelihood: f64,
    /// Index of the shared model and its weight; none without one.
    base: Option<(usize, f64)>,
    /// Index of the shape, and the own part in its directions.
    own: Option<(usize, Vec<f64>)>,
    /// The level at the mean row.
    level: f64,
    /// Indices of strength and of the level, or its share of the variance.
    place: (usize, usize),
}

impl Candidate {
    /// The kind of own part: none first, then the shapes.
    fn kind(&self) -> usize {
        self.own.as_ref().map_or(0, |(shape, _)| shape + 1)
    }

    /// The weight on a shared model: none first, then half of it.
    fn weight(&self) -> usize {
        self.base
            .map_or(0, |(_, c)| if c < 1.0 { 1 } else { WEIGHTS.len() })
    }
}

impl OwnRows {
    fn read(rows: SampleRows<'_>, shared: &SharedParts<'_>, of: WeighedFit) -> Self {
        let (mut x, mut y) = (Vec::new(), Vec::new());
        read_rows(rows, &mut x, &mut y);
        let dims = shared.models.iter().map(|w| w.len());
        let dims = dims.chain(shared.subspace.map(Subspace::dim));
        let dim = dims.chain(rows.iter().map(|(x, _)| x.len())).max();
        let dim = dim.unwrap_or_default();
        let same = shared.models.iter().all(|w| w.len() == dim)
            && shared.subspace.is_none_or(|of| of.dim() == dim)
            && x.len() == y.len() * dim;
        assert!(same, "rows and shared parts of different dimensions");
        if dim > MOST_ROWS && y.len() > MOST_ROWS {
            y.truncate(MOST_ROWS);
            x.truncate(MOST_ROWS * dim);
        }
        if of.loss == ConvexLoss::Logistic {
            y.iter_mut()
                .for_each(|y| *y = if *y > 0.0 { 1.0 } else { -1.0 });
        }
        let scores = |w: &&[f64]| x.chunks_exact(dim.max(1)).map(|x| inner(x, w)).collect();
        let scores = shared.models.iter().map(scores).collect();
        let means = match of.level {
            OwnLevel::None => vec![0.0; dim],
            _ => take_off_means(&mut x, dim.max(1)),
        };
        let has_prior =
            of.loss == ConvexLoss::Squared && shared.models.is_empty() && shared.subspace.is_some();
        Self {
            of,
            dim,
            x,
            y,
            means,
            scores,
            prior: shared.prior.filter(|_| has_prior).cloned(),
            n_models: shared.models.iter().filter(|w| is_finite(w)).count(),
            model_prior: shared
                .model_prior
                .filter(|_| !shared.models.is_empty() && shared.subspace.is_none())
                .cloned(),
        }
    }

    /// Where users' levels lie, if it is known and this one is free.
    fn level(&self) -> Option<UserLevels> {
        let prior = self.prior.as_ref()?;
        prior.levels().filter(|_| self.of.level == OwnLevel::Free)
    }

    fn rows(&self) -> impl Iterator<Item = &[f64]> {
        self.x.chunks_exact(self.dim.max(1))
    }

    /// All kinds of own part, and all candidates; none if the rows cannot tell them apart.
    fn candidates(&self, shared: &SharedParts<'_>) -> Option<(Vec<Shape>, Vec<Candidate>)> {
        let free = usize::from(self.of.level == OwnLevel::Free && self.level().is_none());
        if self.y.len() <= free {
            return None;
        }
        let shapes = self.shapes(shared.subspace);
        let mut candidates = Vec::new();
        let models = (0..shared.models.len()).filter(|at| is_finite(shared.models[*at]));
        let models = models.flat_map(|at| WEIGHTS.map(|c| Some((at, c))));
        for base in [None].into_iter().chain(models) {
            match self.of.loss {
                ConvexLoss::Logistic => self.logistic(base, &shapes, &mut candidates),
                _ => self.squared(base, &shapes, &mut candidates),
            }
        }
        candidates.retain(|of| of.log_likelihood.is_finite());
        Some((shapes, candidates))
    }

    /// The mean of all candidates; none if there are none.
    fn weighed(&self, shared: &SharedParts<'_>) -> Option<PersonalModel> {
        let (shapes, candidates) = self.candidates(shared)?;
        self.mean_of(shared, &shapes, &candidates)
    }

    /// Sums of the weights over candidates with the same kind, with the same strength and with the
    /// same share of levels.
    fn votes(&self, shared: &SharedParts<'_>) -> Option<Vec<f64>> {
        let (shapes, candidates) = self.candidates(shared)?;
        if shapes.first().is_none_or(|of| of.n_directions == 0) {
            return None; // rows that are alike say nothing of what features explain
        }
        let n_kinds = n_kinds(shared.subspace?.rank());
        let mut votes = vec![0.0; n_votes(self.dim, shared.subspace?.rank()) - self.dim - 1];
        for (of, weight) in candidates.iter().zip(self.weights(&shapes, &candidates)?) {
            let (strength, correlation) = of.place;
            votes[of.kind()] += weight;
            if of.own.is_some() {
                votes[n_kinds + strength] += weight;
            }
            if self.level().is_some() {
                votes[n_kinds + N_STRENGTHS + correlation] += weight;
            }
        }
        // the last part is the whole subspace
        let within = shapes.len() - N_NEAR;
        let length = |at: usize| shapes.get(at).map_or(0.0, Shape::trace);
        votes.push((length(within) / length(0)).min(1.0));
        let (m, d) = (self.y.len() as f64, self.dim as f64);
        let spread = |square: f64| (square / m).sqrt().min(1.0) / d.sqrt();
        votes.extend(self.squares().into_iter().map(spread));
        votes.iter().all(|vote| vote.is_finite()).then_some(votes)
    }

    /// Sums of the weights over candidates with the same weight on a shared model, with the same kind of own part, with the same strength and
    /// with the same level.
    fn model_votes(&self, shared: &SharedParts<'_>) -> Option<Vec<f64>> {
        let (shapes, candidates) = self.candidates(shared)?;
        let mut votes = vec![0.0; N_MODEL_VOTES];
        for (of, weight) in candidates.iter().zip(self.weights(&shapes, &candidates)?) {
            let (strength, level) = of.place;
            votes[of.weight()] += weight;
            votes[N_WEIGHTS + of.kind()] += weight;
            if of.own.is_some() {
                votes[N_WEIGHTS + N_PLAIN + strength] += weight;
            }
            votes[N_WEIGHTS + N_PLAIN + N_STRENGTHS + level] += weight;
        }
        votes.iter().all(|vote| vote.is_finite()).then_some(votes)
    }

    /// Weights by prior and likelihood, with a sum of 1.
    fn weights(&self, shapes: &[Shape], candidates: &[Candidate]) -> Option<Vec<f64>> {
        let is_shared = |of: &Candidate| {
            let own = of.own.as_ref();
            of.base.is_some() || own.is_some_and(|(shape, _)| shapes[*shape].uses_shared)
        };
        let n_shared = candidates.iter().filter(|of| is_shared(of)).count();
        let n_own = candidates.len() - n_shared;
        let n_models = self.n_models.max(1) as f64;
        let log = |of: &Candidate| {
            let (strength, level) = of.place;
            let prior = match (&self.prior, &self.model_prior) {
                (_, Some(prior)) => {
                    let among = of.base.map_or(1.0, |_| n_models);
                    let of_own = of.own.as_ref().map_or(1.0, |_| prior.strengths[strength]);
                    let of_level = prior.levels[level];
                    let of_kind = prior.kinds[of.kind()];
                    (prior.weights[of.weight()] / among * of_kind * of_own * of_level).ln()
                }
                (Some(prior), None) => {
                    let of_own = of.own.as_ref().map_or(1.0, |_| prior.strengths()[strength]);
                    let of_level = self.level().map_or(1.0, |_| prior.correlations()[level]);
                    (prior.kinds()[of.kind()] * of_own * of_level).ln()
                }
                (None, None) => {
                    let of_own = of.own.as_ref();
                    let of_own = of_own.map_or(1.0, |_| slow_decay(SIGNALS[strength]));
                    let n = if is_shared(of) { n_shared } else { n_own };
                    of_own.ln() - (n as f64).ln()
                }
            };
            of.log_likelihood + prior
        };
        let logs: Vec<f64> = candidates.iter().map(log).collect();
        let best = logs.iter().copied().max_by(f64::total_cmp)?;
        let weights: Vec<f64> = logs.iter().map(|log| (log - best).exp()).collect();
        let total: f64 = weights.iter().sum();
        Some(weights.into_iter().map(|weight| weight / total).collect())
    }

    /// Their mean, weighted by prior and likelihood.
    fn mean_of(
        &self,
        shared: &SharedParts<'_>,
        shapes: &[Shape],
        candidates: &[Candidate],
    ) -> Option<PersonalModel> {
        let weights = self.weights(shapes, candidates)?;
        let mut inside: Vec<_> = shapes.iter().map(|of| vec![0.0; of.n_directions]).collect();
        let (mut coefficients, mut level) = (vec![0.0; self.dim], 0.0);
        for (of, weight) in candidates.iter().zip(weights) {
            level += weight * of.level;
            if let Some((model, c)) = of.base {
                let w = coefficients.iter_mut().zip(shared.models[model]);
                w.for_each(|(t, w)| *t += weight * c * w);
            }
            if let Some((shape, v)) = &of.own {
                let sums = inside[*shape].iter_mut().zip(v);
                sums.for_each(|(sum, v)| *sum += weight * v);
            }
        }
        for (shape, v) in shapes.iter().zip(&inside) {
            for (direction, v) in shape.back.chunks_exact(self.dim.max(1)).zip(v) {
                level -= v * inner(direction, &self.means);
                let both = coefficients.iter_mut().zip(direction);
                both.for_each(|(t, b)| *t += v * b);
            }
        }
        Some(PersonalModel::of_coefficients(coefficients).at_level(level))
    }

    /// The last shared model, or zeros; with a free level, the level that follows from the rows.
    fn as_it_is(&self, shared: &SharedParts<'_>) -> PersonalModel {
        let last = shared.models.last();
        let coefficients = last.map_or_else(|| vec![0.0; self.dim], |w| w.to_vec());
        let model = PersonalModel::of_coefficients(coefficients);
        if let Some(prior) = self.prior.as_ref().filter(|_| self.level().is_some()) {
            let mean = self.y.iter().sum::<f64>() / self.y.len().max(1) as f64;
            return model.at_level(prior.shrunk(mean, self.y.len()));
        }
        if self.of.level != OwnLevel::Free || self.y.is_empty() {
            return model;
        }
        let scores = self.scores.last();
        let left = self.y.iter().enumerate();
        let left = left.map(|(i, y)| y - scores.map_or(0.0, |scores| scores[i]));
        let level = left.sum::<f64>() / self.y.len() as f64;
        model.at_level(level)
    }

    /// Sums of the squares of each feature.
    fn squares(&self) -> Vec<f64> {
        let mut squares = vec![0.0; self.dim];
        for x in self.rows() {
            squares.iter_mut().zip(x).for_each(|(s, x)| *s += x * x);
        }
        squares
    }

    fn shapes(&self, subspace: Option<&Subspace>) -> Vec<Shape> {
        let (m, d) = (self.y.len() as f64, self.dim);
        let squares = self.squares();
        let largest = squares.iter().copied().fold(0.0, f64::max);
        // with a prior, one row of usual length is added; unless it is known how each feature varies, all do alike
        let total = squares.iter().sum::<f64>() / m;
        let spreads = self.prior.as_ref().and_then(UserPrior::spreads);
        let smallest = self.of.resolution.powi(2);
        let known = match self.prior {
            Some(_) => spreads.map(|spreads| spreads.iter().sum::<f64>()),
            None => (smallest > 0.0).then_some(smallest * d as f64),
        };
        let length = known.unwrap_or(total);
        let has_more = self.prior.is_some() || smallest > 0.0;
        let more = has_more.then(|| match spreads {
            Some(spreads) if spreads.len() == d => spreads.to_vec(),
            _ => vec![length / d as f64; d],
        });
        let scale = |(j, &s): (usize, &f64)| {
            if s > largest * NEGLIGIBLE * NEGLIGIBLE {
                (m / (s + more.as_ref().map_or(0.0, |more| more[j]))).sqrt()
            } else {
                0.0
            }
        };
        let scales: Vec<f64> = squares.iter().enumerate().map(scale).collect();
        let scaled = |x: &mut [f64]| x.iter_mut().zip(&scales).for_each(|(x, s)| *x *= s);
        let usual = more.as_ref().map(|more| {
            let of_each = scales.iter().zip(more);
            of_each.map(|(scale, more)| scale * scale * more).sum()
        });
        let mut shapes = vec![
            self.shape(false, (d as f64, known), &|_| ()),
            self.shape(false, (d as f64, usual), &scaled),
        ];
        // the prior of an earlier version knows the whole subspace only
        let n_known = self.prior.as_ref().map_or(usize::MAX, UserPrior::n_parts);
        let known = subspace.into_iter().flat_map(|of| {
            let n_unknown = of.parts().count().saturating_sub(n_known);
            of.parts().skip(n_unknown).map(move |rank| (of, rank))
        });
        for (subspace, rank) in known {
            // (a I + b U U^T) x
            let pulled = |x: &mut [f64], a: f64, b: f64| {
                let mut inside = vec![0.0; rank];
                for (x, u) in x.iter().zip(subspace.basis().chunks_exact(subspace.rank())) {
                    inside.iter_mut().zip(u).for_each(|(z, u)| *z += x * u);
                }
                for (x, u) in x
                    .iter_mut()
                    .zip(subspace.basis().chunks_exact(subspace.rank()))
                {
                    *x = a * *x + b * inner(&inside, &u[..rank]);
                }
            };
            let (inside, outside) = (rank as f64, (d - rank) as f64);
            // of a part of the subspace, its part of what is usual
            let of_all = |share: f64| share * inside / subspace.rank() as f64;
            let known = self.prior.as_ref().and_then(UserPrior::share);
            let share = has_more.then(|| known.map_or(inside / d as f64, of_all));
            let usual = |r: f64, s: f64| {
                share.map(|share| (r * r * share + s * s * (1.0 - share)) * length)
            };
            let within = (inside, usual(1.0, 0.0));
            shapes.push(self.shape(true, within, &|x| pulled(x, 0.0, 1.0)));
            let tilted = |r: f64| {
                let trace = inside * r * r + outside;
                let n = trace * trace / (inside * r.powi(4) + outside);
                self.shape(true, (n, usual(r, 1.0)), &|x| pulled(x, 1.0, r - 1.0))
            };
            shapes.extend(TILTS.map(tilted));
        }
        shapes
    }

    /// The rows transformed by a symmetric `T` with `n_free` directions, `(tr T^2)^2 / tr T^4`. Where few rows may happen to be alike in
    /// what `T` keeps, `usual` is the length of rows of the same total length without a preferred direction; it counts as much as one row.
    fn shape(
        &self,
        uses_shared: bool,
        (n_free, usual): (f64, Option<f64>),
        through: &dyn Fn(&mut [f64]),
    ) -> Shape {
        let (m, d) = (self.y.len(), self.dim);
        let mut a = self.x.clone();
        a.chunks_exact_mut(d.max(1)).for_each(through);
        let row = |i: usize| &a[i * d..(i + 1) * d];
        let in_rows = m < d;
        let n = m.min(d);
        let mut products = vec![0.0; n * n];
        if in_rows {
            for i in 0..n {
                for k in i..n {
                    products[i * n + k] = inner(row(i), row(k));
                }
            }
        } else {
            for x in a.chunks_exact(d.max(1)) {
                for (i, &xi) in x.iter().enumerate() {
                    let line = products[i * n + i..(i + 1) * n].iter_mut().zip(&x[i..]);
                    line.for_each(|(p, xk)| *p += xi * xk);
                }
            }
        }
        let trace: f64 = products.iter().step_by(n + 1).sum();
        let own = trace / m as f64;
        let mut shape = Shape {
            uses_shared,
            n_directions: 0,
            sizes: Vec::new(),
            columns: Vec::new(),
            back: Vec::new(),
            length: usual.map_or(own, |usual| own + usual / m as f64),
            seen: 0.0,
        };
        let eigen = match symmetric_eigen(&products, n) {
            Ok(eigen) if trace.is_normal() => eigen,
            _ => return shape,
        };
        let found = eigen
            .values
            .iter()
            .zip(eigen.vectors.chunks_exact(n.max(1)));
        for (&square, vector) in found.filter(|of| *of.0 > NEGLIGIBLE * trace) {
            let size = square.sqrt();
            let mut back = vec![0.0; d];
            if in_rows {
                shape.columns.extend(vector.iter().map(|u| u * size));
                for (u, x) in vector.iter().zip(a.chunks_exact(d)) {
                    back.iter_mut().zip(x).for_each(|(b, x)| *b += u * x / size);
                }
            } else {
                shape.columns.extend((0..m).map(|i| inner(row(i), vector)));
                back.copy_from_slice(vector);
            }
            through(&mut back);
            shape.back.extend(back);
            shape.sizes.push(size);
            shape.n_directions += 1;
        }
        shape.seen = (shape.n_directions as f64 / n_free).min(1.0);
        shape
    }

    /// `c X w`.
    fn offsets(&self, base: Option<(usize, f64)>) -> Vec<f64> {
        base.map_or_else(
            || vec![0.0; self.y.len()],
            |(model, c)| self.scores[model].iter().map(|s| c * s).collect(),
        )
    }

    /// All own parts for this shared part, by Gaussian likelihoods.
    fn squared(&self, base: Option<(usize, f64)>, shapes: &[Shape], out: &mut Vec<Candidate>) {
        let m = self.y.len() as f64;
        let offsets = self.offsets(base);
        let mut left: Vec<f64> = self.y.iter().zip(&offsets).map(|(y, o)| y - o).collect();
        // labels have single precision
        let floor = NEGLIGIBLE * inner(&self.y, &self.y) + f64::MIN_POSITIVE;
        let as_it_is = -0.5 * m * (inner(&left, &left) + floor).ln();
        let mean = match self.of.level {
            OwnLevel::None => 0.0,
            _ => take_off_means(&mut left, 1)[0],
        };
        let apart = floor + inner(&left, &left);
        let mut push = |log_likelihood, own, level, place| {
            out.push(Candidate {
                log_likelihood,
                base,
                own,
                level,
                place,
            });
        };
        if self.of.level == OwnLevel::Near && base.is_some() {
            push(as_it_is, None, 0.0, (0, LEVELS.len()));
        }
        if !(apart + mean * mean).is_finite() {
            return; // a shared model that overflows
        }
        for (at, of) in self.levels_of(mean, 0.0, 0.0).into_iter().enumerate() {
            let log = of.log - 0.5 * of.freedom * (apart + of.quadratic).ln();
            push(log, None, of.level, (0, at));
        }
        for (at, shape) in shapes.iter().enumerate().filter(|of| of.1.n_directions > 0) {
            let columns = shape.columns.chunks_exact(self.y.len()).zip(&shape.sizes);
            let pulls: Vec<f64> = columns.map(|(c, size)| inner(c, &left) / size).collect();
            for (strength, signal) in SIGNALS.into_iter().enumerate() {
                let ridge = shape.length / signal;
                let (mut explained, mut logs, mut known) = (0.0, 0.0, 0.0);
                let directions = shape.sizes.iter().zip(&pulls);
                let own = directions.map(|(size, pull)| {
                    let square = size * size;
                    let kept = square / (square + ridge);
                    explained += pull * pull * kept;
                    logs += (square / ridge).ln_1p();
                    known += kept * square;
                    pull * size / (square + ridge)
                });
                let own: Vec<f64> = own.collect();
                let known = shape.seen * known / shape.trace();
                for (which, of) in self.levels_of(mean, signal, known).into_iter().enumerate() {
                    let quadratic = apart + of.quadratic;
                    let quadratic = if explained < quadratic {
                        (quadratic - explained).max(floor)
                    } else {
                        floor
                    };
                    let log = of.log - 0.5 * logs - 0.5 * of.freedom * quadratic.ln();
                    push(log, Some((at, own.clone())), of.level, (strength, which));
                }
            }
        }
    }

    /// The levels that are possible at the mean row, given the mean of the labels and an own part that explains `signal` noise variances of
    /// a score, of which the rows determine the share `known`.
    ///
    /// With a prior `N(mu, tau^2)` of levels at average features, in noise variances:
    ///
    /// ```text
    /// mean of m labels ~ N(mu, A + B),  A = tau^2,  B = (1 + s (1 - known)) / m
    /// ```
    ///
    /// since the mean row of the user is not average, by a score of which nothing is known but the variance. `tau^2` is in units of the
    /// variance of the user's labels, which is `1 + s`.
    fn levels_of(&self, mean: f64, signal: f64, known: f64) -> Vec<LevelPart> {
        let m = self.y.len() as f64;
        let near = |centre: f64, between: f64, within: f64| {
            let variance = m * (between + within);
            let off = mean - centre;
            LevelPart {
                quadratic: m * off * off / variance,
                log: -0.5 * variance.ln(),
                freedom: m,
                level: centre + off * between / (between + within),
            }
        };
        let flat = |level: f64, freedom: f64| LevelPart {
            quadratic: 0.0,
            log: 0.0,
            freedom,
            level,
        };
        match (self.of.level, self.level()) {
            (OwnLevel::None, _) => vec![flat(0.0, m)],
            (OwnLevel::Near, _) => LEVELS.map(|variance| near(0.0, variance, 1.0 / m)).into(),
            (OwnLevel::Free, None) => vec![flat(mean, m - 1.0)],
            (OwnLevel::Free, Some(levels)) => {
                let within = signal.mul_add(1.0 - known.min(1.0), 1.0) / m;
                let usual = levels
                    .deviation
                    .map(|s| VARIANCE_FREEDOM * s * s / (1.0 + signal));
                let of = |ratio| {
                    let mut of = near(levels.mean, ratio * (1.0 + signal), within);
                    if let Some(usual) = usual {
                        of.quadratic += usual;
                        of.log += 0.5 * VARIANCE_FREEDOM * usual.ln();
                        of.freedom += VARIANCE_FREEDOM;
                    }
                    of
                };
                UserPrior::ratios().map(of).collect()
            }
        }
    }

    fn problem<'a>(
        &'a self,
        offsets: &'a [f64],
        columns: &'a [f64],
        penalties: Vec<f64>,
    ) -> Logistic<'a> {
        Logistic {
            labels: &self.y,
            offsets,
            columns,
            penalties,
        }
    }

    /// All own parts for this shared part, by Laplace's approximation.
    fn logistic(&self, base: Option<(usize, f64)>, shapes: &[Shape], out: &mut Vec<Candidate>) {
        let offsets = self.offsets(base);
        let has_level = self.of.level != OwnLevel::None;
        let mut push = |fitted: Option<Fitted>, shape: Option<usize>, place: (usize, usize)| {
            let Some(Fitted { mut own, log }) = fitted else {
                return;
            };
            let n = shape.map_or(0, |at| shapes[at].n_directions);
            out.push(Candidate {
                log_likelihood: log,
                base,
                level: own.get(n).copied().unwrap_or(0.0),
                own: shape.map(|at| {
                    own.truncate(n);
                    (at, own)
                }),
                place,
            });
        };
        if base.is_some() && has_level {
            push(
                self.problem(&offsets, &[], Vec::new()).fit(Vec::new()),
                None,
                (0, LEVELS.len()),
            );
        }
        let level_column = vec![1.0; if has_level { self.y.len() } else { 0 }];
        let levels = match has_level {
            true => LOGISTIC_LEVELS
                .map(|variance| Some(1.0 / variance))
                .to_vec(),
            false => vec![None],
        };
        for (which, level) in levels.iter().enumerate() {
            let alone = self.problem(&offsets, &level_column, level.iter().copied().collect());
            push(
                alone.fit(vec![0.0; alone.penalties.len()]),
                None,
                (0, which),
            );
        }
        for (at, shape) in shapes.iter().enumerate().filter(|of| of.1.n_directions > 0) {
            let columns = [&shape.columns[..], &level_column].concat();
            // from one candidate to the next the minimiser moves little
            let mut start = vec![0.0; shape.n_directions + usize::from(has_level)];
            for (strength, signal) in LOGISTIC_SIGNALS.into_iter().enumerate() {
                for (which, level) in levels.iter().enumerate() {
                    let mut penalties = vec![shape.length / signal; shape.n_directions];
                    penalties.extend(level);
                    let fitted = self.problem(&offsets, &columns, penalties);
                    let fitted = fitted.fit(start.clone());
                    if let Some(fitted) = &fitted {
                        start.clone_from(&fitted.own);
                    }
                    push(fitted, Some(at), (strength, which));
                }
            }
        }
    }
}

/// `min over v  sum_i log(1 + exp(-y_i (o_i + <a_i, v>))) + sum_k p_k v_k^2 / 2`.
struct Logistic<'a> {
    labels: &'a [f64],
    offsets: &'a [f64],
    /// `a`, one coordinate after the other.
    columns: &'a [f64],
    penalties: Vec<f64>,
}

struct Fitted {
    own: Vec<f64>,
    /// Laplace's approximation of the log marginal likelihood.
    log: f64,
}

impl Logistic<'_> {
    fn columns(&self) -> impl Iterator<Item = &[f64]> {
        self.columns.chunks_exact(self.labels.len().max(1))
    }

    /// Margins `y_i s_i`, and the objective.
    fn at(&self, own: &[f64]) -> (Vec<f64>, f64) {
        let mut margins = self.offsets.to_vec();
        for (column, v) in self.columns().zip(own) {
            let sums = margins.iter_mut().zip(column);
            sums.for_each(|(s, a)| *s += a * v);
        }
        margins
            .iter_mut()
            .zip(self.labels)
            .for_each(|(s, y)| *s *= y);
        // log(1 + exp(-s)) without overflow
        let loss = |s: &f64| (-s.abs()).exp().ln_1p() + (-s).max(0.0);
        let squares = self.penalties.iter().zip(own).map(|(p, v)| p * v * v);
        let value = margins.iter().map(loss).sum::<f64>() + 0.5 * squares.sum::<f64>();
        (margins, value)
    }

    /// Minus the gradient, and the Hessian's upper triangle.
    fn slopes(&self, own: &[f64], margins: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let n = self.penalties.len();
        let misses = margins.iter().map(|s| 1.0 / (1.0 + s.exp()));
        let misses: Vec<f64> = misses.collect();
        let pull: Vec<f64> = misses.iter().zip(self.labels).map(|(p, y)| p * y).collect();
        let curvature: Vec<f64> = misses.iter().map(|p| p * (1.0 - p)).collect();
        let (mut down, mut hessian) = (Vec::with_capacity(n), vec![0.0; n * n]);
        for (i, column) in self.columns().enumerate() {
            down.push(inner(column, &pull) - self.penalties[i] * own[i]);
            let weighed: Vec<f64> = column.iter().zip(&curvature).map(|(a, w)| a * w).collect();
            for (k, other) in self.columns().enumerate().skip(i) {
                hessian[i * n + k] = inner(&weighed, other);
            }
            hessian[i * n + i] += self.penalties[i];
        }
        (down, hessian)
    }

    /// Newton's method with step halving. None if numbers are not finite or the minimum is not
    /// reached.
    fn fit(&self, mut own: Vec<f64>) -> Option<Fitted> {
        let n = self.penalties.len();
        let (mut margins, mut value) = self.at(&own);
        let mut stuck = false;
        for _ in 0..NEWTON_STEPS {
            let (down, mut factor) = self.slopes(&own, &margins);
            if n > 0 {
                cholesky_in_place(&mut factor, n).ok()?;
            }
            let mut step = down.clone();
            if n > 0 {
                cholesky_solve_in_place(&factor, n, &mut step).ok()?;
            }
            let decrement = inner(&down, &step);
            if decrement <= DECREMENT || stuck {
                let pivots = factor.iter().step_by(n + 1).map(|pivot| pivot.ln());
                let priors = self.penalties.iter().map(|p| 0.5 * p.ln());
                let log = priors.sum::<f64>() - value - pivots.sum::<f64>();
                return Some(Fitted { own, log }).filter(|of| of.log.is_finite());
            }
            let mut length = 1.0;
            loop {
                let along = own.iter().zip(&step).map(|(v, s)| v + length * s);
                let next: Vec<f64> = along.collect();
                let (found, lower) = self.at(&next);
                if lower <= value - 1e-4 * length * decrement {
                    (own, margins, value) = (next, found, lower);
                    break;
                }
                length *= 0.5;
                if length < 1e-9 {
                    // either as close as rounding allows, or failed
                    stuck = decrement < 1e-6;
                    if stuck {
                        break;
                    }
                    return None;
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::cast_possible_truncation, reason = "rows of made data are f32")]

    use dp_core::UserSamplesBuilder;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha20Rng;

    use super::*;
    use crate::Provenance;

    fn own_rows(
        rows: &dp_core::UserSamples,
        loss: ConvexLoss,
        level: OwnLevel,
        shared: &SharedParts<'_>,
    ) -> OwnRows {
        let of = WeighedFit::new(loss, level).unwrap();
        OwnRows::read(rows.rows(0), shared, of)
    }

    fn samples(rows: &[(Vec<f32>, f32)]) -> dp_core::UserSamples {
        let mut builder = UserSamplesBuilder::new(rows[0].0.len(), rows.len()).unwrap();
        for (x, y) in rows {
            builder.push(0, x, *y).unwrap();
        }
        builder.build().0
    }

    /// Rows `y = 3 + <slopes, x> + noise`.
    fn made(seed: u64, n: usize, slopes: &[f64], noise: f64) -> Vec<(Vec<f32>, f32)> {
        let rng = &mut ChaCha20Rng::seed_from_u64(seed);
        let mut row = || {
            let x: Vec<f64> = slopes.iter().map(|_| rng.random_range(-1.0..1.0)).collect();
            let y = 3.0 + inner(&x, slopes) + noise * rng.random_range(-1.7..1.7);
            (x.iter().map(|&x| x as f32).collect(), y as f32)
        };
        (0..n).map(|_| row()).collect()
    }

    fn determinant_and_solution(matrix: &[f64], y: &[f64]) -> (f64, Vec<f64>) {
        let (mut factor, mut solution) = (matrix.to_vec(), y.to_vec());
        cholesky_in_place(&mut factor, y.len()).unwrap();
        cholesky_solve_in_place(&factor, y.len(), &mut solution).unwrap();
        let log: f64 = factor.iter().step_by(y.len() + 1).map(|p| p.ln()).sum();
        (2.0 * log, solution)
    }

    /// For every candidate without a shared part:
    /// `-log det(I + A A^T / l + k 1 1^T) / 2 - m/2 log(y^T (...)^-1 y)`, and `E[v | y]`, from
    /// dense matrices.
    #[test]
    fn likelihoods_and_means_are_those_of_the_gaussian_prior() {
        for n in [3, 9] {
            let data = samples(&made(1, n, &[2.0, -1.0, 0.3, 0.0, 0.8], 0.5));
            let nothing = SharedParts::default();
            let own = own_rows(&data, ConvexLoss::Squared, OwnLevel::Near, &nothing);
            let shapes = own.shapes(None);
            let mut found = Vec::new();
            own.squared(None, &shapes, &mut found);
            assert_eq!(found.len(), (1 + 2 * SIGNALS.len()) * LEVELS.len());
            for of in &found[LEVELS.len()..] {
                let (signal, variance) = (SIGNALS[of.place.0], LEVELS[of.place.1]);
                let (at, v) = of.own.as_ref().unwrap();
                let shape = &shapes[*at];
                let ridge = shape.length / signal;
                let mut kernel = vec![variance; n * n];
                kernel.iter_mut().step_by(n + 1).for_each(|k| *k += 1.0);
                for column in shape.columns.chunks_exact(n) {
                    for (i, line) in kernel.chunks_exact_mut(n).enumerate() {
                        let line = line.iter_mut().zip(column);
                        line.for_each(|(k, c)| *k += column[i] * c / ridge);
                    }
                }
                let (log, dual) = determinant_and_solution(&kernel, &own.y);
                let expected = -0.5 * log - 0.5 * n as f64 * inner(&dual, &own.y).ln();
                assert!((of.log_likelihood - expected).abs() < 1e-6, "{expected}");
                for (v, column) in v.iter().zip(shape.columns.chunks_exact(n)) {
                    assert!((v - inner(column, &dual) / ridge).abs() < 1e-6);
                }
                assert!((of.level - variance * dual.iter().sum::<f64>()).abs() < 1e-7);
            }
        }
    }

    /// The same with a prior of levels and of the variance of labels, of which the rows tell what the directions of the own part leave:
    /// covariance `I + A A^T / l + (t + s (1 - known) / m) 1 1^T`, with two more degrees of freedom.
    #[test]
    fn likelihoods_with_known_levels_are_those_of_the_gaussian_prior() {
        let data = samples(&made(1, 5, &[2.0, -1.0, 0.3], 0.5));
        let plane = Subspace::spanned_by(3, 1, &[1.0, 0.4, 0.2], Provenance::NonPrivate).unwrap();
        let levels = UserLevels {
            mean: 1.0,
            deviation: Some(0.7),
        };
        let prior = UserPrior::even(1, Some(levels));
        let shared = SharedParts {
            subspace: Some(&plane),
            prior: Some(&prior),
            ..SharedParts::default()
        };
        let own = own_rows(&data, ConvexLoss::Squared, OwnLevel::Free, &shared);
        let shapes = own.shapes(Some(&plane));
        let mut found = Vec::new();
        own.squared(None, &shapes, &mut found);
        let ratios: Vec<f64> = UserPrior::ratios().collect();
        assert_eq!(found.len(), (1 + 6 * SIGNALS.len()) * ratios.len());
        let n = 5;
        for of in &found {
            let (strength, correlation) = of.place;
            let mut signal = 0.0;
            let mut kernel = vec![0.0; n * n];
            kernel.iter_mut().step_by(n + 1).for_each(|k| *k += 1.0);
            let mut left = 1.0;
            if let Some((at, _)) = of.own {
                let shape = &shapes[at];
                signal = SIGNALS[strength];
                let ridge = shape.length / signal;
                for column in shape.columns.chunks_exact(n) {
                    for (i, line) in kernel.chunks_exact_mut(n).enumerate() {
                        let line = line.iter_mut().zip(column);
                        line.for_each(|(k, c)| *k += column[i] * c / ridge);
                    }
                }
                let squares = shape.sizes.iter().map(|size| size * size);
                let kept: f64 = squares.map(|q| q * q / (q + ridge)).sum();
                left = 1.0 - shape.seen * kept / shape.trace();
            }
            let between = ratios[correlation] * (1.0 + signal);
            let within = signal * left / n as f64;
            kernel.iter_mut().for_each(|k| *k += between + within);
            let off: Vec<f64> = own.y.iter().map(|y| y - levels.mean).collect();
            let (log, dual) = determinant_and_solution(&kernel, &off);
            let usual = VARIANCE_FREEDOM * 0.49 / (1.0 + signal);
            let quadratic = inner(&dual, &off) + usual;
            let freedom = n as f64 + VARIANCE_FREEDOM;
            let expected =
                -0.5 * log - 0.5 * freedom * quadratic.ln() + 0.5 * VARIANCE_FREEDOM * usual.ln();
            // rounding of the dense matrix grows with its condition number
            let rounding = 1e-14 * (between * n as f64 + signal) + 1e-9;
            let off_by = (of.log_likelihood - expected).abs();
            assert!(
                off_by < 1e2 * rounding,
                "{expected} {off_by} {signal} {between}"
            );
            let level = levels.mean + between * dual.iter().sum::<f64>();
            assert!((of.level - level).abs() < 1e2 * rounding * (1.0 + between));
        }
    }

    /// Rows that are alike have no direction, so their user does not say how much features explain.
    #[test]
    fn users_vote_only_with_rows_that_differ() {
        let plane = Subspace::spanned_by(2, 1, &[1.0, 0.4], Provenance::NonPrivate).unwrap();
        let prior = UserPrior::even(1, None);
        let shared = SharedParts {
            subspace: Some(&plane),
            prior: Some(&prior),
            ..SharedParts::default()
        };
        for level in [OwnLevel::Free, OwnLevel::Near] {
            let fit = WeighedFit::new(ConvexLoss::Squared, level).unwrap();
            let votes = |rows: &[(Vec<f32>, f32)]| fit.votes(&shared, samples(rows).rows(0));
            let row = (vec![1.0, 2.0], 0.5);
            assert!(
                votes(std::slice::from_ref(&row)).is_none()
                    && votes(&[row.clone(), row.clone()]).is_none()
            );
            let found = votes(&[row, (vec![2.0, 1.0], 0.1), (vec![0.0, 1.0], 0.7)]).unwrap();
            let (kinds, strengths) = found.split_at(n_kinds(1));
            assert!((kinds.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            let own = strengths[..N_STRENGTHS].iter().sum::<f64>();
            assert!((own + kinds[0] - 1.0).abs() < 1e-9);
        }
    }

    /// Features at the ends of their ranges, and beyond, reach the bound on the part of the votes that says how they vary.
    #[test]
    fn votes_on_spreads_have_norm_one_at_most() {
        let plane = Subspace::spanned_by(3, 1, &[1.0, 0.4, 0.2], Provenance::NonPrivate).unwrap();
        let prior = UserPrior::even(1, None);
        let shared = SharedParts {
            subspace: Some(&plane),
            prior: Some(&prior),
            ..SharedParts::default()
        };
        let fit = WeighedFit::new(ConvexLoss::Squared, OwnLevel::Free).unwrap();
        for end in [1.0_f32, 7.0] {
            let rows = [1.0, -1.0].map(|side| (vec![side * end; 3], side));
            let votes = fit.votes(&shared, samples(&rows).rows(0)).unwrap();
            let spreads = &votes[votes.len() - 3..];
            assert!((inner(spreads, spreads) - 1.0).abs() < 1e-9, "{spreads:?}");
        }
    }

    /// Two rows may happen to be alike in a feature, in the subspace or altogether: slopes do not
    /// grow without bound as they come closer.
    #[test]
    fn slopes_stay_bounded_however_alike_two_rows_are() {
        let plane = Subspace::spanned_by(2, 1, &[0.3, 1.0], Provenance::NonPrivate).unwrap();
        let levels = UserLevels {
            mean: 0.0,
            deviation: Some(0.5),
        };
        let prior = UserPrior::even(1, Some(levels)).with_spreads(&[0.25; 2]);
        let shared = SharedParts {
            subspace: Some(&plane),
            prior: Some(&prior),
            ..SharedParts::default()
        };
        let fit = WeighedFit::new(ConvexLoss::Squared, OwnLevel::Free).unwrap();
        for apart in [1.0, 0.1, 0.01, 1e-3, 1e-5] {
            for other in [0.6, apart] {
                let rows = [(vec![0.0, 0.0], -0.5), (vec![other, apart], 0.5)];
                // a row of zeros is no row
                let rows = rows.map(|(x, y)| (x.iter().map(|x| x + 0.1).collect(), y));
                let model = fit.fit(&shared, samples(&rows).rows(0));
                let largest = model
                    .coefficients()
                    .iter()
                    .fold(0.0_f64, |a, b| a.max(b.abs()));
                assert!(largest < 1.0, "{apart} {other}: {largest}");
            }
        }
    }

    /// Without a prior, for both losses: of two rows that are nearly alike a slope would be any.
    #[test]
    fn rows_closer_than_the_resolution_say_little_of_slopes() {
        let plane = Subspace::spanned_by(2, 1, &[0.3, 1.0], Provenance::NonPrivate).unwrap();
        let shared = SharedParts {
            subspace: Some(&plane),
            ..SharedParts::default()
        };
        for loss in [ConvexLoss::Squared, ConvexLoss::Logistic] {
            let fit = WeighedFit::new(loss, OwnLevel::Near).unwrap();
            assert!(fit.with_resolution(-0.1).is_err());
            let largest = |fit: WeighedFit, apart: f32| {
                let rows =
                    [(0.0_f32, -1.0_f32), (1.0, 1.0), (0.0, 0.6), (1.0, 0.9)].map(|(x, y)| {
                        let x = x * apart;
                        (vec![0.1 + x, 0.1 + x], y)
                    });
                let model = fit.fit(&shared, samples(&rows).rows(0));
                model
                    .coefficients()
                    .iter()
                    .fold(0.0_f64, |a, b| a.max(b.abs()))
            };
            let bounded = fit.with_resolution(0.05).unwrap();
            for apart in [1e-3, 1e-5] {
                let (with, without) = (largest(bounded, apart), largest(fit, apart));
                assert!(with < 0.1 * without, "{loss:?} {apart}: {with} {without}");
            }
            // rows that differ by more are believed as before
            let ratio = largest(bounded, 1.0) / largest(fit, 1.0);
            assert!((0.9..1.1).contains(&ratio), "{loss:?}: {ratio}");
        }
    }

    /// Users of whom nothing but the mean of the labels is known, and users with many rows.
    #[test]
    fn levels_of_users_with_few_rows_are_near_those_of_others() {
        let plane = Subspace::spanned_by(3, 1, &[1.0, 0.4, 0.2], Provenance::NonPrivate).unwrap();
        let level = |mean: f64, n: usize| {
            let levels = UserLevels {
                mean,
                deviation: Some(1.0),
            };
            let prior = UserPrior::even(1, Some(levels));
            let shared = SharedParts {
                subspace: Some(&plane),
                prior: Some(&prior),
                ..SharedParts::default()
            };
            let fit = WeighedFit::new(ConvexLoss::Squared, OwnLevel::Free).unwrap();
            // labels are 3 and noise
            let data = samples(&made(7, n, &[0.0, 0.0, 0.0], 1.0));
            fit.fit(&shared, data.rows(0)).predict(&[0.0; 3])
        };
        assert!((level(2.0, 200) - 3.0).abs() < 0.3);
        let few = [level(2.0, 1), level(2.0, 3)];
        assert!(
            few.iter().all(|level| (2.0..3.6).contains(level)),
            "{few:?}"
        );
        // far from all others, a user is believed
        assert!(level(-40.0, 3) > 1.0);
        let prior = UserPrior::even(
            1,
            Some(UserLevels {
                mean: 2.0,
                deviation: None,
            }),
        );
        assert!((prior.shrunk(7.0, 0) - 2.0).abs() < 1e-12);
        // the mean of c n / (1 - c + c n)
        let shares = [0.05, 0.2, 0.5, 0.8, 0.95, 0.9999];
        let share = |n: f64| {
            shares
                .iter()
                .map(|c| n * c / (1.0 - c + n * c))
                .sum::<f64>()
                / 6.0
        };
        assert!((prior.shrunk(7.0, 3) - (2.0 + 5.0 * share(3.0))).abs() < 1e-9);
    }

    /// Computed through rows and through features, all shapes reproduce the rows that they were
    /// computed from.
    #[test]
    fn directions_give_the_rows_back() {
        let u = [1.0, 0.2, 0.4, 1.0, -0.3, 0.5, 0.1, 0.7];
        let plane = Subspace::spanned_by(4, 2, &u, Provenance::NonPrivate).unwrap();
        for n in [3, 12] {
            let data = samples(&made(2, n, &[1.0, 2.0, 3.0, 4.0], 0.1));
            let shared = SharedParts {
                subspace: Some(&plane),
                ..SharedParts::default()
            };
            let own = own_rows(&data, ConvexLoss::Squared, OwnLevel::None, &shared);
            let shapes = own.shapes(Some(&plane));
            assert_eq!(shapes.len(), n_kinds(2) - 1);
            for shape in &shapes {
                let directions = shape.back.chunks_exact(4);
                for (back, column) in directions.zip(shape.columns.chunks_exact(n)) {
                    for (x, c) in own.rows().zip(column) {
                        assert!((inner(x, back) - c).abs() < 1e-9);
                    }
                }
            }
            // within the first direction, near it; within both
            assert_eq!(shapes[2].n_directions, 1);
            assert_eq!(shapes[2 + N_NEAR].n_directions, 2);
        }
    }

    #[test]
    fn a_logistic_fit_has_no_slope_left_and_its_weight_is_that_of_the_normal_around_it() {
        let rows = made(3, 40, &[2.0, -1.0], 0.5).into_iter();
        let rows: Vec<_> = rows
            .map(|(x, y)| (x, if y > 3.2 { 1.0 } else { -1.0 }))
            .collect();
        let data = samples(&rows);
        let nothing = SharedParts::default();
        let own = own_rows(&data, ConvexLoss::Logistic, OwnLevel::Near, &nothing);
        let shapes = own.shapes(None);
        let offsets = vec![0.0; 40];
        let columns = [&shapes[0].columns[..], &[1.0; 40]].concat();
        let of = own.problem(&offsets, &columns, vec![0.3, 0.3, 1.0 / LOGISTIC_LEVELS[2]]);
        let fitted = of.fit(vec![0.0; 3]).unwrap();
        let (margins, value) = of.at(&fitted.own);
        let (down, _) = of.slopes(&fitted.own, &margins);
        assert!(down.iter().all(|s| s.abs() < 1e-4), "{down:?}");
        // curvature by finite differences of gradients
        let mut hessian = Vec::new();
        for k in 0..3 {
            let slopes = [1e-5, -1e-5].map(|step| {
                let mut moved = fitted.own.clone();
                moved[k] += step;
                let (margins, _) = of.at(&moved);
                of.slopes(&moved, &margins).0
            });
            let line = slopes[0].iter().zip(&slopes[1]);
            hessian.extend(line.map(|(up, down)| (down - up) / 2e-5));
        }
        let (log, _) = determinant_and_solution(&hessian, &[1.0; 3]);
        let prior = 0.5 * (0.3_f64 * 0.3 / LOGISTIC_LEVELS[2]).ln();
        assert!((fitted.log - (prior - value - 0.5 * log)).abs() < 1e-6);
    }

    fn error(model: &PersonalModel, slopes: &[f64]) -> f64 {
        let rows = made(99, 200, slopes, 0.0);
        let squares = rows
            .iter()
            .map(|(x, y)| (model.predict(x) - f64::from(*y)).powi(2));
        (squares.sum::<f64>() / 200.0).sqrt()
    }

    #[test]
    fn what_is_shared_helps_when_it_is_right_and_does_no_harm_when_it_is_wrong() {
        let slopes: Vec<f64> = (0..12).map(|k| f64::from(k) - 6.0).collect();
        let fit = WeighedFit::new(ConvexLoss::Squared, OwnLevel::Free).unwrap();
        let wrong: Vec<f64> = slopes.iter().rev().map(|s| 3.0 * s).collect();
        let line = |w: &[f64]| Subspace::spanned_by(12, 1, w, Provenance::NonPrivate).unwrap();
        let (mut alone, mut helped, mut misled) = (0.0, [0.0; 2], [0.0; 2]);
        for seed in 0..20 {
            let data = samples(&made(seed, 10, &slopes, 1.0));
            let of = |shared: &SharedParts<'_>| error(&fit.fit(shared, data.rows(0)), &slopes);
            let models = |w: &[f64]| {
                of(&SharedParts {
                    subspace: None,
                    models: &[w],
                    ..SharedParts::default()
                })
            };
            let subspace = |w: &[f64]| {
                of(&SharedParts {
                    subspace: Some(&line(w)),
                    ..SharedParts::default()
                })
            };
            alone += of(&SharedParts::default());
            for (sums, w) in [(&mut helped, &slopes), (&mut misled, &wrong)] {
                sums[0] += models(w);
                sums[1] += subspace(w);
            }
        }
        assert!(
            helped.iter().all(|sum| *sum < 0.5 * alone),
            "{helped:?} {alone}"
        );
        assert!(
            misled.iter().all(|sum| *sum < 1.1 * alone),
            "{misled:?} {alone}"
        );
    }

    /// Whoever asks for too large a rank: the second direction is noise, and few rows would fit it. The prior of an earlier
    /// version knows the whole subspace only.
    #[test]
    fn users_of_a_smaller_rank_are_near_a_part_of_the_subspace() {
        let columns = [
            1.0, 0.3, -2.0, 1.0, 1.5, 0.2, 0.5, -1.0, -1.0, 0.8, 2.0, 0.9,
        ];
        let plane = Subspace::spanned_by(6, 2, &columns, Provenance::NonPrivate).unwrap();
        let first: Vec<f64> = columns.iter().step_by(2).copied().collect();
        let both: Vec<f64> = columns.chunks_exact(2).map(|u| u[0] + 2.0 * u[1]).collect();
        let fit = WeighedFit::new(ConvexLoss::Squared, OwnLevel::Free).unwrap();
        let error_of = |slopes: &[f64], prior: &UserPrior| {
            let shared = SharedParts {
                subspace: Some(&plane),
                prior: Some(prior),
                ..SharedParts::default()
            };
            let of_user = |seed| {
                let data = samples(&made(seed, 5, slopes, 1.0));
                error(&fit.fit(&shared, data.rows(0)), slopes)
            };
            (0..40).map(of_user).sum::<f64>()
        };
        let [parts, whole] = [2, 1].map(|rank| UserPrior::even(rank, None));
        let of_first = error_of(&first, &parts) / error_of(&first, &whole);
        let of_both = error_of(&both, &parts) / error_of(&both, &whole);
        assert!(of_first < 0.9 && of_both < 1.2, "{of_first} {of_both}");
    }

    #[test]
    fn rows_that_say_nothing_leave_the_shared_model_and_huge_ones_stay_finite() {
        let w: [&[f64]; 2] = [&[9.0, 9.0], &[1.0, 2.0]];
        let shared = SharedParts {
            subspace: None,
            models: &w,
            ..SharedParts::default()
        };
        for loss in [ConvexLoss::Squared, ConvexLoss::Logistic] {
            for level in [OwnLevel::None, OwnLevel::Free, OwnLevel::Near] {
                let fit = WeighedFit::new(loss, level).unwrap();
                let nobody = samples(&[(vec![f32::NAN; 2], 0.0)]);
                assert_eq!(fit.fit(&shared, nobody.rows(0)).coefficients(), w[1]);
                let big = f32::MAX;
                for rows in [
                    vec![(vec![1.0, 2.0], 8.0)],
                    vec![(vec![big, -big], big), (vec![big, big], -big)],
                    vec![(vec![1e-30, 1e30], 1.0); 3],
                    vec![(vec![1.0, 1.0], 1.0), (vec![1.0, 1.0], 1.0)],
                ] {
                    let model = fit.fit(&shared, samples(&rows).rows(0));
                    assert!(model.level().is_finite());
                    assert!(model.coefficients().iter().all(|t| t.is_finite()));
                }
            }
        }
        assert!(WeighedFit::new(ConvexLoss::Huber { threshold: 1.0 }, OwnLevel::Free).is_err());
    }

    #[test]
    fn a_shared_model_beyond_all_numbers_is_not_taken() {
        let slopes = [1.0, -2.0];
        let data = samples(&made(5, 12, &slopes, 0.3));
        for loss in [ConvexLoss::Squared, ConvexLoss::Logistic] {
            let fit = WeighedFit::new(loss, OwnLevel::Near).unwrap();
            let alone = fit.fit(&SharedParts::default(), data.rows(0));
            for w in [
                [1e300, -1e300],
                [1e155, 1e155],
                [f64::INFINITY, 1.0],
                [f64::NAN, 0.0],
            ] {
                let models: [&[f64]; 1] = [&w];
                let shared = SharedParts {
                    subspace: None,
                    models: &models,
                    ..SharedParts::default()
                };
                let model = fit.fit(&shared, data.rows(0));
                let pairs = model.coefficients().iter().zip(alone.coefficients());
                for (with, without) in pairs {
                    assert!(
                        (with - without).abs() < 1e-9,
                        "{loss:?} {w:?} {with} {without}"
                    );
                }
            }
        }
    }

    #[test]
    fn separable_classes_are_told_apart() {
        let rows = (0..20_u8).map(|k| (vec![f32::from(k), 1.0], f32::from(i8::from(k > 7))));
        let rows: Vec<_> = rows.collect();
        let fit = WeighedFit::new(ConvexLoss::Logistic, OwnLevel::Near).unwrap();
        let data = samples(&rows);
        let model = fit.fit(&SharedParts::default(), data.rows(0));
        for (x, y) in &rows {
            assert_eq!(model.predict(x) > 0.0, *y > 0.0);
        }
    }
}
