//! Residual refinement: releases whose noise decreases with the remaining error.

mod gradient;
mod whitening;

use dp_accounting::{CertificateBuilder, ReleaseRequest, Requests};
use dp_core::{Adjacency, ReplaceFactor, UserRow, UserSamples, params};
use dp_linalg::{
    PsdScratch, packed_len, psd_part_plus_ridge_solve, symmetric_eigen, write_outer_product,
};
use dp_mechanism::{Provenance, ReleasedVector, Run, SparseBuffer, Trainer, VectorContribution};
use gradient::Gradient;

use crate::cache::Cache;
use crate::init::ProjectorSum;
use crate::small::{clip_factor, norm, read_symmetric, transposed, write_symmetric_square};
use crate::subspace::describe;
use crate::{Error, Result, Subspace};

pub use gradient::ResidualScratch;
pub use whitening::{DirectionMoments, MomentScratch};

pub(crate) use gradient::{Public, gradient_cache};

/// Alternating minimisation by residual Gauss-Newton steps, for the squared loss.
///
/// 1. Second moments of the features' directions ([`DirectionMoments`](super::DirectionMoments)),
///    which are used to whiten the features.
/// 2. [`ProjectorSum`](crate::ProjectorSum) of the users' own least-squares directions: an initial
///    subspace.
/// 3. Steps. Each releases one number, the mean size of residual gradients ([`ResidualEnergy`]),
///    clips at a multiple of it, and releases the clipped gradients with the moments of the models
///    ([`ResidualStep`]). As the fit improves, the residuals, the clipping norm and with it the
///    noise decrease.
///
/// Whitened features make the curvature of the squared loss in `U` a Kronecker product of a `k x k`
/// matrix and the identity, which is why a step needs no `dk x dk` matrix. All settings are
/// dimensionless: every bound except the clipping norms of steps 2 and later is a fixed number, and
/// those follow from releases.
///
/// # Privacy
/// Released to everybody: the subspace and everything that led to it. Unit: the user with all rows.
/// Sensitivities are derived at the contributions named above; all releases read all users and add
/// up, as exact Gaussian differential privacy. Everything else is post-processing; personal models
/// never leave their users.
///
/// # Errors
/// [`plan`](Trainer::plan): [`crate::Error::Param`] unless `dim` is from the rank to 256.
///
/// # Examples
/// ```
/// use dp_data::SharedSubspace;
/// use dp_personalize::{Adjacency, ApproxDp, Budget, Ledger, NoiseSource, ResidualAltMinParams, Trainer};
/// use rand::SeedableRng;
///
/// let set_up = SharedSubspace { n_users: 300, dim: 6, ..SharedSubspace::section_6() };
/// let data = set_up.generate(&mut rand_chacha::ChaCha20Rng::seed_from_u64(1))?;
/// let (target, adjacency) = (ApproxDp::target(5.0, 1e-6)?, Adjacency::AddRemoveUser);
/// let fit = ResidualAltMinParams::new(2).check()?;
/// let plan = fit.plan(6, target, adjacency)?;
/// let spends = Ledger::in_memory("made data", Budget::new(target, adjacency)?)?.reserve(&plan)?;
/// let fitted = fit.fit(&data.samples, &plan, spends, &mut NoiseSource::operating_system())?;
/// assert!(fitted.certificate.verify()?.is_private());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ResidualAltMin {
    params: ResidualAltMinParams,
}

impl ResidualAltMin {
    /// The settings.
    #[must_use]
    pub const fn params(&self) -> &ResidualAltMinParams {
        &self.params
    }

