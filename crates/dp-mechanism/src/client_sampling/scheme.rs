use dp_accounting::Spend;
use dp_core::{DpEvent, Interactions};

use super::{ClientSample, FixedSizeSampling, PoissonSampling, RoundKey};
use crate::payment::check_neighbours;
use crate::{Error, NoiseSource, Result};

/// How the clients of a step are sampled.
///
/// A sum over a sample remembers its scheme, and its release requires a spend for exactly that
/// scheme, so sampling that was not accounted for cannot be configured.
///
/// # Examples
/// ```
/// use dp_core::{DpEvent, Interactions};
/// use dp_mechanism::{ClientSampling, PoissonSampling};
///
/// let sampling = ClientSampling::from(PoissonSampling::new(0.25)?);
/// assert_eq!(sampling.event(DpEvent::gaussian(2.0)), DpEvent::sampled_gaussian(2.0, 0.25));
/// # Ok::<(), dp_mechanism::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientSampling {
    /// Every client independently, with the same probability.
    Poisson(PoissonSampling),
    /// A uniformly random subset of fixed size.
    FixedSize(FixedSizeSampling),
}

impl From<PoissonSampling> for ClientSampling {
    fn from(sampling: PoissonSampling) -> Self {
        Self::Poisson(sampling)
    }
}

impl From<FixedSizeSampling> for ClientSampling {
    fn from(sampling: FixedSizeSampling) -> Self {
        Self::FixedSize(sampling)
    }
}

impl ClientSampling {
    /// The event of a mechanism that runs on a sample of this kind.
    #[must_use]
    pub fn event(&self, on_the_sample: DpEvent) -> DpEvent {
        match self {
            Self::Poisson(poisson) => poisson.event(on_the_sample),
            Self::FixedSize(fixed) => fixed.event(on_the_sample),
        }
    }

    /// Draws which of `n_clients` take part, with a fresh key, in order to audit the distribution
    /// of the draw. A step that asks clients draws with [`pay_and_sample`](Self::pay_and_sample).
    ///
    /// # Errors
    /// [`Error::EntropyUnavailable`]; [`Error::Population`] if samples of fixed size were
    /// configured for another number of clients.
    pub fn sample(&self, n_clients: usize, noise: &mut NoiseSource) -> Result<ClientSample> {
        match self {
            Self::Poisson(poisson) => poisson.sample(n_clients, noise),
            Self::FixedSize(fixed) => {
                let expected = fixed.population_size();
                if n_clients != expected {
                    return Err(Error::Population { expected });
                }
                fixed.sample(noise)
            }
        }
    }

    /// Whether samples of shards of users together form a sample of all of them.
    pub(crate) const fn check_shards(&self) -> Result<()> {
        match self {
            Self::Poisson(_) => Ok(()),
            Self::FixedSize(_) => Err(Error::Sampling),
        }
    }

    /// Rejects a table whose size differs from the population of a fixed-size sample, before
    /// anything is charged.
    ///
    /// # Errors
    /// [`Error::Population`], which does not contain the number of users.
    pub(crate) const fn check_population(&self, n_users: usize) -> Result<()> {
        match self {
            Self::FixedSize(fixed) if fixed.population_size() != n_users => {
                Err(Error::Population {
                    expected: fixed.population_size(),
                })
            }
            _ => Ok(()),
        }
    }

    /// The users of a table that take part in the round of `key`. Under Poisson sampling this
    /// depends only on each user's [id](Interactions::user_id), wherever the user's records are; a
    /// sample of fixed size needs all users in one table.
    ///
    /// # Errors
    /// [`Error::Population`] as for [`sample`](Self::sample).
    pub(crate) fn drawn(&self, users: &Interactions, key: &RoundKey) -> Result<Vec<usize>> {
        let n_users = users.n_users();
        match self {
            Self::Poisson(poisson) => Ok(poisson.drawn(n_users, |user| users.user_id(user), key)),
            Self::FixedSize(fixed) => {
                self.check_population(n_users)?;
                Ok(fixed.drawn(key))
            }
        }
    }

    /// The noise multiplier, on the sample, of a spend for one Gaussian release on a sample of
    /// exactly this kind: the argument of [`Grid::new`](crate::Grid::new).
    ///
    /// # Errors
    /// [`Error::WrongSpend`] for every other event.
    pub fn noise_multiplier(&self, spend: &Spend) -> Result<f64> {
        match self.paid_inside(spend)? {
            &DpEvent::Gaussian {
                noise_multiplier, ..
            } => Ok(noise_multiplier),
            _ => Err(self.refuse(spend)),
        }
    }

    /// The event inside a spend for a sample of exactly this kind: the probabilities are equal bit
    /// for bit, or both sizes are equal.
    pub(crate) fn paid_inside<'s>(&self, spend: &'s Spend) -> Result<&'s DpEvent> {
        check_neighbours(spend)?;
        #[cfg(privacy_mutants)]
        if let Some(inside) = crate::mutants::any_scheme(spend.event()) {
            return Ok(inside);
        }
        match (self, spend.event()) {
            (
                Self::Poisson(poisson),
                DpEvent::PoissonSampled {
                    sampling_probability,
                    event,
                },
            ) if sampling_probability.to_bits() == poisson.sampling_probability().to_bits() => {
                Ok(event)
            }
            (
                Self::FixedSize(fixed),
                DpEvent::SampledWithoutReplacement {
                    sample_size,
                    population_size,
                    event,
                },
            ) if *sample_size == fixed.sample_size() as u64
                && *population_size == fixed.population_size() as u64 =>
            {
                Ok(event)
            }
            _ => Err(self.refuse(spend)),
        }
    }

    fn refuse(&self, spend: &Spend) -> Error {
        Error::WrongSpend {
            label: spend.label().to_owned(),
            release: match self {
                Self::Poisson(_) => "one Gaussian release on a Poisson sample of this probability",
                Self::FixedSize(_) => "one Gaussian release on a sample of these fixed sizes",
            },
        }
    }
}
