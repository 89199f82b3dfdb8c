//! One run with one `alpha`.

use chacha20::ChaCha20Rng;
use dp_accounting::{Certificate, Spend};
use dp_core::{Adjacency, DpEvent, UserSamples};
use dp_fedsgd::{
    AdditiveLoss, AdditiveModel, HeldBatches, Observer, PersonalizedObjective, PpSgd, PpSgdModel,
    PpSgdParams, Round, Run, Trainer as _,
};
use dp_mechanism::{NoiseSource, PoissonSampling};
use rand::SeedableRng;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::parts::Parts;
use crate::devices::{AsClients, DeviceModel, Devices};
use crate::error::Result;
use crate::personal::{Inputs, Task};

/// Public settings of a run except its `alpha`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RunSettings {
    /// Number of rounds.
    pub n_rounds: usize,
    /// The larger of the local and the global step size.
    pub learning_rate: f64,
    /// Bound on the norm of a user's mean gradient.
    pub clip_norm: f64,
    /// Factor on clipping norm and global step in the last round.
    pub shrink: Option<f64>,
    /// Maximum number of rows of a user in a round.
    pub batch_size: usize,
    /// Probability that a user takes part in a round; none if all do.
    pub sampling_probability: Option<f64>,
}

impl RunSettings {
    /// Settings for `alpha`, with the number of users that sums are divided by.
    ///
    /// # Errors
    /// When settings are out of range or conflict.
    pub fn fit(&self, alpha: f64, n_users: f64) -> Result<PpSgd> {
        let (rate, clip) = (self.learning_rate, self.clip_norm);
        let mut params = PpSgdParams::new(alpha, rate, clip, self.n_rounds, n_users);
        params.keep_every = self.n_rounds.div_ceil(4);
        if let Some(probability) = self.sampling_probability {
            params = params.sampled(sampling(probability)?.into());
        }
        if let Some(ratio) = self.shrink {
            dp_core::params::finite_positive("shrink", ratio)?;
            dp_core::params::closed_unit("shrink", ratio)?;
            params = params.shrinking(ratio);
        }
        Ok(params.check()?)
    }

    /// The largest distance that all users together can move the shared part in the last round,
    /// without noise.
    ///
    /// # Errors
    /// When settings are out of range or conflict.
    pub(crate) fn longest_step(&self, alpha: f64) -> Result<f64> {
        let (_, global) = self.fit(alpha, 1.0)?.step_sizes(self.n_rounds);
        Ok(global * self.clip_norm * self.shrink.unwrap_or(1.0))
    }

    /// The event of a round.
    ///
    /// # Errors
    /// When settings are out of range or conflict.
    pub fn round_event(&self, noise_multiplier: f64) -> Result<DpEvent> {
        let gaussian = DpEvent::gaussian(noise_multiplier);
        Ok(match self.sampling_probability {
            Some(probability) => sampling(probability)?.event(gaussian),
            None => gaussian,
        })
    }
}

fn sampling(probability: f64) -> Result<PoissonSampling> {
    PoissonSampling::new(probability).map_err(|error| match error {
        dp_mechanism::Error::Param(param) => param.into(),
        other => dp_fedsgd::Error::from(other).into(),
    })
}

/// The loss of a task with `dim` features.
pub(crate) fn objective(task: Task, dim: usize) -> Result<AdditiveModel> {
    let loss = match task {
        Task::Regression => AdditiveLoss::Squared,
        Task::Classification { .. } => AdditiveLoss::Logistic,
    };
    Ok(AdditiveModel::new(loss, dim)?)
}

/// Training rows and everything public about them.
pub struct Trainer<'a> {
    settings: RunSettings,
    parts: &'a Parts,
    model: AdditiveModel,
    n_users: f64,
    inputs: &'a Inputs,
}

impl<'a> Trainer<'a> {
    /// `n_users` is declared or noisy: sums are divided by it.
    ///
    /// # Errors
    /// When settings are out of range or conflict.
    pub fn new(
        settings: RunSettings,
        inputs: &'a Inputs,
        parts: &'a Parts,
        n_users: f64,
    ) -> Result<Self> {
        Ok(Self {
            settings,
            parts,
            model: objective(inputs.task, inputs.dim())?,
            n_users,
            inputs,
        })
    }