    fn release_requests(&self, dim: usize) -> Vec<ReleaseRequest> {
        let params = &self.params;
        let mut requests = Vec::new();
        let mut rest = 1.0 - params.init_share;
        if let Some(whitening) = params.whitening {
            requests.push(Whitening::request(dim, whitening.share));
            rest -= whitening.share;
        }
        requests.extend(ProjectorSum::requests(dim, params.init_share));
        let request = |label: String, share, draws: usize| {
            ReleaseRequest::new(label, share, ReplaceFactor::Two, draws as u64)
        };
        let draws = ResidualStep::n_coordinates(dim, params.rank);
        for step in 1..=params.n_steps {
            let share = rest / params.n_steps as f64;
            let energy = if step > 1 { params.energy_share } else { 0.0 };
            if step > 1 {
                requests.push(request(format!("step {step} energy"), share * energy, 1));
            }
            requests.push(request(
                format!("step {step} residuals"),
                share * (1.0 - energy),
                draws,
            ));
        }
        requests
    }

    fn step(
        &self,
        public: Public<'_>,
        clip_norm: f64,
        samples: &UserSamples,
        run: &mut Run<'_>,
    ) -> Result<Released> {
        let moment_weight = self.params.moment_weight;
        let current = public.subspace;
        let step = ResidualStep {
            public,
            clip_norm,
            moment_weight,
        };
        let n = ResidualStep::n_coordinates(current.dim(), current.rank());
        let shape = (n, ResidualStep::share_norm(moment_weight));
        let released = run.vector(samples.table(), shape, &step)?;
        let provenance = run.provenance();
        advance(current, &released, clip_norm, moment_weight, provenance)
    }
}

impl Trainer for ResidualAltMin {
    type Data = UserSamples;
    type Model = Subspace;
    type Error = Error;

    fn width(&self, samples: &UserSamples) -> usize {
        samples.n_features()
    }

    fn requests(&self, dim: usize, _: Adjacency) -> Result<Requests> {
        params::in_range("dim", dim, self.params.rank, 256, "from rank to 256")?;
        Ok(Requests::Shares(self.release_requests(dim)))
    }

    fn describe(&self, certificate: CertificateBuilder) -> CertificateBuilder {
        describe(certificate, "basis of the shared subspace, settings")
    }

    fn train(&self, samples: &UserSamples, run: &mut Run<'_>) -> Result<Subspace> {
        let transform = match self.params.whitening {
            Some(whitening) => whitening.release(samples, run)?,
            None => None,
        };
        let transform = transform.as_deref();
        let projectors = ProjectorSum::transformed(samples.n_features(), transform)?;
        let mut subspace = projectors.release(samples, self.params.rank, run)?;
        let mut model = of_features_as_they_are(&subspace, transform)?;
        model.show(0, run);
        let mut clip = self.params.first_clip;
        let mut weight = f64::INFINITY;
        let (mut memory, mut spread) = (Vec::new(), None);
        for step in 1..=self.params.n_steps {
            let basis = unwhitened(&subspace, transform);
            let mut public = Public {
                n_features: samples.n_features(),
                subspace: &subspace,
                transform,
                basis: &basis,
                cache: None,
            };
            let mut cache = None;
            if !run.is_replaying()? {
                cache = gradient_cache(&public, samples, memory);
                memory = Vec::new();
            }
            public.cache = cache.as_ref();
            if step > 1 {
                let size = mean_size(public, clip, weight, samples, run)?;
                clip = (self.params.clip_factor * size).min(clip);
            }
            let released = self.step(public, clip, samples, run)?;
            memory = cache.map_or(memory, Cache::into_memory);
            (subspace, weight) = (released.subspace, released.weight);
            model = of_features_as_they_are(&subspace, transform)?;
            spread = Some(released.spread);
            model.show(step, run);
        }
        let errors = spread.and_then(|spread| spread.share_errors(&model, transform).ok());
        Ok(model.with_share_errors(errors.flatten()))
    }
}

