//! One shared subspace that is learned night by night, on one budget for each user's lifetime.

use dp_accounting::{CertificateBuilder, ReleaseRequest, Requests};
use dp_core::{Adjacency, ReplaceFactor, UserRow, UserSamples, params};
use dp_linalg::{packed_len, symmetric_eigen};
use dp_mechanism::{
    Error as RunError, Provenance, ReleasedNight, Run, SparseBuffer, Trainer, VectorContribution,
};

use crate::init::{ProjectorScratch, ProjectorSum};
use crate::residual::{
    Public, ResidualAltMinParams, ResidualScratch, ResidualStep, Spread, Whitening, gradient_cache,
    of_features_as_they_are, shrunk_change, unwhitened,
};
use crate::small::{
    clip_factor, norm, read_symmetric, transposed, write_symmetric, write_symmetric_square,
};
use crate::subspace::describe;
use crate::user_rows::UserCells;
use crate::{Error, Result, Subspace};

/// Keeps rounding from pushing a contribution over its bound, where the kernel would drop it.
const INSIDE: f64 = 1.0 - 1e-9;
/// Share of a user's squared norm for the indicator that the user contributes.
const COUNT_SHARE: f64 = 0.02;
/// Mean clipping factor that the clip of the steps is moved towards.
const MEAN_FACTOR: f64 = 0.5;
/// Range of that clip; 1 is an error as large as the subspace itself.
const CLIPS: std::ops::RangeInclusive<f64> = 1e-3..=4.0;
/// The clip follows a night only where sums are so many standard deviations of their noise.
const CLEAR: f64 = 10.0;
/// The label of the one release that pays for all nights.
const NIGHTS: &str = "nights";

/// Settings of [`NightlySubspace`], not yet checked. All are public, and none has a unit.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NightlySubspaceParams {
    /// Dimension of the subspace `k`, 1 to 256.
    pub rank: usize,
    /// Nights that the lifetime pays for, 1 to 100,000: more than will be made. They cost delta next to nothing.
    pub most_nights: u32,
    /// Whether the first nights learn a whitening transform; `false` for features that are known to be isotropic.
    pub whitens: bool,
    /// A stage ends when what it learns is so many times the spectral norm of its noise, above 0.
    pub least_signal: f64,
    /// Weight of the moments of users' models against their residual gradients.
    pub moment_weight: f64,
}

impl NightlySubspaceParams {
    /// Defaults for a subspace of dimension `rank`.
    ///
    /// # Examples
    /// ```
    /// assert!(dp_personalize::NightlySubspaceParams::new(2).check().is_ok());
    /// ```
    #[must_use]
    pub const fn new(rank: usize) -> Self {
        Self {
            rank,
            most_nights: 3650,
            whitens: true,
            least_signal: 2.0,
            moment_weight: 0.25,
        }
    }

    /// Most features, a shared intercept included.
    pub const MAX_FEATURES: usize = 256;

    /// Checks every range.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first setting out of range.
    pub fn check(self) -> Result<NightlySubspace> {
        params::in_range("rank", self.rank, 1, 256, "a whole number from 1 to 256")?;
        let nights = "a whole number from 1 to 100000";
        params::in_range("most_nights", self.most_nights as usize, 1, 100_000, nights)?;
        params::finite_positive("least_signal", self.least_signal)?;
        params::finite_positive("moment_weight", self.moment_weight)?;
        Ok(NightlySubspace {
            params: self,
            kept: None,
            until: None,
            assumptions: Vec::new(),
        })
    }

    /// What the clip of direction moments and the lift of their eigenvalues are in one run.
    fn whitening(self) -> Option<Whitening> {
        ResidualAltMinParams::new(self.rank)
            .whitening
            .filter(|_| self.whitens)
    }
}

