//! Item biases and taste factors that are learned night by night, with one budget for each user's
//! lifetime.

use dp_accounting::{CertificateBuilder, ReleaseRequest, Requests};
use dp_core::{Adjacency, ApproxDp, Interactions, Private, ReplaceFactor, UserRow, params};
use dp_linalg::{
    cholesky_in_place, cholesky_solve_in_place, packed_len, project_psd_in_place, symmetric_eigen,
};
use dp_mechanism::{
    Error as RunError, Provenance, ReleasedNight, Run, SparseBuffer, Trainer, VectorContribution,
};

use super::axes::spread_alike;
use super::fit::{initial_factors, shown, write_popularity};
use super::forgetting::{Forgetting, Told};
use super::global_effects::with_global_effects;
use super::implicit::ImplicitFeedback;
use super::item_posterior::{ItemEvidence, Known, spreads};
use super::item_prior::ItemPrior;
use super::item_update::{
    ItemResiduals, ItemStatistics, ResidualScratch, ScoreModel, add_row, bias_coordinate, ridge,
};
use super::model::{FactorModel, Scoring};
use super::params::{FactorizationParams, MatrixFactorization, in_public_range};
use crate::checked::taken_on_trust;
use crate::regression::GradientClip;
use crate::solve::{SystemNoise, inverse};
use crate::{Error, NoisyCounts, Result, TaskWeights};

/// Keeps rounding from pushing a contribution over its bound, in which case the kernel would drop
/// it.
const INSIDE: f64 = 1.0 - 1e-9;
/// Maximum number of a user's votes that count in full.
const WHOLE_VOTES: f64 = 9.0;
/// Ridge of items' taste factors learned from likes, for sums divided by the number of users.
const LIKES_PENALTY: f64 = 4e-4;
/// Power of the number of earlier nights with taste factors by which a night of likes is weighted:
/// the taste factors of the first nights have other axes.
const LATE: i32 = 2;
/// Largest of the counts that represent popularity.
const POPULAR: f64 = 1e3;
/// The label of the single release that pays for all nights.
const NIGHTS: &str = "nights";

/// Settings of [`NightlyFactorization`] before validation. All are public.
///
/// Defaults were chosen on the validation part of MovieLens-1M with users who arrive evenly over a
/// year (`docs/nights-proof.md`).
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NightlyParams {
    /// Scale of the ratings, the user step and the fold-in: those of [`FactorizationParams`], whose
    /// rounds and shares are not used here.
    pub base: FactorizationParams,
    /// Number of nights that the lifetime pays for, 1 to 100,000; choose more than will be made.
    /// Additional nights hardly increase delta.
    pub most_nights: u32,
    /// Maximum size of the catalogue, 1 or above. Additional items hardly increase delta.
    pub most_items: usize,
    /// Number of taste factors once they start, 0 to 64; 0 learns only item biases, or for likes
    /// popularity.
    pub n_tastes: usize,
    /// Taste factors start when the released weight of an item in use is this many times the noise,
    /// 0 or above.
    pub least_signal: f64,
    /// Share of a user's squared norm that counts the user.
    pub count_share: f64,
    /// The same for the matrix of users' factors, once there are taste factors.
    pub matrix_share: f64,
    /// The same for the items' total weights.
    pub weight_share: f64,
    /// Bound on a user's residuals, in units of the label bound.
    pub residual_bound: f64,
    /// Approximate part of a residual that its bound does not clip; from 0.1 to 1. The result
    /// converges with any value: it determines how far one night moves the model.
    pub passes: f64,
    /// Whether past nights lose weight if releases show that items drift. Off by default:
    /// `docs/nights-proof.md` states its cost.
    pub forgets: bool,
}

impl NightlyParams {
    /// Defaults for ratings from `low` to `high`, finite and `low < high`: the centre is the middle
    /// of the range, the unit is a quarter of it.
    ///
    /// # Examples
    /// ```
    /// use dp_multitask::NightlyParams;
    /// let params = NightlyParams::for_ratings(1.0, 5.0, 10_000);
    /// assert!(params.n_tastes > 0 && params.check().is_ok());
    /// ```
    #[must_use]
    pub fn for_ratings(low: f64, high: f64, most_items: usize) -> Self {
        let mut base = FactorizationParams::for_target(any_target());
        base.clip_norm = 0.7;
        base.training_penalties.factor = 2.0;
        Self {
            base: base.with_rating_range(low, high),
            most_nights: 3650,
            most_items,
            n_tastes: 8,
            least_signal: 8.0,
            count_share: 0.02,
            matrix_share: 0.03,
            weight_share: 0.05,
            residual_bound: 0.7,
            passes: 0.5,
            forgets: false,
        }
    }

