//! Alternating minimisation for implicit feedback: users fit their parameters locally, and item
//! vectors are learned from released sums through the items' features.

mod errors;

use errors::LastStep;
use std::borrow::Borrow;

use dp_accounting::{CertificateBuilder, Requests};
use dp_core::{Adjacency, ApproxDp, Interactions, Private, UserRow, params};
use dp_linalg::{GramAccumulator, cholesky_in_place, cholesky_solve_in_place};
use dp_mechanism::{Run, SparseBuffer, Trainer, VectorContribution};

use crate::am_residual::{
    FeatureErrors, LEVELS, MOMENT_RATIO, Totals, push_moments, round_shares, to_norm, with_biases,
};
use crate::features::{check_items, in_public_range};
use crate::learn::{KernelRidge, StatisticsLearner};
use crate::residual::TotalsContribution;
use crate::{
    Error, ExampleWeights, FeaturePrior, FeatureWeights, PersonalVector, PooledStatistics,
    ProblemSetup, ProtectedUnit, Result, SparseKernel, With, am_residual, trainer,
};

/// Settings of [`AmImplicitSsp`] before validation. All are public and must not be chosen by
/// looking at the data.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AmImplicitSspParams {
    /// Length `d` of item vectors, 1 to 256: a bias and `d - 1` taste factors.
    pub dim: usize,
    /// Number of rounds, 1 to 1000; each makes one release.
    pub n_rounds: usize,
    /// Ratio of a round's budget to that of the previous round, from 1e-6 to 1e6.
    pub round_growth: f64,
    /// Share of the budget for the items' total weights, strictly between 0 and 1.
    pub totals_share: f64,
    /// How a user's budget is divided among the user's items.
    pub weights: ExampleWeights,
    /// Norm of a user's taste vector in the release, strictly between 0 and 1; the constant
    /// coordinate completes it to norm 1.
    pub taste_norm: f64,
    /// The user step during training.
    pub user_step: LikesStep,
    /// The user step for the finished item vectors.
    pub fold_in: LikesStep,
    /// Weight `a0` of every user as a weak negative in the item step, relative to users' normalised
    /// weights, from 1e-6 to 1e6.
    pub item_unobserved_weight: f64,
    /// Power of an item's released popularity with which the length of its vector is expected to
    /// grow, 0 to 1.
    pub popularity_exponent: f64,
    /// Lower bound on an item's total weight, in standard deviations of its noise, from 1e-6 to
    /// 1e6.
    pub totals_floor: f64,
    /// Prior variance of a coordinate of an item vector of average popularity, per unit of the features' kernel, from 1e-6 to 1e6.
    pub item_variance: f64,
    /// Residual variance of likes given users' and items' vectors, from 1e-6 to 1e6.
    pub label_variance: f64,
    /// Largest absolute value of an item's taste factor before the first round, from 1e-6 to 1e6.
    pub init_scale: f64,
    /// Seed of the initial taste factors. Public; it does not affect the noise.
    pub init_seed: u64,
}