/// Alternating minimisation on a [`PacedLifetime`](dp_mechanism::PacedLifetime), for the squared loss: a [`Trainer`].
///
/// Each night releases one vector of sums over users. What it holds depends on the stage, and stages follow from releases:
///
/// ```text
/// user j      C_j, u_j, R_j, S_j, a_j   as in one run: DirectionMoments, ProjectorSum, ResidualStep
/// directions  sqrt(p_n), sqrt(1 - p_n) C_j / c_0        until the mean eigenvalue of the sum is clear: then features are whitened
/// projectors  sqrt(p_n), sqrt(1 - p_n) u_j u_j^T        until the k-th eigenvalue is clear: then its top eigenvectors are U_0
/// steps       sqrt(p_n), sqrt(1 - p_n) a_j (R_j / c_t, beta S_j) / sqrt(1 + beta^2)
/// released    N_t, and the sums of the rest, each user by D_a / D of the lifetime, with noise
/// stages 1, 2 sum_t N_t Y_t
/// stage 3     B = sum_t N_t (R_t + U_t S_t) / c_t^2,   S = sum_t N_t S_t / c_t^2       U_t the basis that night t was summed around
/// model       U_0 + (B S^-1 - U_0) shrunk, orthonormalised  along each eigenvector of S by the James-Stein factor of the noise in B
/// ```
///
/// A night's `U_t + R_t S_t^-1` spans the true subspace up to noise for any `U_t` that is not orthogonal to it, so nights around different bases can be averaged. The
/// weight `N_t / c_t^2` is that of the smallest noise. `trace(S_t) / N_t` is the mean clipping factor; the next clip moves it towards one half.
///
/// # Privacy
/// One user's vector has norm 1 at most: the blocks have squared norms `p_n` and `1 - p_n`. The kernel scales it to `D_a` and checks that in integers. All
/// nights together are one Gaussian event for the user's whole lifetime, whenever rows are added, changed or deleted. The model is post-processing.
///
/// # Examples
/// ```
/// use dp_personalize::{Adjacency, ApproxDp, NightlySubspaceParams, Trainer};
/// let nights = NightlySubspaceParams::new(2).check()?;
/// let plan = nights.plan(50, ApproxDp::target(5.0, 1e-5)?, Adjacency::AddRemoveUser)?;
/// assert_eq!(plan.releases().len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct NightlySubspace {
    params: NightlySubspaceParams,
    kept: Option<SubspaceState>,
    until: Option<usize>,
    assumptions: Vec<String>,
}

/// The subspace of a night, and the state for the next night. Public.
#[derive(Debug, Clone, PartialEq)]
pub struct NightlySubspaceModel {
    /// The shared subspace.
    pub subspace: Subspace,
    /// For the next night.
    pub state: SubspaceState,
}

impl NightlySubspace {
    /// The settings.
    #[must_use]
    pub const fn params(&self) -> &NightlySubspaceParams {
        &self.params
    }

    /// The same starting from the [state](NightlySubspaceModel::state) after an earlier night. It replaces
    /// the nights of a list that ends with that night; with any
    /// other list it is ignored, and all nights are replayed. The model is the same either way.
    #[must_use]
    pub fn continuing(mut self, kept: SubspaceState) -> Self {
        self.kept = Some(kept);
        self
    }

    /// The same for the model after so many nights of a list that may have more.
    #[must_use]
    pub const fn until(mut self, n_nights: usize) -> Self {
        self.until = Some(n_nights);
        self
    }

    /// The same with one more assumption in the certificate.
    #[must_use]
    pub fn assuming(mut self, text: impl Into<String>) -> Self {
        self.assumptions.push(text.into());
        self
    }
}

impl Trainer for NightlySubspace {
    type Data = UserSamples;
    type Model = NightlySubspaceModel;
    type Error = Error;

    fn width(&self, samples: &UserSamples) -> usize {
        samples.n_features()
    }

    fn requests(&self, dim: usize, _: Adjacency) -> Result<Requests> {
        let most = NightlySubspaceParams::MAX_FEATURES;
        params::in_range("dim", dim, self.params.rank, most, "from rank to 256")?;
        let stages = [Stage::Projectors, Stage::Steps];
        let longest = stages.map(|stage| stage.len(dim, self.params.rank));
        let longest = longest.into_iter().max().unwrap_or_default() as u64;
        let n_draws = longest.saturating_mul(self.params.most_nights.into());
        let nights = ReleaseRequest::new(NIGHTS, 1.0, ReplaceFactor::Two, n_draws);
        Ok(Requests::Shares(vec![nights]))
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        let output = "all nights of a user's lifetime together: basis of the shared subspace and noisy sums of every night, settings";
        let certificate = describe(certificate, output);
        let assumed = self.assumptions.iter().cloned();
        assumed.fold(certificate, CertificateBuilder::assumption)
    }

