//! Residual refinement: releases whose noise shrinks with what is left to learn.

mod batched;
mod gradient;
mod params;
mod step;
mod whitening;

use dp_accounting::{CertificateBuilder, ReleaseRequest, Requests};
use dp_core::{Adjacency, ReplaceFactor, UserSamples, params as checks};
use dp_mechanism::{Run, Trainer};

use crate::cache::Cache;
use crate::init::ProjectorSum;
use crate::subspace::describe;
use crate::{Error, Result, Subspace};

#[cfg(test)]
pub(crate) use gradient::Public;
#[cfg(not(test))]
use gradient::Public;
pub use gradient::ResidualScratch;
use gradient::gradient_cache;
pub use params::{ResidualAltMinParams, Whitening};
use step::{Released, advance};
pub use step::{ResidualEnergy, ResidualStep};
pub use whitening::{DirectionMoments, MomentScratch};

/// Alternating minimisation by residual Gauss-Newton steps, for the squared loss.
///
/// 1. Second moments of the features' directions ([`DirectionMoments`](super::DirectionMoments)); features are whitened with them.
/// 2. [`ProjectorSum`](crate::ProjectorSum) of the users' own least-squares directions: a first subspace.
/// 3. Steps. Each releases one number, the mean size of residual gradients ([`ResidualEnergy`]), clips at a multiple of it, and releases
///    the clipped gradients with the moments of the models ([`ResidualStep`]). As the fit gets better the residuals, the clip and with it the noise shrink.
///
/// Whitened features make the curvature of the squared loss in `U` a Kronecker product of a `k x k` matrix and the identity, which is why a step needs no
/// `dk x dk` matrix. Nothing here has a unit: every bound but the clips of steps 2 and later is a fixed number, and those follow from releases.
///
/// # Privacy
/// Released to everybody: the subspace and what led to it. Unit: the user with all rows. Sensitivities stand with the contributions named above; all releases read
/// all users and add up, as exact Gaussian differential privacy. Everything else is post-processing; personal models never leave their users.
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
        checks::in_range("dim", dim, self.params.rank, 256, "from rank to 256")?;
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
        let mut memory = Vec::new();
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
            model.show(step, run);
        }
        Ok(model)
    }
}

/// The released mean of `min(||R_j||, c)`, on the high side: a standard deviation of its noise above the released
/// sum, over the users' weights in the step before, which are at most their number.
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

/// The subspace of coefficients for features as they are.
fn of_features_as_they_are(whitened: &Subspace, transform: Option<&[f64]>) -> Result<Subspace> {
    let basis = unwhitened(whitened, transform);
    let (dim, rank) = (whitened.dim(), whitened.rank());
    Subspace::spanned_by(dim, rank, &basis, whitened.provenance())
}

/// `W^T U`: coefficients for features as they are.
fn unwhitened(subspace: &Subspace, transform: Option<&[f64]>) -> Vec<f64> {
    let Some(transform) = transform else {
        return subspace.basis().to_vec();
    };
    let rank = subspace.rank();
    let mut basis = vec![0.0; subspace.basis().len()];
    let rows = transform.chunks_exact(subspace.dim());
    for (row, u) in rows.zip(subspace.basis().chunks_exact(rank)) {
        for (out, w) in basis.chunks_exact_mut(rank).zip(row) {
            out.iter_mut().zip(u).for_each(|(o, u)| *o += w * u);
        }
    }
    basis
}