/// The released mean of `min(||R_j||, c)`, as an overestimate: the released sum plus one standard
/// deviation of its noise, divided by the users' weights in the previous step, which are at most
/// their number.
fn mean_size(
    public: Public<'_>,
    clip_norm: f64,
    weight: f64,
    samples: &UserSamples,
    run: &mut Run<'_>,
) -> Result<f64> {
    let energy = ResidualEnergy { public, clip_norm };
    let released = run.vector(samples.table(), (1, 1.0), &energy)?;
    let total = released.values().first().copied().unwrap_or(0.0).max(0.0);
    Ok(clip_norm * (total + released.noise_stddev()) / weight)
}

/// The subspace of coefficients for original features.
pub(crate) fn of_features_as_they_are(
    whitened: &Subspace,
    transform: Option<&[f64]>,
) -> Result<Subspace> {
    let basis = unwhitened(whitened, transform);
    let (dim, rank) = (whitened.dim(), whitened.rank());
    Subspace::spanned_by(dim, rank, &basis, whitened.provenance())
}

/// `W^T U`: coefficients for original features.
pub(crate) fn unwhitened(subspace: &Subspace, transform: Option<&[f64]>) -> Vec<f64> {
    untransformed(subspace.basis(), subspace.rank(), transform)
}

/// `W^T U` of a matrix of `rank` columns.
fn untransformed(columns: &[f64], rank: usize, transform: Option<&[f64]>) -> Vec<f64> {
    let Some(transform) = transform else {
        return columns.to_vec();
    };
    let mut found = vec![0.0; columns.len()];
    let rows = transform.chunks_exact(columns.len() / rank);
    for (row, u) in rows.zip(columns.chunks_exact(rank)) {
        for (out, w) in found.chunks_exact_mut(rank).zip(row) {
            out.iter_mut().zip(u).for_each(|(o, u)| *o += w * u);
        }
    }
    found
}

/// Settings of [`ResidualAltMin`] before validation. All are public and dimensionless: they suit
/// features and labels of any scale.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResidualAltMinParams {
    /// Dimension of the subspace `k`.
    pub rank: usize,
    /// How the features are whitened; none for features that are known to be isotropic.
    pub whitening: Option<Whitening>,
    /// Share of the budget for the projector sum.
    pub init_share: f64,
    /// Number of refinement steps, which share the remaining budget equally.
    pub n_steps: usize,
    /// Part of a step's share spent on the scalar that determines its clipping norm, strictly
    /// between 0 and 1.
    pub energy_share: f64,
    /// Clipping norm of the first step, in units of `U`: 1 is the size of an error as large as `U`
    /// itself.
    pub first_clip: f64,
    /// Ratio of a step's clipping norm to the released mean size of residual gradients.
    pub clip_factor: f64,
    /// Weight of the `k x k` part of a release relative to its residual part.
    pub moment_weight: f64,
}

/// Private whitening of the features.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Whitening {
    /// Share of the budget.
    pub share: f64,
    /// Bound on the Frobenius norm of a user's mean `x x^T / ||x||^2`, 0 to 1; a loose one, above
    /// approximately `1/sqrt(m) + 1/sqrt(d)`.
    pub clip_norm: f64,
    /// Amount by which eigenvalues are raised, in units of the noise's spectral norm.
    pub damping: f64,
}