    /// Nights from the list and tonight's, as far as the run has any.
    ///
    /// # Errors
    /// [`dp_mechanism::Error::EndOfList`] when there is none at all; those of [`Run::night`].
    fn train(&self, samples: &UserSamples, run: &mut Run<'_>) -> Result<NightlySubspaceModel> {
        let mut nights = Nights {
            of: &self.params,
            state: SubspaceState::first(&self.params, samples.n_features())?,
        };
        if let (Some(kept), Some(last)) = (&self.kept, run.last_listed())
            && kept.list_head == last
            && kept.basis.len() == nights.state.basis.len()
        {
            nights.state = kept.clone();
            run.skip_listed_nights(1.0)?;
        }
        while self.until.is_none_or(|until| nights.state.n_nights < until) {
            let users = (!run.is_replaying()?).then_some(samples);
            let tonight = nights.tonight(users, |len, own| {
                Ok(run.night(samples.table(), (len, 1.0), own)?)
            });
            let Some(night) = tonight? else {
                break;
            };
            nights.observe(&night)?;
            nights.state.list_head = run.list_head().to_owned();
            let model = nights.state.subspace(Provenance::Private)?;
            model.show(nights.state.n_nights, run);
        }
        if nights.state.n_nights == 0 {
            return Err(RunError::EndOfList.into());
        }
        Ok(NightlySubspaceModel {
            subspace: nights.state.model(run.provenance())?,
            state: nights.state,
        })
    }
}

/// The block that a night's vector has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Stage {
    Directions,
    Projectors,
    Steps,
}

impl Stage {
    /// Numbers of a night.
    const fn len(self, dim: usize, rank: usize) -> usize {
        1 + match self {
            Self::Directions | Self::Projectors => packed_len(dim),
            Self::Steps => ResidualStep::n_coordinates(dim, rank),
        }
    }
}

/// Sums over all nights so far. Computed from the releases only, and as public as they are. For
/// [`NightlySubspace::continuing`].
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubspaceState {
    /// Hash of the last night, which identifies all of them.
    list_head: String,
    dim: usize,
    rank: usize,
    n_nights: usize,
    last_night: u32,
    stage: Stage,
    /// Weighted sums over the nights of the stage: a packed matrix, or `B` row by row and `S`.
    sums: Vec<f64>,
    /// Variance of the noise in them; of steps, in `B` and in `S`.
    variances: [f64; 2],
    /// The whitening transform, row by row; empty for none.
    transform: Vec<f64>,
    /// `U_0`, and the subspace so far, for whitened features.
    start: Vec<f64>,
    basis: Vec<f64>,
    clip: f64,
    moved: Option<f64>,
}

impl SubspaceState {
    /// Before any night. The first basis is public: unit vectors.
    fn first(params: &NightlySubspaceParams, dim: usize) -> Result<Self> {
        let rank = params.rank;
        let unit = vec![0.0; dim * rank];
        let basis = Subspace::spanned_by(dim, rank, &unit, Provenance::Private)?;
        let basis = basis.basis().to_vec();
        let stage = match params.whitens {
            true => Stage::Directions,
            false => Stage::Projectors,
        };
        Ok(Self {
            list_head: String::new(),
            dim,
            rank,
            n_nights: 0,
            last_night: 0,
            stage,
            sums: Vec::new(),
            variances: [0.0; 2],
            transform: Vec::new(),
            start: basis.clone(),
            basis,
            clip: 1.0,
            moved: None,
        })
    }

    /// Nights that were made.
    #[must_use]
    pub const fn n_nights(&self) -> usize {
        self.n_nights
    }

    /// Number of the last one.
    #[must_use]
    pub const fn last_night(&self) -> u32 {
        self.last_night
    }

