//! The whole run: whitening, projector sum, refinement steps.

use dp_accounting::{Plan, ReleaseRequest, Spend};
use dp_core::{Adjacency, ApproxDp, ReplaceFactor, UserSamples, params};
use dp_mechanism::{NoiseSource, Watch, WatchedNoise};

use super::kept::kept_gradients;
use super::step::{Released, advance};
use super::transformed::{of_features_as_they_are, unwhitened};
use super::user::Public;
use super::{ResidualAltMinParams, ResidualEnergy, ResidualStep, Whitening};
use crate::alt_min::OUTPUT;
use crate::init::ProjectorSum;
use crate::kept::KeptNumbers;
use crate::paid::{Paid, plan_of};
use crate::{FittedSubspace, Result, RoundEnd, RoundWatch, Subspace};

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
/// # Examples
/// ```
/// use dp_accounting::{Budget, Ledger};
/// use dp_core::{Adjacency, ApproxDp};
/// use dp_data::SharedSubspace;
/// use dp_mechanism::NoiseSource;
/// use dp_personalize::ResidualAltMinParams;
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
    pub(super) const fn new(params: ResidualAltMinParams) -> Self {
        Self { params }
    }

    /// The settings.
    #[must_use]
    pub const fn params(&self) -> &ResidualAltMinParams {
        &self.params
    }

    /// What a fit over `dim` features will release, calibrated to `target`.
    ///
    /// # Errors
    /// [`crate::Error::Param`] unless `dim` is from the rank to 256; [`crate::Error::Accounting`] when the target
    /// cannot be met.
    pub fn plan(&self, dim: usize, target: ApproxDp, adjacency: Adjacency) -> Result<Plan> {
        self.check_dim(dim)?;
        plan_of(&self.requests(dim), target, adjacency)
    }

    fn check_dim(&self, dim: usize) -> Result<()> {
        params::in_range("dim", dim, self.params.rank, 256, "from rank to 256")?;
        Ok(())
    }

    fn requests(&self, dim: usize) -> Vec<ReleaseRequest> {
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

    /// Estimates the subspace, consuming exactly the spends of `plan`.
    ///
    /// # Errors
    /// As [`AltMin::fit`](crate::AltMin::fit).
    pub fn fit(
        &self,
        samples: &UserSamples,
        plan: &Plan,
        spends: Vec<Spend>,
        noise: &mut NoiseSource,
    ) -> Result<FittedSubspace> {
        let out = WatchedNoise {
            noise,
            watch: &mut |_| {},
        };
        self.run(samples, plan, spends, out, &mut |_| {})
    }

    /// [`fit`](Self::fit), showing each release to `watch` with what users added to it: for audits.
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    pub fn fit_watched(
        &self,
        samples: &UserSamples,
        plan: &Plan,
        spends: Vec<Spend>,
        noise: &mut NoiseSource,
        watch: &mut Watch<'_>,
    ) -> Result<FittedSubspace> {
        let out = WatchedNoise { noise, watch };
        self.run(samples, plan, spends, out, &mut |_| {})
    }

    /// [`fit`](Self::fit), showing the first subspace and that after each step to `watch`: for measurements, and for keeping
    /// what was released.
    ///
    /// # Privacy
    /// As [`AltMin::fit_rounds_watched`](crate::AltMin::fit_rounds_watched).
    ///
    /// # Errors
    /// As [`fit`](Self::fit).
    ///
    /// # Examples
    /// ```
    /// use dp_accounting::{Budget, Ledger};
    /// use dp_core::{Adjacency, ApproxDp};
    /// use dp_data::SharedSubspace;
    /// use dp_mechanism::NoiseSource;
    /// use dp_personalize::{ResidualAltMinParams, RoundEnd};
    /// use rand::SeedableRng;
    ///
    /// let set_up = SharedSubspace { n_users: 300, dim: 6, ..SharedSubspace::section_6() };
    /// let data = set_up.generate(&mut rand_chacha::ChaCha20Rng::seed_from_u64(1))?;
    /// let (target, adjacency) = (ApproxDp::target(5.0, 1e-6)?, Adjacency::AddRemoveUser);
    /// let fit = ResidualAltMinParams { n_steps: 3, ..ResidualAltMinParams::new(2) }.check()?;
    /// let plan = fit.plan(6, target, adjacency)?;
    /// let spends = Ledger::in_memory("made data", Budget::new(target, adjacency)?)?.reserve(&plan)?;
    /// let mut kept = Vec::new();
    /// let mut keep = |end: RoundEnd<'_>| kept.push((end.round, end.model.clone()));
    /// let noise = &mut NoiseSource::operating_system();
    /// let fitted = fit.fit_rounds_watched(&data.samples, &plan, spends, noise, &mut keep)?;
    /// assert_eq!(kept.len(), 1 + 3); // what the first step starts from, and the steps
    /// assert_eq!(kept[3], (3, fitted.model));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fit_rounds_watched(
        &self,
        samples: &UserSamples,
        plan: &Plan,
        spends: Vec<Spend>,
        noise: &mut NoiseSource,
        watch: &mut RoundWatch<'_>,
    ) -> Result<FittedSubspace> {
        let out = WatchedNoise {
            noise,
            watch: &mut |_| {},
        };
        self.run(samples, plan, spends, out, watch)
    }

    fn run(
        &self,
        samples: &UserSamples,
        plan: &Plan,
        spends: Vec<Spend>,
        mut out: WatchedNoise<'_>,
        watch: &mut RoundWatch<'_>,
    ) -> Result<FittedSubspace> {
        let out = &mut out;
        let dim = samples.n_features();
        self.check_dim(dim)?;
        let mut paid = Paid::new(plan, &self.requests(dim), spends, 1)?;
        let transform = match self.params.whitening {
            Some(whitening) => whitening.release(samples, paid.next()?, out)?,
            None => None,
        };
        let transform = transform.as_deref();
        let projectors = ProjectorSum::transformed(dim, transform)?;
        let spends = [paid.next()?, paid.next()?];
        let start = projectors.release(samples, self.params.rank, spends, out)?;
        Ok(FittedSubspace {
            model: self.refine(start, transform, samples, &mut paid, out, watch)?,
            certificate: paid.certificate(OUTPUT, &[], out.is_insecure())?,
        })
    }

    /// The subspace of coefficients for features as they are, after all steps on whitened ones.
    fn refine(
        &self,
        mut subspace: Subspace,
        transform: Option<&[f64]>,
        samples: &UserSamples,
        paid: &mut Paid<'_>,
        out: &mut WatchedNoise<'_>,
        watch: &mut RoundWatch<'_>,
    ) -> Result<Subspace> {
        let mut model = of_features_as_they_are(&subspace, transform)?;
        let mut show = |round, model: &_| watch(RoundEnd { round, model });
        show(0, &model);
        let mut clip = self.params.first_clip;
        let mut weight = f64::INFINITY;
        let mut memory = Vec::new();
        for step in 1..=self.params.n_steps {
            let basis = unwhitened(&subspace, transform);
            let n_features = samples.n_features();
            let mut public = Public {
                n_features,
                subspace: &subspace,
                transform,
                basis: &basis,
                kept: None,
            };
            let kept = kept_gradients(&public, samples, memory);
            public.kept = kept.as_ref();
            if step > 1 {
                let size = mean_size(public, clip, weight, samples, paid.next()?, out)?;
                clip = (self.params.clip_factor * size).min(clip);
            }
            let released = self.step(public, clip, samples, paid.next()?, out)?;
            memory = kept.map_or_else(Vec::new, KeptNumbers::into_memory);
            (subspace, weight) = (released.subspace, released.weight);
            model = of_features_as_they_are(&subspace, transform)?;
            show(step, &model);
        }
        Ok(model)
    }

    fn step(
        &self,
        public: Public<'_>,
        clip_norm: f64,
        samples: &UserSamples,
        spend: Spend,
        out: &mut WatchedNoise<'_>,
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
        let released = out.vector(samples.table(), shape, &step, spend)?;
        advance(
            current,
            &released,
            clip_norm,
            moment_weight,
            out.is_insecure(),
        )
    }
}

/// The released mean of `min(||R_j||, c)`, on the high side: a standard deviation of its noise above the released
/// sum, over the users' weights in the step before, which are at most their number.
fn mean_size(
    public: Public<'_>,
    clip_norm: f64,
    weight: f64,
    samples: &UserSamples,
    spend: Spend,
    out: &mut WatchedNoise<'_>,
) -> Result<f64> {
    let energy = ResidualEnergy { public, clip_norm };
    let released = out.vector(samples.table(), (1, 1.0), &energy, spend)?;
    let total = released.values().first().copied().unwrap_or(0.0).max(0.0);
    Ok(clip_norm * (total + released.noise_stddev()) / weight)
}