impl AmImplicitSspParams {
    /// Defaults that depend on epsilon alone. Chosen on validation users of MovieLens-1M
    /// (`docs/reproductions.md`).
    #[must_use]
    pub fn for_target(target: ApproxDp) -> Self {
        // from high noise to low: ridge in training, weight of negatives in training and in the
        // item step, growth of rounds
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
        Self {
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
        Ok(AmImplicitSsp { params: self })
    }

    /// The constant `a` that precedes users' taste factors.
    fn constant(&self) -> f64 {
        am_residual::constant(self.dim, self.taste_norm)
    }
}

const OUTPUT: &str = "item vectors and weights of features, made of the listed noisy sums; total weights of items; settings";

/// Alternating minimisation for implicit feedback, with public features of items: AM-SSP with one
/// matrix for all items and a prior from features.
///
/// ```text
/// loss   sum over records (1 - s_kj)^2 + a0 sum over all users and items s_kj^2          s_kj the score of item j for user k
/// released once:  W_j = sum_k w_kj, the number of users n                                 TotalsContribution
/// each round:     every user: taste vector from own likes and released item vectors        local, LikesStep
///                 released: b_j = sum_k w_kj x_k and M = sum_k x_k x_k^T                   LikesContribution
///                 C = PSD(M) / n,  b_j = (W_j + a0 n) C v_j                                 post-processing
///                 v by ridge regression on features, given the noise of b                 post-processing
/// ```
///
/// The second part of the loss needs all users' scores of all items, which no party has. For items
/// it becomes `a0 n C`, computed from a release; for users `a0 V^T V`, computed from item vectors
/// that anyone may see. A record is a positive whatever its value. Residuals, which work well for
/// ratings ([`AmResidualSsp`](crate::AmResidualSsp)), are not used here: scores are far below 1, so
/// the residual of a positive is hardly smaller than the positive itself, and the noise would be
/// the same.
///
/// Source: Krichene et al. 2024, Algorithm 1 with the loss of implicit alternating least squares
/// (Hu, Koren and Volinsky 2008), whose released Gramian the paper omits (`docs/errata.md`).
///
/// # Privacy
/// Released, and visible to anyone: the total weights and the number of users (sensitivity 1), and
/// in each round all right-hand sides with the second moments, in one vector (sensitivity
/// `sqrt(1 + .1^2)`); twice that when a user is replaced. Everything else is computed from these
/// and from public values; users' taste vectors stay with their users, and what all users see
/// together is jointly private (billboard model). Each release depends on earlier releases and is
/// paid for by its own spend. Unit: the user, who has one row of the table; each row is bounded
/// whatever it contains.
///
/// # Examples
/// ```
/// use dp_core::{Adjacency, ApproxDp};
/// use dp_pubfeat::AmImplicitSspParams;
/// let target = ApproxDp::target(5.0, 1e-5)?;
/// let fit = AmImplicitSspParams::for_target(target).check()?;
/// let plan = fit.plan(500, target, Adjacency::AddRemoveUser)?;
/// assert_eq!(plan.releases().len(), 1 + fit.params().n_rounds);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct AmImplicitSsp {
    params: AmImplicitSspParams,
}

trainer::algorithm! {
    AmImplicitSsp of AmImplicitSspParams, over n_items,
    /// The trainer of item vectors under `prior`. Users' features in the table are ignored.
}

impl AmImplicitSsp {
    /// The value of a weight of 1 in the release of the total weights, whose bound per user is 1:
    /// the noise in a total weight is that of the release divided by this.
    pub const TOTALS_UNIT: f64 = TotalsContribution::ITEMS;

    /// Number of coordinates in a round's release.
    const fn n_coordinates(&self, n_items: usize) -> usize {
        n_items
            .saturating_add(self.params.dim)
            .saturating_mul(self.params.dim)
    }

    /// The releases of a fit over `n_items`, before the noise multiplier is determined.
    ///
    /// # Errors
    /// [`Error::Param`] when there are no items or too many coordinates, [`Error::Unsupported`] for
    /// another adjacency.
    pub fn requests(&self, n_items: usize, adjacency: Adjacency) -> Result<Requests> {
        ProtectedUnit::User.check(adjacency)?;
        params::at_least_one("n_items", n_items)?;
        let n = self.n_coordinates(n_items);
        trainer::check_coordinates(n)?;
        let AmImplicitSspParams {
            n_rounds,
            round_growth,
            totals_share,
            ..
        } = self.params;
        let mut all = vec![trainer::request("total weights", totals_share, n_items + 1)];
        let shares = round_shares(n_rounds, round_growth, totals_share);
        let rounds = (1..).zip(shares);
        all.extend(rounds.map(|(t, share)| trainer::request(format!("likes {t}"), share, n)));
        Ok(Requests::Shares(all))
    }

    fn setup(&self) -> ProblemSetup {
        am_residual::round_setup(&self.params.weights, self.params.dim)
    }