    /// The stage of the next night: `directions`, `projectors` or `steps`.
    #[must_use]
    pub const fn stage(&self) -> &'static str {
        match self.stage {
            Stage::Directions => "directions",
            Stage::Projectors => "projectors",
            Stage::Steps => "steps",
        }
    }

    /// How far the subspace moved in the last night, as a Frobenius distance. Nothing after the first night.
    #[must_use]
    pub const fn moved(&self) -> Option<f64> {
        self.moved
    }

    fn transform(&self) -> Option<&[f64]> {
        (!self.transform.is_empty()).then_some(&self.transform)
    }

    /// The subspace for whitened features.
    fn whitened(&self) -> Result<Subspace> {
        Subspace::spanned_by(self.dim, self.rank, &self.basis, Provenance::Private)
    }

    /// The subspace for features as they are.
    fn subspace(&self, provenance: Provenance) -> Result<Subspace> {
        let whitened = self.whitened()?.with_provenance(provenance);
        of_features_as_they_are(&whitened, self.transform())
    }

    /// The subspace for features as they are, with standard errors of its shares once there are
    /// steps.
    fn model(&self, provenance: Provenance) -> Result<Subspace> {
        let model = self.subspace(provenance)?;
        if self.stage != Stage::Steps || self.sums.is_empty() {
            return Ok(model);
        }
        // a night that is paid for is not lost because its errors cannot be computed
        let spread = self.combined();
        let errors = spread.and_then(|spread| spread.share_errors(&model, self.transform()));
        Ok(model.with_share_errors(errors.ok().flatten()))
    }

    /// `U_0 + (B S^-1 - U_0)`, the change shrunk, from the sums of steps, with the noise of all nights in it.
    fn combined(&self) -> Result<Spread> {
        let (dim, rank) = (self.dim, self.rank);
        let [of_sums, of_moments] = self.variances.map(f64::sqrt);
        let (sums, moments) = self.sums.split_at(dim * rank);
        let mut change = sums.to_vec();
        let start = self.start.chunks_exact(rank);
        for (row, u) in change.chunks_exact_mut(rank).zip(start) {
            for (k, r) in row.iter_mut().enumerate() {
                *r -= (0..rank).map(|l| u[l] * moments[l * rank + k]).sum::<f64>();
            }
        }
        let ridge = of_moments * (2.0 * rank as f64).sqrt();
        shrunk_change(&mut change, moments, (rank, ridge), of_sums)?;
        let moved = self.start.iter().zip(&change).map(|(u, d)| u + d);
        Ok(Spread {
            noise: of_sums,
            moments: moments.to_vec(),
            ridge,
            columns: moved.collect(),
        })
    }

    /// Begins another stage.
    fn enter(&mut self, stage: Stage) {
        self.stage = stage;
        self.sums.clear();
        self.variances = [0.0; 2];
    }
}

/// The state with the settings.
struct Nights<'a> {
    of: &'a NightlySubspaceParams,
    state: SubspaceState,
}