    /// Defaults for likes: the popularity of items, and then taste factors. Chosen on the
    /// validation users of MovieLens-1M (`docs/nights-proof.md`).
    ///
    /// # Examples
    /// ```
    /// use dp_multitask::NightlyParams;
    /// assert!(NightlyParams::for_likes(10_000).check().is_ok());
    /// ```
    #[must_use]
    pub fn for_likes(most_items: usize) -> Self {
        let mut base = FactorizationParams::implicit_plain_for_target(any_target());
        base.dim = Some(2); // with taste factors, of which there are n_tastes
        base.weight_exponent = 0.0;
        base.item_l2_penalty = LIKES_PENALTY;
        Self {
            base,
            least_signal: 3.0,
            ..Self::for_ratings(1.0, 5.0, most_items)
        }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first setting out of range; [`crate::Error::Unsupported`]
    /// for scores of ratings without biases, which nights do not learn, and for taste factors of
    /// likes with biases.
    pub fn check(self) -> Result<NightlyFactorization> {
        let fit = self.base.clone().check()?;
        if !self.is_of_likes() && !self.base.score_model.is_biased() {
            let what = "nights of ratings whose scores have no item biases";
            return Err(Error::Unsupported { what });
        }
        if self.is_of_likes() && self.n_tastes > 0 && self.base.score_model.is_biased() {
            let what = "tastes of likes whose scores have item biases";
            return Err(Error::Unsupported { what });
        }
        let nights = "a whole number from 1 to 100000";
        params::in_range("most_nights", self.most_nights as usize, 1, 100_000, nights)?;
        params::in_range(
            "n_tastes",
            self.n_tastes,
            0,
            64,
            "a whole number from 0 to 64",
        )?;
        let most = u32::MAX as usize / self.len(1, self.n_tastes);
        let expected = "so few items that a night has less than 2^32 numbers";
        params::in_range("most_items", self.most_items, 1, most, expected)?;
        params::finite_non_negative("least_signal", self.least_signal)?;
        for (name, share) in [
            ("count_share", self.count_share),
            ("matrix_share", self.matrix_share),
            ("weight_share", self.weight_share),
        ] {
            params::open_unit(name, share)?;
        }
        let shares = self.count_share + self.matrix_share + self.weight_share;
        params::open_unit(
            "count_share, matrix_share and weight_share together",
            shares,
        )?;
        in_public_range("residual_bound", self.residual_bound)?;
        if !(0.1..=1.0).contains(&self.passes) {
            let (value, expected) = (self.passes, "a number from 0.1 to 1");
            return Err(dp_core::ParamError::new("passes", value, expected).into());
        }
        Ok(NightlyFactorization {
            params: self,
            fit,
            kept: None,
            until: None,
            public: None,
            assumptions: Vec::new(),
        })
    }

    const fn is_of_likes(&self) -> bool {
        self.base.feedback.implicit().is_some()
    }

    /// Dimension of users' factors, and number of entries of the matrix of their products, with
    /// this many taste factors.
    const fn of_users(&self, n_tastes: usize) -> (usize, usize) {
        let dim = if self.is_of_likes() {
            n_tastes
        } else {
            1 + n_tastes
        };
        let n_packed = if n_tastes > 0 { packed_len(dim) } else { 0 };
        (dim, n_packed)
    }

    /// Number of coordinates of a night with this many items and taste factors.
    const fn len(&self, n_items: usize, n_tastes: usize) -> usize {
        let (dim, n_packed) = self.of_users(n_tastes);
        1 + n_packed + n_items * (1 + dim)
    }

    /// Number of items of a night with `len` coordinates.
    const fn items_of(&self, len: usize, n_tastes: usize) -> Option<usize> {
        let of_items = len.saturating_sub(self.len(0, n_tastes));
        let of_one = self.len(1, n_tastes) - self.len(0, n_tastes);
        let n_items = of_items / of_one;
        if self.len(n_items, n_tastes) == len && n_items > 0 {
            Some(n_items)
        } else {
            None
        }
    }
}

/// A target on which no setting of nights depends.
fn any_target() -> ApproxDp {
    ApproxDp {
        epsilon: 1.0,
        delta: 1e-5,
    }
}

/// Matrix factorisation on a [`PacedLifetime`](dp_mechanism::PacedLifetime): validated settings, a
/// [`Trainer`].
///
/// ```text
/// user j    f_j, w_ij, e_ij, s_ij   as in a residual round around the current model: ItemResiduals, with equal weights
/// night t   one vector:  sqrt(p_n), sqrt(p_C) f_j f_j^T, sqrt(p_w) w_ij, sqrt(p_r) s_ij f_ij / c       p_n + p_C + p_w + p_r = 1
/// released  N_t, C_t, W_it, r_it    sums over users, each user by D_a / D of the lifetime, with noise
/// all       w_i = sum_t N_t W_it / G,   C = sum_t N_t C_t / G,   G = sum_t N_t^2 (minus the contribution of noise to the squares)
///           y_i = sum_t (N_t r_it / pi + N_t^2 w_i C x_it) / G        x_it the coefficients around which night t was summed
/// model     x_i maximises N(y_i; w_i C x_i, s^2) N(x_i; prior)        s^2 the variance of the noise in y_i
///
/// likes     one vector:  sqrt(p_n), sqrt(p_C) f_j f_j^T / F^2, sqrt(p_w) v_ij, sqrt(p_r) u_ij f_j / F      ||f_j|| <= F, v_ij = min(1/3, n_j^-1/2)
/// model     popularity V_i;  x_i = (a0 PSD(C) + ridge I)^-1 b_i        C, b_i means over users, the m-th night with taste factors weighted by m^2
/// ```
///
/// Nights are weighted by one number each, `N_t`, and divided by the latest weights `w_i`:
/// quotients of single nights would keep the errors of the first nights. The prior of item biases
/// has a trend in `ln w_i`; that of taste factors one variance for each axis of `C`. Its parameters
/// maximise the likelihood of the releases (empirical Bayes). [Public
/// columns](NightlyFactorization::with_columns) shift the means of both. If releases show that
/// items drift, all sums over nights lose weight from night to night, by the factor that best
/// predicted the nights so far. Until taste factors start, `C` is 1 and users' factors are `[1]`.
/// Before taste factors, a night of likes is `N_t` and the votes. `u_ij` are equal over the user's
/// items that are among the most popular by released votes, with `sum_i u_ij^2 = 1`; only these
/// items have taste factors.
///
/// # Privacy
/// Blocks have squared norms of at most `p_n`, `p_C`, `p_w` and `p_r`, since `||f_j|| <= 1` (`F`
/// with likes), `sum_i w_ij^2 <= 1`, `sum_i v_ij^2 <= 1`, `sum_i u_ij^2 <= 1` and
/// `sum_i s_ij^2 <= c^2`: one user's vector has norm 1 at most, before the kernel scales it to
/// `D_a` and checks that in integers. All nights together are one Gaussian event for the user's
/// whole lifetime. The model is post-processing.
///
/// # Examples
/// ```
/// use dp_multitask::{Adjacency, ApproxDp, NightlyParams, Trainer};
/// let nights = NightlyParams::for_ratings(1.0, 5.0, 1000).check()?;
/// let plan = nights.plan(800, ApproxDp::target(5.0, 1e-5)?, Adjacency::AddRemoveUser)?;
/// assert_eq!(plan.releases().len(), 1);
/// assert!(nights.plan(1001, ApproxDp::target(5.0, 1e-5)?, Adjacency::AddRemoveUser).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct NightlyFactorization {
    params: NightlyParams,
    fit: MatrixFactorization,
    kept: Option<NightState>,
    until: Option<usize>,
    public: Option<PublicRows>,
    assumptions: Vec<String>,
}

/// Public columns of items, row by row, in the order in which the items were added.
#[derive(Debug, Clone, PartialEq)]
struct PublicRows {
    rows: Vec<f64>,
    n_columns: usize,
}

settings_and_assumptions!(NightlyFactorization, NightlyParams);

impl Trainer for NightlyFactorization {
    type Data = Private<Interactions>;
    type Model = NightlyModel;
    type Error = Error;

    fn width(&self, data: &Private<Interactions>) -> usize {
        data.expose().n_items()
    }