impl ResidualAltMinParams {
    /// Whitening, a projector sum, four steps.
    #[must_use]
    pub const fn new(rank: usize) -> Self {
        Self {
            rank,
            whitening: Some(Whitening {
                share: 0.2,
                clip_norm: 0.5,
                damping: 0.25,
            }),
            init_share: 0.2,
            n_steps: 4,
            energy_share: 0.1,
            first_clip: 1.0,
            clip_factor: 1.0,
            moment_weight: 0.25,
        }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// [`crate::Error::Param`] naming the first setting out of range.
    pub fn check(self) -> Result<ResidualAltMin> {
        params::in_range("rank", self.rank, 1, 256, "a whole number from 1 to 256")?;
        params::open_unit("init_share", self.init_share)?;
        let mut spent = self.init_share;
        if let Some(whitening) = self.whitening {
            spent += params::open_unit("share of the whitening", whitening.share)?;
            params::open_unit("clip_norm of the whitening", whitening.clip_norm)?;
            params::finite_non_negative("damping", whitening.damping)?;
        }
        params::open_unit("init_share and share of the whitening", spent)?;
        params::in_range("n_steps", self.n_steps, 0, 100, "a whole number up to 100")?;
        params::open_unit("energy_share", self.energy_share)?;
        for (name, value) in [
            ("first_clip", self.first_clip),
            ("clip_factor", self.clip_factor),
            ("moment_weight", self.moment_weight),
        ] {
            params::finite_positive(name, value)?;
        }
        Ok(ResidualAltMin { params: self })
    }
}

/// One user's contribution to a residual Gauss-Newton step.
///
/// ```text
/// R_j = m_j/(m_j - k) X_j^T r_j w_j^T / (||v_j|| e_j)     shape (d, k)
/// S_j = w_j w_j^T                                         shape (k, k)
/// share: a_j (R_j / c, beta S_j),   a_j = min(1, c / ||R_j||_F)      R_j column by column, then the triangle of S_j
/// ```
///
/// with `v_j` the user's own least-squares model in the current subspace, `w_j` its direction,
/// `r_j = y_j - X_j U v_j`, `e_j = ||X_j||_F^2 / d` and `X_j` whitened. The user's error is that of
/// `x^T D v_j` for the missing part `D` of `U`; for isotropic features the expectation of `R_j`
/// given `v_j` is `D S_j`: `m_j - k` of `m_j` dimensions remain in the residual, for which the
/// first factor compensates. So `D = (sum a R) (sum a S)^-1` with the *same* weights on both sides,
/// and clipping costs weight without any bias. `d k + k (k+1)/2` numbers replace the `(dk)^2 / 2`
/// of Algorithm 2.
///
/// # Privacy
/// `||a R / c||_F <= 1` and `||a beta S||_F <= beta`, so a user's joint contribution has norm at
/// most `sqrt(1 + beta^2)`: the sensitivity under add/remove, twice that under replacement. One
/// clip factor applies to both parts. The user's model leaves the contribution only in these
/// products.
#[allow(
    missing_debug_implementations,
    reason = "public numbers; print those instead"
)]
pub struct ResidualStep<'a> {
    pub(crate) public: Public<'a>,
    pub(crate) clip_norm: f64,
    pub(crate) moment_weight: f64,
}

impl<'a> ResidualStep<'a> {
    /// The contributions for original features.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when the clipping norm or the weight is not finite and positive.
    ///
    /// # Examples
    /// ```
    /// use dp_core::UserSamplesBuilder;
    /// use dp_mechanism::{Grid, vector_contribution};
    /// use dp_personalize::{Provenance, ResidualStep, Subspace};
    /// let axis = Subspace::spanned_by(2, 1, &[1.0, 0.5], Provenance::NonPrivate)?;
    /// let step = ResidualStep::new(&axis, 0.5, 0.25)?;
    /// let mut users = UserSamplesBuilder::new(2, 8)?;
    /// for (x, y) in [([1.0, -1.0], 2.0), ([0.5, 0.5], -1.0), ([0.0, 1.0], 0.0)] {
    ///     users.push(0, &x, y)?;
    /// }
    /// let samples = users.build().0;
    /// let grid = Grid::new(1.0, 1.0625_f64.sqrt())?;
    /// let n = ResidualStep::n_coordinates(2, 1);
    /// let share = vector_contribution(&grid, n, &step, samples.table().expose().user(0));
    /// assert_eq!(share.len(), n);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(subspace: &'a Subspace, clip_norm: f64, moment_weight: f64) -> Result<Self> {
        Ok(Self {
            public: Public::unwhitened(subspace),
            clip_norm: params::finite_positive("clip_norm", clip_norm)?,
            moment_weight: params::finite_positive("moment_weight", moment_weight)?,
        })
    }
}