    fn rounds(
        &self,
        prior: &FeaturePrior,
        likes: &Private<Interactions>,
        run: &mut Run<'_>,
    ) -> Result<LikesModel> {
        let (params, n_items) = (&self.params, prior.n_items());
        let floor = params.totals_floor;
        let totals = Totals::release(&self.setup(), n_items, floor, (likes, &mut *run))?;
        let mut popularity = Popularity::new(&totals);
        let first = self.initial_vectors(n_items);
        trainer::show_round(run, 0, &first, params.dim);
        let (mut learned, mut last) =
            self.round(prior, &first, &mut popularity, (likes, &mut *run))?;
        trainer::show_round(run, 1, &learned.vectors, params.dim);
        for t in 2..=params.n_rounds {
            let at = &learned.vectors;
            (learned, last) = self.round(prior, at, &mut popularity, (likes, &mut *run))?;
            trainer::show_round(run, t, &learned.vectors, params.dim);
        }
        let weights = (totals.released, totals.noise);
        let model = LikesModel::new(learned.vectors, learned.weights, params.fold_in, weights)?;
        Ok(model.with_last_step(last))
    }

    /// One round: user steps, one release, item step.
    fn round(
        &self,
        prior: &FeaturePrior,
        item_vectors: &[f64],
        popularity: &mut Popularity,
        (likes, run): (&Private<Interactions>, &mut Run<'_>),
    ) -> Result<(Learned, LastStep)> {
        let params = &self.params;
        let contribution = LikesContribution::new(params, item_vectors)?;
        let shape = (contribution.n_coordinates(), LikesContribution::norm());
        let released = run.vector(likes, shape, &contribution)?;
        let last = LastStep {
            params: params.clone(),
            prior: prior.clone(),
            popularity: popularity.clone(),
            released: released.values(),
            noise: released.noise_stddev(),
        };
        let (step, with_round) = last.step(&last.released, popularity)?;
        *popularity = with_round;
        Ok((step.solved(params, prior)?.0, last))
    }

    /// Item vectors before the first release, shape `(m, d)`: no bias, and taste factors up to
    /// `init_scale`. Public, computed from the settings alone.
    #[must_use]
    pub fn initial_vectors(&self, n_items: usize) -> Vec<f64> {
        let taste = |draw| self.params.init_scale * (2.0 * draw - 1.0);
        am_residual::initial_vectors((n_items, self.params.dim), self.params.init_seed, taste)
    }
}

impl<P: Borrow<FeaturePrior>> Trainer for With<AmImplicitSsp, P> {
    type Data = Private<Interactions>;
    type Model = LikesModel;
    type Error = Error;

    fn width(&self, _: &Self::Data) -> usize {
        self.start.borrow().n_items()
    }

    fn requests(&self, n_items: usize, adjacency: Adjacency) -> Result<Requests> {
        self.settings.requests(n_items, adjacency)
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        let setup = self.settings.setup();
        self.start.borrow().describe(certificate, &setup, OUTPUT)
    }

    fn train(&self, likes: &Self::Data, run: &mut Run<'_>) -> Result<LikesModel> {
        let (settings, prior) = (&self.settings, self.start.borrow());
        let shape = (prior.n_items(), settings.params.dim);
        settings.setup().check_ratings(likes, shape)?;
        settings.rounds(prior, likes, run)
    }
}

/// One user's contribution to a round, with the taste vector fitted here.
///
/// ```text
/// (l, u)  user step at the released item vectors (LikesStep);  u then scaled to norm taste_norm
/// x     = [a, u],   a = sqrt(1 - taste_norm^2);   x = [1] where d = 1
/// b_j  += w_j x            d coordinates per item that the user likes
/// M    += .1 x x^T         d^2 coordinates, row-major, after those of the items
/// ```
///
/// Values of records are ignored. A user without items adds nothing.
///
/// # Privacy
/// `||x|| <= 1`: its square is `a^2 + ||u||^2`, and `u` has norm `taste_norm` or is 0. A table has
/// each pair of user and item once, so the blocks `w_j x` occupy disjoint coordinates and their
/// squared norms sum to `||x||^2 sum_j w_j^2 <= 1`; that of `.1 x x^T` is `.1^2 ||x||^4 <= .1^2`.
/// Together
///
/// ```text
/// sensitivity  sqrt(1 + .1^2)   for adding or removing a user,  twice that for replacing one
/// ```
///
/// whatever the records, and whatever the item vectors, which are released values or public. Items
/// without a record of the user also influence the user's taste vector, through a matrix of the
/// item vectors alone (`LikesStep`), which is the same for all users and reveals nothing about any
/// of them. The contribution is a function of this user's records, of these vectors and of public
/// settings; the kernel checks the norm again in exact integers. Level and taste vector never
/// leave.
#[derive(Debug)]
pub struct LikesContribution<'a> {
    params: &'a AmImplicitSspParams,
    design: LikesDesign,
    n_items: usize,
}