impl Nights<'_> {
    /// Scales of a user's indicator and of the other block, whose norm is at most 1.
    fn scales(&self) -> [f64; 2] {
        let rest = match self.state.stage {
            Stage::Directions | Stage::Projectors => 1.0,
            Stage::Steps => ResidualStep::share_norm(self.of.moment_weight),
        };
        [COUNT_SHARE.sqrt(), (1.0 - COUNT_SHARE).sqrt() / rest].map(|scale| INSIDE * scale)
    }

    /// Calls `make` with the length of the next night and its contribution. `users` is given if the
    /// night is not in the list yet.
    fn tonight<T>(
        &self,
        users: Option<&UserSamples>,
        make: impl FnOnce(usize, &NightRows<'_>) -> Result<T>,
    ) -> Result<T> {
        let state = &self.state;
        let (dim, transform) = (state.dim, state.transform());
        let subspace = state.whitened()?;
        let basis = unwhitened(&subspace, transform);
        let mut public = Public {
            n_features: dim,
            subspace: &subspace,
            transform,
            basis: &basis,
            cache: None,
        };
        let cache = match (state.stage, users) {
            (Stage::Steps, Some(users)) => gradient_cache(&public, users, Vec::new()),
            _ => None,
        };
        public.cache = cache.as_ref();
        let asked = match state.stage {
            Stage::Directions => Asked::Directions {
                clip_norm: self.of.whitening().map_or(1.0, |of| of.clip_norm),
            },
            Stage::Projectors => Asked::Projectors(ProjectorSum::transformed(dim, transform)?),
            Stage::Steps => Asked::Steps(ResidualStep {
                public,
                clip_norm: state.clip,
                moment_weight: self.of.moment_weight,
            }),
        };
        let len = state.stage.len(dim, state.rank);
        let own = NightRows {
            dim,
            len,
            scales: self.scales(),
            asked,
        };
        make(len, &own)
    }

    /// Adds a night's release to the sums, and updates the subspace.
    fn observe(&mut self, night: &ReleasedNight) -> Result<()> {
        let [of_count, of_rest] = self.scales();
        let (released, noise) = (night.sum.values(), night.sum.noise_stddev());
        let n = (released[0] / of_count).max(0.0);
        let rest: Vec<f64> = released[1..].iter().map(|y| y / of_rest).collect();
        let before = self.state.subspace(Provenance::Private)?;
        match self.state.stage {
            Stage::Directions | Stage::Projectors => {
                add(&mut self.state.sums, &rest, n);
                self.state.variances[0] += (n * noise / of_rest).powi(2);
                let learned = match self.state.stage {
                    Stage::Directions => self.whiten()?,
                    _ => self.project()?,
                };
                if let Some(next) = learned {
                    self.state.enter(next);
                }
            }
            Stage::Steps => self.step(n, &rest, [noise / of_count, noise / of_rest])?,
        }
        let state = &mut self.state;
        state.n_nights += 1;
        state.last_night = night.number;
        let distance = state
            .subspace(Provenance::Private)?
            .frobenius_distance(&before)?;
        state.moved = (state.n_nights > 1).then_some(distance);
        Ok(())
    }

    /// Standard deviation of the noise in the sums of a stage before steps, and the spectral norm of that noise as a matrix.
    fn noise(&self) -> (f64, f64) {
        let stddev = self.state.variances[0].sqrt();
        (stddev, (2.0 * self.state.dim as f64).sqrt() * stddev)
    }

    /// Whitens features once their directions are clear.
    fn whiten(&mut self) -> Result<Option<Stage>> {
        let (dim, (stddev, spectral)) = (self.state.dim, self.noise());
        let matrix = read_symmetric(&self.state.sums, dim);
        let trace: f64 = matrix.iter().step_by(dim + 1).sum();
        if trace.is_nan() || trace <= self.of.least_signal * spectral * dim as f64 {
            return Ok(None);
        }
        let packed = matrix.chunks_exact(dim).enumerate();
        let packed: Vec<f64> = packed.flat_map(|(a, row)| row[a..].to_vec()).collect();
        let whitening = self.of.whitening();
        let transform = whitening
            .map(|of| of.transform(dim, &packed, stddev))
            .transpose()?;
        self.state.transform = transform.flatten().unwrap_or_default();
        Ok(Some(Stage::Projectors))
    }

    /// The top eigenvectors so far, which steps start from once the `k`-th is clear.
    fn project(&mut self) -> Result<Option<Stage>> {
        let (dim, rank, (_, spectral)) = (self.state.dim, self.state.rank, self.noise());
        let matrix = read_symmetric(&self.state.sums, dim);
        let top = Subspace::top_eigenvectors(dim, rank, &matrix, Provenance::Private)?;
        self.state.basis = top.basis().to_vec();
        let values = symmetric_eigen(&matrix, dim)?.values;
        let (others, largest) = values.split_at(dim - rank);
        let mean = others.iter().sum::<f64>() / others.len().max(1) as f64;
        let gap = largest.first().copied().unwrap_or_default() - mean;
        if gap.is_nan() || gap <= self.of.least_signal * spectral {
            return Ok(None);
        }
        self.state.start.clone_from(&self.state.basis);
        Ok(Some(Stage::Steps))
    }

    /// A night of steps: `rest` holds the released gradients over the clip, column by column, and the moments times their weight.
    fn step(&mut self, n: f64, rest: &[f64], [of_count, of_rest]: [f64; 2]) -> Result<()> {
        let (beta, state) = (self.of.moment_weight, &mut self.state);
        let (dim, rank, clip) = (state.dim, state.rank, state.clip);
        let (gradients, moments) = rest.split_at(dim * rank);
        let mut moments = read_symmetric(moments, rank);
        moments.iter_mut().for_each(|s| *s /= beta);
        let weight = n / (clip * clip);
        let mut night = transposed(gradients, rank);
        let rows = night
            .chunks_exact_mut(rank)
            .zip(state.basis.chunks_exact(rank));
        for (row, u) in rows {
            for (k, r) in row.iter_mut().enumerate() {
                let fitted: f64 = (0..rank).map(|l| u[l] * moments[l * rank + k]).sum();
                *r = clip * *r + fitted;
            }
        }
        night.extend_from_slice(&moments);
        add(&mut state.sums, &night, weight);
        let noises = [clip * of_rest, of_rest / beta];
        for (variance, noise) in state.variances.iter_mut().zip(noises) {
            *variance += (weight * noise).powi(2);
        }
        let trace: f64 = moments.iter().step_by(rank + 1).sum();
        let noise_of_trace = (rank as f64).sqrt() * of_rest / beta;
        if n > CLEAR * of_count && trace > CLEAR * noise_of_trace {
            let factor = (MEAN_FACTOR * n / trace).clamp(0.5, 2.0);
            state.clip = (clip * factor.sqrt()).clamp(*CLIPS.start(), *CLIPS.end());
        }
        self.combine()
    }

    fn combine(&mut self) -> Result<()> {
        let state = &mut self.state;
        let columns = state.combined()?.columns;
        let found = Subspace::spanned_by(state.dim, state.rank, &columns, Provenance::Private)?;
        state.basis = found.basis().to_vec();
        Ok(())
    }
}