impl ResidualStep<'_> {
    /// Number of coordinates of a release.
    #[must_use]
    pub const fn n_coordinates(dim: usize, rank: usize) -> usize {
        dim * rank + packed_len(rank)
    }

    /// The largest Euclidean norm of a user's contribution, `sqrt(1 + beta^2)` with beta the weight
    /// of the moments: the clipping norm for planning a sum of these contributions.
    #[must_use]
    pub fn share_norm(moment_weight: f64) -> f64 {
        moment_weight.hypot(1.0)
    }
}

impl VectorContribution for ResidualStep<'_> {
    type Scratch = ResidualScratch;

    fn scratch(&self) -> ResidualScratch {
        self.public.scratch()
    }

    fn reads_features(&self) -> bool {
        self.public.cache.is_none()
    }

    fn contribute(&self, user: UserRow<'_>, own: &mut ResidualScratch, out: &mut SparseBuffer) {
        let Some(found) = self.public.gradient(user, own) else {
            return;
        };
        let (dim, rank) = (found.pulled.len(), found.direction.len());
        self.write(found, out.dense(Self::n_coordinates(dim, rank)));
    }
}

impl ResidualStep<'_> {
    /// Writes one user's share.
    pub(crate) fn write(&self, found: Gradient<'_>, out: &mut [f64]) {
        let (dim, rank) = (found.pulled.len(), found.direction.len());
        let weight = clip_factor(found.size, self.clip_norm);
        let (gradient, moments) = out.split_at_mut(dim * rank);
        let scale = weight * found.scale / self.clip_norm;
        found.scales.clear();
        let scales = found.direction.iter().map(|w| scale * w);
        found.scales.extend(scales);
        if write_outer_product(found.scales, found.pulled, gradient).is_err() {
            gradient.fill(0.0); // does not happen for any user: lengths are public
        }
        let scale = weight * self.moment_weight;
        write_symmetric_square(moments, found.direction, scale);
    }
}

/// One user's contribution to the size of residual gradients: `min(||R_j||_F, c) / c`, with the
/// `R_j` of [`ResidualStep`] and the clipping norm `c` of the previous step.
///
/// # Privacy
/// A number from 0 to 1: sensitivity 1 under add/remove; paid for as 2 under replacement.
#[allow(
    missing_debug_implementations,
    reason = "public numbers; print those instead"
)]
pub struct ResidualEnergy<'a> {
    pub(crate) public: Public<'a>,
    pub(crate) clip_norm: f64,
}

impl<'a> ResidualEnergy<'a> {
    /// The contributions for original features, in units of a clipping norm.
    ///
    /// # Errors
    /// [`crate::Error::Param`] when the clipping norm is not finite and positive.
    pub fn new(subspace: &'a Subspace, clip_norm: f64) -> Result<Self> {
        Ok(Self {
            public: Public::unwhitened(subspace),
            clip_norm: params::finite_positive("clip_norm", clip_norm)?,
        })
    }
}

impl VectorContribution for ResidualEnergy<'_> {
    type Scratch = ResidualScratch;

    fn scratch(&self) -> ResidualScratch {
        self.public.scratch()
    }

    fn reads_features(&self) -> bool {
        self.public.cache.is_none()
    }

    fn contribute(&self, user: UserRow<'_>, own: &mut ResidualScratch, out: &mut SparseBuffer) {
        if let Some(gradient) = self.public.gradient(user, own) {
            out.push(0, (gradient.size / self.clip_norm).min(1.0));
        }
    }
}

/// Decoded values of a released step.
struct Released {
    /// The next subspace.
    subspace: Subspace,
    /// Noisy sum of the users' weights.
    weight: f64,
    spread: Spread,
}