/// Scratch memory for [`LikesContribution`].
#[allow(
    missing_debug_implementations,
    reason = "holds one user's values; printing them is never wanted"
)]
pub struct LikesShare {
    step: LikesScratch,
    /// `x`.
    vector: Vec<f64>,
    weights: Vec<f64>,
}

impl<'a> LikesContribution<'a> {
    /// The contribution at released item vectors `[h_j, q_j]`, shape `(m, d)`.
    ///
    /// # Errors
    /// [`crate::Error::Linalg`] for vectors of another shape.
    pub fn new(params: &'a AmImplicitSspParams, item_vectors: &[f64]) -> Result<Self> {
        Ok(Self {
            params,
            design: LikesDesign::new(&params.user_step, item_vectors, params.dim)?,
            n_items: item_vectors.len() / params.dim,
        })
    }

    /// The sensitivity `sqrt(1 + .1^2)` to adding or removing a user.
    #[must_use]
    pub fn norm() -> f64 {
        let norm = (1.0 + MOMENT_RATIO * MOMENT_RATIO).sqrt();
        #[cfg(privacy_mutants)]
        let norm = crate::mutants::round_norm(norm);
        norm
    }

    /// Length of the sum: `m d + d^2`.
    #[must_use]
    pub const fn n_coordinates(&self) -> usize {
        (self.n_items + self.params.dim) * self.params.dim
    }
}

impl VectorContribution for LikesContribution<'_> {
    type Scratch = LikesShare;

    fn scratch(&self) -> LikesShare {
        LikesShare {
            step: self.design.scratch(),
            vector: Vec::new(),
            weights: Vec::new(),
        }
    }

    fn contribute(&self, user: UserRow<'_>, own: &mut LikesShare, out: &mut SparseBuffer) {
        if user.is_empty() {
            return;
        }
        own.vector.clear();
        own.vector
            .extend_from_slice(self.design.solve(user, &mut own.step));
        own.vector[0] = self.params.constant();
        to_norm(&mut own.vector[1..], self.params.taste_norm);
        own.weights.clear();
        own.weights.resize(user.len(), 0.0);
        self.params.weights.weigh(user, &mut own.weights);
        let dim = self.params.dim;
        let coordinate = |at: usize| u32::try_from(at).unwrap_or(u32::MAX); // checked by the plan
        for (&item, w) in user.items().iter().zip(&own.weights) {
            let first = item as usize * dim;
            let block = own.vector.iter().enumerate();
            out.extend(block.map(|(k, x)| (coordinate(first + k), w * x)));
        }
        push_moments(&own.vector, MOMENT_RATIO, self.n_items * dim, out);
    }
}

/// The exact local user step of implicit feedback for items with a bias. All settings are public.
///
/// ```text
/// (l, u) = argmin sum_{j liked} (1 - s_j)^2 + a0 sum_{all j} s_j^2 + level_penalty l^2 + l2_penalty ||u||^2,    s_j = h_j + l + <q_j, u>
/// ```
///
/// `[h_j, q_j]` is the item's vector, a bias and `d - 1` taste factors. The second sum is over the
/// whole catalogue and is the same for all users: with `D` the rows `[1, q_j]` its matrix is
/// `a0 D^T D`, computed from item vectors that anyone may see. A user without likes has `l = 0`,
/// `u = 0`.
///
/// Source: implicit alternating least squares (Hu, Koren and Volinsky 2008), as in Krichene et al. 2023.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LikesStep {
    /// Weight `a0` of every item as a weak negative, 0 or from 1e-6 to 1e6.
    pub unobserved_weight: f64,
    /// Ridge on the user's level, from 1e-6 to 1e6.
    pub level_penalty: f64,
    /// Ridge on the user's taste vector, from 1e-6 to 1e6.
    pub l2_penalty: f64,
}