    fn requests(&self, n_items: usize, _: Adjacency) -> Result<Requests> {
        let (most, expected) = (self.params.most_items, "no more items than most_items");
        params::in_range("n_items", n_items, 1, most, expected)?;
        let of_one = self.params.len(most, self.params.n_tastes) as u64;
        let n_draws = of_one.saturating_mul(self.params.most_nights.into());
        let nights = ReleaseRequest::new(NIGHTS, 1.0, ReplaceFactor::Two, n_draws);
        Ok(Requests::Shares(vec![nights]))
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        let certificate = certificate
            .released_output(
                "all nights of a user's lifetime together: item factors and noisy sums of every night, settings",
                "anyone",
            )
            .assumption("settings were not chosen by looking at this data set (their defaults come from MovieLens-1M)")
            .not_covered("personal models: each is seen by its own user only (joint DP)")
            .tuning_included(false);
        taken_on_trust(certificate, &self.assumptions)
    }

    /// Uses the nights in the list and tonight's, if the run has any.
    ///
    /// # Errors
    /// [`dp_mechanism::Error::EndOfList`] when there are none; errors of [`Run::night`].
    fn train(&self, data: &Private<Interactions>, run: &mut Run<'_>) -> Result<NightlyModel> {
        let mut nights = Nights::new(self);
        if let (Some(kept), Some(last)) = (&self.kept, run.last_listed())
            && kept.list_head == last
            && kept.numerics == NUMERICS
        {
            self.check_columns(kept)?;
            nights.state = kept.clone();
            run.skip_listed_nights(1.0)?;
        }
        while self.until.is_none_or(|until| nights.n_nights < until) {
            let n_items = match run.listed_len()? {
                Some(len) => nights.items_of(len)?,
                None => self.width(data),
            };
            let before = nights.n_items;
            nights.grow_to(n_items)?;
            let night = nights.tonight(|len, own| Ok(run.night(data, (len, 1.0), own)?))?;
            let Some(night) = night else {
                // made before: the model has that night's items, as in a replay
                nights.resize(before)?;
                break;
            };
            let before = std::mem::take(&mut nights.last);
            nights.observe(&night)?;
            nights.moved = moved(&before, &nights.last);
            nights.list_head = run.list_head().to_owned();
            nights.columns_sha256 = self.columns_sha256(n_items);
            run.round(&shown(nights.n_nights, &nights.rows, nights.dim()));
        }
        if nights.n_nights == 0 {
            return Err(RunError::EndOfList.into());
        }
        Ok(NightlyModel {
            model: nights.model(run.provenance())?,
            state: nights.state,
        })
    }
}

impl NightlyFactorization {
    /// The same starting from the [state](NightlyModel::state) after an earlier night. It replaces
    /// the nights of a list that ends with that night; with any other list, or computed by a version
    /// whose last digits differ, it is ignored, and all nights are processed again. The model is the same in both cases.
    /// A run with other [public columns](Self::with_columns) of its items is refused before it pays.
    #[must_use]
    pub fn continuing(mut self, kept: NightState) -> Self {
        self.kept = Some(kept);
        self
    }
}

impl NightlyFactorization {
    /// The same with public columns of the items: the mean of the prior of an item's bias and taste
    /// factors is linear in them, with weights that are learned from the releases ([`ItemPrior`]).
    /// Rows of `n_columns` in the order in which items were added, for as many items as the last
    /// night has. [State that is continued](Self::continuing) fixes the rows of the items it
    /// already has.
    ///
    /// # Privacy
    /// Columns are public and were not computed from the training records. The releases are the
    /// same without them.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`] with likes; errors of [`ItemPrior::new`].
    pub fn with_columns(mut self, rows: Vec<f64>, n_columns: usize) -> Result<Self> {
        if self.params.is_of_likes() {
            let what = "public columns of items with likes";
            return Err(Error::Unsupported { what });
        }
        ItemPrior::new(rows.clone(), n_columns, 0..0)?;
        self.public = Some(PublicRows { rows, n_columns });
        Ok(self)
    }

    /// Hash of the public columns of the first items.
    fn columns_sha256(&self, n_items: usize) -> String {
        let public = self.public.iter();
        let bytes = public.flat_map(|PublicRows { rows, n_columns }| {
            let rows = rows.iter().take(n_items * n_columns).map(|x| x.to_bits());
            std::iter::once(*n_columns as u64).chain(rows)
        });
        let bytes: Vec<u8> = bytes.flat_map(u64::to_le_bytes).collect();
        dp_accounting::sha256_hex(&bytes)
    }

    /// Returns an error if the columns differ from those used on earlier nights.
    fn check_columns(&self, kept: &NightState) -> Result<()> {
        // states written by an earlier version do not record any
        if kept.columns_sha256.is_empty()
            || kept.columns_sha256 == self.columns_sha256(kept.n_items)
        {
            return Ok(());
        }
        Err(RunError::List {
            what: format!(
                "the public columns of the first {} items are not those of its last night",
                kept.n_items
            ),
        }
        .into())
    }

    /// The same for the model after `n_nights` nights of a list that may have more.
    #[must_use]
    pub const fn until(mut self, n_nights: usize) -> Self {
        self.until = Some(n_nights);
        self
    }
}

/// The model of a night, and its released properties. Public.
#[derive(Debug, Clone, PartialEq)]
pub struct NightlyModel {
    /// Item factors.
    pub model: FactorModel,
    /// The evidence of the nights, for the next one.
    pub state: NightState,
}

impl NightState {
    /// Number of nights that were made.
    #[must_use]
    pub const fn n_nights(&self) -> usize {
        self.n_nights
    }

    /// Number of the last one.
    #[must_use]
    pub const fn last_night(&self) -> u32 {
        self.last_night
    }

    /// Number of taste factors of an item, 0 until they start.
    #[must_use]
    pub const fn n_tastes(&self) -> usize {
        self.n_tastes
    }

    /// Factor by which the weight of a night is multiplied with every further night: 1 unless
    /// releases showed that items drift.
    #[must_use]
    pub fn forgets_by(&self) -> f64 {
        self.forgetting.factor()
    }

    /// How far the item biases moved in the last night: root mean square over the items that
    /// existed before, in data units; for likes as a share of the largest. None after the first
    /// night.
    #[must_use]
    pub const fn moved(&self) -> Option<f64> {
        self.moved
    }
}

fn moved(before: &[f64], now: &[f64]) -> Option<f64> {
    let squares = before.iter().zip(now).map(|(a, b)| (a - b).powi(2));
    let mean = squares.sum::<f64>() / before.len() as f64;
    (!before.is_empty()).then(|| mean.sqrt())
}

/// A user's contribution to a night.
#[derive(Debug)]
pub struct NightContribution<'a> {
    n_items: usize,
    scales: Scales,
    records: Records<'a>,
}

