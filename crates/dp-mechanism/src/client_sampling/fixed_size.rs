use std::collections::BTreeSet;

use dp_core::{DpEvent, params};

use super::{ClientSample, RoundKey};
use crate::{NoiseSource, Result};

/// Fixed-size sampling without replacement: a uniformly random subset of a given size.
///
/// ```text
/// P(sample = A) = 1 / binomial(n, m)   for every A of m out of n clients
/// ```
///
/// Source: Floyd's algorithm (Bentley and Floyd, *A sample of brilliance*, CACM 30, 1987): for
/// j = n - m, ..., n - 1 draw t uniformly from 0..=j and take t, or j if t was taken before. The
/// uniform whole numbers come without bias by exact rejection (Lemire 2019, arXiv 1805.10941).
///
/// # Privacy
/// Unit: the client. The number of clients is public, so only *replacing* a client is defined. The
/// release on the sample takes a spend for [`event`](Self::event), which must exist before the
/// clients of a step are drawn: see [`PaidSample`](crate::PaidSample). Who took part is secret: see
/// [`ClientSample`]. The running time depends on the two sizes and on the random bits, and on
/// nothing about the clients.
///
/// # Examples
/// ```
/// use dp_core::DpEvent;
/// use dp_mechanism::{FixedSizeSampling, NoiseSource};
///
/// let sampling = FixedSizeSampling::new(50, 2_000)?;
/// let sample = sampling.sample(&mut NoiseSource::operating_system())?;
/// assert_eq!(sample.indices().len(), 50);
/// let event = sampling.event(DpEvent::gaussian(1.1)); // plan and pay for this
/// assert!(matches!(event, DpEvent::SampledWithoutReplacement { sample_size: 50, .. }));
/// # Ok::<(), dp_mechanism::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "Settings", into = "Settings")]
pub struct FixedSizeSampling {
    sample_size: usize,
    population_size: usize,
}

/// The form in which it is stored in a file.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    sample_size: usize,
    population_size: usize,
}

impl TryFrom<Settings> for FixedSizeSampling {
    type Error = crate::Error;

    fn try_from(settings: Settings) -> Result<Self> {
        Self::new(settings.sample_size, settings.population_size)
    }
}

impl From<FixedSizeSampling> for Settings {
    fn from(sampling: FixedSizeSampling) -> Self {
        Self {
            sample_size: sampling.sample_size,
            population_size: sampling.population_size,
        }
    }
}

impl FixedSizeSampling {
    /// Samples of `sample_size` out of `population_size` clients.
    ///
    /// # Errors
    /// [`crate::Error::Param`] unless `1 <= sample_size <= population_size`.
    pub fn new(sample_size: usize, population_size: usize) -> Result<Self> {
        params::at_least_one("population_size", population_size)?;
        params::in_range(
            "sample_size",
            sample_size,
            1,
            population_size,
            "from 1 to the number of clients",
        )?;
        Ok(Self {
            sample_size,
            population_size,
        })
    }

    /// The event of a mechanism that runs on a sample of this kind.
    #[must_use]
    pub fn event(&self, on_the_sample: DpEvent) -> DpEvent {
        DpEvent::SampledWithoutReplacement {
            sample_size: self.sample_size as u64,
            population_size: self.population_size as u64,
            event: Box::new(on_the_sample),
        }
    }

    /// Number of clients drawn.
    #[must_use]
    pub const fn sample_size(&self) -> usize {
        self.sample_size
    }

    /// Number of clients in the population.
    #[must_use]
    pub const fn population_size(&self) -> usize {
        self.population_size
    }

    /// Draws a sample with a fresh key, in order to audit the distribution of the draw. A step that
    /// asks clients draws with
    /// [`ClientSampling::pay_and_sample`](crate::ClientSampling::pay_and_sample).
    ///
    /// # Errors
    /// [`crate::Error::EntropyUnavailable`].
    pub fn sample(&self, noise: &mut NoiseSource) -> Result<ClientSample> {
        let key = RoundKey::draw(noise)?;
        Ok(ClientSample {
            sampling: (*self).into(),
            indices: self.drawn(&key),
            insecure: noise.is_insecure(),
        })
    }

    /// The subset determined by a key.
    pub(super) fn drawn(&self, key: &RoundKey) -> Vec<usize> {
        let mut bits = key.bits();
        #[cfg(privacy_mutants)]
        if dp_core::mutants::active("fixed-size-with-replacement") {
            let draw = |_| bits.at_most(self.population_size.saturating_sub(1));
            let mut indices: Vec<usize> = (0..self.sample_size).map(draw).collect();
            indices.sort_unstable();
            return indices;
        }
        let mut drawn = BTreeSet::new();
        let first = self.population_size.saturating_sub(self.sample_size);
        for last in first..self.population_size {
            let choice = bits.at_most(last);
            #[cfg(privacy_mutants)]
            let choice = crate::mutants::choice(choice, last, &mut bits);
            if !drawn.insert(choice) {
                drawn.insert(last);
            }
        }
        drawn.into_iter().collect()
    }
}