/// The noise in a step `N (PSD(S) + ridge)^-1`: that of an entry of `N`, and the matrix.
pub(crate) struct Spread {
    pub(crate) noise: f64,
    pub(crate) moments: Vec<f64>,
    pub(crate) ridge: f64,
    /// The step's result before it was made orthonormal, shape `(dim, rank)`.
    pub(crate) columns: Vec<f64>,
}

impl Spread {
    /// [`Subspace::share_errors`] of a model for the original features, which spans the same as
    /// these columns.
    pub(crate) fn share_errors(
        &self,
        model: &Subspace,
        transform: Option<&[f64]>,
    ) -> Result<Option<Vec<f64>>> {
        let rank = model.rank();
        let columns = untransformed(&self.columns, rank, transform);
        let mut scratch = PsdScratch::new(rank)?;
        let mut errors = Vec::with_capacity(model.dim());
        for (mut own, outside) in pseudo_inverse(&columns, rank)?
            .into_iter()
            .zip(outside(model, transform))
        {
            psd_part_plus_ridge_solve(&self.moments, self.ridge, &mut own, &mut scratch)?;
            errors.push(2.0 * self.noise * outside * norm(&own));
        }
        Ok(Some(errors).filter(|errors| errors.iter().all(|error| error.is_finite())))
    }
}

/// The columns of `B^+` for a matrix `B` of shape `(dim, rank)`.
pub(crate) fn pseudo_inverse(columns: &[f64], rank: usize) -> Result<Vec<Vec<f64>>> {
    let mut gram = vec![0.0; rank * rank];
    for row in columns.chunks_exact(rank) {
        for (at, g) in gram.iter_mut().enumerate() {
            *g += row[at / rank] * row[at % rank];
        }
    }
    // the solver needs a ridge above 0
    let trace: f64 = gram.iter().step_by(rank + 1).sum();
    let rounding = (1e-14 * trace).max(f64::MIN_POSITIVE);
    let mut scratch = PsdScratch::new(rank)?;
    let rows = columns.chunks_exact(rank).map(|row| {
        let mut own = row.to_vec();
        psd_part_plus_ridge_solve(&gram, rounding, &mut own, &mut scratch)?;
        Ok(own)
    });
    rows.collect()
}

/// The norms of the columns of `W (I - P)`, with `P` the projector onto the subspace.
fn outside(model: &Subspace, transform: Option<&[f64]>) -> Vec<f64> {
    let (dim, rank) = (model.dim(), model.rank());
    let Some(transform) = transform else {
        return model
            .shares()
            .map(|share| (1.0 - share).max(0.0).sqrt())
            .collect();
    };
    let mut squares = vec![0.0; dim];
    for row in transform.chunks_exact(dim) {
        let mut along = vec![0.0; rank];
        for (w, u) in row.iter().zip(model.basis().chunks_exact(rank)) {
            along.iter_mut().zip(u).for_each(|(a, u)| *a += w * u);
        }
        for ((square, w), u) in (squares.iter_mut().zip(row)).zip(model.basis().chunks_exact(rank))
        {
            let inside: f64 = along.iter().zip(u).map(|(a, u)| a * u).sum();
            *square += (w - inside).powi(2);
        }
    }
    squares.into_iter().map(f64::sqrt).collect()
}