/// What a night uses of users' records.
#[derive(Debug)]
enum Records<'a> {
    /// Likes before taste factors.
    Popularity,
    Likes(ItemStatistics<'a>),
    Ratings(ItemResiduals<'a>),
}

/// Factors by which the blocks of a user's vector are multiplied.
#[derive(Debug, Clone, Copy)]
struct Scales {
    count: f64,
    matrix: f64,
    weight: f64,
    residual: f64,
}

impl VectorContribution for NightContribution<'_> {
    type Scratch = Option<ResidualScratch>;

    fn scratch(&self) -> Self::Scratch {
        match &self.records {
            Records::Popularity => None,
            Records::Likes(statistics) => Some((statistics.describing_scratch(), Vec::new())),
            Records::Ratings(residuals) => Some(residuals.scratch()),
        }
    }

    fn contribute(&self, user: UserRow<'_>, scratch: &mut Self::Scratch, out: &mut SparseBuffer) {
        if user.is_empty() {
            return;
        }
        out.push(0, self.scales.count);
        match (&self.records, scratch) {
            (Records::Likes(statistics), Some(scratch)) => {
                statistics.describe(user, &mut scratch.0);
                let own = &scratch.0.1;
                let at = self.push_matrix(1, &own.factor, out);
                self.push_votes(at, user, out);
                let first = self.behind_items(at);
                for (&item, w) in user.items().iter().zip(&own.weights) {
                    add_row(out, (first, item), self.scales.residual * w, &own.factor);
                }
            }
            (Records::Ratings(residuals), Some(scratch)) => {
                residuals.statistics.describe_each(user, scratch);
                let ((_, own), each) = scratch;
                let (dim, mut at) = (own.factor.len(), 1);
                if dim > 1 {
                    at = self.push_matrix(at, &own.factor, out);
                }
                let weights = user.items().iter().zip(&own.weights);
                out.extend(weights.map(|(item, w)| (at + item, self.scales.weight * w)));
                let first = self.behind_items(at);
                residuals.bounded_residuals(user, own, each);
                let records = user.items().iter().zip(&own.labels);
                for ((&item, &s), f) in records.zip(each.chunks_exact(dim)) {
                    add_row(out, (first, item), self.scales.residual * s, f);
                }
            }
            _ => self.push_votes(1, user, out),
        }
    }
}

impl NightContribution<'_> {
    /// Adds the matrix of a user's factor starting at coordinate `at`; returns the first coordinate
    /// after it.
    fn push_matrix(&self, mut at: u32, factor: &[f64], out: &mut SparseBuffer) -> u32 {
        for_each_pair(factor.len(), |a, b, root| {
            out.push(at, self.scales.matrix * root * factor[a] * factor[b]);
            at += 1;
        });
        at
    }

    /// Adds one vote for each of the user's items, starting at coordinate `at`.
    fn push_votes(&self, at: u32, user: UserRow<'_>, out: &mut SparseBuffer) {
        let vote = (user.len() as f64).max(WHOLE_VOTES).sqrt().recip();
        let votes = user.items().iter();
        out.extend(votes.map(|item| (at + item, self.scales.weight * vote)));
    }

    #[allow(
        clippy::cast_possible_truncation,
        reason = "settings are refused where a night has 2^32 numbers"
    )]
    const fn behind_items(&self, at: u32) -> u32 {
        (at as usize + self.n_items) as u32
    }
}

/// Entries on and above the diagonal, with the factor that makes the norm of their list that of the
/// matrix.
fn for_each_pair(dim: usize, mut each: impl FnMut(usize, usize, f64)) {
    for a in 0..dim {
        for b in a..dim {
            let root = if a == b {
                1.0
            } else {
                std::f64::consts::SQRT_2
            };
            each(a, b, root);
        }
    }
}

/// Sums over nights, with each night weighted by `N_t`.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
struct Evidence {
    /// `G`: `sum_t N_t^2` minus the contribution of noise.
    precision: f64,
    /// `sum_t N_t^2` as released.
    squares: f64,
    /// `sum_t N_t r_t`.
    sums: Vec<f64>,
    /// `sum_t N_t^2 x_t`, minus the contribution of noise.
    positions: Vec<f64>,
}

/// `N_t`, and its square minus the contribution of noise.
type Speakers = (f64, f64);

impl Evidence {
    fn observe(&mut self, (n, n_squared): Speakers, sums: &[f64], scale: f64, at: &[f64]) {
        self.precision += n_squared;
        self.squares += n * n;
        self.sums.resize(sums.len(), 0.0);
        self.positions.resize(at.len(), 0.0);
        for (all, r) in self.sums.iter_mut().zip(sums) {
            *all += n * r / scale;
        }
        for (all, x) in self.positions.iter_mut().zip(at) {
            *all += n_squared * x;
        }
    }

    /// Multiplies the weight of the nights so far by `kept`, and the squares of their weights by
    /// `squares`.
    fn fade(&mut self, kept: f64, squares: f64) {
        self.precision *= kept;
        self.squares *= squares;
        let sums = self.sums.iter_mut().chain(&mut self.positions);
        sums.for_each(|sum| *sum *= kept);
    }

    const fn is_empty(&self) -> bool {
        self.precision <= 0.0
    }

    /// Standard deviation of the noise of sums divided by `G`, given that of one night.
    fn noise_stddev(&self, of_night: f64) -> f64 {
        of_night * self.squares.sqrt() / self.precision.max(f64::MIN_POSITIVE)
    }
}

/// Version of the arithmetic of [`NightState`], raised when the same nights give other last digits.
const NUMERICS: u32 = 3;

/// The evidence of all nights so far: computed from releases alone, and as public as they are. Pass
/// it to [`NightlyFactorization::continuing`], so that the time of a night does not depend on the
/// number of earlier nights.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NightState {
    /// Version of the arithmetic: a state of another version is ignored, as its last digits may
    /// differ from those of a replay.
    numerics: u32,
    /// Hash of the last night, which identifies all of them.
    list_head: String,
    /// Hash of the public columns of its items.
    #[serde(default)]
    columns_sha256: String,
    n_items: usize,
    n_nights: usize,
    last_night: u32,
    /// 0 until taste factors start.
    n_tastes: usize,
    /// Number of nights since then.
    n_with_tastes: u32,
    weights: Evidence,
    /// Residual sums of nights without taste factors, and with.
    biases: Evidence,
    tastes: Evidence,
    matrices: Evidence,
    forgetting: Forgetting,
    /// Noise of one coordinate of a night.
    noise_stddev: f64,
    /// Item factors `[h_i, q_i]`.
    rows: Vec<f64>,
    /// Item biases of the model, and how far the last night moved them.
    last: Vec<f64>,
    moved: Option<f64>,
    /// Posterior variances of the item factors of ratings.
    #[serde(default)]
    variances: Variances,
}