impl LikesStep {
    fn check(&self) -> Result<()> {
        params::finite_non_negative("unobserved_weight", self.unobserved_weight)?;
        in_public_range("unobserved_weight", self.unobserved_weight.max(1e-6))?;
        in_public_range("level_penalty", self.level_penalty)?;
        in_public_range("l2_penalty", self.l2_penalty)?;
        Ok(())
    }
}

/// Item vectors in the form that the user step needs. Public.
#[derive(Debug, Clone)]
struct LikesDesign {
    dim: usize,
    /// Rows `[1, q_j]`.
    rows: Vec<f64>,
    biases: Vec<f64>,
    /// The part of the equations that all users share: `a0 D^T D` and the penalties.
    matrix: Vec<f64>,
    /// `-a0 D^T h`.
    rhs: Vec<f64>,
}

/// Scratch memory for user steps.
struct LikesScratch {
    /// None for a length that validated settings never have.
    sums: Option<GramAccumulator<f64>>,
    labels: Vec<f64>,
    matrix: Vec<f64>,
    /// `[l, u]`.
    solution: Vec<f64>,
}

impl LikesDesign {
    /// From vectors `[h_j, q_j]`, shape `(m, dim)`.
    fn new(step: &LikesStep, item_vectors: &[f64], dim: usize) -> Result<Self> {
        let mut rows = item_vectors.to_vec();
        let biases: Vec<f64> = rows.iter().step_by(dim).copied().collect();
        rows.iter_mut().step_by(dim).for_each(|x| *x = 1.0);
        let mut sums = GramAccumulator::new(dim)?;
        sums.add_rows_with_rhs(&rows, &biases)?;
        let mut matrix = vec![0.0; dim * dim];
        sums.write_full(&mut matrix)?;
        let a0 = step.unobserved_weight;
        matrix.iter_mut().for_each(|g| *g *= a0);
        matrix[0] += step.level_penalty;
        let tastes = matrix.iter_mut().step_by(dim + 1).skip(1);
        tastes.for_each(|g| *g += step.l2_penalty);
        Ok(Self {
            dim,
            biases,
            matrix,
            rhs: sums.rhs().iter().map(|b| -a0 * b).collect(),
            rows,
        })
    }

    fn scratch(&self) -> LikesScratch {
        LikesScratch {
            sums: GramAccumulator::new(self.dim).ok(),
            labels: Vec::new(),
            matrix: vec![0.0; self.dim * self.dim],
            solution: vec![0.0; self.dim],
        }
    }

    /// `[l, u]` of one user; 0 for a user without likes, and where the sums are not finite.
    fn solve<'s>(&self, user: UserRow<'_>, own: &'s mut LikesScratch) -> &'s [f64] {
        let solved = !user.is_empty() && self.equations(user, own).is_some();
        if !solved || !own.solution.iter().all(|x| x.is_finite()) {
            own.solution.fill(0.0);
        }
        &own.solution
    }

    fn equations(&self, user: UserRow<'_>, own: &mut LikesScratch) -> Option<()> {
        let (sums, items) = (own.sums.as_mut()?, user.items());
        own.labels.clear();
        let labels = items.iter().map(|&j| 1.0 - self.biases[j as usize]);
        own.labels.extend(labels);
        sums.reset();
        sums.add_gathered_with_rhs(&self.rows, items, None, &own.labels)
            .ok()?;
        sums.write_full(&mut own.matrix).ok()?;
        for (to, all) in own.matrix.iter_mut().zip(&self.matrix) {
            *to += all;
        }
        let rhs = sums.rhs().iter().zip(&self.rhs);
        for (to, (of_likes, of_all)) in own.solution.iter_mut().zip(rhs) {
            *to = of_likes + of_all;
        }
        cholesky_in_place(&mut own.matrix, self.dim).ok()?;
        cholesky_solve_in_place(&own.matrix, self.dim, &mut own.solution).ok()
    }
}

/// Popularity of items, estimated from all releases so far, each weighted by the inverse variance
/// of its noise.
#[derive(Debug, Clone)]
struct Popularity {
    /// Precision times total weight of each item.
    sums: Vec<f64>,
    precision: f64,
    n_users: f64,
    /// Standard deviation of the noise in `n_users`.
    users_noise: f64,
}