/// Post-processing of a step's release: `U <- orthonormal basis of (U + D)`,
///
/// ```text
/// D = sum_j t_j R v_j v_j^T / (max(s_j, 0) + ridge)              s_j, v_j eigenvalues and -vectors of S
/// t_j = max(0, 1 - dim noise^2 / ||R v_j||^2)                    positive-part James-Stein
/// ```
///
/// Along a direction in which `R` is no larger than its noise, the subspace stays as it is; others
/// are not shrunk on its account. `||D||_F` is at most 1, so noise can rotate the subspace but
/// cannot make the step arbitrarily large.
fn advance(
    current: &Subspace,
    released: &ReleasedVector,
    clip_norm: f64,
    moment_weight: f64,
    provenance: Provenance,
) -> Result<Released> {
    let (dim, rank) = (current.dim(), current.rank());
    let values = released.values();
    let (residual, moments) = values.split_at(dim * rank);
    let moments = read_symmetric(moments, rank);
    let trace: f64 = moments.iter().step_by(rank + 1).sum();
    let noise = released.noise_stddev();
    let ridge = noise * (2.0 * rank as f64).sqrt();
    // released column by column
    let mut change = transposed(residual, rank);
    let unit = clip_norm * moment_weight;
    change.iter_mut().for_each(|x| *x *= unit);
    shrunk_change(&mut change, &moments, (rank, ridge), noise * unit)?;
    let scale = norm(&change).max(1.0).recip();
    let moved = current
        .basis()
        .iter()
        .zip(&change)
        .map(|(u, d)| u + scale * d);
    let columns: Vec<f64> = moved.collect();
    Ok(Released {
        subspace: Subspace::spanned_by(dim, rank, &columns, provenance)?,
        weight: (trace / moment_weight).max(noise / moment_weight),
        spread: Spread {
            noise: noise * unit,
            moments,
            ridge,
            columns,
        },
    })
}

/// Turns `R` into the `D` of [`advance`], for noise of this standard deviation in `R`. The noise is
/// the same in all directions, so that components along orthogonal `v_j` have independent noise.
pub(crate) fn shrunk_change(
    change: &mut [f64],
    moments: &[f64],
    (rank, ridge): (usize, f64),
    noise: f64,
) -> Result<()> {
    dp_core::params::finite_positive("ridge", ridge)?;
    let eigen = symmetric_eigen(moments, rank)?;
    let directions: Vec<(f64, &[f64])> = eigen
        .values
        .iter()
        .map(|s| s.max(0.0) + ridge)
        .zip(eigen.vectors.chunks_exact(rank))
        .collect();
    let along =
        |row: &[f64], vector: &[f64]| -> f64 { row.iter().zip(vector).map(|(r, v)| r * v).sum() };
    let noise_energy = (change.len() / rank) as f64 * noise.powi(2);
    let factors = directions.iter().map(|(scale, vector)| {
        let rows = change.chunks_exact(rank);
        let energy: f64 = rows.map(|row| along(row, vector).powi(2)).sum();
        (1.0 - noise_energy / energy).max(0.0) / scale
    });
    let factors: Vec<f64> = factors.collect();
    let mut solved = vec![0.0; rank];
    for row in change.chunks_exact_mut(rank) {
        solved.fill(0.0);
        for (factor, (_, vector)) in factors.iter().zip(&directions) {
            let length = factor * along(row, vector);
            solved
                .iter_mut()
                .zip(*vector)
                .for_each(|(x, v)| *x += length * v);
        }
        row.copy_from_slice(&solved);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_direction_of_noise_alone_is_left_out_and_the_others_are_not_shrunk_by_it() {
        // eigenvectors (0.8, 0.6) with value 5 and (-0.6, 0.8) with value 2
        let (c, s) = (0.8, 0.6);
        let moments = [
            5.0 * c * c + 2.0 * s * s,
            3.0 * c * s,
            3.0 * c * s,
            5.0 * s * s + 2.0 * c * c,
        ];
        // along the first 10 and -20, along the second 0.3 and 0.2
        let rows = [[10.0, 0.3], [-20.0, 0.2]];
        let mut change: Vec<f64> = rows
            .iter()
            .flat_map(|[a, b]| [a * c - b * s, a * s + b * c])
            .collect();
        let (ridge, noise): (f64, f64) = (0.5, 0.4);
        shrunk_change(&mut change, &moments, (2, ridge), noise).unwrap();
        // 2 * 0.16 of noise against 500 and 0.13 in all
        let kept = (1.0 - 0.32 / 500.0) / 5.5;
        let expected = rows.iter().flat_map(|[a, _]| [a * kept * c, a * kept * s]);
        for (found, expected) in change.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
    }
}