/// Posterior variances of the item biases, and of the taste factors along each of their axes: given
/// each other, the weights and the matrix.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
struct Variances {
    biases: Vec<f64>,
    /// An axis and the variances of all items along it.
    tastes: Vec<(Vec<f64>, Vec<f64>)>,
}

/// Posterior means and variances of one parameter per item.
type Estimates = (Vec<f64>, Vec<f64>);

/// The state together with the settings.
struct Nights<'a> {
    of: &'a NightlyFactorization,
    /// Public columns of the items of the night, standardised to mean 0 and variance 1 over these.
    columns: Vec<f64>,
    state: NightState,
}

impl std::ops::Deref for Nights<'_> {
    type Target = NightState;

    fn deref(&self) -> &NightState {
        &self.state
    }
}

impl std::ops::DerefMut for Nights<'_> {
    fn deref_mut(&mut self) -> &mut NightState {
        &mut self.state
    }
}

impl<'a> Nights<'a> {
    fn new(of: &'a NightlyFactorization) -> Self {
        Self {
            of,
            columns: Vec::new(),
            state: NightState {
                numerics: NUMERICS,
                ..NightState::default()
            },
        }
    }

    fn dim(&self) -> usize {
        1 + self.n_tastes
    }

    /// Dimension of users' factors, and number of entries of the matrix of their products.
    fn of_users(&self) -> (usize, usize) {
        self.of.params.of_users(self.n_tastes)
    }

    /// Number of items of a listed night with `len` coordinates.
    fn items_of(&self, len: usize) -> Result<usize> {
        let found = self.of.params.items_of(len, self.n_tastes);
        let wrong = || RunError::List {
            what: format!("a night of {len} numbers is not one of these settings"),
        };
        Ok(found.ok_or_else(wrong)?)
    }

    /// Adds items: nobody has rated them so far. Existing items keep their numbers.
    fn grow_to(&mut self, n_items: usize) -> Result<()> {
        let expected = "no fewer items than on the night before, and no more than most_items";
        let most = self.of.params.most_items;
        params::in_range("n_items", n_items, self.n_items.max(1), most, expected)?;
        self.resize(n_items)
    }

    fn resize(&mut self, n_items: usize) -> Result<()> {
        if let Some(PublicRows { rows, n_columns }) = &self.of.public
            && self.columns.len() != n_items * n_columns
        {
            let known = rows.len() / n_columns;
            let expected = "no more items than there are public rows of";
            params::in_range("n_items", n_items, 1, known, expected)?;
            let rows = rows[..n_items * n_columns].to_vec();
            self.columns = ItemPrior::new(rows, *n_columns, 0..0)?.into_columns();
        }
        self.n_items = n_items;
        self.weights.sums.resize(n_items, 0.0);
        self.biases.sums.resize(n_items, 0.0);
        self.biases.positions.resize(n_items, 0.0);
        let dim = self.dim();
        self.rows.resize(n_items * dim, 0.0);
        if !self.tastes.is_empty() {
            let n = n_items * self.of_users().0;
            self.tastes.sums.resize(n, 0.0);
            self.tastes.positions.resize(n, 0.0);
        }
        Ok(())
    }

    fn scales(&self) -> Scales {
        let of = &self.of.params;
        // norm of a user's factor, and of residuals or likes times it
        let (factor, unit) = match of.is_of_likes() {
            true => (of.base.clip_norm, of.base.clip_norm),
            false => (1.0, of.residual_bound * of.base.label_bound),
        };
        let matrix = if self.n_tastes > 0 {
            of.matrix_share
        } else {
            0.0
        };
        let (weight, residual) = match of.is_of_likes() && self.n_tastes == 0 {
            true => (1.0 - of.count_share, 0.0),
            false => (
                of.weight_share,
                1.0 - of.count_share - matrix - of.weight_share,
            ),
        };
        Scales {
            count: INSIDE * of.count_share.sqrt(),
            matrix: INSIDE * matrix.sqrt() / (factor * factor),
            weight: INSIDE * weight.sqrt(),
            residual: INSIDE * residual.sqrt() / unit,
        }
    }

    /// Coefficients in the coordinates of users' factors. Nothing is known about taste factors on
    /// their first night, when users' factors are based on public ones.
    fn coefficients(&self) -> Vec<f64> {
        let dim = self.dim();
        let mut x = self.of.fit.coefficients(&self.rows, dim);
        if self.tastes.is_empty() {
            x.chunks_exact_mut(dim).for_each(|x| x[1..].fill(0.0));
        }
        x
    }