impl Popularity {
    fn new(totals: &Totals) -> Self {
        let precision = (totals.noise * totals.noise).recip();
        Self {
            sums: totals.released.iter().map(|w| precision * w).collect(),
            precision,
            n_users: totals.n_users,
            users_noise: totals.users_noise,
        }
    }

    /// Adds the first coordinates `a W_j` of the right-hand sides, each with this noise.
    fn add(&mut self, round: &LikesRound<'_>, constant: f64) {
        let scale = constant / (round.noise * round.noise);
        let firsts = round.sums.iter().step_by(round.dim);
        for (sum, first) in self.sums.iter_mut().zip(firsts) {
            *sum += scale * first;
        }
        self.precision += scale * constant;
    }

    fn noise(&self) -> f64 {
        self.precision.sqrt().recip()
    }

    /// `W_j`, bounded below by `floor` standard deviations of the noise.
    fn weights(&self, floor: f64) -> Vec<f64> {
        let least = floor * self.noise();
        let weight = |sum: &f64| (sum / self.precision).max(least);
        self.sums.iter().map(weight).collect()
    }
}

/// One round's release, split into its parts.
struct LikesRound<'a> {
    dim: usize,
    /// Right-hand sides, shape `(m, d)`.
    sums: &'a [f64],
    /// `C`: the mean of users' `x x^T`, shape `(d, d)`.
    mean: &'a [f64],
    /// Standard deviation of the noise in a right-hand side.
    noise: f64,
}

/// Result of a round's item step.
struct Learned {
    /// Rows `[h_j, q_j]`.
    vectors: Vec<f64>,
    weights: FeatureWeights,
}

/// Expected relative lengths of the item vectors, by popularity.
#[derive(Debug, Clone)]
struct Scales {
    items: Vec<f64>,
    /// For an item of unknown popularity: the mean over items that are not declared unrated,
    /// weighted by their totals.
    unknown: f64,
}

impl Scales {
    /// `s_j = W_j^p` divided by the root of their mean square.
    fn new(weights: &[f64], prior: &FeaturePrior, power: f64) -> Self {
        let mut items: Vec<f64> = weights.iter().map(|w| w.powf(power)).collect();
        let square = items.iter().map(|s| s * s).sum::<f64>() / items.len() as f64;
        items.iter_mut().for_each(|s| *s /= square.sqrt());
        let (mut sum, mut whole) = (0.0, 0.0);
        for (item, (s, w)) in items.iter().zip(weights).enumerate() {
            if !prior.is_unrated(item) {
                sum += w * s;
                whole += w;
            }
        }
        let unknown = if whole > 0.0 { sum / whole } else { 1.0 };
        for (item, s) in items.iter_mut().enumerate() {
            if prior.is_unrated(item) {
                *s = unknown;
            }
        }
        Self { items, unknown }
    }

    /// Multiplies the items' rows.
    fn scale(&self, rows: &mut [f64]) {
        let dim = rows.len() / self.items.len();
        for (row, s) in rows.chunks_exact_mut(dim).zip(&self.items) {
            row.iter_mut().for_each(|v| *v *= s);
        }
    }
}

/// The item step.
///
/// ```text
/// seen     b_j = (W_j + a0 n) C v_j + noise          every user pulls the score to 0 with weight a0
/// prior    v_j = s_j z_j,  z ~ N(0, t^2 K),  s_j ~ W_j^p
/// answer   z = K A (A K A + l A + s^2 I)^-1 b,   A_j = s_j (W_j + a0 n) C
/// ```
///
/// An item's vector grows with its popularity, because `a0 n` is large compared with `W_j`;
/// features indicate how the users who like the item differ from the average user, which determines
/// a direction. For items that are publicly known to be unrated there is no evidence, and no
/// negatives either.
#[derive(Debug, Clone)]
struct ItemStep {
    learner: KernelRidge<SparseKernel>,
    statistics: PooledStatistics,
    scales: Scales,
    /// Shares of the popularity levels for an item of unknown popularity.
    unknown: [f64; LEVELS],
}