    /// The run that these spends pay for, with its certificate; the certificate is missing for
    /// `alpha = 0`, which releases nothing.
    ///
    /// # Errors
    /// When the spends are not those of the plan, or a round fails.
    pub fn private(
        &self,
        alpha: f64,
        noise_multiplier: f64,
        delta: f64,
        spends: Vec<Spend>,
        noise: &mut NoiseSource,
        observer: &mut dyn Observer,
    ) -> Result<(PpSgdModel, Option<Certificate>)> {
        let fit = self.settings.fit(alpha, self.n_users)?;
        let (rows, n_shared) = (self.rows()?, self.model.n_shared());
        if !fit.releases() {
            return Ok((fit.train_alone(&self.model, &rows, observer)?, None));
        }
        let adjacency = Adjacency::AddRemoveUser;
        let plan = fit.plan_with_noise(n_shared, noise_multiplier, delta, adjacency)?;
        let run = Run::new(&plan, spends, noise).map_err(dp_fedsgd::Error::from)?;
        let fitted = fit
            .with(&self.model)
            .run(&rows, run.observed_by(observer))?;
        Ok((fitted.model, Some(fitted.certificate)))
    }

    /// The same as part of a run whose releases come next, and whose labels name alpha if it has
    /// several.
    pub(crate) fn along(
        &self,
        alpha: f64,
        is_one_of_several: bool,
        run: &mut Run<'_>,
    ) -> Result<PpSgdModel> {
        let fit = self.settings.fit(alpha, self.n_users)?;
        let fit = match is_one_of_several {
            true => fit.naming_alpha(),
            false => fit,
        };
        let rows = self.rows()?;
        if fit.releases() {
            return Ok(fit.with(&self.model).train(&rows, run)?);
        }
        Ok(fit.train_alone(&self.model, &rows, &mut ShownBy(run))?)
    }

    /// The same run without noise, for `alpha = 0`, which releases nothing, and for comparison.
    ///
    /// # Errors
    /// When a round fails.
    pub fn without_noise(&self, alpha: f64) -> Result<PpSgdModel> {
        let fit = self.settings.fit(alpha, self.n_users)?;
        // seed of the samples, if users are sampled, for a run that releases nothing
        let rng = &mut ChaCha20Rng::seed_from_u64(0);
        Ok(fit.simulate(&self.model, &self.rows()?, 0.0, rng)?)
    }

    fn rows(&self) -> Result<HeldBatches<'a>> {
        let samples = self.parts.trained.rows().samples();
        batches_of(samples, self.inputs, self.settings.batch_size)
    }

    /// The same as [`along`](Self::along) with users who are on devices.
    pub(crate) fn along_devices(
        &self,
        alpha: f64,
        (devices, max_rows): (&mut dyn Devices, usize),
        run: &mut Run<'_>,
    ) -> Result<PpSgdModel> {
        let fit = self.settings.fit(alpha, self.n_users)?;
        let model = DeviceModel {
            inputs: self.inputs.clone(),
            batch_size: self.settings.batch_size,
            max_rows,
        };
        let mut clients = AsClients { devices, model };
        Ok(fit.train_by_messages(self.model.n_shared(), &mut clients, run)?)
    }
}

/// The batches of users' rows; where public ranges do not bound the norm of rows, longer ones are
/// scaled down.
pub(crate) fn batches_of<'a>(
    samples: &'a UserSamples,
    inputs: &Inputs,
    batch_size: usize,
) -> Result<HeldBatches<'a>> {
    let rows = HeldBatches::new(samples, batch_size)?;
    Ok(match inputs.has_ranges() {
        true => rows,
        false => rows.clipped((inputs.dim() as f64).sqrt())?,
    })
}

/// Shows rounds that release nothing to the observer of a run.
struct ShownBy<'r, 'a>(&'r mut Run<'a>);

impl Observer for ShownBy<'_, '_> {
    fn round(&mut self, round: &Round<'_>) {
        self.0.round(round);
    }
}

/// An `alpha` as text.
pub fn alpha_name(alpha: f64) -> String {
    if alpha <= 0.0 {
        "0 (alone)".to_owned()
    } else if alpha.is_infinite() {
        "inf (one model)".to_owned()
    } else {
        alpha.to_string()
    }
}

/// An `alpha` from JSON.
pub fn alpha_of(value: &Value) -> Option<f64> {
    match value.as_str() {
        Some("inf") => Some(f64::INFINITY),
        Some(_) => None,
        None => value.as_f64(),
    }
}

/// An `alpha` as JSON, which has no infinity.
pub fn alpha_value(alpha: f64) -> Value {
    if alpha.is_infinite() {
        json!("inf")
    } else {
        json!(alpha)
    }
}