    /// Calls `make` with the length of the next night and users' contribution to it.
    fn tonight<T>(
        &self,
        make: impl FnOnce(usize, &NightContribution<'_>) -> Result<T>,
    ) -> Result<T> {
        let of = &self.of.params;
        let len = of.len(self.n_items, self.n_tastes);
        let (n_items, scales) = (self.n_items, self.scales());
        let (fit, dim) = (&self.of.fit, self.dim());
        if of.is_of_likes() {
            let weights = fit.weights(n_items, Some(&self.popularity()?))?;
            let records = match self.n_tastes {
                0 => Records::Popularity,
                _ => Records::Likes(fit.statistics(dim, &self.rows, &weights)?),
            };
            let contribution = NightContribution {
                n_items,
                scales,
                records,
            };
            return make(len, &contribution);
        }
        let coefficients = self.coefficients();
        let weights = TaskWeights::uniform(n_items);
        let statistics = fit.statistics(dim, &self.rows, &weights)?;
        let bound = of.residual_bound * of.base.label_bound;
        let residuals = fit.residuals(&statistics, &coefficients, bound, GradientClip::Joint)?;
        let records = Records::Ratings(residuals);
        make(
            len,
            &NightContribution {
                n_items,
                scales,
                records,
            },
        )
    }

    /// Adds a night.
    fn observe(&mut self, night: &ReleasedNight) -> Result<()> {
        let released = night.sum.values();
        let noise = night.sum.noise_stddev();
        let scales = self.scales();
        self.noise_stddev = noise;
        let n = (released[0] / scales.count).max(0.0);
        let n_speakers = (n, (n * n - (noise / scales.count).powi(2)).max(0.0));
        let (packed, rest) = released[1..].split_at(self.of_users().1);
        let (weights, residuals) = rest.split_at(self.n_items);
        let gap = night.number.saturating_sub(self.last_night);
        self.forget(gap);
        // a night's votes have the scale of that night
        let scale = scales.weight;
        let votes = (n * scale, n_speakers.1 * scale * scale);
        self.weights.observe(votes, weights, 1.0, &[]);
        self.n_nights += 1;
        self.last_night = night.number;
        if self.of.params.forgets {
            self.compare(n_speakers, gap, (weights, residuals))?;
        }
        if self.n_tastes > 0 {
            if self.of.params.is_of_likes() {
                let n = f64::from(self.n_with_tastes);
                let kept = (n / (n + 1.0)).powi(LATE);
                self.tastes.fade(kept, kept * kept);
                self.matrices.fade(kept, kept * kept);
                self.n_with_tastes += 1;
                self.tastes
                    .observe(n_speakers, residuals, scales.residual, &[]);
            } else {
                let x = self.coefficients();
                self.tastes
                    .observe(n_speakers, residuals, scales.residual, &x);
            }
            let matrices = &mut self.matrices;
            matrices.observe(n_speakers, packed, scales.matrix, &[]);
        } else if !self.of.params.is_of_likes() {
            let x = self.coefficients();
            self.biases
                .observe(n_speakers, residuals, scales.residual, &x);
        }
        if self.of.params.is_of_likes() {
            self.combine_likes()?;
        } else {
            self.combine()?;
            self.last = self.rows.iter().step_by(self.dim()).copied().collect();
        }
        self.begin_tastes()
    }

    /// Discounts the nights so far, `gap` nights after the last.
    fn forget(&mut self, gap: u32) {
        let factor = self.forgetting.factor();
        if factor < 1.0 {
            let kept = factor.powf(gap.into());
            let state = &mut self.state;
            for evidence in [
                &mut state.weights,
                &mut state.biases,
                &mut state.tastes,
                &mut state.matrices,
            ] {
                evidence.fade(kept, kept); // drift since then counts as noise
            }
        }
    }

    /// Compares how well each factor predicted this night's biases, or likes.
    fn compare(
        &mut self,
        (n, n_squared): Speakers,
        gap: u32,
        (likes, residuals): (&[f64], &[f64]),
    ) -> Result<()> {
        if self.weights.is_empty() {
            return Ok(());
        }
        let (scales, params, dim) = (self.scales(), &self.of.params, self.dim());
        let (values, scale, weights, unit, around) = if params.is_of_likes() {
            let (weights, noise) = self.item_weights(0.0);
            let most = weights.iter().copied().fold(noise, f64::max);
            let ones = vec![1.0; self.n_items];
            let zeros = vec![0.0; self.n_items];
            (likes.to_vec(), scales.weight, ones, most, zeros)
        } else {
            let constant = match dim {
                1 => 1.0,
                _ => bias_coordinate(params.base.clip_norm, dim),
            };
            let (weights, _) = self.item_weights(1.0);
            let scale = scales.residual * params.passes * constant;
            let items = residuals.chunks_exact(dim).zip(self.rows.chunks_exact(dim));
            let values = items.zip(&weights);
            let values = values.map(|((r, row), w)| r[0] + n * scale * w * row[0]);
            let around = self.rows.iter().step_by(dim).copied().collect();
            (
                values.collect(),
                scale,
                weights,
                params.base.label_bound,
                around,
            )
        };
        let night = Told {
            values: &values,
            gain: (n * scale, n_squared * scale * scale),
            gain_noise: (self.noise_stddev / scales.count * scale).powi(2),
            around: &around,
            noise: self.noise_stddev,
            weights: &weights,
            unit,
        };
        self.state.forgetting.observe(&night, gap)
    }

    /// `w_i`, at least `least` standard deviations of their noise, and that noise.
    fn item_weights(&self, least: f64) -> (Vec<f64>, f64) {
        let g = self.weights.precision.max(f64::MIN_POSITIVE);
        let noise = self.weights.noise_stddev(self.noise_stddev);
        let of = self.weights.sums.iter().map(|w| (w / g).max(least * noise));
        (of.collect(), noise)
    }

    /// Ratio of the self-weighted mean weight of an item in use to the noise of a coordinate of
    /// this size with the whole norm: `sqrt(G) sum_i w_i^2 / sum_i w_i`, minus three standard
    /// deviations of the noise in the squares.
    fn signal(&self) -> f64 {
        if self.weights.is_empty() {
            return 0.0;
        }
        let (weights, noise) = self.item_weights(f64::NEG_INFINITY);
        let total: f64 = weights.iter().sum();
        let squares: f64 = weights.iter().map(|w| w * w - noise * noise).sum();
        let squares = squares - 3.0 * noise * noise * (2.0 * self.n_items as f64).sqrt();
        if total <= 0.0 || squares <= 0.0 {
            return 0.0;
        }
        let whole = self.weights.precision.sqrt() / self.scales().weight;
        squares / total * whole / self.noise_stddev
    }

    /// Starts taste factors from public ones, once items are known well enough.
    fn begin_tastes(&mut self) -> Result<()> {
        let of = &self.of.params;
        if self.n_tastes > 0 || of.n_tastes == 0 {
            return Ok(());
        }
        if self.signal() < of.least_signal {
            return Ok(());
        }
        self.n_tastes = of.n_tastes;
        let (dim, base) = (self.dim(), &of.base);
        let mut rows = initial_factors(self.n_items, dim, base.init_stddev, base.init_seed)?;
        if of.is_of_likes() {
            let weights = self
                .of
                .fit
                .weights(self.n_items, Some(&self.popularity()?))?;
            weights.clear_others(&mut rows);
        } else {
            for (row, h) in rows.chunks_exact_mut(dim).zip(&self.rows) {
                row[0] = *h;
            }
        }
        self.rows = rows;
        Ok(())
    }

    /// Standard deviation of the noise in the `y_i` of these nights.
    fn noise_of(&self, evidence: &Evidence) -> f64 {
        evidence.noise_stddev(self.noise_stddev / self.scales().residual / self.of.params.passes)
    }

    /// Posterior means and variances of one parameter per item, for items with these weights and
    /// public columns.
    fn given_columns(&self, evidence: ItemEvidence, weights: &[f64]) -> Result<Estimates> {
        let known = Known {
            sampling: &[],
            columns: &self.columns,
            ..Known::of_biases(weights, self.of.params.base.label_bound)
        };
        let estimates = match self.columns.is_empty() {
            true => evidence,
            false => evidence.quick(),
        }
        .of_biases(&known)?;
        Ok(estimates.into_iter().unzip())
    }

    /// Computes the model that maximises the likelihood of the releases.
    fn combine(&mut self) -> Result<()> {
        if self.weights.is_empty() {
            return Ok(());
        }
        let (weights, _) = self.item_weights(1.0);
        let of_biases = self.seen_without_tastes(&weights);
        if self.tastes.is_empty() {
            let evidence = ItemEvidence::of(of_biases.0, of_biases.1);
            let (h, variances) = self.given_columns(evidence, &weights)?;
            let dim = self.dim();
            let rows = self.rows.chunks_exact_mut(dim);
            rows.zip(h).for_each(|(row, h)| row[0] = h);
            self.variances = Variances {
                biases: variances,
                tastes: Vec::new(),
            };
            return Ok(());
        }
        let (dim, d) = (self.dim(), self.n_tastes);
        let c = self.mean_matrix();
        let constant = bias_coordinate(self.of.params.base.clip_norm, dim);
        let y = self.seen_with_tastes(&weights, &c);
        let noise = self.noise_of(&self.tastes);
        let of_tastes: Vec<f64> = (c.chunks_exact(dim).skip(1))
            .flat_map(|row| row[1..].to_vec())
            .collect();
        let axes = symmetric_eigen(&of_tastes, d)?;
        let mut x = self.of.fit.coefficients(&self.rows, dim);
        // biases given taste factors, then taste factors given biases: the next night removes the
        // error that remains after two iterations
        let mut variances = Variances::default();
        for _ in 0..2 {
            let precision = (constant / noise).powi(2);
            let all = precision + of_biases.1;
            let both = (0..self.n_items).map(|item| {
                let own = &x[item * dim..][..dim];
                let tastes: f64 = (1..dim).map(|k| c[k] * own[k]).sum();
                let with = (y[item * dim] - weights[item] * tastes) / constant;
                (precision * with + of_biases.1 * of_biases.0[item]) / all
            });
            let evidence = ItemEvidence::of(both.collect(), all);
            let (h, of_h) = self.given_columns(evidence, &weights)?;
            variances = Variances {
                biases: of_h,
                tastes: Vec::with_capacity(d),
            };
            for (own, h) in x.chunks_exact_mut(dim).zip(h) {
                own[0] = h / constant;
                own[1..].fill(0.0);
            }
            for (axis, length) in axes.vectors.chunks_exact(d).zip(&axes.values) {
                let length = length.max(0.0);
                let along = |item: usize| -> f64 {
                    let of_bias = weights[item] * x[item * dim];
                    let rest = (1..dim).map(|k| y[item * dim + k] - of_bias * c[k * dim]);
                    axis.iter().zip(rest).map(|(u, y)| u * y).sum()
                };
                let y: Vec<f64> = (0..self.n_items).map(along).collect();
                let lengths: Vec<f64> = weights.iter().map(|w| w * length).collect();
                let (q, of_q) = self.tastes_along(y, &lengths, noise * noise)?;
                variances.tastes.push((axis.to_vec(), of_q));
                for (own, q) in x.chunks_exact_mut(dim).zip(q) {
                    let tastes = own[1..].iter_mut().zip(axis);
                    tastes.for_each(|(x, u)| *x += u * q);
                }
            }
        }
        self.rows = self.of.fit.rows(x, dim);
        self.variances = variances;
        Ok(())
    }

    /// Taste factors along an axis, from their sums `y_i ~ N(w_i q_i, noise)`, and their posterior
    /// variances.
    fn tastes_along(&self, y: Vec<f64>, weights: &[f64], noise: f64) -> Result<Estimates> {
        let unit = self.of.params.base.label_bound;
        if !self.columns.is_empty() && weights.iter().all(|w| *w > 0.0) {
            return self.given_columns(ItemEvidence::of(y, noise.recip()), weights);
        }
        let seen: Vec<(f64, f64)> = y.into_iter().zip(weights.iter().copied()).collect();
        let variance = most_likely_variance(&seen, noise, unit);
        let of_one = |(y, w): (f64, f64)| {
            let spread = w * w * variance + noise;
            (w * variance * y / spread, variance * noise / spread)
        };
        Ok(seen.into_iter().map(of_one).unzip())
    }

    /// `w_i` as counts.
    fn popularity(&self) -> Result<NoisyCounts> {
        if self.weights.is_empty() {
            return NoisyCounts::released_elsewhere(vec![0.0; self.n_items], 1.0, false);
        }
        let (weights, noise) = self.item_weights(f64::NEG_INFINITY);
        let most = weights.iter().copied().fold(noise, f64::max);
        let unit = most.max(f64::MIN_POSITIVE) / POPULAR;
        let values = weights.iter().map(|w| w / unit).collect();
        NoisyCounts::released_elsewhere(values, noise / unit, false)
    }

    /// Popularity, and taste factors of the most popular items:
    /// `x_i = (a0 PSD(C) + ridge I)^-1 b_i` for means `C`, `b_i` over users.
    fn combine_likes(&mut self) -> Result<()> {
        let popularity = self.popularity()?;
        let of = &self.of.params;
        self.state.last = popularity
            .values()
            .iter()
            .map(|n| n.max(0.0) / POPULAR)
            .collect();
        let (Some(implicit), false) = (of.base.feedback.implicit(), self.tastes.is_empty()) else {
            if self.n_tastes == 0 {
                self.state.rows = self.state.last.clone();
            }
            return Ok(());
        };
        let (d, dim) = (self.n_tastes, self.dim());
        let mut matrix = self.system_of_likes(implicit)?;
        cholesky_in_place(&mut matrix, d)?;
        let precision = self.tastes.precision;
        let mut x: Vec<f64> = self.tastes.sums.iter().map(|b| b / precision).collect();
        for x in x.chunks_exact_mut(d) {
            cholesky_solve_in_place(&matrix, d, x)?;
        }
        let mut rows = self.of.fit.rows(x, dim);
        let weights = self.of.fit.weights(self.n_items, Some(&popularity))?;
        weights.clear_others(&mut rows);
        self.rows = rows;
        Ok(())
    }

    /// `a0 PSD(C) + ridge I`.
    fn system_of_likes(&self, implicit: &ImplicitFeedback) -> Result<Vec<f64>> {
        let d = self.n_tastes;
        let mut matrix = self.mean_matrix();
        project_psd_in_place(&mut matrix, d)?;
        let ridge = ridge(&self.of.params.base, self.noise_of_likes(), d);
        for (at, cell) in matrix.iter_mut().enumerate() {
            *cell *= implicit.item_unobserved_weight;
            if at % (d + 1) == 0 {
                *cell += ridge;
            }
        }
        Ok(matrix)
    }

    /// Standard deviations of the noise in item factors of likes, as in one run
    /// (`MatrixFactorization::noise_of_likes`), with the noise of the sums over all nights. The
    /// popularity of items in column 0 has no error yet.
    fn errors_of_likes(&self, implicit: &ImplicitFeedback) -> Result<Vec<f64>> {
        let (d, dim) = (self.n_tastes, self.dim());
        let inverse = inverse(&mut self.system_of_likes(implicit)?, d)?;
        let of_matrices = self.noise_of_matrices();
        let noise = SystemNoise {
            rhs: self.noise_of_likes().powi(2),
            matrix: (implicit.item_unobserved_weight * of_matrices).powi(2),
        };
        let zero = vec![0.0; d];
        let mut errors = vec![0.0; self.rows.len()];
        let items = errors.chunks_exact_mut(dim);
        for (error, row) in items.zip(self.rows.chunks_exact(dim)) {
            if row[1..].iter().any(|q| *q != 0.0) {
                noise.write_stddevs(&inverse, (&row[1..], &zero), &mut error[1..]);
            }
        }
        Ok(errors)
    }

    /// Standard deviation of the noise on the diagonal of `C`.
    fn noise_of_matrices(&self) -> f64 {
        let of_night = self.noise_stddev / self.scales().matrix;
        self.matrices.noise_stddev(of_night)
    }

    /// Standard deviation of the noise in the means `b_i`.
    fn noise_of_likes(&self) -> f64 {
        let of_night = self.noise_stddev / self.scales().residual;
        self.tastes.noise_stddev(of_night)
    }

    /// `y_i` of the nights before taste factors, and the precision of their noise; 0 if there were
    /// none.
    fn seen_without_tastes(&self, weights: &[f64]) -> (Vec<f64>, f64) {
        let of = &self.biases;
        if of.is_empty() {
            return (vec![0.0; self.n_items], 0.0);
        }
        let passes = self.of.params.passes;
        let sums = of.sums.iter().zip(&of.positions).zip(weights);
        let y = sums.map(|((r, h), w)| (r / passes + w * h) / of.precision);
        (y.collect(), self.noise_of(of).powi(-2))
    }

    /// `y_i` of the nights with taste factors, rows of length `dim`.
    fn seen_with_tastes(&self, weights: &[f64], c: &[f64]) -> Vec<f64> {
        let (dim, of, passes) = (self.dim(), &self.tastes, self.of.params.passes);
        let items = of
            .sums
            .chunks_exact(dim)
            .zip(of.positions.chunks_exact(dim));
        let rows = items.zip(weights).flat_map(|((r, x), w)| {
            c.chunks_exact(dim).zip(r).map(move |(row, r)| {
                let fitted: f64 = row.iter().zip(x).map(|(c, x)| c * x).sum();
                (r / passes + w * fitted) / of.precision
            })
        });
        rows.collect()
    }

    /// `C`, row-major.
    fn mean_matrix(&self) -> Vec<f64> {
        let dim = self.of_users().0;
        let mut full = vec![0.0; dim * dim];
        let mut packed = self.matrices.sums.iter();
        for_each_pair(dim, |a, b, root| {
            let sum = packed.next().copied().unwrap_or_default();
            let mean = sum / root / self.matrices.precision;
            (full[a * dim + b], full[b * dim + a]) = (mean, mean);
        });
        full
    }

    /// The current model.
    fn model(&self, provenance: Provenance) -> Result<FactorModel> {
        let (dim, base) = (self.dim(), &self.of.params.base);
        if self.tastes.is_empty() {
            let scoring = Scoring {
                score_model: ScoreModel::Biased,
                ..base.scoring(1)
            };
            let errors = match self.of.params.is_of_likes() {
                true => vec![self.popularity()?.noise_stddev() / POPULAR; self.n_items],
                false => self.variances.biases.iter().map(|v| v.sqrt()).collect(),
            };
            return self.with_effects(scoring, (self.last.clone(), errors), provenance);
        }
        let mut rows = self.rows.clone();
        if let Some(implicit) = base.feedback.implicit() {
            let mut errors = self.errors_of_likes(implicit)?;
            write_popularity((&mut rows, &mut errors), dim, &self.popularity()?);
            return self.with_effects(base.scoring(dim), (rows, errors), provenance);
        }
        let noise = self.noise_of_matrices();
        let tastes = &self.variances.tastes;
        let mut axes: Vec<f64> = tastes
            .iter()
            .flat_map(|(axis, _)| [&[0.0], &axis[..]].concat())
            .collect();
        if dim > 2 {
            let matrix = (&self.mean_matrix()[..], noise);
            for rows in [&mut rows, &mut axes] {
                spread_alike(rows, dim, matrix, base.label_bound)?;
            }
        }
        let mut errors = Vec::with_capacity(rows.len());
        for (item, of_bias) in self.variances.biases.iter().enumerate() {
            errors.push(of_bias.sqrt());
            errors.extend((1..dim).map(|k| {
                let along = axes.chunks_exact(dim).zip(tastes);
                let squares = along.map(|(axis, (_, v))| v[item] * axis[k] * axis[k]);
                squares.sum::<f64>().sqrt()
            }));
        }
        self.with_effects(base.scoring(dim), (rows, errors), provenance)
    }

    /// The model with these factors, and once there are weights of the items with these standard
    /// errors, and for ratings with global effects.
    fn with_effects(
        &self,
        scoring: Scoring,
        (rows, errors): (Vec<f64>, Vec<f64>),
        provenance: Provenance,
    ) -> Result<FactorModel> {
        let is_known = !self.weights.is_empty();
        // nights of noise alone may leave no finite error
        let are_known = errors.len() == rows.len() && errors.iter().all(|e| e.is_finite());
        let errors = (is_known && are_known).then_some(errors);
        let has_effects = self.of.params.base.global_effects && !self.of.params.is_of_likes();
        let (scoring, rows, errors) = match has_effects && is_known {
            true => {
                let totals = self.item_weights(1.0);
                let known = (&rows[..], errors.as_deref());
                let (rows, errors) = with_global_effects(known, scoring.dim, (&totals.0, totals.1));
                (scoring.with_effects(), rows, errors)
            }
            false => (scoring, rows, errors),
        };
        let model = FactorModel::new(scoring, rows, provenance)?;
        match errors {
            Some(errors) => model.with_standard_errors(errors),
            None => Ok(model),
        }
    }
}

/// The `v` that maximises the likelihood of `y_i ~ N(0, w_i^2 v + noise)`, for pairs `(y_i, w_i)`.
fn most_likely_variance(seen: &[(f64, f64)], noise: f64, unit: f64) -> f64 {
    let likelihood = |v: f64| -> f64 {
        let of_one = |(y, w): &(f64, f64)| {
            let spread = w * w * v + noise;
            -spread.ln() - y * y / spread
        };
        seen.iter().map(of_one).sum()
    };
    spreads(unit)
        .map(|v| (likelihood(v), v))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map_or(0.0, |(_, v)| v)
}