/// Adds `weight` times some numbers to sums that may not have begun.
fn add(sums: &mut Vec<f64>, numbers: &[f64], weight: f64) {
    sums.resize(numbers.len(), 0.0);
    let cells = sums.iter_mut().zip(numbers);
    cells.for_each(|(sum, x)| *sum += weight * x);
}

/// Users' contributions to a night.
struct NightRows<'a> {
    dim: usize,
    len: usize,
    scales: [f64; 2],
    asked: Asked<'a>,
}

enum Asked<'a> {
    Directions { clip_norm: f64 },
    Projectors(ProjectorSum),
    Steps(ResidualStep<'a>),
}

/// Working memory.
enum NightScratch {
    Directions(Vec<f64>),
    Projectors(Option<ProjectorScratch>, Vec<f64>),
    Steps(ResidualScratch),
}

impl VectorContribution for NightRows<'_> {
    type Scratch = NightScratch;

    fn scratch(&self) -> NightScratch {
        match &self.asked {
            Asked::Directions { .. } => NightScratch::Directions(vec![0.0; self.dim * self.dim]),
            Asked::Projectors(sum) => {
                NightScratch::Projectors(sum.own_scratch(), vec![0.0; self.dim])
            }
            Asked::Steps(step) => NightScratch::Steps(step.scratch()),
        }
    }

    fn reads_features(&self) -> bool {
        match &self.asked {
            Asked::Steps(step) => step.reads_features(),
            Asked::Directions { .. } | Asked::Projectors(_) => true,
        }
    }

    fn contribute(&self, user: UserRow<'_>, scratch: &mut NightScratch, out: &mut SparseBuffer) {
        let cells = UserCells::of(user, self.dim);
        let of_rest = self.scales[1];
        match (&self.asked, scratch) {
            (Asked::Directions { clip_norm }, NightScratch::Directions(matrix)) => {
                let n_rows = mean_direction(cells, self.dim, matrix);
                if n_rows > 0 {
                    let scale = of_rest * clip_factor(norm(matrix), *clip_norm) / clip_norm;
                    write_symmetric(self.share(out), matrix, self.dim, scale);
                }
            }
            (Asked::Projectors(sum), NightScratch::Projectors(Some(own), direction)) => {
                sum.write_solution(cells, own, direction);
                let length = norm(direction);
                if length > 0.0 && length.is_finite() {
                    direction.iter_mut().for_each(|u| *u /= length);
                    write_symmetric_square(self.share(out), direction, of_rest);
                }
            }
            (Asked::Steps(step), NightScratch::Steps(own)) => {
                if let Some(found) = step.public.gradient(user, own) {
                    let share = self.share(out);
                    step.write(found, share);
                    share.iter_mut().for_each(|x| *x *= of_rest);
                }
            }
            _ => {} // does not happen for any user: the stage is public
        }
    }
}

impl NightRows<'_> {
    /// The part of a user's vector behind the indicator.
    fn share<'b>(&self, out: &'b mut SparseBuffer) -> &'b mut [f64] {
        let out = out.dense(self.len);
        out[0] = self.scales[0];
        &mut out[1..]
    }
}

/// Writes the mean of `x x^T / ||x||^2` over a user's rows; how many there are.
fn mean_direction(user: UserCells<'_>, dim: usize, matrix: &mut [f64]) -> usize {
    matrix.fill(0.0);
    let used = (0..user.n_rows()).filter(|&row| user.is_used(row));
    let n_rows = used.clone().count();
    let mut x = Vec::with_capacity(dim);
    for row in used {
        x.clear();
        x.extend(user.features(row).iter().map(|&x| f64::from(x)));
        let scale = 1.0 / (norm(&x).powi(2) * n_rows as f64);
        for (a, cells) in matrix.chunks_exact_mut(dim).enumerate() {
            let of_row = scale * x[a];
            let cells = cells.iter_mut().zip(&x);
            cells.for_each(|(cell, x)| *cell += of_row * x);
        }
    }
    n_rows
}