impl ItemStep {
    fn new(
        params: &AmImplicitSspParams,
        prior: &FeaturePrior,
        popularity: &Popularity,
        round: &LikesRound<'_>,
    ) -> Result<Self> {
        let weights = popularity.weights(params.totals_floor);
        let scales = Scales::new(&weights, prior, params.popularity_exponent);
        let made = prior.kernel(&weights, popularity.noise())?;
        let variances = (params.item_variance, params.label_variance);
        let learner = am_residual::ridge(made.kernel, params.dim, variances)?;
        let noes = params.item_unobserved_weight * popularity.n_users;
        let each = weights.iter().zip(&scales.items).enumerate();
        let factors = each.map(|(item, (w, s))| match prior.is_unrated(item) {
            true => 0.0,
            false => s * (w + noes),
        });
        let (dim, matrix, rhs) = (params.dim, round.mean.to_vec(), round.sums.to_vec());
        Ok(Self {
            learner,
            statistics: PooledStatistics::new(dim, factors.collect(), matrix, rhs, round.noise)?,
            scales,
            unknown: made.unknown,
        })
    }

    /// The solution, and the step with its learner.
    fn solved(
        mut self,
        params: &AmImplicitSspParams,
        prior: &FeaturePrior,
    ) -> Result<(Learned, Self)> {
        self.learner.learn_pooled(&self.statistics)?;
        let mut vectors = self.learner.item_vectors()?;
        self.scales.scale(&mut vectors);
        let ends = (params.constant(), self.scales.unknown);
        let weights = encoder(prior, &self.learner, &self.unknown, ends)?;
        with_biases(&mut vectors, params.dim, params.constant());
        Ok((Learned { vectors, weights }, self))
    }
}

/// The linear encoder that corresponds to a solution, for items of unknown popularity.
fn encoder(
    prior: &FeaturePrior,
    learner: &KernelRidge<SparseKernel>,
    unknown: &[f64; LEVELS],
    (constant, scale): (f64, f64),
) -> Result<FeatureWeights> {
    let dim = learner.dim();
    let theta = learner.kernel().feature_sums(dim, learner.coefficients());
    let (mut features, mut shared) = prior.scaled(&theta, dim, unknown);
    for part in [&mut features, &mut shared] {
        part.iter_mut().for_each(|t| *t *= scale);
        with_biases(part, dim, constant);
    }
    FeatureWeights::new(dim, prior.category_sizes(), shared, features)
}

/// Item vectors that anyone may see, the feature weights that they come from, and the users'
/// fold-in.
///
/// ```text
/// score of item j for user k:   l_k + h_j + <q_j, u_k>,    [h_j, q_j] the item's vector, (l_k, u_k) by LikesStep
/// ```
#[derive(Debug, Clone)]
pub struct LikesModel {
    item_vectors: Vec<f64>,
    weights: FeatureWeights,
    user_step: LikesStep,
    design: LikesDesign,
    totals: (Vec<f64>, f64),
    last_step: Option<LastStep>,
}

impl LikesModel {
    /// A model of these item vectors, shape `(m, d)`, and released total weights of the items with
    /// the standard deviation of their noise.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] for shapes that do not match, [`crate::Error::Param`] for numbers
    /// that are not finite or out of range.
    pub fn new(
        item_vectors: Vec<f64>,
        weights: FeatureWeights,
        user_step: LikesStep,
        totals: (Vec<f64>, f64),
    ) -> Result<Self> {
        user_step.check()?;
        let dim = weights.dim();
        params::at_least_one("number of item vectors", item_vectors.len())?;
        params::same_size("item vectors", item_vectors.len(), totals.0.len() * dim)?;
        for &v in item_vectors.iter().chain(&totals.0).chain([&totals.1]) {
            params::finite("item vector or total weight", v)?;
        }
        Ok(Self {
            design: LikesDesign::new(&user_step, &item_vectors, dim)?,
            item_vectors,
            weights,
            user_step,
            totals,
            last_step: None,
        })
    }

    fn with_last_step(mut self, last: LastStep) -> Self {
        self.last_step = Some(last);
        self
    }

