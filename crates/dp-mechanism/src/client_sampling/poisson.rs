use dp_core::{DpEvent, ParamError, parallel};

use super::{ClientSample, RoundKey};
use crate::{Error, NoiseSource, Result};

/// 2^64: the number of values of one random word.
const WORD_VALUES: f64 = 18_446_744_073_709_551_616.0;

/// Poisson sampling: every client takes part independently, with exactly the same probability.
///
/// ```text
/// client i takes part  iff  u_i < T,   u_i the 64-bit coin of RoundKey,   T = ceil(q 2^64)
/// exact probability    q' = T / 2^64  >=  q
/// ```
///
/// `q'` is what accounting must use, and it is an f64 without rounding: for `q >= 2^-11` the 53
/// bits of `q` end above 2^-64, so `T / 2^64 = q`; below, `T <= 2^53` is a whole number that an f64
/// represents exactly.
///
/// # Privacy
/// Unit: the client. Neighbours: as the accountant defines for `PoissonSampled`, primarily
/// add/remove. The release on the sample takes a spend for [`event`](Self::event), which must exist
/// before the clients of a step are drawn: see [`PaidSample`](crate::PaidSample). The sample and,
/// under add/remove, its size are secret: see [`ClientSample`]. Time and random bits used depend
/// only on the number of clients.
///
/// # Examples
/// ```
/// use dp_core::DpEvent;
/// use dp_mechanism::{NoiseSource, PoissonSampling};
///
/// let sampling = PoissonSampling::new(0.01)?;
/// let event = sampling.event(DpEvent::gaussian(1.1)); // plan and pay for this
/// assert_eq!(event, DpEvent::sampled_gaussian(1.1, 0.01));
/// let sample = sampling.sample(100_000, &mut NoiseSource::operating_system())?;
/// assert!(sample.indices().len().abs_diff(1000) < 300);
/// # Ok::<(), dp_mechanism::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "Settings", into = "Settings")]
pub struct PoissonSampling {
    /// T, from 1 to 2^64.
    threshold: u128,
}

/// The form in which it is stored in a file.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    sampling_probability: f64,
}

impl TryFrom<Settings> for PoissonSampling {
    type Error = Error;

    fn try_from(settings: Settings) -> Result<Self> {
        Self::new(settings.sampling_probability)
    }
}

impl From<PoissonSampling> for Settings {
    fn from(sampling: PoissonSampling) -> Self {
        let sampling_probability = sampling.sampling_probability();
        Self {
            sampling_probability,
        }
    }
}

impl PoissonSampling {
    /// Sampling with probability `sampling_probability`, or as little above it as 64 bits allow.
    ///
    /// # Errors
    /// [`Error::Param`] when `sampling_probability` is not in (0, 1].
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::float_arithmetic,
        reason = "a public number; the result is whole, from 1 to 2^64"
    )]
    pub fn new(sampling_probability: f64) -> Result<Self> {
        if !(sampling_probability > 0.0 && sampling_probability <= 1.0) {
            return Err(Error::Param(ParamError {
                name: "sampling_probability",
                value: sampling_probability,
                expected: "a probability in (0, 1]",
            }));
        }
        // scaling by a power of two is exact: even a denormal q becomes normal, and then ceil gives
        // 1
        let threshold = (sampling_probability * WORD_VALUES).ceil() as u128;
        #[cfg(privacy_mutants)]
        let threshold = dp_core::mutants::pick(
            "sampling-probability-rounded-down",
            threshold,
            (sampling_probability * WORD_VALUES) as u128,
        );
        Ok(Self { threshold })
    }

    /// The exact probability with which a client takes part; never below the requested one.
    #[must_use]
    #[allow(clippy::float_arithmetic, reason = "public and exact")]
    pub const fn sampling_probability(&self) -> f64 {
        self.threshold as f64 / WORD_VALUES
    }

    /// The event of a mechanism that runs on a sample of this kind.
    #[must_use]
    pub fn event(&self, on_the_sample: DpEvent) -> DpEvent {
        #[cfg(privacy_mutants)]
        if let Some(less) = crate::mutants::accounted_probability(self.threshold) {
            return on_the_sample.poisson_sampled(less);
        }
        on_the_sample.poisson_sampled(self.sampling_probability())
    }

    /// Draws which of `n_clients` take part, with a fresh key, in order to audit the distribution
    /// of the draw. A step that asks clients draws with
    /// [`ClientSampling::pay_and_sample`](crate::ClientSampling::pay_and_sample).
    ///
    /// # Errors
    /// [`Error::EntropyUnavailable`].
    pub fn sample(&self, n_clients: usize, noise: &mut NoiseSource) -> Result<ClientSample> {
        let key = RoundKey::draw(noise)?;
        Ok(ClientSample {
            sampling: (*self).into(),
            indices: self.drawn(n_clients, |client| client as u128, &key),
            insecure: noise.is_insecure(),
        })
    }

    /// The clients, out of `n_clients`, whose coin is below the threshold.
    pub(super) fn drawn(
        &self,
        n_clients: usize,
        id: impl Fn(usize) -> u128 + Sync,
        key: &RoundKey,
    ) -> Vec<usize> {
        let threshold = self.threshold;
        #[cfg(privacy_mutants)]
        let threshold = crate::mutants::threshold(threshold);
        let heads = parallel::map(n_clients, |client| {
            u128::from(key.coin(id(client))) < threshold
        });
        // every index is written, and the end advances on a hit: the same work for either outcome
        let mut indices = vec![0; n_clients];
        let mut n_drawn = 0_usize;
        for (client, head) in heads.into_iter().enumerate() {
            if let Some(slot) = indices.get_mut(n_drawn) {
                *slot = client;
            }
            n_drawn = n_drawn.saturating_add(usize::from(head));
        }
        indices.truncate(n_drawn);
        indices
    }
}