    /// Standard errors of item vectors and weights of features, computed by this call; `None` for a
    /// model that does not come from a run. With those of ratings
    /// ([`FeatureErrors`]) they have in common what the noise of the last sums and the shrinkage leave
    /// unknown, for fixed popularity of the items; what the noise in the popularity, the number
    /// of users and the matrix adds comes from 16 draws of noise around the released values.
    ///
    /// # Errors
    /// [`crate::Error::Diverged`] or [`crate::Error::Linalg`] when a solve fails.
    pub fn standard_errors(&self) -> Result<Option<FeatureErrors>> {
        self.last_step.as_ref().map(LastStep::errors).transpose()
    }

    /// Length `d` of item vectors.
    #[must_use]
    pub const fn dim(&self) -> usize {
        self.weights.dim()
    }

    /// Number of items `m`.
    #[must_use]
    pub const fn n_items(&self) -> usize {
        self.totals.0.len()
    }

    /// Rows `[h_j, q_j]`, a bias and `d - 1` taste factors, shape `(m, d)`.
    #[must_use]
    pub fn item_vectors(&self) -> &[f64] {
        &self.item_vectors
    }

    /// Weights of features, for items that were not in the run: [`FeatureWeights::vector`].
    #[must_use]
    pub const fn weights(&self) -> &FeatureWeights {
        &self.weights
    }

    /// The user step.
    #[must_use]
    pub const fn user_step(&self) -> &LikesStep {
        &self.user_step
    }

    /// Released total weights of the items, `sum_k w_kj` over the users who like them; values of 0
    /// and below are possible. They measure popularity.
    #[must_use]
    pub fn total_weights(&self) -> &[f64] {
        &self.totals.0
    }

    /// Standard deviation of the noise in a total weight.
    #[must_use]
    pub const fn total_weights_noise(&self) -> f64 {
        self.totals.1
    }

    /// A user's level and `[1, u]`, whether or not the user was in training; 0 for a user without
    /// likes.
    ///
    /// # Privacy
    /// Local: a function of the user's own records and released item vectors.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] when the user has an item that is not in the model.
    pub fn fold_in(&self, user: UserRow<'_>) -> Result<PersonalVector> {
        check_items(user.items(), self.n_items())?;
        let own = &mut self.design.scratch();
        let mut vector = self.design.solve(user, own).to_vec();
        let level = std::mem::replace(&mut vector[0], 1.0);
        Ok(PersonalVector { level, vector })
    }

    /// Score of an item of the run. Scores rank items and have no meaning of their own.
    ///
    /// # Panics
    /// When there is no such item.
    #[must_use]
    pub fn score(&self, user: &PersonalVector, item: usize) -> f64 {
        user.predict(&self.item_vectors[item * self.dim()..][..self.dim()])
    }
}

#[cfg(test)]
mod tests {
    use dp_core::InteractionsBuilder;

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
            assert!(
                AmImplicitSspParams::for_target(target).check().is_ok(),
                "epsilon {epsilon}"
            );
        }
    }

    #[test]
    fn level_and_tastes_are_the_joint_ridge_solution_of_numpy() {
        let mut builder = InteractionsBuilder::new(4);
        for item in [0, 2] {
            builder.push(0, item, 5.0).unwrap();
        }
        builder.ensure_users(2);
        let data = builder.build().0;
        let step = LikesStep {
            unobserved_weight: 0.3,
            level_penalty: 2.0,
            l2_penalty: 0.5,
        };
        let v = [
            0.5, 1.0, -1.0, -0.25, 0.5, 0.2, 0.1, -1.0, 2.0, 0.05, 0.3, 0.7,
        ];
        let design = LikesDesign::new(&step, &v, 3).unwrap();
        let own = &mut design.scratch();
        // numpy.linalg.solve(D[likes].T @ D[likes] + .3 D.T @ D + diag(2, .5, .5), D[likes].T @ (1 - h[likes]) - .3 D.T @ h), D = [1, q]
        let expected = [0.1914583502455011, 0.041415563647351196, 0.1748260149350509];
        for (x, e) in design.solve(data.user(0), own).iter().zip(expected) {
            assert!((x - e).abs() < 1e-12, "{x} {e}");
        }
        assert!(design.solve(data.user(1), own).iter().all(|x| *x == 0.0));
    }
}
